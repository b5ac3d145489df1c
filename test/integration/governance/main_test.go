package governance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/harness"

	"nodekeep.dev/nodekeep/policy/policytest"
)

// nodekeep is the installation that all tests of this package share, with the policy of testdata/outcomes.md.
var nodekeep *harness.Installation

func TestMain(m *testing.M) {
	os.Exit(harness.RunTests(m, harness.Options{}, func(i *harness.Installation) {
		i.TimeoutSeconds = harness.Patient
		nodekeep = i
	}))
}

// page returns the page of outcomes, to which docs/governance.md leads.
func page(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", "outcomes.md"))
	require.NoError(t, err)
	return string(content)
}

// marked returns the part of a page after a comment, up to an empty line that follows a line of it.
func marked(t *testing.T, page, comment string) string {
	t.Helper()
	_, tail, found := strings.Cut(page, "<!-- "+comment+" -->\n")
	require.True(t, found, "testdata/outcomes.md has no comment %q", comment)
	part, _, _ := strings.Cut(strings.TrimLeft(tail, "\n"), "\n\n")
	return strings.TrimSpace(part)
}

// documented returns the policy of the page.
func documented(t *testing.T) string {
	t.Helper()
	text := strings.TrimSuffix(strings.TrimPrefix(marked(t, page(t), "the policy of the table"), "```yaml\n"), "\n```")
	return policytest.Manifest(text + "\n")
}

// govern writes a policy into the cluster, and nothing else. The one before is in force again when the test ends.
func govern(t *testing.T, content string) {
	t.Helper()
	head := nodekeep.Policy(t)
	t.Cleanup(func() { nodekeep.SetPolicy(t, head) })
	nodekeep.SetPolicy(t, content)
}
