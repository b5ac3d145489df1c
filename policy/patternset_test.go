package policy

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestPatternSet(t *testing.T) {
	tests := map[string]struct {
		patterns []string
		key      string
		want     string // the pattern that is the reason, or empty
	}{
		"an empty set has nothing":                        {nil, "disktype", ""},
		"a whole key":                                     {[]string{"disktype"}, "disktype", "disktype"},
		"a domain":                                        {[]string{"example.com/*"}, "example.com/x", "example.com/*"},
		"a domain has no key without a domain":            {[]string{"example.com/*"}, "example.com", ""},
		"a subdomain at any depth":                        {[]string{"*.example.com/*"}, "a.b.example.com/x", "*.example.com/*"},
		"not the domain above":                            {[]string{"*.b.example.com/*"}, "example.com/x", ""},
		"not the domain itself":                           {[]string{"*.example.com/*"}, "example.com/x", ""},
		"not a domain that merely ends so":                {[]string{"*.example.com/*"}, "myexample.com/x", ""},
		"any other glob":                                  {[]string{"topology.*csi.*/*"}, "topology.ebs.csi.aws.com/zone", "topology.*csi.*/*"},
		"everything":                                      {[]string{"*"}, "disktype", "*"},
		"everything with a domain":                        {[]string{"*/*"}, "disktype", ""},
		"an empty domain is not the lack of one":          {[]string{"/*"}, "disktype", ""},
		"the whole key is a better reason than a glob":    {[]string{"*", "disktype"}, "disktype", "disktype"},
		"the first of two globs is the reason":            {[]string{"disk*", "*type"}, "disktype", "disk*"},
		"the nearest of two parent domains is the reason": {[]string{"*.c/*", "*.b.c/*"}, "a.b.c/x", "*.b.c/*"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			why, ok := setOf(tt.patterns).match(tt.key)
			assert.Equal(t, tt.want, why)
			assert.Equal(t, tt.want != "", ok)
		})
	}
}

func TestPatternSetKeepsTheFirstReason(t *testing.T) {
	var set patternSet
	for _, pattern := range []string{"x", "a/*", "*.a/*"} {
		set.add(pattern, "first")
		set.add(pattern, "second")
	}
	for _, key := range []string{"x", "a/k", "b.a/k"} {
		why, ok := set.match(key)
		assert.True(t, ok)
		assert.Equal(t, "first", why, key)
	}
}

// What is looked up in maps must be what trying every pattern would find.
func TestPatternSetAgreesWithItsPatterns(t *testing.T) {
	random, seed := seeded(t)
	pieces := []string{"a", "b", "ab", ".", "/", "*", "-", "a.b", "*.", "/*", "*.a/*", "a.b/*"}
	text := func(most int, pieces []string) string {
		var s strings.Builder
		for range 1 + random.IntN(most) {
			s.WriteString(pieces[random.IntN(len(pieces))])
		}
		return s.String()
	}
	matched := 0
	for range 50_000 {
		patterns := make([]string, 1+random.IntN(4))
		for i := range patterns {
			patterns[i] = text(4, pieces)
		}
		if agrees(t, patterns, text(6, pieces[:5])) {
			matched++
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	assert.Greater(t, matched, 1000, "too few keys match to show anything")
}

func FuzzPatternSet(f *testing.F) {
	f.Add("*", "disktype")
	f.Add("/*\n*./*", "x./y")
	f.Add("example.com/*\n*.example.com/*\ndisktype\n*/gpu.*", "a.example.com/x")
	f.Add("*.a/*\n*.*.b/*\n**", ".a/")
	f.Add("a.b/*\n*.b/*", "a.b/")
	f.Fuzz(func(t *testing.T, patterns, key string) {
		agrees(t, strings.Split(patterns, "\n"), key)
	})
}

// agrees checks the set of the patterns against trying them one by one, and reports whether the key matches. Patterns that no
// policy file may hold are left out; a label key has at most one slash.
func agrees(t *testing.T, patterns []string, key string) (matches bool) {
	t.Helper()
	patterns = slices.DeleteFunc(slices.Clone(patterns), func(p string) bool { return checkPattern(p) != nil })
	if strings.Count(key, "/") > 1 {
		return false
	}
	why, ok := setOf(patterns).match(key)
	assert.Equal(t, slices.ContainsFunc(patterns, func(p string) bool { return matchGlob(p, key) }), ok, "key %q, patterns %q", key, patterns)
	if ok {
		assert.Contains(t, patterns, why)
		assert.True(t, matchGlob(why, key), "key %q, reason %q", key, why)
	}
	return ok
}

func setOf(patterns []string) *patternSet {
	set := &patternSet{}
	for _, pattern := range patterns {
		set.add(pattern, pattern)
	}
	return set
}

// seeded is a source of chance whose seed a failing test can print.
func seeded(t *testing.T) (*rand.Rand, uint64) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0)), seed
}
