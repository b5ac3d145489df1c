package chart

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/test/harness"
)

// documented returns the commands of the console blocks under a heading of docs/operating.md, block by block, comments left out.
func documented(t *testing.T, heading string) (blocks []string) {
	t.Helper()
	for _, block := range blocksOf(t, heading, "console") {
		blocks = append(blocks, regexp.MustCompile(`(?m)^ *\$ `).ReplaceAllString(block, ""))
	}
	return blocks
}

// containing returns the first block that has a text.
func containing(t *testing.T, blocks []string, text string) string {
	t.Helper()
	n := slices.IndexFunc(blocks, func(block string) bool { return strings.Contains(block, text) })
	require.GreaterOrEqual(t, n, 0, "no block has %q", text)
	return blocks[n]
}

// blocksOf returns the blocks of a language under a heading of docs/operating.md.
func blocksOf(t *testing.T, heading, language string) (blocks []string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(harness.Root(), "docs", "operating.md"))
	require.NoError(t, err)
	_, section, found := strings.Cut(string(content), "\n"+heading+"\n")
	require.True(t, found, "the page has no heading %q", heading)
	level, _, _ := strings.Cut(heading, " ")
	section = regexp.MustCompile(`\n#{2,`+fmt.Sprint(len(level))+`} `).Split(section, 2)[0]
	for _, block := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(section, -1) {
		blocks = append(blocks, block[1])
	}
	require.NotEmpty(t, blocks)
	return blocks
}

// typed runs commands as an admin types them in a checkout, with the values that the page shows.
func typed(t *testing.T, current *harness.Installation, commands string) *exec.Cmd {
	t.Helper()
	return typedWith(t, current.Binary(), current.AdminKubeconfig(), containing(t, blocksOf(t, "## Install", "yaml"), "repository:"), commands)
}

// typedWith runs commands in a checkout with a file of values.
func typedWith(t *testing.T, nodekeep, kubeconfig, values, commands string) *exec.Cmd {
	t.Helper()
	programs := t.TempDir()
	helmBinary, err := harness.Helm()
	require.NoError(t, err)
	for name, path := range map[string]string{"kubectl": harness.Binary("kubectl"), "helm": helmBinary} {
		require.NoError(t, os.Symlink(path, filepath.Join(programs, name)))
	}
	// capture does not run in these tests, so nothing is gained by waiting for it.
	impatient := "#!/bin/sh\ncase $1 in uninstall) set -- \"$@\" --settle 1s --patience 1s;; esac\nexec '" + nodekeep + "' \"$@\"\n"
	require.NoError(t, os.WriteFile(filepath.Join(programs, "nodekeep"), []byte(impatient), 0o755))
	// make builds the program that the tests have built already.
	commands = strings.ReplaceAll(commands, "make uninstall", "make uninstall --old-file=build BIN="+programs)
	checkout := t.TempDir() // files that the commands write stay out of the repository
	entries, err := os.ReadDir(harness.Root())
	require.NoError(t, err)
	for _, entry := range entries {
		require.NoError(t, os.Symlink(filepath.Join(harness.Root(), entry.Name()), filepath.Join(checkout, entry.Name())))
	}
	require.NoError(t, os.WriteFile(filepath.Join(checkout, "values.yaml"), []byte(values), 0o600))
	command := exec.CommandContext(t.Context(), "bash", "-e", "-c", commands)
	command.Dir = checkout
	command.Stdin = strings.NewReader("y\n") // the answer to uninstall's question
	command.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"), "KUBECONFIG="+kubeconfig, "HOME="+programs)
	return command
}

func TestEachDocumentedUninstallKeepsTheRecordsAndNothingElse(t *testing.T) {
	current, err := harness.Install(t.Context(), harness.ForTest(t, harness.Options{}))
	require.NoError(t, err)
	current.TimeoutSeconds = harness.Patient
	installs := documented(t, "## Install")
	byHelm, byKubectl := containing(t, installs, "helm install"), containing(t, installs, "kubectl apply")
	run := func(t *testing.T, commands string) {
		t.Helper()
		out, err := typed(t, current, commands).CombinedOutput()
		require.NoError(t, err, "%s\n%s", commands, out)
	}
	uninstalls := documented(t, "## Uninstall")
	programs := map[string]bool{}
	for n, commands := range uninstalls {
		programs[strings.Fields(commands)[0]] = true
		t.Run(fmt.Sprintf("%d %s", n, strings.Fields(commands)[0]), func(t *testing.T) {
			installed := byKubectl
			if strings.Contains(commands, "helm") {
				installed = byHelm
				if n == 0 { // the very first installation is that of the manifests. Helm takes no kind over that it has not made.
					run(t, "kubectl delete --ignore-not-found -f manifests/nodekeep.yaml -f manifests/crd.yaml")
				}
			}
			if strings.Contains(commands, "helm") || n > 0 {
				run(t, installed)
			}
			if strings.Contains(commands, "helm") {
				for _, upgrade := range documented(t, "## Upgrade") {
					run(t, strings.ReplaceAll(upgrade, "REVISION", "1"))
				}
			}
			current.WaitGating(t, true)
			keepsTheRecords(t, current, fmt.Sprintf("documented-%d", n), commands, func() { run(t, installed) })
			if strings.Contains(commands, "helm") {
				run(t, "helm uninstall nodekeep --namespace nodekeep-system --no-hooks")
			} else {
				run(t, "kubectl delete --ignore-not-found -f manifests/nodekeep.yaml")
			}
		})
	}
	assert.Equal(t, map[string]bool{"helm": true, "nodekeep": true, "make": true}, programs, "each way is documented and tested")
}

