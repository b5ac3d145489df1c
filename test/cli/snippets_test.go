package cli

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/harness"
)

// foreignLabels are blocks that other tests run, by their first command.
var foreignLabels = map[string]string{
	"kubectl apply --server-side -f manifests/namespace.yaml": "TestEachDocumentedUninstallKeepsTheRecordsAndNothingElse",
	"nodekeep uninstall":                                                    "TestEachDocumentedUninstallKeepsTheRecordsAndNothingElse",
	"kubectl delete deployment,poddisruptionbudget":                         "TestTheDocumentedCommandsDeleteVerificationAndNothingElse",
	"kubectl -n nodekeep-system get configmaps -l nodekeep.dev/record=true": "TestTheNodesOfALostClusterGetTheirLabelsBackInANewOneFromRecordsThatKubectlSavedAndApplied",
	"sed -E": "TestTheNodesOfALostClusterGetTheirLabelsBackInANewOneFromRecordsThatKubectlSavedAndApplied",
}

// ownTests are pages whose blocks have tests that also compare what they print.
var ownTests = map[string]string{
	"docs/classification.md": "TestTheClassificationOfTheDocsRunsAsItIsWritten",
	"docs/walkthrough.md":    "TestTheWalkthroughRunsAsItIsWritten",
}

// snippet is a shell block of a page.
type snippet struct{ page, commands string }

func snippets(t *testing.T) (all []snippet) {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join(harness.Root(), "docs", "*.md"))
	require.NoError(t, err)
	for _, path := range append(pages, filepath.Join(harness.Root(), "README.md")) {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		page, err := filepath.Rel(harness.Root(), path)
		require.NoError(t, err)
		for _, block := range regexp.MustCompile("(?ms)^ *```(?:sh|console|bash|shell)\n(.*?)^ *```").FindAllStringSubmatch(string(content), -1) {
			commands := regexp.MustCompile(`(?m)^ *\$ `).ReplaceAllString(block[1], "")
			all = append(all, snippet{page, commands})
		}
	}
	require.Greater(t, len(all), 20)
	return all
}

// runElsewhere names the test that runs a block; ok is false where none does.
func (s snippet) runElsewhere() (test string, ok bool) {
	if test, ok = ownTests[s.page]; ok {
		return test, true
	}
	for begin, test := range foreignLabels {
		if strings.HasPrefix(strings.TrimSpace(s.commands), begin) {
			return test, true
		}
	}
	return "", false
}

// snippetCodes are those with which a block ends, where that is not 0.
var snippetCodes = map[string]int{
	"nodekeep accept migration":               3, // the shipped policy has no migrations
	"nodekeep accept record":                  3, // one of two
	"nodekeep accept adoption":                3, // nor rules
	"kubectl taint nodes --all nodekeep.dev/": 1, // not every Node has the taint
}

// otherTools are commands that no test of this package has: those of the chart have tests of their own, and the others are for
// developers.
var otherTools = regexp.MustCompile(`(?m)^ *(go|helm|make) ([^\n]*\\\n)*[^\n]*\n`)

func TestTheShellSnippetsOfTheDocsRun(t *testing.T) {
	whole := t
	values := strings.NewReplacer("NODE", "worker-1", "FILE", "policy.yaml", "HASH", "none", "new.yaml", "policy.yaml",
		"accept record worker-1", "accept record worker-3", "nodekeep doctor\n", "nodekeep doctor || true\n") // no kubelet runs here, which doctor finds
	nodekeep.MustKubectl(t, "create", "clusterrolebinding", "nodekeep-verify-removal", "--clusterrole=view", "--user=nobody") // as with onFailure
	deletedAtEnd(t, "clusterrolebinding", "nodekeep-verify-removal")
	for _, s := range snippets(t) {
		commands := otherTools.ReplaceAllString(s.commands, "")
		if _, ok := s.runElsewhere(); ok || strings.TrimSpace(commands) == "" {
			continue
		}
		t.Run(s.page+" "+strings.TrimSpace(strings.SplitN(commands, "\n", 2)[0]), func(t *testing.T) {
			dir := t.TempDir()
			arrangeExamples(whole, dir)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "ca.crt"), []byte("PEM"), 0o600))
			want := 0
			for begin, code := range snippetCodes {
				if strings.HasPrefix(strings.TrimSpace(commands), begin) {
					want = code
				}
			}
			gate, err := nodekeep.Admin.RbacV1().RoleBindings(harness.Namespace).Get(t.Context(), "nodekeep-gate", metav1.GetOptions{})
			require.NoError(t, err)
			t.Cleanup(func() { // the block may have switched it off
				gate.UID, gate.ResourceVersion = "", ""
				_, _ = nodekeep.Admin.RbacV1().RoleBindings(harness.Namespace).Create(context.WithoutCancel(t.Context()), gate, metav1.CreateOptions{})
			})
			deletedAtEnd(t, "clusterrolebinding,rolebinding", "nodekeep-viewer-jane", "-n", harness.Namespace) // the block may have granted it
			deletedAtEnd(t, "rolebinding", "nodekeep-viewer-jane", "-n", "default")
			a := shell(t, dir, "set -e; yes | {\n"+values.Replace(commands)+"\n}")
			assert.Equal(t, want, a.Code, "%s\n%s%s", commands, a.Out, a.ErrOut)
		})
	}
}

func TestEveryTestThatRunsSnippetsExists(t *testing.T) {
	for _, tests := range []map[string]string{foreignLabels, ownTests} {
		for name, test := range tests {
			if test != "" {
				require.NoError(t, exec.Command("grep", "-rq", "--include=*_test.go", "^func "+test+"(", filepath.Join(harness.Root(), "test")).Run(), "%s: %s", name, test)
			}
		}
	}
	used := map[string]bool{}
	for _, s := range snippets(t) {
		for begin := range foreignLabels {
			used[begin] = used[begin] || strings.HasPrefix(strings.TrimSpace(s.commands), begin)
		}
	}
	for begin := range foreignLabels {
		assert.True(t, used[begin], "no page has %q", begin)
	}
}

func TestTheWalkthroughRunsAsItIsWritten(t *testing.T) {
	loseEverything(t)
	content, err := os.ReadFile(filepath.Join(harness.Root(), "test", "demo", "policy.yaml"))
	require.NoError(t, err)
	restore := nodekeep.UsePolicy(t, string(content))
	defer func() {
		loseEverything(t)
		restore()
	}()
	page, err := os.ReadFile(filepath.Join(harness.Root(), "docs", "walkthrough.md"))
	require.NoError(t, err)
	for _, s := range stepsOf(string(page)) {
		if s.prints == "" { // the page leaves out what it prints
			shell(t, harness.Root(), s.command).RequireDone(t)
			continue
		}
		s.requirePrints(t, harness.Root())
		if strings.HasPrefix(s.command, "kubectl taint ") { // a user types more slowly than capture records
			eventually(t, "worker-2", func(r record.Record) bool { return r.Items()["tenant:NoSchedule"] != "" })
		}
	}
}
