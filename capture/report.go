package capture

import (
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

// Reasons of the Events that capture puts on Nodes.
const (
	LabelsRestored  = "LabelsRestored"  // admission restored labels in the CREATE of this Node object
	LabelsGivenBack = "LabelsGivenBack" // capture gave labels back
	LabelsPutRight  = "LabelsPutRight"  // labels that came from a stale record were corrected
	LabelRefused    = "LabelRefused"    // the API server would not have a label
	GateLifted      = "GateLifted"      // nothing is left to give
	RecordInvalid   = "RecordInvalid"   // the record cannot be read
	RecordReset     = "RecordReset"     // the versions of a record were dropped: they can never have been right
	MachineMismatch = "MachineMismatch" // another machine registered under the name

	TaintsFollowed   = "TaintsFollowed"   // taints were put on or taken off because the labels or the rules changed
	TaintsRegistered = "TaintsRegistered" // a new Node got what the policy says at registration
	RuleTaintTaken   = "RuleTaintTaken"   // somebody else's taint has the key and effect that a rule wants
	ItemPaused       = "ItemPaused"       // another client undoes a label or taint that nodekeep sets, so nodekeep waits before it sets it again

	PolicyInvalid = "PolicyInvalid" // the policy file cannot be used; on the policy's ConfigMap
)

// policyName is the ConfigMap of the policy file in the manifests.
const policyName = "nodekeep-policy"

// reported remembers what was reported, so that it is not said again at every look.
type reported struct {
	mu      sync.Mutex
	records map[string]string                   // unreadable records: their versions by Node
	foreign map[types.UID]map[corev1.Taint]bool // taints that rules could not put on, by Node object
}

func newReported() *reported {
	return &reported{records: map[string]string{}, foreign: map[types.UID]map[corev1.Taint]bool{}}
}

// unreadable reports whether this version of a Node's record has not been reported yet.
func (r *reported) unreadable(node, version string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.records[node] == version {
		return false
	}
	r.records[node] = version
	return true
}

// taken reports which of the taints have not been reported for the Node object yet.
func (r *reported) taken(uid types.UID, taints []corev1.Taint) (news []corev1.Taint) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, taint := range taints {
		if r.foreign[uid][taint] {
			continue
		}
		if r.foreign[uid] == nil {
			r.foreign[uid] = map[corev1.Taint]bool{}
		}
		r.foreign[uid][taint] = true
		news = append(news, taint)
	}
	return news
}

// forget is called when a Node object is gone.
func (r *reported) forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.foreign, uid)
}

func (c *Controller) reportUnreadable(node *observe.Node, version string, err error) {
	c.observations.cannotRead(node.Name)
	if node.UID == "" || !c.leading.Load() || !c.reported.unreadable(node.Name, version) {
		return
	}
	c.Logger.Error("record cannot be read; nothing is restored from it and nothing is written over it", "node", node.Name, "error", err)
	c.Events.Eventf(reference(node), corev1.EventTypeWarning, RecordInvalid,
		"What is remembered of this Node cannot be read, so nothing is restored and the taint %s stays if it is on: mend or delete ConfigMap %s. (%v)",
		c.Policy().Gate(), store.Name(node.Name), err)
}

// reportVanished tells that somebody took a record away; nodekeep itself removes none of a Node that lives. What the
// Node does not show is lost.
func (c *Controller) reportVanished(node *observe.Node) {
	c.Metrics.vanishedRecord()
	c.Logger.Error("record of a live node is gone, or has lost the label by which it is found; it is written anew from what the node shows", "node", node.Name)
}

// reportWrite tells of a record that was written.
func (c *Controller) reportWrite(step Step, before, after record.Record, node *observe.Node) {
	c.Metrics.stepped(step)
	if lag, first := c.observations.stored(after.Node); first {
		c.Metrics.stored(lag)
	}
	c.Logger.Info("record written", "node", after.Node, "step", step, "entries", len(after.Entries))
	switch step {
	case Isolate:
		c.Logger.Warn("another machine has the name of a node; nothing is restored until an operator has decided", "node", after.Node)
		c.Events.Eventf(reference(node), corev1.EventTypeWarning, MachineMismatch,
			"Another machine registered under this name; nothing is restored, and the taint %s stays if it is on. To decide: kubectl -n NAMESPACE annotate configmap %s %s=%s (what was remembered belongs to this machine) or %s=%s (it does not)",
			c.Policy().Gate(), store.Name(after.Node), store.AcceptAnnotation, store.OldMachine, store.AcceptAnnotation, store.NewMachine)
	case Reset:
		c.Logger.Warn("record is not of this cluster; its values are used, its versions are dropped", "node", after.Node)
		newest := before.Newest()
		c.Events.Eventf(reference(node), corev1.EventTypeWarning, RecordReset,
			"The record of this Node was not written in this cluster: it named object %q and resourceVersion %q, but this Node is at %s. Its labels and taints are used; its versions were dropped. (ConfigMap %s)",
			newest.UID, newest.Version, node.ResourceVersion, store.Name(after.Node))
	case Update:
		c.Metrics.changed(before, after, c.Now())
	case Adopt:
		c.reportRestored(before, node)
	}
}

