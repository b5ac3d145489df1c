package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// codes are those with which an example may end, where that is not 0 alone.
var codes = map[string][]int{
	"nodekeep doctor":      {0, 1}, // no kubelet runs there, and so no replica is available
	"nodekeep check":       {2},    // the shipped policy has no profiles; package check has tests with some
	"nodekeep verify run":  {3},    // the same; TestANodeIsVerifiedAgainAndReleasedByAnOperator has some
	"nodekeep migrate new": {3},    // the same; test/integration/migration finishes one
	"nodekeep rules adopt": {3},    // the shipped policy has no rules; TestLabelsOfAnOlderJobAreHandedOverToARuleAndFollowIt has some
}

// Every command line under "Examples" in docs/cli.md, which is made of the help texts, is run as it stands there, on a cluster
// with what the examples speak of.
func TestTheExamplesOfTheHelpDoWhatTheySay(t *testing.T) {
	whole := t // the Nodes stay for all examples
	for command, lines := range documentedExamples(t) {
		t.Run(command, func(t *testing.T) {
			switch command {
			case "nodekeep uninstall":
				t.Skip("uninstall would delete what the other examples need; TestUninstalling in test/integration runs it")
			case "nodekeep emergency":
				t.Skip("an emergency would open the Nodes that other tests need behind the gate; TestAnEmergencyFreesEveryNodeOfABrokenInstallationAndHoldsUntilItIsEnded in test/integration runs it")
			}
			for _, line := range lines {
				dir := t.TempDir()
				arrangeExamples(whole, dir)
				allowed := []int{0}
				if more, some := codes[command]; some {
					allowed = more
				}
				a := shell(t, dir, line)
				assert.Contains(t, allowed, a.Code, "%s\n%s%s", line, a.Out, a.ErrOut)
				silent := strings.Contains(line, " > ")
				if strings.Contains(line, "jsonpath") && (command == "nodekeep migrate status" || command == "nodekeep report") {
					continue // the shipped policy has no migrations, and no rules that a Node could break
				}
				assert.Equal(t, silent, a.Out+a.ErrOut == "", line)
			}
		})
	}
}

// arrangeExamples makes what the examples speak of: the Node worker-1, the record of worker-2, which is deleted, and files in a folder.
func arrangeExamples(t *testing.T, dir string) {
	t.Helper()
	nodekeep.Quarantine(t)
	if _, err := nodekeep.Kubectl(t.Context(), "get", "node", "worker-1"); err != nil {
		register(t, "worker-1")
		edit(t, "worker-1", map[string]string{"dedicated": "ci"}, "tenant=blue:NoSchedule")
	}
	if _, err := nodekeep.Kubectl(t.Context(), "-n", "nodekeep-system", "get", "configmap", "node.worker-2"); err != nil {
		register(t, "worker-2")
		edit(t, "worker-2", map[string]string{"dedicated": "ci"}, "tenant=blue:NoSchedule")
		remove(t, "worker-2")
	}
	golden := filepath.Join("..", "..", "webhook", "testdata", "reviews", "ordinary-labels-come-back")
	for name, from := range map[string]string{
		"policy.yaml": nodekeep.PolicyFile(t),
		"review.json": filepath.Join(golden, "review.json"),
		"record.json": filepath.Join(golden, "record.json"),
	} {
		content, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	arrangeChanges(t)
}

// documentedExamples returns the command lines in docs/cli.md, by command.
func documentedExamples(t *testing.T) map[string][]string {
	t.Helper()
	docs, err := os.ReadFile(filepath.Join("..", "..", "docs", "cli.md"))
	require.NoError(t, err)
	found := map[string][]string{}
	for _, section := range regexp.MustCompile(`(?m)^## `).Split(string(docs), -1) {
		command, _, _ := strings.Cut(section, "\n")
		_, examples, has := strings.Cut(section, "### Examples\n\n```\n")
		if !has {
			continue
		}
		examples, _, _ = strings.Cut(examples, "\n```")
		for line := range strings.SplitSeq(strings.ReplaceAll(examples, "\\\n", ""), "\n") {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				found[command] = append(found[command], line)
			}
		}
	}
	require.Contains(t, found, "nodekeep list")
	return found
}
