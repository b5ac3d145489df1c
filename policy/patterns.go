package policy

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"nodekeep.dev/nodekeep/classify"
)

// patterns are globs over whole keys; `*` stands for any run of characters, the slash included.
type patterns []string

// match finds the first pattern that a key matches.
func (p patterns) match(key string) (pattern string, ok bool) {
	for _, pattern := range p {
		if classify.Match(pattern, key) {
			return pattern, true
		}
	}
	return "", false
}

// validate names the patterns that no key can match.
func (p patterns) validate(path *field.Path) (errs field.ErrorList) {
	for i, pattern := range p {
		switch {
		case pattern == "":
			errs = append(errs, field.Required(path.Index(i), "must be a key or a pattern for keys"))
		case classify.MatchesNoKey(pattern) != "":
			errs = append(errs, field.Invalid(path.Index(i), pattern, classify.MatchesNoKey(pattern)))
		}
	}
	return errs
}

// domainOf returns the part of a label key before the slash; empty for a key without a prefix.
func domainOf(key string) string {
	domain, _, found := strings.Cut(key, "/")
	if !found {
		return ""
	}
	return domain
}
