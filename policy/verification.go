package policy

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/verify"
)

// maxFormerKeys bounds how many keys are known that verification used before.
const maxFormerKeys = 100

// Verify returns the section verify: which Nodes are checked before they take workloads. Without the section it selects no Node.
func (p Policy) Verify() verify.Profiles { return p.verify }

// startupTaints returns keys under which autoscalers expect taints of a Node that is starting. They know such a Node will take Pods.
func startupTaints() patterns {
	return patterns{"startup-taint.cluster-autoscaler.kubernetes.io/*", "ignore-taint.cluster-autoscaler.kubernetes.io/*"}
}

// readinessTaints returns keys of taints that a Node has until it is ready for workloads. Karpenter does not take such a taint as permanent.
func readinessTaints() patterns { return patterns{"readiness.k8s.io/*"} }

// verifies reports whether an item is the label or a taint of verification, now or before. It is the state of one Node object. A restored
// label would claim a check that never ran. A restored taint would ask for a check that no controller makes.
func (p Policy) verifies(item string) bool {
	if record.IsLabel(item) {
		return item == verify.Label || item == p.verify.Label || p.formerVerify.Has(item)
	}
	return record.IsTaint(item) && (record.Taint(item, "").Key == verify.Taint || p.verifiesBy(item) || p.formerVerify.Has(item))
}

// verifiesBy reports whether an item is a taint of a profile.
func (p Policy) verifiesBy(item string) bool {
	return record.IsTaint(item) && p.verify.IsTaint(record.Taint(item, ""))
}

// verificationKeys returns the label and the taints of verification, as items, and those before while there is room.
func (p Policy) verificationKeys() sets.Set[string] {
	keys := sets.New[string]()
	if p.verify.Label != "" {
		keys.Insert(p.verify.Label)
	}
	for _, taint := range p.verify.Taints() {
		for _, effect := range []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute} {
			taint.Effect = effect
			keys.Insert(record.TaintKey(taint))
		}
	}
	return withFormer(keys, p.formerVerify, maxFormerKeys)
}

// setByVerification reports whether only the verification controller owns a label. Such a label is of a policy that this process never
// knew.
func setByVerification(managers []string) bool {
	return len(managers) > 0 && !slices.ContainsFunc(managers, func(manager string) bool { return manager != verify.Manager })
}

// readVerification checks the section verify: what [verify.Compile] checks, and that its keys are not another's.
func (p *Policy) readVerification(settings verify.Settings, path *field.Path) field.ErrorList {
	compiled, errs := verify.Compile(settings, path)
	if problem := p.forbidsVerifiedLabel(settings.Label); problem != "" {
		errs = append(errs, field.Forbidden(path.Child("label"), problem))
	}
	for i, profile := range settings.Profiles {
		if problem := p.forbidsVerificationTaint(parseTaint(profile.Taint)); problem != "" {
			errs = append(errs, field.Forbidden(path.Child("profiles").Index(i).Child("taint"), problem))
		}
	}
	if len(errs) == 0 {
		p.verify = compiled
	}
	return errs
}

// forbidsVerifiedLabel returns why verification must not set a label; empty: it may.
func (p Policy) forbidsVerifiedLabel(key string) (problem string) {
	if key == "" || key == verify.Label {
		return ""
	}
	owner, owned := p.labels.catalogue.setsAgain(key)
	switch {
	case isOrUnder(domainOf(key), "nodekeep.dev"):
		return "it belongs to nodekeep itself; the label of verification is " + verify.Label + " or one of your own"
	case owned && !IsNodeRestriction(key):
		return "it belongs to " + owner
	case p.labelRules.Sets(key):
		return "labels.rules set or remove it"
	}
	return ""
}

// forbidsVerificationTaint returns why a taint must not be that of a profile; empty: it may.
func (p Policy) forbidsVerificationTaint(taint corev1.Taint) (problem string) {
	if taint.Key == "" || taint.Key == verify.Taint && !p.gate.Matches(taint) {
		return ""
	}
	sameKey := func(rule taintRule) bool { return rule.taint.Key == taint.Key }
	_, temporary := slices.Concat(startupTaints(), readinessTaints()).match(taint.Key)
	owner, owned := taintOwners().lookup(taint.Key)
	switch {
	case p.gate.Matches(taint):
		return "it is the gate, which nodekeep adds and removes by itself"
	case isOrUnder(domainOf(taint.Key), "nodekeep.dev"):
		return "it belongs to nodekeep itself; the taint of verification is " + verify.Taint + " or one of your own"
	case owned && !temporary:
		return "it belongs to " + owner
	case slices.ContainsFunc(p.register, sameKey):
		return "taints.register adds a taint of this key: verification registers its taint by itself"
	case slices.ContainsFunc(p.rules, sameKey):
		return "taints.rules add a taint of this key: they would add it again after the Node has passed"
	case p.labelRules.Sets(record.TaintKey(taint)):
		return "labels.rules remove it: no Node would be checked"
	}
	return ""
}

// Warnings are about what is valid and may not be meant.
func (p Policy) Warnings() (warnings []string) {
	for _, s := range []section{p.labels, p.taints} {
		switch {
		case len(s.keep) == 0:
			warnings = append(warnings, s.name+".keep is empty: no "+strings.TrimSuffix(s.name, "s")+" is kept or restored. To keep all, leave the field out")
		case slices.Contains(s.ignore, "*"):
			warnings = append(warnings, s.name+".ignore has *: no "+strings.TrimSuffix(s.name, "s")+" is kept or restored")
		}
	}
	warnings = append(warnings, p.managerWarnings()...)
	warnings = append(warnings, p.RuleWarnings()...)
	if p.accept != "" && !p.AcceptsRules() {
		warnings = append(warnings, fmt.Sprintf("accept is %s, and accepts nothing: the rules and migrations have the hash %s", p.accept, p.RulesHash()))
	}
	for _, profile := range p.verify.All() {
		keys, _ := keysOf(profile.Selector)
		keys = slices.DeleteFunc(keys, func(key string) bool { return !AllowedForKubelet(key) })
		if len(keys) > 0 {
			warnings = append(warnings, fmt.Sprintf("verify.profiles: %s selects by %s, which a kubelet may set on its own Node: it can choose another profile, or none", profile.Name, strings.Join(keys, ", ")))
		}
	}
	return append(warnings, p.removalWarnings()...)
}
