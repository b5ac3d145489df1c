package release

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

const (
	image   = "registry.example.com/nodekeep"
	project = "https://git.example.com/nodekeep"
)

// built returns the folder of a release, which no other build shares but for Go's cache.
func built(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	args := []string{
		"-C", harness.Root(), "release", "IMAGE=" + image, "RELEASE_DIR=" + filepath.Join(dir, "release"), "IMAGE_DIR=" + filepath.Join(dir, "image"),
		"COMMIT=0123456789abcdef0123456789abcdef01234567", "SOURCE_DATE_EPOCH=1700000000", "PROJECT_URL=" + project,
	}
	if platforms := os.Getenv("NODEKEEP_RELEASE_PLATFORMS"); platforms != "" {
		args = append(args, "CLI="+platforms)
	}
	run(t, "", "make", args...)
	return filepath.Join(dir, "release")
}

func run(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), program, args...)
	command.Dir = dir
	out, err := command.CombinedOutput()
	require.NoError(t, err, "%s %s\n%s", program, strings.Join(args, " "), out)
	return string(out)
}

// TestARelease builds once for all that looks at it, and a second time to compare.
func TestARelease(t *testing.T) {
	release := built(t)
	cli := filepath.Join(t.TempDir(), "nodekeep")
	run(t, filepath.Dir(cli), "tar", "-xzf", filepath.Join(release, "nodekeep-"+runtime.GOOS+"-"+runtime.GOARCH+".tar.gz"))
	charts, err := filepath.Glob(filepath.Join(release, "nodekeep-*.tgz"))
	require.NoError(t, err)
	require.Len(t, charts, 1)

	t.Run("is the same when it is built again", func(t *testing.T) {
		run(t, "", "diff", "-r", release, built(t))
	})
	t.Run("has a checksum of each file", func(t *testing.T) {
		files, err := os.ReadDir(release)
		require.NoError(t, err)
		checked := run(t, release, "sha256sum", "--strict", "--check", "SHA256SUMS")
		assert.Equal(t, len(files)-1, strings.Count(checked, ": OK\n"))
	})
	t.Run("has a krew manifest with the archives and their checksums", func(t *testing.T) {
		krew, err := os.ReadFile(filepath.Join(release, "nodekeep.krew.yaml"))
		require.NoError(t, err)
		archives, err := filepath.Glob(filepath.Join(release, "*.tar.gz"))
		require.NoError(t, err)
		for _, archive := range archives {
			sum, _, _ := strings.Cut(run(t, "", "sha256sum", archive), " ")
			assert.Contains(t, string(krew), "/"+filepath.Base(archive)+"\n    sha256: "+sum+"\n")
		}
	})
	t.Run("has a chart that names the image and the repository", func(t *testing.T) {
		shown, err := harness.RunHelm(t.Context(), "show", "chart", charts[0])
		require.NoError(t, err)
		assert.Contains(t, string(shown), "image: "+image+":v")
		assert.Contains(t, string(shown), "icon: "+project+"/raw/main/docs/images/icon.svg\n")
		assert.NotContains(t, string(shown), "https://example.com/")
	})
	t.Run("has the policies for files, and the kustomization", func(t *testing.T) {
		dir := t.TempDir()
		run(t, dir, "tar", "-xf", filepath.Join(release, "nodekeep-static-admission.tar"))
		run(t, "", "diff", "-r", filepath.Join(dir, "static-admission"), filepath.Join(harness.Root(), "manifests", "static-admission"))
		assert.Contains(t, run(t, "", harness.Binary("kubectl"), "kustomize", release), "image: "+image+":v")
	})
	t.Run("installs with kubectl, is checked and uninstalled", func(t *testing.T) {
		current, err := harness.InstallProduct(t.Context(), harness.ForTest(t, harness.Options{}), harness.Product{Binary: cli, Manifests: release})
		require.NoError(t, err)
		works(t, cli, current)
		run(t, release, cli, "uninstall", "--yes", "--kubeconfig", current.AdminKubeconfig())
		require.NoError(t, current.StopCapture())
		require.NoError(t, current.StopWebhook())
		current.MustKubectl(t, "delete", "--ignore-not-found", "-f", filepath.Join(release, "nodekeep.yaml"))
		current.WaitGating(t, false)
	})
	t.Run("installs with helm, is checked and uninstalled", func(t *testing.T) {
		current, err := harness.InstallProduct(t.Context(), harness.ForTest(t, harness.Options{}), harness.Product{Binary: cli, Manifests: release})
		require.NoError(t, err)
		current.MustKubectl(t, "delete", "-f", filepath.Join(release, "nodekeep.yaml"), "-f", filepath.Join(release, "crd.yaml")) // Helm adopts no object that is there
		helm := func(args ...string) {
			_, err := harness.RunHelm(t.Context(), append(args, "--namespace", harness.Namespace, "--kubeconfig", current.AdminKubeconfig())...)
			require.NoError(t, err)
		}
		helm("install", "nodekeep", charts[0])
		current.WaitGating(t, true)
		works(t, cli, current)
		job := make(chan error)
		go func() {
			_, err := harness.RunUninstallJob(t.Context(), current.Cluster, cli, harness.Namespace)
			job <- err
		}()
		helm("uninstall", "nodekeep")
		require.NoError(t, <-job)
		current.WaitGating(t, false)
	})
}

// works looks at what the Deployments run, and then runs the same processes outside the cluster. A Node is recorded, and doctor finds nothing wrong.
func works(t *testing.T, cli string, current *harness.Installation) {
	t.Helper()
	deployments, err := current.Admin.AppsV1().Deployments(harness.Namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, deployments.Items, 2)
	for _, deployment := range deployments.Items {
		assert.Regexp(t, "^"+image+":v", deployment.Spec.Template.Spec.Containers[0].Image, deployment.Name)
	}
	current.MustKubectl(t, "-n", harness.Namespace, "delete", "deployment", "--all") // without Pods they are an error to doctor
	require.NoError(t, current.Start(t.Context()))
	current.RegisterRecorded(t, "worker-1", map[string]string{"dedicated": "ci"})
	var out []byte
	require.Eventually(t, func() bool { // the processes report a moment after their start
		var err error
		out, err = exec.CommandContext(t.Context(), cli, "doctor", "--kubeconfig", current.AdminKubeconfig()).CombinedOutput()
		return err == nil
	}, harness.Settles, time.Second, "%s", &out)
}
