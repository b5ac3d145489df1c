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

// What is built beside the version of the chart: a later one, by a project with this address.
const (
	later   = "v9.0.0-dev"
	project = "https://git.example.com/nodekeep"
)

// build is a release.
type build struct {
	root     string // of the sources
	registry string
	version  string
	dir      string // for what make writes
}

// image returns the name of the image, without a tag, and chart that of the chart.
func (b build) image() string { return b.registry + "/nodekeep" }
func (b build) chart() string { return b.registry + "/charts/nodekeep" }

// release returns the folder of the release.
func (b build) release() string { return filepath.Join(b.dir, "release") }

// archive returns the file of the chart.
func (b build) archive() string {
	return filepath.Join(b.release(), "nodekeep-"+strings.TrimPrefix(b.version, "v")+".tgz")
}

// make runs make as the workflow of a release does, but for a commit that stays the same.
func (b build) make(t *testing.T, args ...string) {
	t.Helper()
	out, err := b.tryMake(t, args...)
	require.NoError(t, err, out)
}

func (b build) tryMake(t *testing.T, args ...string) (string, error) {
	t.Helper()
	args = append([]string{
		"-C", b.root, "BIN=" + filepath.Join(harness.Root(), ".bin"), "IMAGE=" + b.image(), "VERSION=" + b.version,
		"RELEASE_DIR=" + b.release(), "IMAGE_DIR=" + filepath.Join(b.dir, "image"),
		"COMMIT=0123456789abcdef0123456789abcdef01234567", "SOURCE_DATE_EPOCH=1700000000", "PROJECT_URL=" + project,
	}, args...)
	if platforms := os.Getenv("NODEKEEP_RELEASE_PLATFORMS"); platforms != "" {
		args = append(args, "CLI="+platforms)
	}
	out, err := exec.CommandContext(t.Context(), "make", args...).CombinedOutput()
	return string(out), err
}

// built makes a release of the sources in a folder, which no other build shares but for Go's cache.
func built(t *testing.T, root, registry, version string) build {
	t.Helper()
	b := build{root: root, registry: registry, version: version, dir: t.TempDir()}
	b.make(t, "release")
	return b
}

// copied returns a copy of the sources in another folder, without what git ignores.
func copied(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	run(t, harness.Root(), "bash", "-o", "pipefail", "-c", `git ls-files -z --cached --others --exclude-standard |
		xargs -0 sh -c 'for file; do [ ! -e "$file" ] || printf "%s\0" "$file"; done' files | tar --create --null --files-from - | tar --extract --directory "$0"`, dir)
	return dir
}

func run(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), program, args...)
	command.Dir = dir
	out, err := command.CombinedOutput()
	require.NoError(t, err, "%s %s\n%s", program, strings.Join(args, " "), out)
	return string(out)
}

// tool returns the path of a program that the Makefile names a version of.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := harness.Tool(name)
	require.NoError(t, err)
	return path
}

// TestARelease builds once for all that looks at it, a second time to compare, and a later version to upgrade to.
func TestARelease(t *testing.T) {
	free, err := harness.FreeAddresses(1)
	require.NoError(t, err)
	harness.StartRegistry(t, free[0])
	version := strings.TrimSpace(run(t, harness.Root(), "make", "--silent", "version"))
	current := built(t, harness.Root(), free[0], version)
	release := current.release()
	cli := current.unpacked(t)

	t.Run("is the same when it is built again in another folder", func(t *testing.T) {
		run(t, "", "diff", "-r", release, built(t, copied(t), free[0], version).release())
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
		namesImageAndRepository(t, current, current.named(t))
	})
	t.Run("has the policies for files", func(t *testing.T) {
		dir := t.TempDir()
		run(t, dir, "tar", "-xf", filepath.Join(release, "nodekeep-static-admission.tar"))
		run(t, "", "diff", "-r", filepath.Join(dir, "static-admission"), filepath.Join(harness.Root(), "manifests", "static-admission"))
	})
	t.Run("has manifests that name the image, and take another one", func(t *testing.T) { takesAnotherImage(t, current) })
	t.Run("has notes that say how to install and verify it", func(t *testing.T) {
		notes, err := os.ReadFile(filepath.Join(release, "RELEASE-NOTES.md"))
		require.NoError(t, err)
		assert.Contains(t, string(notes), "\nhelm install nodekeep oci://"+current.chart()+" --version "+strings.TrimPrefix(version, "v")+" ")
		assert.Contains(t, string(notes), "`"+current.named(t)+"`")
		assert.Contains(t, string(notes), "\ncosign verify \"${signer[@]}\" "+current.chart()+":${version#v}\n")
	})
	t.Run("installs with kubectl, is checked and uninstalled", func(t *testing.T) {
		installed, err := harness.InstallProduct(t.Context(), harness.ForTest(t, harness.Options{}), harness.Product{Binary: cli, Manifests: release})
		require.NoError(t, err)
		works(t, cli, installed, current.named(t), "worker-1")
		run(t, release, cli, "uninstall", "--yes", "--kubeconfig", installed.AdminKubeconfig())
		require.NoError(t, installed.StopCapture())
		require.NoError(t, installed.StopWebhook())
		installed.MustKubectl(t, "delete", "--ignore-not-found", "-f", filepath.Join(release, "nodekeep.yaml"))
		installed.WaitGating(t, false)
	})
	current.make(t, "publish") // as the workflow does, and operators whose clusters reach no other registry
	t.Run("has the same digest when it is pushed again", func(t *testing.T) {
		pushed := current.pushedChart(t)
		require.NoError(t, os.Chtimes(current.archive(), time.Time{}, time.Now()))
		current.make(t, "publish")
		assert.Equal(t, pushed, current.pushedChart(t))
	})
	next := built(t, harness.Root(), free[0], later)
	next.make(t, "publish")
	t.Run("installs with helm from a registry, is checked, upgraded and uninstalled", func(t *testing.T) { installs(t, current, next) })
	t.Run("is signed, and so are its bills of materials and its provenance", func(t *testing.T) { isSigned(t, current, next) })
}

// unpacked returns the path of the release's command for this machine.
func (b build) unpacked(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	run(t, dir, "tar", "-xzf", filepath.Join(b.release(), "nodekeep-"+runtime.GOOS+"-"+runtime.GOARCH+".tar.gz"))
	return filepath.Join(dir, "nodekeep")
}

// works looks at which image the Deployments run, and then runs the same processes outside the cluster. A Node is recorded, and doctor finds nothing
// wrong.
func works(t *testing.T, cli string, installed *harness.Installation, image, node string) {
	t.Helper()
	deployments, err := installed.Admin.AppsV1().Deployments(harness.Namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, deployments.Items, 2)
	for _, deployment := range deployments.Items {
		assert.Equal(t, image, deployment.Spec.Template.Spec.Containers[0].Image, deployment.Name)
	}
	installed.MustKubectl(t, "-n", harness.Namespace, "delete", "deployment", "--all") // without Pods they are an error to doctor
	require.NoError(t, installed.Start(t.Context()))
	installed.RegisterRecorded(t, node, map[string]string{"dedicated": "ci"})
	var out []byte
	require.Eventually(t, func() bool { // the processes report a moment after their start
		var err error
		out, err = exec.CommandContext(t.Context(), cli, "doctor", "--kubeconfig", installed.AdminKubeconfig()).CombinedOutput()
		return err == nil
	}, harness.Settles, time.Second, "%s", &out)
}
