package classify_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/classify"
)

func TestMatch(t *testing.T) {
	tests := map[string]struct {
		pattern, key string
		want         bool
	}{
		"a whole key matches itself":                     {"disktype", "disktype", true},
		"a whole key matches no longer one":              {"disktype", "disktype2", false},
		"a whole key matches no shorter one":             {"disktype", "disktyp", false},
		"case counts":                                    {"disktype", "Disktype", false},
		"the wildcard matches everything":                {"*", "example.com/x", true},
		"the wildcard matches nothing at all":            {"*", "", true},
		"no pattern matches nothing at all":              {"", "", true},
		"no pattern matches no key":                      {"", "x", false},
		"a domain matches its keys":                      {"example.com/*", "example.com/x", true},
		"a domain matches not its subdomains":            {"example.com/*", "a.example.com/x", false},
		"a domain matches not what merely ends so":       {"example.com/*", "myexample.com/x", false},
		"subdomains match at any depth":                  {"*.example.com/*", "a.b.example.com/x", true},
		"subdomains match not the domain itself":         {"*.example.com/*", "example.com/x", false},
		"the wildcard goes past the slash":               {"a*z", "a.io/z", true},
		"a wildcard in the middle may stand for nothing": {"a*z", "az", true},
		"a prefix and a suffix may not overlap":          {"aba*aba", "aba", false},
		"a prefix and a suffix may touch":                {"aba*aba", "abaaba", true},
		"the parts come in order":                        {"*a*b*", "b-a", false},
		"a part may come twice":                          {"*a*a*", "a", false},
		"the last part is at the end":                    {"*a*b", "a-b-a", false},
		"the last part is sought from the end":           {"*ab", "abab", true},
		"a dot is a dot":                                 {"a.b", "aXb", false},
		"two wildcards are as good as one":               {"a**b", "a-b", true},
		"a beginning of a name":                          {"nvidia.com/gpu.*", "nvidia.com/gpu.count", true},
		"a beginning of a name with its dot":             {"nvidia.com/gpu.*", "nvidia.com/gpu", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want, classify.Match(tt.pattern, tt.key))
			assert.Equal(t, tt.want, matchSlowly(tt.pattern, tt.key), "the reference sees it otherwise")
		})
	}
}

func TestPatternsThatNoKeyCanMatchAreErrors(t *testing.T) {
	tests := map[string]struct {
		pattern string
		want    string // part of the error, or empty
	}{
		"a key":                  {"disktype", ""},
		"a domain":               {"example.com/*", ""},
		"everything":             {"*", ""},
		"every legal kind":       {"Aa0-_./*", ""},
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
			reason := classify.MatchesNoKey(tt.pattern)
			assert.Contains(t, reason, tt.want)
			assert.Equal(t, tt.want == "", reason == "")
		})
	}
}

func TestMatchStaysFast(t *testing.T) {
	// A matcher that goes back and tries again would need longer than the universe has.
	assert.False(t, classify.Match(strings.Repeat("a*", 200)+"b", strings.Repeat("a", 10_000)))
}

func FuzzMatch(f *testing.F) {
	for _, seed := range [][2]string{
		{"", ""}, {"*", ""}, {"**", "x"}, {"a*b*c", "a-b-c"}, {"*.example.com/*", "a.example.com/x"}, {"aba*aba", "ababa"},
		{"*a", "aa"}, {"\xff*", "\xff"}, {"a*a*a", "aa"}, {"*ab*ba*", "aba"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, key string) {
		if len(pattern)*len(key) > 1<<20 {
			t.Skip("this input is too long for the slow reference, whose time is the product of both lengths")
		}
		assert.Equal(t, matchSlowly(pattern, key), classify.Match(pattern, key))
	})
}

// matchSlowly returns the textbook's table: whether the first i bytes of the pattern match the first j of the key.
func matchSlowly(pattern, key string) bool {
	row := make([]bool, len(key)+1)
	row[0] = true
	for _, p := range []byte(pattern) {
		next := make([]bool, len(key)+1)
		for j := range next {
			if p == '*' {
				next[j] = row[j] || j > 0 && next[j-1]
			} else {
				next[j] = j > 0 && row[j-1] && p == key[j-1]
			}
		}
		row = next
	}
	return row[len(key)]
}
