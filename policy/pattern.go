package policy

import (
	"errors"
	"regexp"
	"strings"
)

// patternCharacters are what a label key may hold, and the wildcard.
var patternCharacters = regexp.MustCompile(`^[A-Za-z0-9._/*-]+$`)

// checkPattern says what is wrong with a key pattern, or nothing.
// A pattern is a glob over the whole key: `*` stands for any run of characters, the slash included.
func checkPattern(pattern string) error {
	switch {
	case !patternCharacters.MatchString(pattern):
		return errors.New("may hold only letters, digits, '.', '_', '-', '/' and the wildcard '*'")
	case strings.Count(pattern, "/") > 1:
		return errors.New("has more than one '/': no label key can match it")
	}
	return nil
}

// matchGlob reports whether the whole of s matches pattern, in time linear in both for each wildcard.
func matchGlob(pattern, s string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == s
	}
	first, last := parts[0], parts[len(parts)-1]
	if len(s) < len(first)+len(last) || !strings.HasPrefix(s, first) || !strings.HasSuffix(s, last) {
		return false
	}
	s = s[len(first) : len(s)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(s, part)
		if at < 0 {
			return false
		}
		s = s[at+len(part):]
	}
	return true
}

// domainOf is the part of a label key before the slash; empty for a key without a prefix.
func domainOf(key string) string {
	domain, _, found := strings.Cut(key, "/")
	if !found {
		return ""
	}
	return domain
}
