package contract

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// example returns the YAML of the only object of this version and kind in docs/verification.md.
func example(t *testing.T, apiVersion, kind string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/verification.md")
	require.NoError(t, err)
	var found []string
	for _, block := range regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindAllStringSubmatch(string(text), -1) {
		if strings.HasPrefix(block[1], "apiVersion: "+apiVersion+"\nkind: "+kind+"\n") {
			found = append(found, block[1])
		}
	}
	require.Len(t, found, 1, "%s %s", apiVersion, kind)
	return found[0]
}