// reportRestored tells what admission restored on a Node object: what was given in its CREATE, and not by a PATCH since.
func (c *Controller) reportRestored(before record.Record, node *observe.Node) {
	stamp, _ := node.Stamp(c.Guard.InForce())
	var restored []string
	for key, by := range stamp.Given {
		shown, ok := node.Items[key]
		if e, known := before.Entry(key); known && !e.Removed && ok && shown == by.Value && by.Since == 0 {
			restored = append(restored, key)
		}
	}
	slices.Sort(restored)
	if len(restored) > 0 {
		c.Events.Eventf(reference(node), corev1.EventTypeNormal, LabelsRestored, "Restored at registration: %s", strings.Join(restored, ", "))
	}
}

func (c *Controller) reportChange(step Step, done Change, node *observe.Node) {
	c.Metrics.stepped(step)
	c.Metrics.gaveBack(done.Give)
	c.Logger.Info("node changed", "node", node.Name, "step", step, "given", len(done.Give),
		"corrected", len(done.Correct)+len(done.Remove), "ruleTaintsPut", len(done.Put), "ruleTaintsTaken", len(done.Take),
		"registered", len(done.Register), "gateLifted", done.LiftGate)
	if len(done.Give) > 0 {
		c.Events.Eventf(reference(node), corev1.EventTypeNormal, LabelsGivenBack, "Gave back: %s", keyList(done.Give))
	}
	if len(done.Correct)+len(done.Remove) > 0 {
		c.Events.Eventf(reference(node), corev1.EventTypeNormal, LabelsPutRight,
			"Registration had used a record a moment too old; set: %s; removed: %s", keyList(done.Correct), strings.Join(done.Remove, ", "))
	}
	if len(done.Put)+len(done.Take) > 0 {
		c.Events.Eventf(reference(node), corev1.EventTypeNormal, TaintsFollowed,
			"By the rules of the policy; put on: %s; took off: %s", orNone(policy.Shown(done.Put)), orNone(policy.Shown(done.Take)))
	}
	if len(done.Register) > 0 {
		c.Events.Eventf(reference(node), corev1.EventTypeNormal, TaintsRegistered, "Put on at registration, once: %s", policy.Shown(done.Register))
	}
	if done.LiftGate {
		c.Events.Eventf(reference(node), corev1.EventTypeNormal, GateLifted, "Nothing is left to restore; took off the taint %s", c.Policy().Gate())
	}
}

func (c *Controller) reportRefused(node *observe.Node, key string, refusal error) {
	c.Metrics.refusedLabel()
	c.Logger.Error("label refused; it stays remembered and the gate stays on", "node", node.Name, "key", key, "error", refusal)
	c.Events.Eventf(reference(node), corev1.EventTypeWarning, LabelRefused,
		"Label %s is remembered but refused, and the taint %s stays until it is taken off by hand or the policy ignores the label. (%v)",
		key, c.Policy().Gate(), refusal)
}

// reportForeign tells once of taints that rules want and somebody else has taken.
func (c *Controller) reportForeign(node *observe.Node, foreign []corev1.Taint) {
	for _, taint := range c.reported.taken(node.UID, foreign) {
		c.Logger.Warn("taint of a rule is not put on: somebody else's taint has its key and effect", "node", node.Name, "taint", taint.ToString())
		c.Events.Eventf(reference(node), corev1.EventTypeWarning, RuleTaintTaken,
			"A rule of the policy wants the taint %s, but one with this key and effect is there that nodekeep did not put on. It is left alone, now and when the label goes; take it off to let the rule have its way.",
			taint.ToString())
	}
}

// ReportPolicy tells people that the policy file cannot be used.
func (c *Controller) ReportPolicy(err error) {
	if !c.leading.Load() {
		return // the leader says it
	}
	policyMap := &corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: c.Namespace, Name: policyName}
	c.Events.Eventf(policyMap, corev1.EventTypeWarning, PolicyInvalid, "The last good policy stays in force, since this one cannot be used: %v", err)
}

// reference names the Node object that an Event is about.
func reference(node *observe.Node) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}
}

func orNone(list string) string {
	if list == "" {
		return "none"
	}
	return list
}

func keyList(labels map[string]string) string {
	return strings.Join(slices.Sorted(maps.Keys(labels)), ", ")
}
