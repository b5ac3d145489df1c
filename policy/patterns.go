package policy

import (
	"regexp"
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

// patternCharacters are what a label key may hold, and the wildcard.
var patternCharacters = regexp.MustCompile(`^[A-Za-z0-9._/*-]+$`)

// validate names the patterns that no key can match.
func (p patterns) validate(path *field.Path) (errs field.ErrorList) {
	for i, pattern := range p {
		switch {
		case pattern == "":
			errs = append(errs, field.Required(path.Index(i), "must be a key or a pattern for keys"))
		case !patternCharacters.MatchString(pattern):
			errs = append(errs, field.Invalid(path.Index(i), pattern, "may hold only letters, digits, '.', '_', '-', '/' and the wildcard '*'"))
		case strings.Count(pattern, "/") > 1:
			errs = append(errs, field.Invalid(path.Index(i), pattern, "has more than one '/': no key can match it"))
		}
	}
	return errs
}

// domainOf is the part of a label key before the slash; empty for a key without a prefix.
func domainOf(key string) string {
	domain, _, found := strings.Cut(key, "/")
	if !found {
		return ""
	}
	return domain
}
