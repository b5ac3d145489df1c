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

// pageSection returns a section of a page of the docs.
func pageSection(t *testing.T, page, heading string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(harness.Root(), "docs", page))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "# "+heading+"\n")
	require.True(t, found, "%s has no section %q", page, heading)
	rest, _, _ = strings.Cut(rest, "\n## ")
	return rest
}

// pageBlock returns the first block of a language in a section of a page that begins so.
func pageBlock(t *testing.T, page, heading, language, start string) string {
	t.Helper()
	_, rest, found := strings.Cut(pageSection(t, page, heading), "```"+language+"\n"+start)
	require.True(t, found, "section %q of %s has no block that begins with %q", heading, page, start)
	rest, _, _ = strings.Cut(rest, "```")
	return start + rest
}

// pageYAML returns the first YAML of a section of a page that begins so.
func pageYAML(t *testing.T, page, heading, start string) string {
	t.Helper()
	return pageBlock(t, page, heading, "yaml", start)
}

// usePolicy makes a policy of the docs the one in force, until the test ends.
func usePolicy(t *testing.T, policy string) {
	t.Helper()
	if !strings.HasPrefix(policy, "apiVersion:") { // sections of a policy
		policy = policytest.Manifest(policy)
	}
	head := nodekeep.Policy(t)
	nodekeep.SetPolicy(t, policy)
	nodekeep.RulesInForce(t)
	t.Cleanup(func() { nodekeep.SetPolicy(t, head) })
}

// applyStrictly applies objects of the docs. The API server refuses fields that their kinds do not have.
func applyStrictly(t *testing.T, objects string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "objects.yaml")
	require.NoError(t, os.WriteFile(file, []byte(objects), 0o600))
	nodekeep.MustKubectl(t, "apply", "--validate=strict", "-f", file)
}
