package capture

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/governance"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

// What a message shows at most: Nodes that a machine may have been, and bytes of texts.
const (
	maxShownNodes = 10
	maxShownNames = 512 // of these Nodes
	maxShownValue = 100 // of a value that no label can have
)

// reportDecision reports what a decision leaves undone on a Node. The parameter candidates names the Nodes that may be the same machine.
func (c *Controller) reportDecision(node *observe.Node, next Action, candidates []string, violations []governance.Violation) {
	c.reportAmbiguous(node, candidates)
	c.reportTaintConflicts(node, next.TaintConflicts)
	c.reportRules(node, next.Rules)
	c.reportInventory(node)
	c.reportLabelsWithoutRoom(node, next.LabelsWithoutRoom)
	if next.Step == NoStep { // not for labels that are about to be restored
		c.reportViolations(node, violations)
	}
}

// reportAmbiguous reports once why a machine does not get what it had under another name.
func (c *Controller) reportAmbiguous(node *observe.Node, candidates []string) {
	names := policy.Shortened(strings.Join(candidates[:min(len(candidates), maxShownNodes)], ", "), maxShownNames)
	if len(candidates) == 0 || !c.notices.First(node.UID, "ambiguous "+names) {
		return
	}
	c.Logger.Warn("machine cannot be followed: a Node that exists, or several records, have its identity", "node", node.Name, "records", names)
	c.warningEvent(node, MachineAmbiguous,
		"Only taints are restored from other names of this machine: the records of %d Nodes have its providerID, systemUUID or machineID, or one of a Node that exists, is quarantined, or was followed. Nodes: %s",
		len(candidates), names)
}

// reportTaintConflicts reports once the taints that rules want and another client has set.
func (c *Controller) reportTaintConflicts(node *observe.Node, conflicts []corev1.Taint) {
	for _, taint := range conflicts {
		if !c.notices.First(node.UID, taint.ToString()) {
			continue
		}
		c.Logger.Warn("taint of a rule is not added: another client's taint has its key and effect", "node", node.Name, "taint", taint.ToString())
		c.warningEvent(node, ItemTaken,
			"A rule of the policy wants the taint %s, but the Node has one with this key and effect that nodekeep did not add. nodekeep leaves it alone, also after the label is removed. To let the rule decide, remove the taint.",
			taint.ToString())
	}
}

// reportRules reports once what the rules for labels could not do on a Node, and what they would do.
func (c *Controller) reportRules(node *observe.Node, rules classify.Result) {
	for _, key := range slices.Sorted(maps.Keys(rules.Taken)) {
		label, value := rules.Taken[key], node.Items[key]
		if label.Rule == classify.CopyRule {
			c.reportConflict(node, key, label.Value, value)
			continue
		}
		if label.Value == value || !c.notices.First(node.UID, "taken "+key+"="+label.Value+" "+value) {
			continue
		}
		c.normalEvent(node, ItemTaken,
			"Rule %s says %s=%s, but the Node has %s=%s, which is not from a rule. It is left alone. To let the rule decide: remove the label, or give the rule precedence: rule",
			label.Rule, key, label.Value, key, value)
	}
	for _, problem := range rules.Problems {
		value := policy.Shortened(problem.Value, maxShownValue)
		if !c.notices.First(node.UID, "problem "+problem.Key+"="+value) {
			continue
		}
		c.Metrics.count(ruleInvalid, slices.Values([]string{problem.Key}))
		c.Logger.Warn("rule makes a value that no label can have; the label is not set", "node", node.Name, "key", problem.Key, "rule", problem.Rule, "value", value)
		c.warningEvent(node, RuleLabelInvalid,
			"Rule %s makes %s=%q of what this Node reports, which is no label value (%s). The label is not set; change the rule.", problem.Rule, problem.Key, value, problem.Reason)
	}
	for _, key := range slices.Sorted(maps.Keys(rules.Audited)) {
		label := rules.Audited[key]
		if label.ShownBy(node.Items, key) || !c.notices.First(node.UID, "audited "+key+"="+label.Value+" "+label.Rule) {
			continue
		}
		c.Metrics.wouldSet.WithLabelValues(label.Rule).Inc()
		verb := "set a label"
		if label.Absent {
			verb = "remove a " + kindOf(key)
		}
		c.Logger.Info("rule in audit would "+verb, "node", node.Name, "key", key, "value", label.Value, "rule", label.Rule)
	}
}

