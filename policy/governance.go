package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/governance"
	"nodekeep.dev/nodekeep/record"
)

// Governance returns the section governance: which labels may have which values, and who may set them. Without the section it governs nothing.
func (p Policy) Governance() governance.Rules { return p.governance }

// readGovernance checks the section governance: what [governance.Compile] checks, and that its keys and its taint are not another's. What it
// demands is not what labels.rules, at the path at, break.
func (p *Policy) readGovernance(settings governance.Settings, path *field.Path, rules []classify.Rule, fieldPath *field.Path) field.ErrorList {
	compiled, errs := governance.Compile(settings, path)
	for i, rule := range rules {
		errs = append(errs, breaks(compiled, rule, fieldPath.Index(i))...)
	}
	for i, key := range settings.Keys {
		if isOrUnder(domainOf(key.Key), "nodekeep.dev") {
			errs = append(errs, field.Forbidden(path.Child("keys").Index(i).Child("key"), "it belongs to nodekeep itself"))
		}
	}
	for i, glob := range settings.Reserved {
		for _, key := range systemLabels() {
			if classify.Match(glob, key) {
				errs = append(errs, field.Forbidden(path.Child("reserved").Index(i), fmt.Sprintf("it matches %s, which Kubernetes or nodekeep sets", key)))
				break
			}
		}
	}
	if problem := p.forbidsNoncompliantTaint(parseTaint(settings.Noncompliant.Taint)); problem != "" {
		errs = append(errs, field.Forbidden(path.Child("noncompliant", "taint"), problem))
	}
	if len(errs) == 0 {
		p.governance = compiled
	}
	return errs
}

// breaks returns where a rule for labels is against governance of mode warn or deny. Each Node of the rule would break it. Values that facts make are
// not known here, but for those that the rule's table lists.
func breaks(governed governance.Rules, rule classify.Rule, path *field.Path) (errs field.ErrorList) {
	for _, key := range slices.Sorted(maps.Keys(rule.Set)) {
		value := rule.Set[key]
		errs = append(errs, against(governed, key, value, path.Child("set").Key(key))...)
		listed := rule.Listed(key)
		for _, text := range slices.Sorted(maps.Keys(listed)) {
			errs = append(errs, against(governed, key, listed[text], path.Child("values").Key(text))...)
		}
	}
	for i, item := range rule.EnsureAbsent {
		errs = append(errs, removesRequired(governed, item, path.Child("ensureAbsent").Index(i))...)
	}
	return errs
}

// against returns why a label must not have a value that is set there.
func against(governed governance.Rules, key, value string, path *field.Path) (errs field.ErrorList) {
	for _, v := range governed.Violations(map[string]string{key: value}) {
		varies := v.Kind != governance.Reserved && strings.Contains(value, "{")
		if v.Key == key && v.Kind != governance.Requires && v.Mode != governance.Audit && !varies {
			errs = append(errs, field.Invalid(path, value, "is against governance: "+v.String()))
		}
	}
	return errs
}

// removesRequired returns why the policy must not remove a label there: governance of mode warn or deny requires it.
func removesRequired(governed governance.Rules, key string, path *field.Path) (errs field.ErrorList) {
	for _, v := range governed.Violations(nil) {
		if v.Key == key && v.Mode != governance.Audit {
			errs = append(errs, field.Invalid(path, key, "is against governance: "+v.String()))
		}
	}
	return errs
}

// systemLabels returns labels that components of Kubernetes and nodekeep add to Nodes. A reserved key that matches them would stop these components.
func systemLabels() []string {
	return []string{
		corev1.LabelHostname, corev1.LabelOSStable, corev1.LabelArchStable, "beta.kubernetes.io/os", corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone,
		corev1.LabelInstanceTypeStable, "node-role.kubernetes.io/control-plane", corev1.LabelNodeExcludeBalancers, "nodekeep.dev/verified",
	}
}

// forbidsNoncompliantTaint returns why a taint must not be that of Nodes which break a rule; empty: it may.
func (p Policy) forbidsNoncompliantTaint(taint corev1.Taint) (problem string) {
	if taint.Key == "" {
		return ""
	}
	item := record.TaintKey(taint)
	owner, owned := taintOwners().lookup(taint.Key)
	switch {
	case p.gate.Matches(taint):
		return "it is the gate, which nodekeep adds and removes by itself"
	case owned:
		return "it belongs to " + owner
	case p.verifies(item):
		return "verification adds and removes it"
	case p.AddsAtRegistration(item):
		return "taints.register adds it"
	case haveTaint(p.rules, item):
		return "taints.rules add a taint of this key and effect"
	case p.labelRules.Sets(item):
		return "labels.rules remove it"
	}
	return ""
}

// noncompliantRule returns the taint of Nodes that break a rule of governance, as a taint rule. It is empty if there is no such taint.
func (p Policy) noncompliantRule() []taintRule {
	taint, _, ok := p.governance.Noncompliant()
	if !ok {
		return nil
	}
	return []taintRule{{selector: labels.Everything(), taint: taint}}
}

// WantedTaints are [Policy.TaintsFor], and the taint of Nodes that break a rule of governance.
func (p Policy) WantedTaints(noncompliant bool, labels map[string]string) []corev1.Taint {
	taints := p.TaintsFor(labels)
	if noncompliant {
		taints = append(taints, taintsFor(p.noncompliantRule(), labels)...)
		record.SortTaints(taints)
	}
	return taints
}
