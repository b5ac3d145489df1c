package harness_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/test/harness"
)

func TestDetachedClusterIsAttachedToAndStopped(t *testing.T) {
	skipWithoutControlPlane(t)
	dir := filepath.Join(t.TempDir(), "up")
	options := harness.Options{Dir: dir, Detach: true}
	c, err := harness.StartCluster(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(func() { _ = harness.StopDetached(dir) })
	pids := []int{c.Process("etcd").Pid(), c.Process("kube-apiserver").Pid()}

	_, err = harness.StartCluster(t.Context(), options)
	require.ErrorContains(t, err, "its cluster is running")

	attached, err := harness.AttachCluster(dir)
	require.NoError(t, err)
	assert.Equal(t, c.URL(), attached.URL())
	_, err = client(t, attached.Admin()).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Equal(t, "system:node:n1", whoAmI(t, attached.Kubelet("n1")))
	sleeper, err := attached.Go("sleeper", "sleep", []string{"600"})
	require.NoError(t, err)
	pids = append(pids, sleeper.Pid())

	require.NoError(t, harness.StopDetached(dir))
	for _, pid := range pids {
		// The program that started it may still have to take note of its end.
		harness.Eventually(t, func() bool { return !alive(t, pid) }, harness.Settles, 10*time.Millisecond)
	}
	assert.FileExists(t, c.LogPath("kube-apiserver"))
	require.ErrorIs(t, harness.StopDetached(dir), os.ErrNotExist)
	_, err = harness.AttachCluster(dir)
	require.ErrorContains(t, err, "is running")

	// The folder serves again.
	c, err = harness.StartCluster(t.Context(), options)
	require.NoError(t, err)
	require.NoError(t, c.Stop())
	assert.NoFileExists(t, filepath.Join(dir, "pids"))
}
