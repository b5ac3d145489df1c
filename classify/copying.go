package classify

import (
	"maps"
	"slices"
)

// CopyRule is the name that the annotation, Events and explain show for labels that follow another label. No rule of a policy may have it.
const CopyRule = "migration"

// Copying returns the rules, with a copying rule before them. On Nodes that have the named label, it sets each key of sources to that label's
// value. No rule may set a label that is copied.
func (r Rules) Copying(sources map[string]string) Rules {
	if len(sources) == 0 {
		return r
	}
	first := compiled{name: CopyRule, keys: slices.Sorted(maps.Keys(sources)), sources: sources}
	r.all = slices.Concat([]compiled{first}, r.all)
	return r
}

// copy decides a key by the label that it follows. A Node without that label does not get the key.
func (e *evaluation) copy(i int, key string) Outcome {
	rule := &e.rules.all[i]
	value, ok := e.Lookup(rule.sources[key])
	if e.trace != nil {
		e.trace.tests = []Test{{Fact: "label " + rule.sources[key], Value: value, Known: true, holds: truthOf(ok)}}
	}
	if !ok {
		return False
	}
	return e.give(rule, key, derivedBy(rule, value))
}
