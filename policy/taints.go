package policy

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/record"
)

// taintPolicy is what the policy says of taints.
type taintPolicy struct {
	keep     patternSet // over taint keys
	ignore   patternSet
	owned    patternSet
	register []taintRule
	rules    []taintRule
	former   []taintRule // were in force before
}

// maxFormerRules bounds how many rules are known that are not in force any more.
const maxFormerRules = 1000

// keepsTaint is [Policy.Keeps] for a taint. What a rule put on a Node looks like any other taint; who remembers must know
// and leave it out.
func (p Policy) keepsTaint(item string) (keeps bool, why string) {
	taint := record.Taint(item, "")
	if p.gate.Is(taint) {
		return false, "it is the gate"
	}
	if pattern, ignored := p.taints.ignore.match(taint.Key); ignored {
		return false, "taints.ignore has " + pattern
	}
	if p.Registers(item) {
		return false, "taints.register puts it on once"
	}
	if _, exactly := p.taints.keep.exact[taint.Key]; exactly {
		return true, "taints.keep names it"
	}
	if owner, owned := p.taints.owned.match(taint.Key); owned {
		return false, "it belongs to " + owner
	}
	if pattern, kept := p.taints.keep.match(taint.Key); kept {
		return true, "taints.keep has " + pattern
	}
	return false, "taints.keep does not select it"
}

// Registers reports whether an item is a taint that the policy puts on at registration, on whichever Nodes.
func (p Policy) Registers(item string) bool {
	return slices.ContainsFunc(p.taints.register, func(r taintRule) bool { return record.TaintKey(r.taint) == item })
}

// RegistrationTaints are what a new Node with these labels gets once. They are sorted, valid, and unique by key and effect.
func (p Policy) RegistrationTaints(labels map[string]string) []corev1.Taint {
	return taintsFor(p.taints.register, labels)
}

// AllRegistrationTaints are those that the policy puts on at registration, on whichever Nodes.
func (p Policy) AllRegistrationTaints() []corev1.Taint {
	var all []corev1.Taint
	for _, rule := range p.taints.register {
		all = append(all, rule.taint)
	}
	return all
}

// TaintsFor are the taints that the rules want on a Node with these labels: for each key and effect that of the first rule
// that selects the Node. They are sorted, valid, and unique by key and effect.
func (p Policy) TaintsFor(labels map[string]string) []corev1.Taint {
	return taintsFor(p.taints.rules, labels)
}

// RulesMake reports whether a rule makes this very taint of some labels, or made it before; see [Policy.After].
func (p Policy) RulesMake(taint corev1.Taint) bool {
	makes := func(r taintRule) bool { return r.makes(taint) }
	return slices.ContainsFunc(p.taints.rules, makes) || slices.ContainsFunc(p.taints.former, makes)
}

// After is the policy that takes another one's place and still knows its rules, the newest first: another process may put
// on what they make for a while.
func (p Policy) After(before Policy) Policy {
	former := slices.Concat(before.taints.rules, before.taints.former)
	p.taints.former = former[:min(len(former), maxFormerRules)]
	return p
}

// FreeOf are the taints whose key and effect no other one has.
func FreeOf(taints, others []corev1.Taint) (free []corev1.Taint) {
	for _, taint := range taints {
		if !slices.ContainsFunc(others, func(other corev1.Taint) bool { return record.TaintKey(other) == record.TaintKey(taint) }) {
			free = append(free, taint)
		}
	}
	return free
}
