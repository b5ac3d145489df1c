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
	part, rest, wild := strings.Cut(pattern, "*")
	if !wild {
		return pattern == s
	}
	s, begins := strings.CutPrefix(s, part)
	if !begins {
		return false
	}
	for {
		if part, rest, wild = strings.Cut(rest, "*"); !wild {
			return strings.HasSuffix(s, part)
		}
		at := strings.Index(s, part)
		if at < 0 {
			return false
		}
		s = s[at+len(part):]
	}
}

// domainOf is the part of a label key before the slash; empty for a key without a prefix.
func domainOf(key string) string {
	domain, _, found := strings.Cut(key, "/")
	if !found {
		return ""
	}
	return domain
}