// keepsTheRecords runs the commands while a Node waits behind the gate, and installs again.
func keepsTheRecords(t *testing.T, current *harness.Installation, name, commands string, installAgain func()) {
	want := map[string]string{"dedicated": "ci", harness.Worker: ""}
	require.NoError(t, current.Start(t.Context()))
	current.RegisterRecorded(t, name, want)
	require.NoError(t, current.StopCapture())
	require.NoError(t, current.StopWebhook())
	current.DeleteNode(t, name)
	require.True(t, harness.Gated(current.Register(t, name)))
	prev := current.RecordMap(t, name)

	done := make(chan struct{})
	if strings.Contains(commands, "helm uninstall") {
		go func() {
			defer close(done)
			out, err := harness.RunUninstallJob(t.Context(), current.Cluster, current.Binary(), harness.Namespace)
			assert.NoError(t, err, out)
		}()
	} else {
		close(done)
	}
	out, err := typed(t, current, commands).CombinedOutput()
	<-done
	require.NoError(t, err, "%s\n%s", commands, out)

	namespace, err := current.Admin.CoreV1().Namespaces().Get(t.Context(), harness.Namespace, metav1.GetOptions{})
	require.NoError(t, err)
	assert.Nil(t, namespace.DeletionTimestamp, "the records are in the namespace")
	next := current.RecordMap(t, name)
	assert.Equal(t, prev.UID, next.UID, "the record stays")
	assert.Equal(t, prev.Data, next.Data, "and is as it was")
	left, err := harness.Left(t.Context(), current.Cluster)
	require.NoError(t, err)
	assert.Empty(t, left)
	assert.Empty(t, current.GatedNodes(t))
	assert.False(t, harness.Gated(current.Register(t, name+"-bare")), "nothing gates new Nodes any more")

	installAgain()
	current.DeleteNode(t, name)
	current.WaitGating(t, true)
	require.NoError(t, current.StartWebhook(t.Context()))
	returned, err := current.Admin.CoreV1().Nodes().Create(t.Context(), harness.Registration(name), metav1.CreateOptions{})
	require.NoError(t, err)
	assert.True(t, harness.HasAll(returned.Labels, want), "the new installation restores what the old one recorded: %v", returned.Labels)
	require.NoError(t, current.StopWebhook())
	current.DeleteNode(t, name)
	current.DeleteNode(t, name+"-bare")
}

func TestTheDocumentedCommandsDeleteVerificationAndNothingElse(t *testing.T) {
	current, err := harness.Install(t.Context(), harness.ForTest(t, harness.Options{ControllerManager: true})) // it deletes namespaces
	require.NoError(t, err)
	manifest := func(name string) string { return filepath.Join(harness.Manifests(), name) }
	// The file has the objects of nodekeep.yaml, too: what only it has belongs to verification.
	listed := func(file string) []string {
		names := strings.Fields(current.MustKubectl(t, "get", "--output", "name", "-f", file))
		require.NotEmpty(t, names)
		return names
	}
	args := listed(manifest("nodekeep.yaml"))
	current.MustKubectl(t, "apply", "--server-side", "--force-conflicts", "-f", manifest("nodekeep-verify.yaml"))
	require.Contains(t, listed(manifest("nodekeep-verify.yaml")), "deployment.apps/nodekeep-verify")
	commands := documented(t, "### Switch verification on and off")
	require.Len(t, commands, 1)

	out, err := typed(t, current, commands[0]).CombinedOutput()

	require.NoError(t, err, "%s", out)
	assert.Equal(t, args, listed(manifest("nodekeep.yaml")), "nothing else is deleted")
	left := strings.Fields(current.MustKubectl(t, "get", "--ignore-not-found", "--output", "name", "-f", manifest("nodekeep-verify.yaml")))
	assert.Subset(t, append(args, "nodepolicy.nodekeep.dev/default"), left, "nothing of verification stays but the policy, which is yours")
}