// reportConflict reports once that both keys of a migration have a value of their own.
func (c *Controller) reportConflict(node *observe.Node, key, old, value string) {
	oldKey := ""
	for _, m := range c.Policy().Migrations() {
		if m.To == key {
			oldKey = m.From
		}
	}
	if old == value || value == "" && !node.Shows(key) || !c.notices.First(node.UID, "conflict "+key+"="+old+" "+value) {
		return
	}
	c.warningEvent(node, ItemTaken,
		"The migration of label %s to %s leaves this Node alone: it has %s=%s and %s=%s. Remove or change one of the two.", oldKey, key, oldKey, old, key, value)
}

// reportInventory reports what the sources that rules use have wrong of a Node, once until that changes.
func (c *Controller) reportInventory(node *observe.Node) {
	for source, problem := range c.inventories.Problems(c.Policy(), node.Name, node.Machine.SystemUUID) {
		if !c.notices.First(node.UID, "inventory "+source+" "+problem) {
			continue
		}
		c.Logger.Warn("inventory is wrong about a node; rules do not know what is wrong, and labels stay as they are", "node", node.Name, "inventory", source, "problem", problem)
		c.warningEvent(node, FactsUnknown, "Inventory %s is wrong about this Node: %s. Rules do not know what is wrong, and their labels stay as they are. Correct the inventory.",
			source, problem)
	}
}

// reportLabelsWithoutRoom reports once which labels of rules wait because the annotations of the Node are full.
func (c *Controller) reportLabelsWithoutRoom(node *observe.Node, keys []string) {
	if len(keys) == 0 || !c.notices.First(node.UID, "no room") {
		return
	}
	c.Metrics.count(itemRefused, slices.Values(keys))
	c.Logger.Warn("annotations are full; labels of rules are not set", "node", node.Name, "keys", len(keys))
	c.warningEvent(node, LabelRefused,
		"The annotations of this Node have no room to list %d labels that rules set (%s first). They are not set, and a gate stays. Remove large annotations from the Node.",
		len(keys), keys[0])
}

// maxShownViolations bounds the message of an Event.
const maxShownViolations = 10

// reportViolations reports wrong labels of a Node, once until they change.
func (c *Controller) reportViolations(node *observe.Node, violations []governance.Violation) {
	if len(violations) == 0 {
		return
	}
	var shown []string
	for _, v := range violations[:min(len(violations), maxShownViolations)] {
		shown = append(shown, v.String())
	}
	text := strings.Join(shown, "; ")
	if len(violations) > maxShownViolations {
		text += "; and more"
	}
	if !c.notices.First(node.UID, "governance "+text) {
		return
	}
	c.Logger.Warn("labels of a node break rules of governance", "node", node.Name, "violations", len(violations))
	c.warningEvent(node, GovernanceViolated, "Labels of this Node break the policy: %s. To see all: nodekeep explain %s", text, node.Name)
}

// reportPaused reports the first pause of a fight over an item.
func (w *nodeWork) reportPaused(desired plan.DesiredItem) {
	managers := w.node.Rivals(desired.Item)
	w.Logger.Warn("another client undoes what nodekeep sets; nodekeep waits longer each time before it sets it again",
		"node", w.node.Name, "item", desired.Item, "others", managers)
	named, intent := "another one, which metadata.managedFields do not show,", "removes it"
	if len(managers) > 0 {
		named = fmt.Sprintf("%q", strings.Join(managers, ", "))
	}
	if !desired.Removed {
		intent = fmt.Sprintf("sets it to %q", desired.Value)
	}
	w.warningEvent(w.node, ItemPaused,
		"Field managers %q and %s fight over %s: nodekeep %s, and the other client undoes that within seconds. nodekeep now waits longer each time before it does so again, up to %s, and keeps the taint %s on the Node meanwhile if it is there. Stop the other client, or change the policy of nodekeep.",
		observe.FieldManager, named, describe(desired), intent, w.fights.Longest(), w.Policy().Gate())
}

