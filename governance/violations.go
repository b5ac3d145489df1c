package governance

import (
	"fmt"
	"maps"
	"slices"

	"nodekeep.dev/nodekeep/classify"
)

// Violations returns what is wrong with the labels of a Node. Listed keys come first, in their order, then reserved keys, sorted.
func (r Rules) Violations(labels map[string]string) (all []Violation) {
	for i := range r.keys {
		key := &r.keys[i]
		value, ok := labels[key.Key.Key]
		if !ok {
			if key.Required {
				all = append(all, key.violation(Required, ""))
			}
			continue
		}
		if kind, wrong := key.wrong(value); wrong {
			all = append(all, key.violation(kind, value))
		}
		for _, required := range key.Requires {
			if _, ok := labels[required]; !ok {
				all = append(all, key.violation(Requires, required))
			}
		}
	}
	if len(r.settings.Reserved) == 0 {
		return all
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if glob, reserved := r.reservedBy(key); reserved {
			all = append(all, Violation{Rule: glob, Kind: Reserved, Mode: Deny, Key: key, Value: labels[key]})
		}
	}
	return all
}

func (k *compiledKey) violation(kind Kind, value string) Violation {
	return Violation{Rule: k.Key.Key, Kind: kind, Mode: k.Mode, Key: k.Key.Key, Value: value}
}

// wrong reports whether the label may not have a value, and why.
func (k *compiledKey) wrong(value string) (kind Kind, wrong bool) {
	switch {
	case k.values != nil && !k.values.Has(value):
		return Value, true
	case k.pattern != nil && !k.pattern.MatchString(value):
		return Pattern, true
	}
	return "", false
}

// reservedBy returns the first glob that reserves a key which is not listed.
func (r Rules) reservedBy(key string) (glob string, reserved bool) {
	if _, listed := r.index[key]; listed {
		return "", false
	}
	for _, glob := range r.settings.Reserved {
		if classify.Match(glob, key) {
			return glob, true
		}
	}
	return "", false
}

// String returns the violation as a sentence.
func (v Violation) String() string {
	switch v.Kind {
	case Required:
		return fmt.Sprintf("label %s is required and missing", v.Key)
	case Value:
		return fmt.Sprintf("label %s has the value %q, which is not one of its values", v.Key, v.Value)
	case Pattern:
		return fmt.Sprintf("label %s has the value %q, which does not match its pattern", v.Key, v.Value)
	case Requires:
		return fmt.Sprintf("label %s requires label %s, which is missing", v.Key, v.Value)
	default:
		return fmt.Sprintf("label %s is reserved by %s, and is not listed", v.Key, v.Rule)
	}
}

// Missing returns the key of the label whose absence is the violation. It is empty if the label is there.
func (v Violation) Missing() (key string) {
	switch v.Kind {
	case Required:
		return v.Key
	case Requires:
		return v.Value
	default:
		return ""
	}
}

// WithoutUndecided returns the violations that do not depend on facts that are not known. The parameter unknown has the keys for which a rule for labels
// lacks a fact. Such a label may still be set.
func WithoutUndecided(violations []Violation, unknown map[string]string) []Violation {
	return slices.DeleteFunc(violations, func(v Violation) bool {
		_, waits := unknown[v.Missing()]
		return waits
	})
}

// Breaks reports whether labels break a rule of mode warn or deny; one of mode audit is reported only.
func Breaks(violations []Violation) bool {
	return slices.ContainsFunc(violations, func(v Violation) bool { return v.Mode != Audit })
}

// Countable returns every rule that labels alone can break, without the labels: what a metric counts.
func (r Rules) Countable() (all []Violation) {
	for i := range r.keys {
		key := &r.keys[i]
		for _, row := range []struct {
			kind Kind
			ok   bool
		}{{Required, key.Required}, {Value, key.values != nil}, {Pattern, key.pattern != nil}, {Requires, len(key.Requires) > 0}} {
			if row.ok {
				all = append(all, Violation{Rule: key.Key.Key, Kind: row.kind, Mode: key.Mode})
			}
		}
	}
	for _, glob := range r.settings.Reserved {
		all = append(all, Violation{Rule: glob, Kind: Reserved, Mode: Deny})
	}
	return all
}
