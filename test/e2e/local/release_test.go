package local

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/test/harness"
)

// Kubelets pull the image that the chart from a registry names, by its digest. Helm waits until all replicas are ready.
func TestAReleaseIsInstalledFromARegistryUpgradedAndUninstalled(t *testing.T) {
	c := forTest(t)
	k := c.add(t, "node-1")
	harness.StartRegistry(t, registryAddress)
	for _, version := range releases {
		pushes(t, version)
	}
	c.helms(t, "install", "--create-namespace", "--version", strings.TrimPrefix(releases[0], "v"))
	first := c.runsRelease(t, releases[0])
	c.Label(t, k.name, map[string]any{"tier": "gold"})
	c.WaitRecorded(t, c.Node(t, k.name), map[string]string{"tier": "gold"})

	c.helms(t, "upgrade", "--version", strings.TrimPrefix(releases[1], "v"))
	assert.NotEqual(t, first, c.runsRelease(t, releases[1]))
	k.losesNode(t)
	stored := k.registersAgain(t).stored(t)
	assert.Equal(t, "gold", stored.Labels["tier"], "the new version restores what the old one recorded")

	_, err := harness.RunHelm(t.Context(), "uninstall", "nodekeep", "--kubeconfig", c.kubeconfig, "--namespace", namespace, "--wait", "--timeout", settles.String())
	require.NoError(t, err)
	c.WaitGating(t, false)
}

// pushes puts the image and the chart of a release into the registry, as make does.
func pushes(t *testing.T, version string) {
	t.Helper()
	dir := filepath.Join(built(t), version)
	push := exec.CommandContext(t.Context(), filepath.Join(harness.Root(), ".ci", "push"), filepath.Join(dir, "oci"), filepath.Join(dir, "nodekeep-"+strings.TrimPrefix(version, "v")+".tgz"))
	push.Env = append(os.Environ(), "VERSION="+version, "SOURCE_DATE_EPOCH=0", "IMAGE="+registryAddress+"/nodekeep", "CHARTS="+registryAddress+"/charts", "HOME="+t.TempDir())
	for _, name := range []string{"crane", "helm"} {
		path, err := harness.Tool(name)
		require.NoError(t, err)
		push.Env = append(push.Env, strings.ToUpper(name)+"="+path)
	}
	out, err := push.CombinedOutput()
	require.NoError(t, err, string(out))
}

// helms installs or upgrades the release from the chart in the registry, as README does.
func (c *cluster) helms(t *testing.T, command string, args ...string) {
	t.Helper()
	_, err := harness.RunHelm(t.Context(), append([]string{command, "nodekeep", "oci://" + registryAddress + "/charts/nodekeep", "--plain-http",
		"--kubeconfig", c.kubeconfig, "--namespace", namespace, "--wait", "--timeout", settles.String()}, args...)...)
	require.NoError(t, err)
}

// runsRelease looks at which image runs, and that the command of its release finds nothing wrong. It returns the image by its digest.
func (c *cluster) runsRelease(t *testing.T, version string) (image string) {
	t.Helper()
	crane, err := harness.Tool("crane")
	require.NoError(t, err)
	digest, err := exec.CommandContext(t.Context(), crane, "digest", registryAddress+"/nodekeep:"+version).Output()
	require.NoError(t, err)
	image = registryAddress + "/nodekeep@" + strings.TrimSpace(string(digest))
	pods, err := c.Admin.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=nodekeep"})
	require.NoError(t, err)
	running := 0
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp != nil {
			continue
		}
		running++
		assert.Equal(t, image, pod.Spec.Containers[0].Image, pod.Name)
		assert.Equal(t, image, pod.Status.ContainerStatuses[0].ImageID, pod.Name)
	}
	assert.Equal(t, 5, running)
	cli := filepath.Join(built(t), version, "binaries", runtime.GOOS, runtime.GOARCH, "nodekeep")
	var out []byte
	harness.Eventually(t, func() bool {
		var err error
		out, err = exec.CommandContext(t.Context(), cli, "doctor", "--kubeconfig", c.kubeconfig).CombinedOutput()
		return err == nil
	}, settles, time.Second, "%s", &out)
	shown, err := exec.CommandContext(t.Context(), cli, "version").Output()
	require.NoError(t, err)
	assert.Contains(t, string(shown), version)
	return image
}
