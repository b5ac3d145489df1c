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

func TestAClusterThatCannotBeReachedIsNamedAndNothingIsSaidToBeChanged(t *testing.T) {
	for _, line := range []string{
		"list", "list --watch", "show n1", "explain n1", "show n1 --diff", "show n1 --history", "rollback n1 --to 1 --yes", "forget n1 --yes",
		"accept record n1 --machine old", "accept corrections", "forget --older-than 720h", "list --waiting gate", "list --waiting verification", "release n1 --yes", "recheck --all",
	} {
		args := append(strings.Fields(line), "--server=https://127.0.0.1:1", "--request-timeout=1s")
		assert.Empty(t, ends(t, 3, "the API server at https://127.0.0.1:1 cannot be reached", args...).Out, line)
	}
	ends(t, 3, "does not know who you are", "list", "--token", "wrong", "--kubeconfig", nobodysKubeconfig(t))
}

func TestAWrongCallIsNamedInPlainWords(t *testing.T) {
	quarantined(t, "accept-spoiled")
	spoil(t, "accept-spoiled")
	defer run(t, "forget", "accept-spoiled", "--yes")
	review, second := filepath.Join(reviews, "base", "kubelet.json"), filepath.Join(reviews, "records", "of-another-node.json")
	const number = `flag: must be a number that "nodekeep show NODE --history" shows, or 0 for the state before the first change`
	for _, c := range []struct {
		line string
		code int
		says string
	}{
		{"list --context nowhere", 2, "nowhere"},
		{"list --kubeconfig /does/not/exist", 2, "/does/not/exist"},
		{"list -n Not_A_Name", 2, "Not_A_Name"},
		{"list -l a=(b", 2, "--selector"},
		{"list more", 2, `takes no arguments, and was given "more"`},
		{"list --wrong", 2, "--wrong"},
		{"list -o xml", 2, "must be one of table, wide"},
		{"list -o jsonpath={", 2, "--output"},
		{"list --live --gone", 2, "--gone and --live exclude each other"},
		{"show", 2, "takes the name of one Node, and was given 0"},
		{"show Not_A_Name", 2, `"Not_A_Name" cannot be the name of a Node`},
		{"accept", 2, "takes a kind: one of record, rules, corrections, adoption, migration"},
		{"accept n1", 2, `"n1": the kind must be one of record, rules`},
		{"accept record n1", 2, `--machine "": must be old or new`},
		{"accept record n1 --machine both", 2, `--machine "both": must be old or new`},
		{"accept record --machine old", 2, "takes the name of one Node, and was given 0"},
		{"accept record accept-nobody --machine old", 3, "there is no record of Node"},
		{"accept record accept-spoiled --machine old", 3, "unreadable record"},
		{"forget", 2, "takes the name of one Node, and was given 0"},
		{"forget n1 --older-than 720h", 2, "NODE and --older-than exclude each other"},
		{"forget n1 --at-most 1", 2, "--at-most goes with --older-than"},
		{"forget --older-than=", 2, "says for how long"},
		{"forget --older-than 0", 2, "nothing to remove"},
		{"forget --older-than 1m", 2, "must not be shorter than 10m"},
		{"forget --older-than x", 2, "must be a duration"},
		{"rollback n1 --yes", 2, `"to" not set`},
		{"rollback n1 --to=abc", 2, `invalid argument "abc" for "--to" ` + number},
		{"rollback n1 --to=-1", 2, `invalid argument "-1" for "--to" ` + number},
		{"rollback n1 --to=1.5", 2, `invalid argument "1.5" for "--to" ` + number},
		{"rollback n1 --to 1 --dry-run=maybe", 2, `"maybe"`},
		{"rollback history-0 --to 1", 3, `there is no Node "history-0"`},
		{"release gate-nobody", 3, `there is no Node "gate-nobody"`},
		{"show verify-none --verification", 3, `there is no Node "verify-none", and no report about one in namespace nodekeep-checks`},
		{"list --waiting verification --checks-namespace A", 2, `--checks-namespace "A"`},
		{"list --waiting forever", 2, `--waiting "forever": must be one of gate, verification, quarantine, stale`},
		{"list --waiting gate --gone", 2, "do not go with --waiting gate"},
		{"list --all", 2, "--all goes with --waiting verification"},
		{"show n1 --diff --history", 2, "--history, --diff and --verification exclude each other"},
		{"release n1 --from all", 2, `--from "all": must be gate or verification`},
		{"release", 2, "takes the name of one Node"},
		{"check no-such-file.yaml", 2, "no such file"},
		{"accept rules", 2, "takes the hash of what is held, and was given 0"},
		{"accept rules none --machine old", 2, `--machine goes with "record", not with "rules"`},
		{"accept corrections all", 2, `takes no arguments, and was given "all"`},
		{"report usage gpu", 2, "takes one section at most"},
		{"report migrations -o csv", 2, "migrations has no --output csv"},
		{"report migrations gpu", 2, `"gpu" must be OLD=NEW`},
		{"report migrations gpu=a=b", 2, `"a=b" cannot be the key of a label`},
		{"explain worker-1 --review x.json", 2, "not both"},
		{"explain worker-1 --record x.json", 2, "go with --review"},
		{"explain --review /does/not/exist", 2, "--review /does/not/exist"},
		{"explain --offline --review " + second, 2, "decode AdmissionReview"},
		{"explain --offline --review " + review + " --record " + second, 2, "it is the record of node"},
	} {
		assert.Empty(t, ends(t, c.code, c.says, strings.Fields(c.line)...).Out, c.line)
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

// proxied returns a kubeconfig that goes through a proxy. No client certificate does, so it is that of a ServiceAccount that may
// all that is needed.
func proxied(t *testing.T) (*proxy.Proxy, string) {
	t.Helper()
	config, err := nodekeep.Cluster.ServiceAccount(t.Context(), harness.Namespace, "nodekeep-capture")
	require.NoError(t, err)
	p, err := proxy.Start(config)
	require.NoError(t, err)
	t.Cleanup(p.Stop)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, harness.WriteKubeconfig(path, p.Config(config)))
	return p, path
}

func TestAWriteWithoutAnAnswerIsSaidToBeUncertain(t *testing.T) {
	const name = "uncertain-1"
	withHistory(t, name)
	p, kubeconfig := proxied(t)
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
	p, kubeconfig := proxied(t)
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
	require.Eventually(t, func() bool { return farEnough(out.String()) }, settles, 10*time.Millisecond, "%s\n%s", &out, &errOut)
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
