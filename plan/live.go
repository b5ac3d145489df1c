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

// Inputs are what a plan depends on in addition to the record and the Node.
type Inputs struct {
	Policy       policy.Policy
	GuardInForce bool   // the guard policies are in force
	ClusterUID   string // UID of the namespace kube-system; empty where it is not known
	// MachineAmbiguous says that several records could be of this Node's machine. The Node then gets a record at once, even an empty one. Otherwise it would
	// take over one of them later, when the other Nodes of that identity are deleted.
	MachineAmbiguous bool
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
	// ViolationOverdue says that the labels of the Node have broken rules of governance for as long as the policy allows.
	ViolationOverdue bool
	Refused          map[string]bool // keys that the API server has refused on this very object, and that wait
	BootWaits        bool            // a boot of the machine is noted later, and the taints of the reboot come with it
	Now              time.Time
	// Trace receives the result of each rule for labels, with the reasons; nil: not needed.
	Trace *[]classify.Step
}

// facts returns what rules for labels may ask about a Node with these labels.
func (inputs Inputs) facts(node *observe.Node, labels map[string]string) (facts classify.Facts) {
	if inputs.CreateFacts != nil {
		facts = *inputs.CreateFacts
		facts.Labels = labels
		return facts
	}
	facts = node.Facts(labels, inputs.Policy.LabelRules(), inputs.Now)
	if inputs.Devices != nil {
		facts = inputs.Devices(node.Name).Join(facts)
	}
	if inputs.Features != nil {
		facts = inputs.Features(node.Name).Join(facts)
	}
	if inputs.Inventory != nil {
		facts.Inventory = inputs.Inventory(node)
	}
	return facts
}

// ForLive returns the change that a Node needs, if this is its newest state. The parameter prev is the record before the observation was merged.
func ForLive(prev, r record.Record, node *observe.Node, o record.Observation, inputs Inputs) Plan {
	gate := inputs.Policy.Gate()
	gated := gate.Present(node.Taints)
	restore := inputs.Policy.Restorable(node.KeptItems(), policy.KeptItems{Items: record.Missing(r, o), Machine: r.Machine}, policy.Live)
	correct, remove := record.Stale(r, o)
	slices.Sort(remove)
	p := Plan{SourceRecord: r, Withheld: restore.Withheld, Edits: slices.Concat(SetItems(CauseRecord, restore.Add), SetItems(CauseCorrection, correct), RemoveItems(CauseCorrection, remove...))}
	p, refused := p.WithoutItems(func(desired DesiredItem) bool { return inputs.Refused[desired.Item] })
	refused = p.applyRules(prev, r, node, inputs, policy.Live) || refused
	p.add(RemoveItems(CauseMigration, keysToRemoveAfterRename(node, r, inputs)...)...)
	itemsAfter := p.ItemsAfter(node)
	p.deriveTaints(node, itemsAfter, node.DerivedTaints(r, inputs.Policy, inputs.GuardInForce), inputs)
	p.TaintsAnnotationStale = node.ListsTaintsThatAreGone()

	// This same change adds all that the Node still lacks. Items that were refused, have no room, or wait, keep the gate on.
	if gated && !refused && len(p.LabelsWithoutRoom) == 0 && r.Quarantined == nil {
		p.add(LiftGate(gate)...)
	}
	registers := gated && !node.GotRegistrationTaints(inputs.GuardInForce)
	if registers && (p.HasCause(CauseRecord) || p.LiftsGate()) { // only in these changes: a registration taint that a client removes while the Node waits is not added again
		p.addRegistrationTaints(node, itemsAfter, inputs.Policy)
	}
	var stamped bool
	if p.StampBefore, stamped = node.Stamp(inputs.GuardInForce); !stamped && gated { // no webhook has stamped the Node: what its kubelet brought is not listed yet
		p.StampBefore.Brought = node.KubeletLabels(r, inputs.Policy)
	}
	p.restoreOwners(r, node, inputs)
	p.followBoot(node, itemsAfter, registers, inputs)
	p.RequeueAfter = requeueAfter(p.Rules, node, inputs.Now)
	return p
}

// deriveTaints adds the taints that follow from the labels of the Node after the change, which are among itemsAfter. Derived taints that no longer follow are removed.
func (p *Plan) deriveTaints(node *observe.Node, itemsAfter map[string]string, derived []corev1.Taint, inputs Inputs) {
	taints, _ := p.TaintsAfter(node)
	add, remove, conflicts := compareTaints(taints, derived, inputs.Policy.WantedTaints(noncompliant(node, itemsAfter, p.Rules, derived, inputs), itemsAfter))
	p.DerivedTaints, p.TaintConflicts = derivedAfter(derived, add, remove), conflicts
	p.add(slices.Concat(TaintEdits(CauseDerivedTaint, true, remove...), TaintEdits(CauseDerivedTaint, false, add...))...)
}

// addRegistrationTaints adds what a new Node gets once.
func (p *Plan) addRegistrationTaints(node *observe.Node, itemsAfter map[string]string, pol policy.Policy) {
	wanted := pol.RegistrationTaints(itemsAfter)
	if len(wanted) == 0 {
		return
	}
	taints, _ := p.TaintsAfter(node)
	p.add(TaintEdits(CauseRegistrationTaint, false, policy.WithoutKeys(wanted, taints)...)...)
}

