package classify

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/version"

	"nodekeep.dev/nodekeep/quantity"
)

// Match reports whether the whole of a text matches a pattern, in which * stands for any run of characters. For each *, its time is linear
// in both.
func Match(pattern, text string) bool {
	part, rest, wild := strings.Cut(pattern, "*")
	if !wild {
		return pattern == text
	}
	text, begins := strings.CutPrefix(text, part)
	if !begins {
		return false
	}
	for {
		if part, rest, wild = strings.Cut(rest, "*"); !wild {
			return strings.HasSuffix(text, part)
		}
		_, tail, found := strings.Cut(text, part)
		if !found {
			return false
		}
		text = tail
	}
}

// keyCharacters are what the key of a label may hold, and the wildcard.
var keyCharacters = regexp.MustCompile(`^[A-Za-z0-9._/*-]+$`)

// MatchesNoKey says why no key of a label can match a pattern; empty: a key can.
func MatchesNoKey(pattern string) (reason string) {
	switch {
	case !keyCharacters.MatchString(pattern):
		return "may hold only letters, digits, '.', '_', '-', '/' and the wildcard '*'"
	case strings.Count(pattern, "/") > 1:
		return "has more than one '/': no key can match it"
	}
	return ""
}

// comparison is an operator and what it compares with.
type comparison[T any] struct {
	operator string
	operand  T
}

// operators, the longer ones first.
func operators() []string { return []string{">=", "<=", "!=", ">", "<", "="} }

// split takes the operator off a comparison; without one it is "=".
func split(text string) (operator, rest string, given bool) {
	for _, operator := range operators() {
		if rest, found := strings.CutPrefix(text, operator); found {
			return operator, strings.TrimSpace(rest), true
		}
	}
	return "=", text, false
}

func parseQuantity(text string) (comparison[resource.Quantity], error) {
	operator, rest, _ := split(text)
	amount, err := quantity.Parse(rest)
	if err != nil {
		return comparison[resource.Quantity]{}, fmt.Errorf("must be a quantity, with >=, <=, >, <, = or != before it (%q, %q): %w", ">=1", "<64Gi", err)
	}
	return comparison[resource.Quantity]{operator, amount}, nil
}

// quantified compares what a Node has of a resource.
type quantified struct {
	name corev1.ResourceName
	comparison[resource.Quantity]
}

// versioned is a pattern, or a comparison of versions.
type versioned struct {
	pattern string
	comparison[*version.Version]
}

func parseVersioned(text string) (versioned, error) {
	operator, rest, compares := split(text)
	if !compares {
		return versioned{pattern: text}, nil
	}
	v, err := version.ParseGeneric(rest)
	if err != nil {
		return versioned{}, fmt.Errorf("must be a pattern, or a version with >=, <=, >, <, = or != before it (%q): %w", ">=1.35", err)
	}
	return versioned{comparison: comparison[*version.Version]{operator, v}}, nil
}

// parsedVersion is what a kubelet reports as a version.
type parsedVersion struct {
	read    bool
	text    string
	version *version.Version // nil: it is none
}

// parse reads the text, unless that was done before.
func (p *parsedVersion) parse(text string) *parsedVersion {
	if !p.read {
		p.read, p.text = true, text
		p.version, _ = version.ParseGeneric(text) // nil with an error
	}
	return p
}

// satisfied is holds, noted.
func (v *versioned) satisfied(trace *trace, fact string, reported *parsedVersion) truth {
	holds := v.holds(reported)
	if trace != nil {
		trace.test(fact, v.text(), reported.text, holds)
	}
	return holds
}

// text is as the policy says it.
func (v *versioned) text() string {
	if v.pattern != "" {
		return v.pattern
	}
	return v.operator + v.operand.String()
}

// holds reports whether a reported version is as wanted. One that is empty or no version is not known.
func (v *versioned) holds(reported *parsedVersion) truth {
	switch {
	case reported.text == "":
		return unknown
	case v.pattern != "":
		return truthOf(Match(v.pattern, reported.text))
	case reported.version == nil:
		return unknown
	case reported.version.LessThan(v.operand):
		return truthOf(ordered(v.operator, -1))
	case v.operand.LessThan(reported.version):
		return truthOf(ordered(v.operator, 1))
	default:
		return truthOf(ordered(v.operator, 0))
	}
}

// ordered reports whether the order of two values (-1, 0, 1) is what an operator asks for.
func ordered(operator string, order int) bool {
	switch operator {
	case ">=":
		return order >= 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	case "<":
		return order < 0
	case "!=":
		return order != 0
	default:
		return order == 0
	}
}
