package policy

import "strings"

// patternSet finds the first reason why a key matches one of many patterns, without trying each of them:
// nearly every pattern is a whole key, "domain/*" or "*.domain/*", and those are map look-ups.
// The values say why, for people: an owner's name, or the pattern itself.
type patternSet struct {
	exact      map[string]string // "example.com/key"
	domains    map[string]string // "example.com/*"
	subdomains map[string]string // "*.example.com/*"
	globs      []reasonedGlob    // the rest, in order
	all        bool              // "*" is among the rest, and matches when nothing else does
}

type reasonedGlob struct{ pattern, why string }

func (s *patternSet) add(pattern, why string) {
	switch body, wholeDomain := strings.CutSuffix(pattern, "/*"); {
	case !strings.Contains(pattern, "*"):
		put(&s.exact, pattern, why)
	case wholeDomain && body != "" && !strings.Contains(body, "*"): // "/*" is not "every key without a domain"
		put(&s.domains, body, why)
	case wholeDomain && strings.HasPrefix(body, "*.") && !strings.Contains(body[1:], "*"):
		put(&s.subdomains, body[2:], why)
	case pattern == "*":
		s.all = true
	default:
		s.globs = append(s.globs, reasonedGlob{pattern, why})
	}
}

// match says why key is in the set; ok is false when it is not.
func (s *patternSet) match(key string) (why string, ok bool) {
	if why, ok = s.exact[key]; ok {
		return why, true
	}
	if why, ok = s.matchDomain(domainOf(key)); ok {
		return why, true
	}
	for _, glob := range s.globs {
		if matchGlob(glob.pattern, key) {
			return glob.why, true
		}
	}
	if s.all {
		return "*", true
	}
	return "", false
}

func (s *patternSet) matchDomain(domain string) (why string, ok bool) {
	if why, ok = s.domains[domain]; ok {
		return why, true
	}
	for {
		_, parent, found := strings.Cut(domain, ".")
		if !found {
			return "", false
		}
		if why, ok = s.subdomains[parent]; ok {
			return why, true
		}
		domain = parent
	}
}

func put(m *map[string]string, key, why string) {
	if *m == nil {
		*m = map[string]string{}
	}
	if _, taken := (*m)[key]; !taken {
		(*m)[key] = why
	}
}
