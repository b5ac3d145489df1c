package release

import (
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/harness"
)

// named returns the image by the digest that the release's archive of it has.
func (b build) named(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	run(t, dir, "tar", "-xf", filepath.Join(b.release(), "nodekeep-image-oci.tar"))
	sum, _, _ := strings.Cut(run(t, dir, "sha256sum", "index.json"), " ")
	return b.image() + "@sha256:" + sum
}

// platform returns the image for Linux on an architecture, by its digest.
func (b build) platform(t *testing.T, arch string) string {
	t.Helper()
	return b.image() + "@" + strings.TrimSpace(run(t, "", tool(t, "crane"), "digest", "--platform", "linux/"+arch, b.named(t)))
}

// pulled returns the program of an image.
func pulled(t *testing.T, image string) string {
	t.Helper()
	dir := t.TempDir()
	run(t, dir, tool(t, "crane"), "export", "--platform", "linux/"+runtime.GOARCH, image, "image.tar")
	run(t, dir, "tar", "-xf", "image.tar", "nodekeep")
	return filepath.Join(dir, "nodekeep")
}

// pushedChart returns the chart by the digest that it has in the registry.
func (b build) pushedChart(t *testing.T) string {
	t.Helper()
	return b.chart() + "@" + strings.TrimSpace(run(t, "", tool(t, "crane"), "digest", b.chart()+":"+strings.TrimPrefix(b.version, "v")))
}

// installs has one helm command install what was pushed, and another upgrade it to what the folder of a later release has, by its digest. The processes
// are those of the images that the Deployments name.
func installs(t *testing.T, current, next build) {
	pushed := t.TempDir()
	_, err := harness.RunHelm(t.Context(), "pull", "oci://"+current.chart(), "--version", strings.TrimPrefix(current.version, "v"), "--plain-http", "--destination", pushed)
	require.NoError(t, err)
	run(t, "", "cmp", filepath.Join(pushed, filepath.Base(current.archive())), current.archive())

	installed, err := harness.InstallProduct(t.Context(), harness.ForTest(t, harness.Options{}), harness.Product{Binary: current.unpacked(t), Manifests: current.release()})
	require.NoError(t, err)
	installed.MustKubectl(t, "delete", "-f", filepath.Join(current.release(), "nodekeep.yaml"), "-f", filepath.Join(current.release(), "crd.yaml")) // Helm adopts no object that is there
	helm := func(args ...string) {
		t.Helper()
		_, err := harness.RunHelm(t.Context(), append(args, "--namespace", harness.Namespace, "--kubeconfig", installed.AdminKubeconfig())...)
		require.NoError(t, err)
	}
	helm("install", "nodekeep", "oci://"+current.chart(), "--version", strings.TrimPrefix(current.version, "v"), "--plain-http")
	installed.WaitGating(t, true)
	installed.Use(pulled(t, current.named(t)))
	works(t, current.unpacked(t), installed, current.named(t), "worker-1")

	require.NoError(t, installed.StopCapture())
	require.NoError(t, installed.StopWebhook())
	// They call the address of a process here. A Service, which the chart sets, and an address exclude each other.
	installed.MustKubectl(t, "delete", "mutatingwebhookconfigurations.admissionregistration.k8s.io,validatingwebhookconfigurations.admissionregistration.k8s.io", "nodekeep")
	helm("upgrade", "nodekeep", "oci://"+next.pushedChart(t), "--plain-http")
	cli, program := next.unpacked(t), pulled(t, next.named(t))
	assert.NotEqual(t, current.named(t), next.named(t))
	for _, path := range []string{cli, program} {
		assert.Contains(t, run(t, "", path, "version"), next.version)
	}
	installed.Use(program)
	works(t, cli, installed, next.named(t), "worker-2")
	installed.DeleteNode(t, "worker-1")
	installed.Register(t, "worker-1")
	installed.WaitRestored(t, "worker-1", map[string]string{"dedicated": "ci"}) // from the record of the earlier build

	job := make(chan error)
	go func() {
		_, err := harness.RunUninstallJob(t.Context(), installed.Cluster, cli, harness.Namespace)
		job <- err
	}()
	helm("uninstall", "nodekeep")
	require.NoError(t, <-job)
	installed.WaitGating(t, false)
}
