package plan

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/governance"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

// Circumstances are what a plan depends on in addition to the record and the Node.
type Circumstances struct {
	Policy  policy.Policy
	Guarded bool   // the guard policies are in force
	Cluster string // UID of the namespace kube-system; empty where it is not known
	// Ambiguous says that several records could be of this Node's machine. The Node then gets a record at once, even an empty one. Otherwise it would
	// take over one of them later, when the other Nodes of that identity are deleted.
	Ambiguous bool
	// Predecessor is what the Node's machine had under its former name, for a Node whose own name has the record of another machine; nil: nothing.
	Predecessor *record.Record
	// Devices are those of a Node, as far as rules use them; nil: they are not known.
	Devices func(node string) observe.Devices
	// Features are those of a Node's NodeFeature objects, as far as rules use them; nil: they are not known.
	Features func(node string) observe.Features
	// Inventory is what sources say of a Node, see [classify.Facts]; nil: nothing is known.
	Inventory func(*observe.Node) map[string]map[string]string
	// CreateFacts are the facts of a Node in its CREATE; nil: those that the Node itself has.
	CreateFacts *classify.Facts
	// Overdue says that the labels of the Node have broken rules of governance for as long as the policy allows.
	Overdue bool
	Refused map[string]bool // keys that the API server has refused on this very object, and that wait
	Now     time.Time
	// Trace receives the result of each rule for labels, with the reasons; nil: not needed.
	Trace *[]classify.Step
}

// facts returns what rules for labels may ask about a Node with these labels.
func (in Circumstances) facts(node *observe.Node, labels map[string]string) (facts classify.Facts) {
	if in.CreateFacts != nil {
		facts = *in.CreateFacts
		facts.Labels = labels
		return facts
	}
	facts = node.Facts(labels, in.Policy.LabelRules(), in.Now)
	if in.Devices != nil {
		facts = in.Devices(node.Name).Join(facts)
	}
	if in.Features != nil {
		facts = in.Features(node.Name).Join(facts)
	}
	if in.Inventory != nil {
		facts.Inventory = in.Inventory(node)
	}
	return facts
}

// ForLive returns the change that a Node needs, if this is its newest state. The parameter prev is the record before the observation was merged.
func ForLive(prev, r record.Record, node *observe.Node, o record.Observation, in Circumstances) Plan {
	gate := in.Policy.Gate()
	gated := gate.Present(node.Taints)
	restore := in.Policy.Restorable(node.Kept(), policy.Kept{Items: record.Missing(r, o), Machine: r.Machine}, policy.Live)
	correct, remove := record.Stale(r, o)
	slices.Sort(remove)
	p := Plan{SourceRecord: r, Withheld: restore.Withheld, Edits: slices.Concat(Set(Record, restore.Add), Set(Correction, correct), Remove(Correction, remove...))}
	p, refused := p.WithoutSettings(func(set Setting) bool { return in.Refused[set.Item] })
	refused = p.applyRules(prev, r, node, in, policy.Live) || refused
	p.add(Remove(Migration, renamedOn(node, r, in)...)...)
	final := p.ItemsOn(node)
	p.deriveTaints(node, final, node.DerivedTaints(r, in.Policy, in.Guarded), in)
	p.WriteTaintList = node.ListsTaintsThatAreGone()

	// This same change adds all that the Node still lacks. Items that were refused, have no room, or wait, keep the gate on.
	if gated && !refused && len(p.NoRoom) == 0 && r.Quarantined == nil {
		p.add(Lift(gate)...)
	}
	if gated && !node.Registered(in.Guarded) && (p.HasCause(Record) || p.LiftsGate()) { // what is removed while the Node waits is not fought over
		p.register(node, final, in.Policy)
	}
	var stamped bool
	if p.Stamp, stamped = node.Stamp(in.Guarded); !stamped && gated { // no webhook has listed them
		p.Stamp.Brought = node.KubeletLabels(r, in.Policy)
	}
	p.handOver(r, node, in)
	p.Requeue = requeueAfter(p.Rules, node, in.Now)
	return p
}

// deriveTaints adds the taints that follow from the labels of the Node after the change, which are among final. Derived taints that no longer follow are removed.
func (p *Plan) deriveTaints(node *observe.Node, final map[string]string, derived []corev1.Taint, in Circumstances) {
	taints, _ := p.TaintsOn(node)
	add, remove, foreign := compareTaints(taints, derived, in.Policy.TaintsWith(noncompliant(node, final, p.Rules, derived, in), final))
	p.Derived, p.Foreign = derivedAfter(derived, add, remove), foreign
	p.add(slices.Concat(SetTaints(Derivation, true, remove...), SetTaints(Derivation, false, add...))...)
}

