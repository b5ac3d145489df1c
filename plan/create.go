package plan

import (
	"maps"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

// ForCreate returns what a Node gets in its CREATE. Labels that no kubelet may carry there are edits for later. The parameter r is what may be restored:
// the zero Record if nothing may be. Whether the gate is closed or lifted is left to the caller, which knows whether the record is current.
func ForCreate(node *observe.Node, r record.Record, in Circumstances, occasion policy.Occasion) Plan {
	restore := in.Policy.Restorable(node.Kept(), policy.Kept{Items: r.Items(), Machine: r.Machine}, occasion)
	p := Plan{SourceRecord: r, Withheld: restore.Withheld, Edits: Set(Record, restore.Add)}
	for _, edit := range Set(Record, restore.Protected) {
		edit.Later = true
		p.Edits = append(p.Edits, edit)
	}
	base := r
	if node.Machine.Compare(r.Machine) != record.SameMachine {
		base.Derived = nil
	}
	p.applyRules(base, r, node, in, occasion)
	for key, label := range p.Labels {
		label.Brought = label.Absent && node.Shows(key)
		p.Labels[key] = label
	}
	final := p.ItemsOn(node)
	p.deriveTaints(node, final, nil, in)
	p.register(node, final, in.Policy)
	return p
}

// RuledNow returns the labels that rules set in this request, and the items that they remove. Those in RuledLater wait for capture.
func (p Plan) RuledNow() map[string]record.Derived {
	labels := p.Labels
	for key := range p.RuledLater() {
		if len(labels) == len(p.Labels) {
			labels = maps.Clone(labels)
		}
		delete(labels, key)
	}
	return labels
}

// RuledLater returns the labels that rules set and that wait for capture.
func (p Plan) RuledLater() (later map[string]record.Derived) {
	for _, edit := range p.Edits {
		if edit.Later && edit.Cause == Rule {
			later = withEntry(later, edit.Item, p.Labels[edit.Item])
		}
	}
	return later
}

// Inline returns the plan that sets the labels which no kubelet may carry already in the CREATE, for the second webhook, which runs after
// NodeRestriction (protected: inline). Labels of labels.defer still wait for capture, and then the gate is not lifted. If the Node would
// still lack anything else, ok is false.
func (p Plan) Inline(pol policy.Policy) (inline Plan, ok bool) {
	if len(p.NoRoom) > 0 {
		return Plan{}, false
	}
	inline, deferred := Plan{SourceRecord: p.SourceRecord, Withheld: p.Withheld}, false
	for _, edit := range p.Edits {
		switch pattern, _ := pol.Defers(edit.Item); {
		case !edit.Later && edit.Cause == Record:
			return Plan{}, false
		case !edit.Later:
		case pattern != "":
			deferred = true
		default:
			edit.Later = false
			inline.Edits = append(inline.Edits, edit)
			if edit.Cause == Rule {
				inline.Labels = withEntry(inline.Labels, edit.Item, p.Labels[edit.Item])
			}
		}
	}
	if len(inline.Edits) == 0 {
		return Plan{}, false
	}
	if !deferred {
		inline.add(Lift(pol.Gate())...)
	}
	return inline, true
}

// Brought returns the items that the Node has in its CREATE and keeps, and that are recorded or the kubelet's, with the values that the Node has. If one
// of them is missing later, a client has removed it from this object.
func (p Plan) Brought(node *observe.Node, r record.Record, pol policy.Policy, occasion policy.Occasion) map[string]string {
	brought := kubeletsOwn(node, r, pol, occasion)
	for _, e := range r.Entries {
		if value, ok := node.Items[e.Key]; ok && !e.Removed && !pol.Gate().Matches(record.Taint(e.Key, "")) {
			brought[e.Key] = record.Listed(e.Key, value)
		}
	}
	for _, edit := range p.Edits {
		if edit.Cause == Record && !edit.Later {
			delete(brought, edit.Item)
		}
	}
	for key := range p.RuledNow() {
		delete(brought, key)
	}
	return brought
}

// kubeletsOwn returns the labels that the kubelet sets and that the record has no value of, and the startup taints: those that the kubelet sets each
// time and a controller removes each time. The stamp has to list both. The API server can lose the managedFields that show whose a label is, and
// managedFields never show whose a single taint is.
func kubeletsOwn(node *observe.Node, r record.Record, pol policy.Policy, occasion policy.Occasion) map[string]string {
	own := map[string]string{}
	if occasion != policy.CreateByKubelet || len(node.Items) > maxItems {
		return own
	}
	for key, value := range node.Items {
		e, known := r.Entry(key)
		label, startupTaint := record.IsLabel(key) && (!known || e.Removed), record.IsTaint(key) && known && e.Removed
		if (label || startupTaint) && pol.Selects(key) {
			own[key] = record.Listed(key, value)
		}
	}
	if len(own) > policy.MaxOwn {
		clear(own)
	}
	return own
}

// maxItems bounds the work for one object. No real Node has so many items.
const maxItems = 1000
