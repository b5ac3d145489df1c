package image

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"
)

// settles bounds every wait.
const settles = harness.Settles

// runsContained shows the program at work in the image: it says its version, and both processes serve a Node that registers again.
func runsContained(t *testing.T, image, user string) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount the image read-only and become its user")
	}
	if out, err := exec.CommandContext(t.Context(), "unshare", "--mount", "true").CombinedOutput(); err != nil {
		t.Skipf("needs the right to mount: unshare --mount: %v: %s", err, out)
	}
	script, err := filepath.Abs("testdata/contained.sh")
	require.NoError(t, err)
	out, err := exec.CommandContext(t.Context(), script, image, user, "/nodekeep", "version").CombinedOutput()
	require.NoError(t, err, string(out))
	assert.Contains(t, string(out), "version: ")
	t.Logf("in the image, read-only, as %s: nodekeep version\n%s", user, out)

	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	control := harness.ForTest(t, harness.Options{})
	nodekeep, err := harness.Install(ctx, control)
	require.NoError(t, err)
	nodekeep.TimeoutSeconds = harness.Patient
	wrapper := filepath.Join(t.TempDir(), "nodekeep")
	require.NoError(t, os.WriteFile(wrapper, fmt.Appendf(nil, "#!/bin/sh\nexec %s %s %s /nodekeep \"$@\"\n", script, image, user), 0o700))
	nodekeep.Use(wrapper)
	require.NoError(t, nodekeep.Start(ctx))
	for _, name := range []string{"nodekeep-webhook", "nodekeep-capture"} {
		isConfined(t, control.Process(name).Pid(), image, user)
	}

	nodes := nodekeep.Admin.CoreV1().Nodes()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "contained-1", Labels: map[string]string{"tier": "gold"}}}
	_, err = nodes.Create(ctx, node, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		record, err := nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace).Get(ctx, store.Name(node.Name), metav1.GetOptions{})
		return err == nil && strings.Contains(record.Data[store.DataKey], `"tier": "gold"`)
	}, settles, 50*time.Millisecond, "capture must record the Node")
	require.NoError(t, nodes.Delete(ctx, node.Name, metav1.DeleteOptions{}))
	require.Eventually(t, func() bool {
		returned, err := nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && returned.Labels["tier"] == "gold"
	}, settles, 50*time.Millisecond, "the webhook must restore it in the CREATE")
}

// isConfined looks from outside at what a process may do.
func isConfined(t *testing.T, pid int, image, user string) {
	t.Helper()
	proc := fmt.Sprintf("/proc/%d/", pid)
	status, err := os.ReadFile(proc + "status")
	require.NoError(t, err)
	uid, gid, _ := strings.Cut(user, ":")
	assert.Regexp(t, fmt.Sprintf(`(?m)^Uid:\t%[1]s\t%[1]s\t%[1]s\t%[1]s$`, uid), string(status))
	assert.Regexp(t, fmt.Sprintf(`(?m)^Gid:\t%[1]s\t%[1]s\t%[1]s\t%[1]s$`, gid), string(status))
	assert.Regexp(t, `(?m)^Groups:\s*$`, string(status))
	assert.Regexp(t, `(?m)^CapEff:\t0+$`, string(status), "no capabilities")
	root, err := os.Readlink(proc + "root")
	require.NoError(t, err)
	assert.Equal(t, image, root)
	mounts, err := os.ReadFile(proc + "mountinfo")
	require.NoError(t, err)
	assert.Regexp(t, `(?m) `+regexp.QuoteMeta(image)+` ro[, ]|(?m) / ro[, ]`, string(mounts), "the image is mounted read-only")
}
