package cli

import (
	"context"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/test/harness/proxy"
	"nodekeep.dev/nodekeep/test/logged"
)

func TestAUserWhoLacksARightSeesWhichAndHowToGetIt(t *testing.T) {
	const jane = "jane"
	register(t, "denied-1")
	edit(t, "denied-1", map[string]string{"a": "1"})

	lacking := run(t, "list", "--as", jane)
	assert.Equal(t, 3, lacking.Code)
	assert.Empty(t, lacking.Out)

	// Granting what the messages say, one after the other, ends in an answer.
	remedy := ""
	for range 10 {
		granted := remedy
		require.Eventually(t, func() bool { // the API server takes moments to follow a grant
			lacking = run(t, "list", "--as", jane, "-o", "name")
			_, remedy, _ = strings.Cut(lacking.ErrOut, "an administrator can grant it:\n")
			return lacking.Code == 0 || remedy != granted
		}, settles, 100*time.Millisecond, "there must be more to grant than %q", granted)
		if lacking.Code == 0 {
			break
		}
		require.Contains(t, lacking.ErrOut, "you may not ")
		require.NotEmpty(t, remedy, lacking.ErrOut)
		grant := shell(t, t.TempDir(), remedy)
		require.Equal(t, 0, grant.Code, "%s\n%s", remedy, grant.ErrOut)
		for line := range strings.Lines(remedy) {
			undo(t, strings.Fields(line)[1:]...)
		}
	}
	require.Equal(t, 0, lacking.Code, lacking.ErrOut)
	assert.Contains(t, lacking.Out, "node/denied-1\n")

	a := run(t, "rollback", "denied-1", "--to", "0", "--yes", "--as", jane)
	assert.Equal(t, 3, a.Code)
	assert.Contains(t, a.ErrOut, "you may not patch nodes in the whole cluster")
}

func TestAClusterThatCannotBeReachedIsNamed(t *testing.T) {
	for _, args := range [][]string{{"list"}, {"list", "--watch"}, {"show", "worker-1"}, {"explain", "worker-1"}, {"diff", "worker-1"}, {"history", "worker-1"}, {"rollback", "worker-1", "--to", "1", "--yes"}} {
		a := run(t, append(args, "--server", "https://127.0.0.1:1")...)
		assert.Equal(t, 3, a.Code, args)
		assert.Contains(t, a.ErrOut, "the API server at https://127.0.0.1:1 cannot be reached", args)
		assert.Empty(t, a.Out)
	}
	a := run(t, "list", "--token", "wrong", "--kubeconfig", nobodysKubeconfig(t))
	assert.Equal(t, 3, a.Code)
	assert.Contains(t, a.ErrOut, "does not know who you are")
	for _, wrong := range [][]string{{"list", "--context", "nowhere"}, {"list", "--kubeconfig", "/does/not/exist"}, {"list", "-n", "Not_A_Name"}, {"list", "-l", "a=(b"}, {"show", "Not_A_Name"}, {"list", "more"}, {"show"}, {"list", "--wrong"}, {"list", "-o", "xml"}, {"list", "-o", "jsonpath={"}} {
		a := run(t, wrong...)
		assert.Equal(t, 2, a.Code, wrong)
		assert.NotEmpty(t, a.ErrOut, wrong)
		assert.Empty(t, a.Out, wrong)
	}
}

// nobodysKubeconfig reaches the API server without credentials.
func nobodysKubeconfig(t *testing.T) string {
	t.Helper()
	config := nodekeep.Cluster.Admin()
	config.CertData, config.KeyData = nil, nil
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, harness.WriteKubeconfig(path, config))
	return path
}

// through is a kubeconfig that goes through a proxy. No client certificate does, so it is that of a ServiceAccount that may
// all that is needed.
func through(t *testing.T) (*proxy.Proxy, string) {
	t.Helper()
	config, err := nodekeep.Cluster.ServiceAccount(t.Context(), harness.Namespace, "nodekeep-capture")
	require.NoError(t, err)
	p, err := proxy.Start(config)
	require.NoError(t, err)
	t.Cleanup(p.Stop)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, harness.WriteKubeconfig(path, p.Through(config)))
	return p, path
}

func TestAWriteWithoutAnAnswerIsSaidToBeUncertain(t *testing.T) {
	const name = "uncertain-1"
	withHistory(t, name)
	p, kubeconfig := through(t)
	p.Break(proxy.Answer(proxy.NodeWrites, http.StatusConflict, metav1.StatusReasonConflict, 1))
	a := nodekeep.Command(t, kubeconfig, "", "rollback", name, "--to", "1", "--yes")
	assert.Equal(t, 3, a.Code)
	assert.Contains(t, a.ErrOut, "nothing was changed")

	reached := make(chan struct{}, 100)
	hang := proxy.Hang(proxy.NodeWrites, time.Hour)
	p.Break(func(w http.ResponseWriter, r *http.Request, apiServer http.Handler) {
		if proxy.NodeWrites(r) {
			reached <- struct{}{}
		}
		hang(w, r, apiServer)
	})
	command := exec.Command(nodekeep.Binary(), "rollback", name, "--to", "1", "--yes")
	command.Env = nodekeep.Environment(kubeconfig)
	a = interrupted(t, command, func(string) bool { return len(reached) > 0 })
	assert.Equal(t, 130, a.Code)
	assert.Contains(t, a.ErrOut, "interrupted while Node uncertain-1 was being changed: look whether it was")
}

func TestCtrlCEndsACommandThatReads(t *testing.T) {
	p, kubeconfig := through(t)
	reached := make(chan struct{}, 100)
	hang := proxy.Hang(proxy.Reads("nodes"), time.Hour)
	p.Break(func(w http.ResponseWriter, r *http.Request, apiServer http.Handler) {
		if proxy.Reads("nodes")(r) {
			reached <- struct{}{}
		}
		hang(w, r, apiServer)
	})
	command := exec.Command(nodekeep.Binary(), "list")
	command.Env = nodekeep.Environment(kubeconfig)
	a := interrupted(t, command, func(string) bool { return len(reached) > 0 })
	assert.Equal(t, 130, a.Code)
	assert.Contains(t, a.ErrOut, "interrupted")
	assert.Empty(t, a.Out)
}

// interrupted runs a program and sends it Ctrl-C when it is far enough.
func interrupted(t *testing.T, command *exec.Cmd, farEnough func(out string) bool) answer {
	t.Helper()
	var out, errOut logged.Buffer
	command.Stdout, command.Stderr = &out, &errOut
	require.NoError(t, command.Start())
	ended := make(chan struct{})
	t.Cleanup(func() { _ = command.Process.Kill(); <-ended })
	go func() { defer close(ended); _ = command.Wait() }()
	require.Eventually(t, func() bool { return farEnough(out.String()) }, settles, 10*time.Millisecond, "%s", &errOut)
	require.NoError(t, command.Process.Signal(syscall.SIGINT))
	ctx, cancel := context.WithTimeout(t.Context(), settles)
	defer cancel()
	select {
	case <-ended:
	case <-ctx.Done():
		require.Fail(t, "it does not end")
	}
	return answer{Code: command.ProcessState.ExitCode(), Out: out.String(), ErrOut: errOut.String()}
}