func (c *Controller) reportChange(step Step, change plan.Plan, node *observe.Node) {
	restored, corrected, rules, taints, registered := change.WithCause(plan.CauseRecord), change.WithCause(plan.CauseCorrection), change.RuleEdits(), change.WithCause(plan.CauseDerivedTaint), change.WithCause(plan.CauseRegistrationTaint)
	c.Metrics.steps.WithLabelValues(string(step)).Inc()
	c.Metrics.count(itemRestored, maps.Keys(restored.Values()))
	c.Logger.Info("node changed", "node", node.Name, "step", step, "restored", len(restored), "corrected", len(corrected), "byRules", len(rules),
		"ruleTaints", len(taints), "registered", len(registered), "gateLifted", change.LiftsGate())
	if len(restored) > 0 {
		c.normalEvent(node, LabelsRestored, "Restored: %s", keyList(restored.Values()))
	}
	if len(corrected) > 0 {
		c.normalEvent(node, LabelsRestored,
			"Registration had used a record a moment too old; set: %s; removed: %s", keyList(corrected.Values()), strings.Join(corrected.Removed(), ", "))
	}
	if len(taints) > 0 {
		c.normalEvent(node, RulesApplied,
			"By the rules of the policy; added: %s; removed: %s", orNone(policy.Shown(taints.Taints(false))), orNone(policy.Shown(taints.Taints(true))))
	}
	if len(rules) > 0 {
		c.Metrics.count(ruleSet, maps.Keys(rules.Values()))
		c.Metrics.count(ruleRemoved, slices.Values(rules.Removed()))
		for _, key := range change.Drifted() {
			c.Metrics.drifted.WithLabelValues(key).Inc()
		}
		c.Metrics.count(ruleDrifted, slices.Values(change.Drifted()))
		c.normalEvent(node, RulesApplied, "By the rules of the policy; set: %s; removed: %s",
			orNone(formatLabels(rules.Values())), orNone(strings.Join(rules.Removed(), ", ")))
	}
	if len(registered) > 0 && change.Boot != "" {
		c.normalEvent(node, RulesApplied, "Added again after a reboot: %s", policy.Shown(registered.Taints(false)))
	} else if len(registered) > 0 {
		c.normalEvent(node, RulesApplied, "Added at registration: %s", policy.Shown(registered.Taints(false)))
	}
	switch {
	case change.LiftsGate() && change.ByClient:
		c.normalEvent(node, GateLifted, "An emergency is declared, so the Node is opened whatever it lacks; removed the taint %s", c.Policy().Gate())
	case change.LiftsGate():
		c.normalEvent(node, GateLifted, "Nothing is left to restore; removed the taint %s", c.Policy().Gate())
	}
}

// reportRefused reports that the API server would not have a label.
func (c *Controller) reportRefused(node *observe.Node, key string, refusal error) {
	c.Metrics.count(itemRefused, slices.Values([]string{key}))
	c.Logger.Error("label refused; it stays remembered, the gate stays on, and it is tried again", "node", node.Name, "key", key, "error", refusal)
	c.warningEvent(node, LabelRefused,
		"Label %s is recorded but refused, and the taint %s stays. It is tried again after a second, and then less and less often, up to every five minutes. To free the Node without it: remove the taint, or have the policy ignore the label. (%v)",
		key, c.Policy().Gate(), refusal)
}

// reportBootRefused reports that the API server would not have the taints of a reboot.
func (c *Controller) reportBootRefused(node *observe.Node, change plan.Plan, refusal error) {
	taints := orNone(policy.Shown(change.WithCause(plan.CauseRegistrationTaint).Taints(false)))
	c.Logger.Error("change after a reboot refused; it is tried again", "node", node.Name, "taints", taints, "error", refusal)
	c.warningEvent(node, LabelRefused,
		"The machine has rebooted, and what this Node gets again after a reboot is refused: %s. It is tried again after a second, and then less and less often, up to every five minutes. Change the admission rule that refuses it, or taints.register of the policy. (%v)",
		taints, refusal)
}