// register adds what a new Node gets once.
func (p *Plan) register(node *observe.Node, final map[string]string, pol policy.Policy) {
	wanted := pol.RegistrationTaints(final)
	if len(wanted) == 0 {
		return
	}
	taints, _ := p.TaintsOn(node)
	p.add(SetTaints(Registration, false, policy.FreeOf(wanted, taints)...)...)
}

// compareTaints compares the taints of a Node, of which some are derived, with what the rules want.
func compareTaints(taints, derived, want []corev1.Taint) (add, remove, foreign []corev1.Taint) {
	for _, taint := range derived {
		if !slices.Contains(want, taint) {
			remove = append(remove, taint)
		}
	}
	others := slices.DeleteFunc(slices.Clone(taints), func(taint corev1.Taint) bool {
		taint.TimeAdded = nil // which identifies nothing
		return slices.Contains(derived, taint)
	})
	for _, taint := range want {
		switch {
		case slices.Contains(derived, taint):
		case len(policy.FreeOf([]corev1.Taint{taint}, others)) == 0:
			foreign = append(foreign, taint)
		default:
			add = append(add, taint)
		}
	}
	return add, remove, foreign
}

// noncompliant reports whether the Node should have the taint of Nodes that break a rule of governance. The parameter items is what the
// Node has after the change. A Node that this very change corrects does not get the taint. A Node that has the taint keeps it while it
// breaks a rule, whether overdue or not, because a process that has just started does not know since when the Node breaks the rule.
func noncompliant(node *observe.Node, items map[string]string, rules classify.Result, derived []corev1.Taint, in Circumstances) bool {
	taint, _, wanted := in.Policy.Governance().Noncompliant()
	breaks := func(items map[string]string) bool {
		return governance.Breaks(governance.Known(in.Policy.Governance().Violations(labelsOf(items)), rules.Blocked))
	}
	switch {
	case !wanted:
		return false
	case slices.Contains(derived, taint):
		return breaks(node.Items)
	default:
		return in.Overdue && breaks(node.Items) && breaks(items)
	}
}

// Violations returns what is wrong with the labels of a Node. A missing label breaks no rule while the rule that sets it lacks a fact.
func Violations(r record.Record, node *observe.Node, in Circumstances) []governance.Violation {
	if in.Policy.Governance().Empty() {
		return nil
	}
	violations := in.Policy.Governance().Violations(labelsOf(node.Items))
	if !slices.ContainsFunc(violations, func(v governance.Violation) bool { return v.Missing() != "" }) {
		return violations // no rule needs to be evaluated
	}
	in.Trace = nil
	var p Plan
	p.applyRules(r, r, node, in, policy.Live)
	return governance.Known(violations, p.Rules.Blocked)
}

// labelsOf returns the labels among items.
func labelsOf(items map[string]string) map[string]string {
	labels := make(map[string]string, len(items))
	for key, value := range items {
		if record.IsLabel(key) {
			labels[key] = value
		}
	}
	return labels
}

// handOver adds the field managers to give back to a plan. A PATCH makes nodekeep the manager of what it changes, so they can only be given back by
// the next PATCH. The gate stays until that one.
func (p *Plan) handOver(r record.Record, node *observe.Node, in Circumstances) {
	if slices.ContainsFunc(p.WithCause(Record, Correction), func(edit Edit) bool { // the record knows the owner
		e, _ := r.Entry(edit.Item)
		return !edit.Removed && observe.Lasting(e.Owners, in.Policy) != ""
	}) {
		p.deleteEdits(func(edit Edit) bool { return edit.Cause == Gate })
		return
	}
	owners, known := p.ownersOn(r, node, in)
	if in.Refused[ManagedFields] || len(owners) == 0 || !known && !p.LiftsGate() {
		return
	}
	if node.ManagedFields == nil { // memory does not hold them; the Node is read first
		p.Owners = owners
		return
	}
	if updated, err := observe.RestoreOwners(node.ManagedFields, owners, metav1.NewTime(in.Now.UTC().Truncate(time.Second))); err == nil {
		p.Owners, p.ManagedFields = owners, updated
	}
}

// ownersOn returns the former field managers of the labels that nodekeep restored and manages now, by label. If any of them has a known one, known is true.
func (p *Plan) ownersOn(r record.Record, node *observe.Node, in Circumstances) (owners map[string]record.Owners, known bool) {
	for _, writer := range node.Writers {
		if writer.Manager != observe.FieldManager {
			continue
		}
		changes := p.Keys()
		for _, key := range writer.Labels {
			value, shown := node.Items[key]
			_, listed := p.LabelsBefore[key]
			_, ruled := p.Labels[key]
			e, recorded := r.Entry(key)
			if !shown || listed || ruled || !recorded || e.Removed || e.Value != value || slices.Contains(changes, key) {
				continue
			}
			owners = withEntry(owners, key, observe.Lasting(e.Owners, in.Policy))
			known = known || owners[key] != ""
		}
	}
	return owners, known
}
