package recipes

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/harness"
)

const (
	platforms  = "platforms.md"
	quickStart = "Quick start on kind and k3s"
)

// quickStartStep returns the commands of a step in the table of the quick start, for kind and for k3s.
func quickStartStep(t *testing.T, name string) (kind, k3s []string) {
	t.Helper()
	_, row, found := strings.Cut(pageSection(t, platforms, quickStart), "\n| "+name+" | ")
	require.True(t, found, "the table has no step %q", name)
	row, _, _ = strings.Cut(row, "\n")
	first, second, _ := strings.Cut(row, " | ")
	kind = commandsOf(first)
	if strings.HasPrefix(second, "the same") {
		return kind, kind
	}
	return kind, commandsOf(second)
}

func commandsOf(cell string) (commands []string) {
	for _, code := range regexp.MustCompile("`([^`]*)`").FindAllStringSubmatch(cell, -1) {
		commands = append(commands, code[1])
	}
	return commands
}

// rolesOf reads a configuration as kind does, and returns the roles of its nodes.
func rolesOf(t *testing.T, file string) []string {
	t.Helper()
	config, err := os.Open(file)
	require.NoError(t, err)
	defer func() { _ = config.Close() }()
	read := exec.CommandContext(t.Context(), "go", "run", "-C", filepath.Join(harness.Root(), "test", "programs", "kind"), ".")
	read.Stdin = config
	out, err := read.Output()
	require.NoError(t, err)
	return strings.Fields(string(out))
}

// imagesOf renders what a command of helm installs, and returns the images of its Pods.
func imagesOf(t *testing.T, dir, command string) (images []string) {
	t.Helper()
	command, found := strings.CutPrefix(command, "helm install nodekeep manifests/chart ")
	require.True(t, found, command)
	flags := strings.Fields(strings.ReplaceAll(command, "values.yaml", filepath.Join(dir, "values.yaml")))
	rendered, err := harness.RunHelm(t.Context(), append([]string{"template", "nodekeep", harness.Chart()}, flags...)...)
	require.NoError(t, err)
	assert.NotContains(t, string(rendered), "imagePullPolicy: IfNotPresent")
	for _, image := range regexp.MustCompile(`(?m)^ *image: *"?([^"\s]+)`).FindAllStringSubmatch(string(rendered), -1) {
		images = append(images, image[1])
	}
	return images
}

func TestTheQuickStartOnKindAndK3sGoesAsFarAsItCanHere(t *testing.T) {
	commands := strings.Split(strings.TrimSpace(pageBlock(t, platforms, quickStart, "sh", "")), "\n")
	require.Len(t, commands, 4)
	dir := t.TempDir()
	shell := func(line string) string {
		t.Helper()
		return nodekeep.Shell(t, nodekeep.AdminKubeconfig(), dir, line).RequireDone(t).Out
	}
	shell(commands[0])
	assert.Equal(t, []string{"Cluster", "kind.x-k8s.io/v1alpha4", "control-plane", "worker"}, rolesOf(t, filepath.Join(dir, "kind.yaml")))
	shell(commands[1])
	chart, err := os.ReadFile(filepath.Join(harness.Chart(), "Chart.yaml"))
	require.NoError(t, err)
	version := regexp.MustCompile(`(?m)^appVersion: *"?([^"\n]*)`).FindStringSubmatch(string(chart))
	require.NotNil(t, version)
	images := imagesOf(t, dir, commands[2])
	require.NotEmpty(t, images)
	for _, image := range images {
		assert.Equal(t, "nodekeep:"+version[1], image, "what make image writes")
	}

	loads, copies := quickStartStep(t, "the image")
	for _, line := range append(loads[1:], copies[2:]...) {
		image := regexp.MustCompile(`\.image/.*\.tar`).FindString(line)
		assert.Equal(t, ".image/nodekeep-linux-"+runtime.GOARCH+".tar", strings.TrimSpace(shell("echo "+image)), "the platform of this machine: %s", line)
	}

	deletes, deletesOnK3s := quickStartStep(t, "delete the Node")
	restarts, restartsOnK3s := quickStartStep(t, "restart the kubelet")
	shows, showsOnK3s := quickStartStep(t, "see the label")
	for name, row := range map[string]struct{ deletes, restarts, shows []string }{
		"kind-worker": {deletes, restarts, shows}, "k3s-host": {deletesOnK3s, restartsOnK3s, showsOnK3s},
	} {
		t.Run(name, func(t *testing.T) {
			t.Cleanup(func() { deleteNode(t, name) })
			run := func(commands ...string) string {
				t.Helper()
				require.NotEmpty(t, commands)
				return shell(strings.ReplaceAll(strings.Join(commands, "\n"), "NODE", name))
			}
			node := nodekeep.Register(t, name)
			run(commands[3])
			nodekeep.WaitRecorded(t, node, map[string]string{"dedicated": "ci"})
			run(row.deletes...)
			nodekeep.WaitDeletionRecorded(t, name)
			require.NotEmpty(t, row.restarts)
			nodekeep.Register(t, name) // what a restart of the kubelet does
			assert.Regexp(t, `(?m)^`+name+` .* ci$`, run(row.shows...))
		})
	}
}