// reportUnreadable reports once that a record cannot be read.
func (c *Controller) reportUnreadable(node *observe.Node, version string, err error) {
	if node.UID == "" || !c.leading.Load() || !c.notices.First(node.UID, "record "+version) {
		return
	}
	c.Logger.Error("record cannot be read; nothing is restored from it and nothing is written over it", "node", node.Name, "error", err)
	c.warningEvent(node, RecordInvalid,
		"The record of this Node cannot be read, so nothing is restored and the taint %s stays if it is on. Correct ConfigMap %s in namespace %s, or delete it: nodekeep forget %s. (%v)",
		c.Policy().Gate(), store.Name(node.Name), c.Namespace, node.Name, err)
}

// reportVanished reports that a client removed a record, or put an older one in its place. While the Node lives, nodekeep itself does neither.
// Recorded values that the Node does not show are lost.
func (c *Controller) reportVanished(node *observe.Node) {
	c.Metrics.vanished.Inc()
	c.Logger.Error("record of a live node was deleted, put back older, or has lost the label by which it is found; it is written anew from what the node shows", "node", node.Name)
	c.warningEvent(node, RecordVanished,
		"The record of this Node was deleted, or an older one was put in its place. It is written anew from what the Node shows. Nothing is removed from the Node or reverted there. What it does not show is lost. Find out who changes ConfigMap %s in namespace %s, and take that right away.",
		store.Name(node.Name), c.Namespace)
}

// reportNearlyFull reports, once for a Node object, that the record has most of the bytes that it may have.
func (c *Controller) reportNearlyFull(r record.Record, node *observe.Node) {
	bytes, nearly := r.NearlyFull()
	if !nearly || node.UID == "" || !c.notices.First(node.UID, RecordNearlyFull) {
		return
	}
	c.Logger.Warn("record is nearly full", "node", node.Name, "bytes", bytes, "most", record.MaxBytes)
	c.warningEvent(node, RecordNearlyFull,
		"The record of this Node has %d of the %d bytes that it may have. A larger one is not written: what clients then decide is lost with the Node object. Find out who sets so many labels (nodekeep show %s --history), or name them in labels.ignore of the policy.",
		bytes, record.MaxBytes, node.Name)
}

// reportWrite reports a record that was written.
func (c *Controller) reportWrite(step Step, prev, next record.Record, node *observe.Node) {
	c.Metrics.steps.WithLabelValues(string(step)).Inc()
	c.Logger.Info("record written", "node", next.Node, "step", step, "entries", len(next.Entries))
	c.reportNearlyFull(next, node)
	switch step {
	case StepQuarantine:
		c.Logger.Warn("another machine has the name of a node; nothing is restored until an operator has decided", "node", next.Node)
		c.warningEvent(node, MachineMismatch,
			"Another machine registered under this name. Nothing is restored, and the taint %s stays if it is on. To decide: nodekeep accept record %s --machine old (the record belongs to this machine) or --machine new (it does not). Without that program: kubectl -n %s annotate configmap %s %s=%s (or %s)",
			c.Policy().Gate(), next.Node, c.Namespace, store.Name(next.Node), store.AcceptAnnotation, store.OldMachine, store.NewMachine)
	case StepEndQuarantine:
		c.Logger.Info("quarantine ended; the policy has none any more", "node", next.Node)
		got := "This machine gets what the one before had under the name; what was set on it since comes first"
		if c.Policy().TellsMachinesApart() {
			got = "This machine keeps its own. What the one before had is set aside, and comes with that machine again"
		}
		c.normalEvent(node, MachineChanged, "The policy quarantines no machine any more. %s", got)
	case StepNewMachine:
		c.Logger.Info("another machine has the name of a node and begins with nothing; the record of the one before is set aside", "node", next.Node)
		c.normalEvent(node, MachineChanged, "Another machine registered under this name, and begins with nothing. What the one before had is set aside, and comes with that machine again: nodekeep show %s", next.Node)
	case StepReturnMachine:
		c.Logger.Info("a machine has its name again", "node", next.Node)
		c.normalEvent(node, MachineChanged, "This machine had the name before, and gets the record that it had then")
	case StepResetVersions:
		c.Logger.Warn("record is not of this cluster; its values are used, its versions are dropped", "node", next.Node)
		newest := prev.Newest()
		c.warningEvent(node, RecordReset,
			"The record of this Node was not written in this cluster: it named object %q and resourceVersion %q, but this Node is at %s. Its labels and taints are used; its versions were dropped. (ConfigMap %s)",
			newest.UID, newest.Version, node.ResourceVersion, store.Name(next.Node))
	case StepUpdateRecord:
		changed, flapped := c.Metrics.churn.Compare(next.Newest().UID, prev.Items(), next.Items(), c.Now())
		c.Metrics.count(itemRecorded, slices.Values(changed))
		c.Metrics.count(itemFlapped, slices.Values(flapped))
	case StepCreateRecord:
		c.reportKeptOff(next, node)
	case StepFollowMachine:
		c.reportKeptOff(next, node)
		c.reportFollowed(next, node)
	case StepAdoptObject:
		c.reportRestored(prev, node)
		c.reportKeptOff(next, node)
	}
}

