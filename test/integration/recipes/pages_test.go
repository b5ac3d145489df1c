package recipes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/policy/policytest"
	"nodekeep.dev/nodekeep/test/harness"
)

// block returns the first YAML of a section of a page of the docs that begins so.
func block(t *testing.T, page, heading, start string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(harness.Root(), "docs", page))
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "# "+heading+"\n")
	require.True(t, found, "%s has no section %q", page, heading)
	section, _, _ = strings.Cut(section, "\n## ")
	_, rest, found := strings.Cut(section, "```yaml\n"+start)
	require.True(t, found, "section %q of %s has no YAML that begins with %q", heading, page, start)
	yaml, _, _ := strings.Cut(rest, "```")
	return start + yaml
}

// use makes a policy of the docs the one in force, until the test ends.
func use(t *testing.T, policy string) {
	t.Helper()
	if !strings.HasPrefix(policy, "apiVersion:") { // sections of a policy
		policy = policytest.Manifest(policy)
	}
	head := nodekeep.Policy(t)
	nodekeep.SetPolicy(t, policy)
	nodekeep.RulesInForce(t)
	t.Cleanup(func() { nodekeep.SetPolicy(t, head) })
}

// apply applies objects of the docs. The API server refuses fields that their kinds do not have.
func apply(t *testing.T, objects string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "objects.yaml")
	require.NoError(t, os.WriteFile(file, []byte(objects), 0o600))
	nodekeep.MustKubectl(t, "apply", "--validate=strict", "-f", file)
}
