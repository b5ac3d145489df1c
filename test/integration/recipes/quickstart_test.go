package recipes

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/harness"
)

const quickStart = "Quick start on kind and k3s"

// cell returns the commands of a step in the table of the quick start: for kind, or for k3s.
func cell(t *testing.T, step string, k3s bool) (commands []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(harness.Root(), "docs", "platforms.md"))
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "## "+quickStart+"\n")
	require.True(t, found)
	_, row, found := strings.Cut(section, "\n| "+step+" | ")
	require.True(t, found, "the table has no step %q", step)
	row, _, _ = strings.Cut(row, "\n")
	cells := strings.Split(strings.ReplaceAll(row, `\|`, "\x00"), " | ")
	chosen := cells[0]
	if k3s && !strings.HasPrefix(cells[1], "the same") {
		chosen = cells[1]
	}
	for _, code := range regexp.MustCompile("`([^`]*)`").FindAllStringSubmatch(chosen, -1) {
		commands = append(commands, strings.ReplaceAll(code[1], "\x00", "|"))
	}
	return commands
}

func TestTheQuickStartOnKindAndK3sGoesAsFarAsItCanHere(t *testing.T) {
	commands := commandsOf(t, quickStart)
	require.Len(t, commands, 4)
	dir := t.TempDir()
	shell := func(line string) string {
		t.Helper()
		return nodekeep.Shell(t, nodekeep.AdminKubeconfig(), dir, line).RequireDone(t).Out
	}
	shell(commands[0])
	config, err := os.Open(filepath.Join(dir, "kind.yaml"))
	require.NoError(t, err)
	defer func() { _ = config.Close() }()
	read := exec.CommandContext(t.Context(), "go", "run", "-C", filepath.Join(harness.Root(), "test", "programs", "kind"), ".")
	read.Stdin = config
	roles, err := read.Output()
	require.NoError(t, err)
	assert.Equal(t, "Cluster kind.x-k8s.io/v1alpha4\ncontrol-plane\nworker\n", string(roles))

	shell(commands[1])
	flags := strings.Fields(strings.TrimPrefix(commands[2], "helm install nodekeep manifests/chart"))
	for i, flag := range flags {
		if flag == "values.yaml" {
			flags[i] = filepath.Join(dir, flag)
		}
	}
	rendered, err := harness.RunHelm(t.Context(), append([]string{"template", "nodekeep", harness.Chart()}, flags...)...)
	require.NoError(t, err)
	chart, err := os.ReadFile(filepath.Join(harness.Chart(), "Chart.yaml"))
	require.NoError(t, err)
	version := regexp.MustCompile(`(?m)^appVersion: *"?([^"\n]*)`).FindStringSubmatch(string(chart))
	require.NotNil(t, version)
	images := regexp.MustCompile(`(?m)^ *image: *"?([^"\s]+)`).FindAllStringSubmatch(string(rendered), -1)
	require.NotEmpty(t, images)
	for _, image := range images {
		assert.Equal(t, "nodekeep:"+version[1], image[1], "what make image writes")
	}
	assert.NotContains(t, string(rendered), "imagePullPolicy: IfNotPresent")

	for name, k3s := range map[string]bool{"kind-worker": false, "k3s-host": true} {
		t.Run(name, func(t *testing.T) {
			t.Cleanup(func() { deleteNode(t, name) })
			node := nodekeep.Register(t, name)
			run := func(commands ...string) (out string) {
				t.Helper()
				require.NotEmpty(t, commands)
				for _, command := range commands {
					out = shell(strings.ReplaceAll(command, "NODE", name))
				}
				return out
			}
			run(commands[3])
			nodekeep.WaitRecorded(t, node, map[string]string{"dedicated": "ci"})
			run(cell(t, "delete the Node", k3s)...)
			nodekeep.WaitDeletionRecorded(t, name)
			assert.Contains(t, cell(t, "restart the kubelet", k3s)[0], "systemctl restart k")
			nodekeep.Register(t, name) // what a restart of the kubelet does
			assert.Regexp(t, `(?m)^`+name+` .* ci$`, run(cell(t, "see the label", k3s)...))
		})
	}
}

// commandsOf returns the lines of the shell block of a section of docs/platforms.md.
func commandsOf(t *testing.T, heading string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(harness.Root(), "docs", "platforms.md"))
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(text), "## "+heading+"\n")
	_, section, found := strings.Cut(section, "```sh\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n```")
	return strings.Split(section, "\n")
}
