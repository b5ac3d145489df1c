package classify

import (
	"slices"
	"strings"
)

// FeatureFact begins [Test.Fact] of a condition about a feature; its name follows.
const FeatureFact = "feature "

// FeaturePresent is the value of a feature that has no value of its own: a flag, or a declared feature.
const FeaturePresent = "true"

// UsedFeatures are names of features, sorted.
type UsedFeatures []string

// Equal reports whether rules use the same.
func (f UsedFeatures) Equal(o UsedFeatures) bool { return slices.Equal(f, o) }

// Empty reports whether rules use none.
func (f UsedFeatures) Empty() bool { return len(f) == 0 }

func (f *UsedFeatures) add(name string) {
	if i, known := slices.BinarySearch(*f, name); !known {
		*f = slices.Insert(*f, i, name)
	}
}

// sameDeclared reports whether two states of a Node declare the same of these.
func (f UsedFeatures) sameDeclared(a, b Facts) bool {
	return !slices.ContainsFunc(f, func(name string) bool {
		first, wasKnown := a.feature(name)
		second, isKnown := b.feature(name)
		return len(first) != len(second) || wasKnown != isKnown
	})
}

// NodeFeatures returns the features of NodeFeature objects that rules use; none: rules use no such objects.
func (r Rules) NodeFeatures() UsedFeatures { return r.uses.features }

// Declared returns the features in the status of a Node that rules use.
func (r Rules) Declared() UsedFeatures { return r.uses.declared }

// IsDeclared reports whether a feature is one that kubelets declare in the status of their Node. Such a name has no dot.
func IsDeclared(name string) bool { return !strings.Contains(name, ".") }

// CutFeature splits the name of a feature of a NodeFeature. DOMAIN.FEATURE names a set, and what follows is an element of it. A name that
// has no such parts has no element.
func CutFeature(name string) (set, element string) {
	parts := strings.SplitN(name, ".", 3)
	if len(parts) < 3 || parts[0] == "" || parts[1] == "" {
		return "", ""
	}
	return parts[0] + "." + parts[1], parts[2]
}

// featured compares a feature with a pattern.
type featured struct{ name, pattern string }

// feature returns what is known of a feature. NFD's worker starts late on a Node, as device plugins do.
func (f *Facts) feature(name string) (values []string, known bool) {
	if !IsDeclared(name) {
		values, known = f.Features[name]
		return values, known && f.PluginsRegistered
	}
	if slices.Contains(f.Declared, name) {
		values = []string{FeaturePresent}
	}
	return values, len(f.Declared) > 0 // an API server without the field drops the list
}

// provides reports whether the Node has a feature with such a value.
func (f *Facts) provides(wanted featured, trace *trace) truth {
	values, known := f.feature(wanted.name)
	holds := truthOf(slices.ContainsFunc(values, func(value string) bool { return Match(wanted.pattern, value) }))
	if holds == no && !known {
		holds = unknown
	}
	if trace != nil {
		trace.test(FeatureFact+wanted.name, wanted.pattern, strings.Join(values, ", "), holds)
		_, published := f.Features[wanted.name]
		trace.tests[len(trace.tests)-1].Plugin = holds == unknown && published
	}
	return holds
}
