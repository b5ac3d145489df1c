package policy

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/record"
)

// maxFormerRules bounds how many rules are known that are not in force any more.
const maxFormerRules = 1000

// AddsAtRegistration reports whether an item is a taint that the policy adds at registration, to any Node.
func (p Policy) AddsAtRegistration(item string) bool {
	return p.verifiesBy(item) || haveTaint(p.register, item)
}

// RegistrationTaints returns what a new Node with these labels gets once; none during an emergency. They are sorted, valid, and unique by key and effect.
func (p Policy) RegistrationTaints(labels map[string]string) []corev1.Taint {
	if p.inEmergency {
		return nil
	}
	taints := taintsFor(p.register, labels)
	if profile, ok := p.verify.Match(labels); ok && !profile.ReportsOnly() {
		taints = append(taints, WithoutKeys([]corev1.Taint{profile.Taint}, taints)...)
		record.SortTaints(taints)
	}
	return taints
}

// RebootTaints returns those of taints.register that a Node with these labels gets again after a reboot; none during an emergency.
func (p Policy) RebootTaints(labels map[string]string) (taints []corev1.Taint) {
	if !p.inEmergency {
		_, taints = taintsOf(p.register, labels)
	}
	return taints
}

// NotesBoots reports whether any taint is added again after a reboot, so that the boot of each Node is noted; during an emergency, too.
func (p Policy) NotesBoots() bool {
	return slices.ContainsFunc(p.register, func(rule taintRule) bool { return rule.onReboot })
}

// AllRegistrationTaints returns those that the policy adds at registration, to any Node.
func (p Policy) AllRegistrationTaints() []corev1.Taint {
	var all []corev1.Taint
	for _, rule := range p.register {
		all = append(all, rule.taint)
	}
	return append(all, p.verify.Taints()...)
}

// TaintsFor returns the taints that the rules want on a Node with these labels. For each key and effect, the first rule that selects the Node
// decides. The taints are sorted, valid, and unique by key and effect.
func (p Policy) TaintsFor(labels map[string]string) []corev1.Taint {
	return taintsFor(p.rules, labels)
}

// RulesMake reports whether a rule makes this very taint of some labels, or made it before; see [Policy.WithPredecessor].
func (p Policy) RulesMake(taint corev1.Taint) bool {
	makes := func(r taintRule) bool { return r.makes(taint) }
	return slices.ContainsFunc(p.rules, makes) || slices.ContainsFunc(p.former, makes) || slices.ContainsFunc(p.noncompliantRule(), makes)
}

// WithPredecessor returns the policy that replaces another one and still knows its rules, the newest first. Another process may add taints of these rules
// for a while. It also still knows the keys of verification: Nodes have that label and taint until verification removes them.
func (p Policy) WithPredecessor(prev Policy) Policy {
	former := slices.Concat(prev.rules, prev.noncompliantRule(), prev.former)
	p.former = former[:min(len(former), maxFormerRules)]
	p.formerLabels = prev.setLabels()
	p.formerVerify = prev.verificationKeys()
	return p
}

// WithoutKeys returns the taints whose key and effect no other one has.
func WithoutKeys(taints, rest []corev1.Taint) (free []corev1.Taint) {
	for _, taint := range taints {
		if !slices.ContainsFunc(rest, func(candidate corev1.Taint) bool { return record.TaintKey(candidate) == record.TaintKey(taint) }) {
			free = append(free, taint)
		}
	}
	return free
}

// parseTaint takes a taint, as kubectl taint writes it, apart without judging it.
func parseTaint(text string) corev1.Taint {
	taint := record.Taint(text, "")
	taint.Key, taint.Value, _ = strings.Cut(taint.Key, "=")
	return taint
}
