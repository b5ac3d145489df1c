package policy

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestPatternsThatNoKeyCanMatchAreErrors(t *testing.T) {
	tests := map[string]struct {
		pattern string
		want    string // part of the error, or empty
	}{
		"a key":                  {"disktype", ""},
		"a domain":               {"example.com/*", ""},
		"everything":             {"*", ""},
		"every legal kind":       {"Aa0-_./*", ""},
		"nothing":                {"", "must be a key or a pattern"},
		"a space":                {"a b", "may hold only"},
		"another wildcard":       {"disk?ype", "may hold only"},
		"a character class":      {"disk[ab]", "may hold only"},
		"a letter of no key":     {"größe", "may hold only"},
		"a line break":           {"a\n", "may hold only"},
		"bytes that are no text": {"a\xff", "may hold only"},
		"two slashes":            {"a/b/c", "more than one '/'"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			errs := patterns{"fine", tt.pattern}.validate(field.NewPath("keep"))
			if tt.want == "" {
				assert.Empty(t, errs)
			} else {
				require.Len(t, errs, 1)
				assert.Equal(t, "keep[1]", errs[0].Field)
				assert.Contains(t, errs[0].Detail, tt.want)
			}
		})
	}
}