// followBoot notes the boot of the machine in the stamp. A Node whose stamp names another one has rebooted: it gets again what it gets on reboot. The first
// boot that is known is only noted, so a policy that begins to ask for it taints no Node. Once noted, it is kept current under any policy, and in an
// emergency, too: its end closes no Node. If the stamp has no room for it, nothing is added: it would be added again and again.
func (p *Plan) followBoot(node *observe.Node, itemsAfter map[string]string, registers bool, inputs Inputs) {
	noted, pol := p.StampBefore.Boot, inputs.Policy
	switch {
	case inputs.BootWaits || node.BootID == "" || node.BootID == noted || noted == "" && !pol.NotesBoots():
		return
	case registers: // its taints are for this boot, and their stamp names it
		p.StampBefore.Boot = node.BootID
		return
	}
	edits := p.Edits
	if p.Boot = node.BootID; noted != "" {
		taints, _ := p.TaintsAfter(node)
		p.Edits = slices.Clone(p.Edits)
		p.add(TaintEdits(CauseRegistrationTaint, false, policy.WithoutKeys(pol.RebootTaints(itemsAfter), taints)...)...)
	}
	if p.AnnotationPatch(node)[policy.StampAnnotation] == nil {
		p.Boot, p.Edits = "", edits
	}
}

// compareTaints compares the taints of a Node, of which some are derived, with what the rules want.
func compareTaints(taints, derived, want []corev1.Taint) (add, remove, conflicts []corev1.Taint) {
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
		case len(policy.WithoutKeys([]corev1.Taint{taint}, others)) == 0:
			conflicts = append(conflicts, taint)
		default:
			add = append(add, taint)
		}
	}
	return add, remove, conflicts
}

// noncompliant reports whether the Node should have the taint of Nodes that break a rule of governance. The parameter items is what the
// Node has after the change. A Node that this very change corrects does not get the taint. A Node that has the taint keeps it while it
// breaks a rule, whether overdue or not, because a process that has just started does not know since when the Node breaks the rule.
func noncompliant(node *observe.Node, items map[string]string, rules classify.Result, derived []corev1.Taint, inputs Inputs) bool {
	taint, _, wanted := inputs.Policy.Governance().Noncompliant()
	breaks := func(items map[string]string) bool {
		return governance.Breaks(governance.WithoutUndecided(inputs.Policy.Governance().Violations(labelsOf(items)), rules.Blocked))
	}
	switch {
	case !wanted:
		return false
	case slices.Contains(derived, taint):
		return breaks(node.Items)
	default:
		return inputs.ViolationOverdue && breaks(node.Items) && breaks(items)
	}
}

// Violations returns what is wrong with the labels of a Node. A missing label breaks no rule while the rule that sets it lacks a fact.
func Violations(r record.Record, node *observe.Node, inputs Inputs) []governance.Violation {
	if inputs.Policy.Governance().Empty() {
		return nil
	}
	violations := inputs.Policy.Governance().Violations(labelsOf(node.Items))
	if !slices.ContainsFunc(violations, func(v governance.Violation) bool { return v.Missing() != "" }) {
		return violations // no rule needs to be evaluated
	}
	inputs.Trace = nil
	var p Plan
	p.applyRules(r, r, node, inputs, policy.Live)
	return governance.WithoutUndecided(violations, p.Rules.Blocked)
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

// restoreOwners adds the field managers to give back to a plan. A PATCH makes nodekeep the manager of what it changes, so they can only be given back by
// the next PATCH. The gate stays until that one.
func (p *Plan) restoreOwners(r record.Record, node *observe.Node, inputs Inputs) {
	if slices.ContainsFunc(p.WithCause(CauseRecord, CauseCorrection), func(edit Edit) bool { // the record knows the owner
		e, _ := r.Entry(edit.Item)
		return !edit.Removed && observe.RestorableOwners(e.Owners, inputs.Policy) != ""
	}) {
		p.deleteEdits(func(edit Edit) bool { return edit.Cause == CauseGate })
		return
	}
	owners, known := p.ownersToRestore(r, node, inputs)
	if inputs.Refused[ManagedFieldsItem] || len(owners) == 0 || !known && !p.LiftsGate() {
		return
	}
	if node.ManagedFields == nil { // memory does not hold them; the Node is read first
		p.RestoredOwners = owners
		return
	}
	if updated, err := observe.RestoreOwners(node.ManagedFields, owners, metav1.NewTime(inputs.Now.UTC().Truncate(time.Second))); err == nil {
		p.RestoredOwners, p.ManagedFields = owners, updated
	}
}

// ownersToRestore returns the former field managers of the labels that nodekeep restored and manages now, by label. If any of them has a known one, known is true.
func (p *Plan) ownersToRestore(r record.Record, node *observe.Node, inputs Inputs) (owners map[string]record.Owners, known bool) {
	for _, writer := range node.Writers {
		if writer.Manager != observe.FieldManager {
			continue
		}
		changes := p.EditedItems()
		for _, key := range writer.Labels {
			value, shown := node.Items[key]
			_, listed := p.RuleLabelsBefore[key]
			_, hasRule := p.RuleLabels[key]
			e, recorded := r.Entry(key)
			if !shown || listed || hasRule || !recorded || e.Removed || e.Value != value || slices.Contains(changes, key) {
				continue
			}
			owners = withEntry(owners, key, observe.RestorableOwners(e.Owners, inputs.Policy))
			known = known || owners[key] != ""
		}
	}
	return owners, known
}
