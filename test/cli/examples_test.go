package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// codes are those with which an example may end, by the beginning of its line, where that is not 0 alone.
var codes = map[string][]int{
	"nodekeep doctor":           {0, 1}, // no kubelet runs there, and so no replica is available
	"nodekeep worker":           {2},    // the shipped policy has no profiles; package check has tests with some
	"nodekeep recheck":          {3},    // the same; TestANodeIsVerifiedAgainAndReleasedByAnOperator has some
	"nodekeep accept migration": {3},    // the same; test/integration/migration finishes one
	"nodekeep accept rules":     {3},    // no rules are held; TestLabelsOfAnOlderJobAreHandedOverToARuleAndFollowIt accepts some
	"nodekeep accept adoption":  {3},    // the shipped policy has no rules; TestLabelsOfAnOlderJobAreHandedOverToARuleAndFollowIt has some
}

// Every command line under "Examples" of a help text is run as it stands there, on a cluster
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
				for begun, extra := range codes {
					if strings.HasPrefix(line, begun) {
						allowed = extra
					}
				}
				a := shell(t, dir, line)
				assert.Contains(t, allowed, a.Code, "%s\n%s%s", line, a.Out, a.ErrOut)
				silent := strings.Contains(line, " > ")
				if strings.Contains(line, "jsonpath") && command == "nodekeep report" {
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
	for name, from := range map[string]string{
		"policy.yaml": nodekeep.PolicyFile(t),
		"review.json": filepath.Join(reviews, "base", "kubelet.json"),
		"record.json": filepath.Join(reviews, "records", "ordinary-labels.json"),
	} {
		content, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	arrangeChanges(t)
}

// documentedExamples returns the command lines that the help shows, by command.
func documentedExamples(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for command, help := range helpOfAll(t) {
		_, examples, _ := strings.Cut(help, "\nExamples:\n")
		examples, _, _ = strings.Cut(examples, "\n\nFlags:\n")
		for line := range strings.SplitSeq(strings.ReplaceAll(examples, "\\\n", ""), "\n") {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				found[command] = append(found[command], line)
			}
		}
	}
	require.Contains(t, found, "nodekeep list")
	return found
}

// helpOfAll returns what each command that the help lists says of itself.
func helpOfAll(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	var read func(path ...string)
	read = func(path ...string) {
		help := run(t, append([]string{"help"}, path...)...).RequireDone(t).Out
		all[strings.Join(append([]string{"nodekeep"}, path...), " ")] = help
		_, lists, _ := strings.Cut(help, "\nUsage:\n")
		lists, _, _ = strings.Cut(lists, "\nFlags:\n")
		if !strings.Contains(lists, " [command]\n") {
			return
		}
		for _, listed := range regexp.MustCompile(`(?m)^  ([a-z]+)  +\S`).FindAllStringSubmatch(lists, -1) {
			read(append(slices.Clone(path), listed[1])...)
		}
	}
	read()
	return all
}