// reportFollowed reports what a Node gets from the record of another name, and what waits.
func (c *Controller) reportFollowed(next record.Record, node *observe.Node) {
	waits := "nothing"
	if next.Quarantined != nil {
		waits = keyList(next.Quarantined.Items()) + "; to decide: nodekeep accept record " + next.Node + " --machine old (they belong to this machine) or new (they do not)"
	}
	c.normalEvent(node, MachineChanged,
		"This machine was Node %s before, and gets its record. Waits for an operator: %s", next.Followed, waits)
}

// reportKeptOff reports what a Node had in its CREATE and admission removed there, because rules keep it off.
func (c *Controller) reportKeptOff(r record.Record, node *observe.Node) {
	listed := node.TrustedRuleLabels(r, c.Policy(), c.Guard.InForce())
	var removed []string
	for _, key := range slices.Sorted(maps.Keys(listed)) {
		if label := listed[key]; label.Absent && label.RemovedAtCreate {
			removed = append(removed, fmt.Sprintf("%s (rule %s)", key, label.Rule))
		}
	}
	if len(removed) > 0 {
		c.normalEvent(node, RulesApplied, "By the rules of the policy, removed at registration: %s", strings.Join(removed, ", "))
	}
}

// reportRestored reports what admission restored on a Node object. These items were set in its CREATE, not by a later PATCH.
func (c *Controller) reportRestored(prev record.Record, node *observe.Node) {
	stamp, _ := node.Stamp(c.Guard.InForce())
	var restored []string
	for key, given := range stamp.Given {
		shown, ok := node.Items[key]
		if e, known := prev.Entry(key); known && !e.Removed && ok && record.StampValue(key, shown) == given.Value && given.Version == 0 {
			restored = append(restored, key)
		}
	}
	slices.Sort(restored)
	if len(restored) > 0 {
		c.normalEvent(node, LabelsRestored, "Restored at registration: %s", strings.Join(restored, ", "))
	}
}

// normalEvent creates an Event about a Node object.
func (c *Controller) normalEvent(node *observe.Node, reason, format string, args ...any) {
	c.Events.Eventf(reference(node), corev1.EventTypeNormal, reason, format, args...)
}

// warningEvent creates an Event about a Node object that an operator should see.
func (c *Controller) warningEvent(node *observe.Node, reason, format string, args ...any) {
	c.Events.Eventf(reference(node), corev1.EventTypeWarning, reason, format, args...)
}

// reference names the Node object that an Event is about.
func reference(node *observe.Node) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}
}

// describe names what is set.
func describe(desired plan.DesiredItem) string {
	switch desired.Item {
	case plan.ManagedFieldsItem:
		return desired.Item
	case policy.TaintsAnnotation, policy.LabelsAnnotation:
		return "annotation " + desired.Item
	}
	return kindOf(desired.Item) + " " + desired.Item
}

// kindOf returns the kind of an item: label, taint or annotation.
func kindOf(item string) string {
	switch {
	case record.IsTaint(item):
		return taintKind
	case record.IsAnnotation(item):
		return annotationKind
	default:
		return labelKind
	}
}

func keyList(labels map[string]string) string {
	return strings.Join(slices.Sorted(maps.Keys(labels)), ", ")
}

// formatLabels returns labels as kubectl label takes them.
func formatLabels(labels map[string]string) string {
	var shown []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		shown = append(shown, key+"="+labels[key])
	}
	return strings.Join(shown, ", ")
}

func orNone(list string) string {
	if list == "" {
		return "none"
	}
	return list
}
