package capture

import (
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

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
	MachineMismatch = "MachineMismatch" // another machine registered under the name
)

// reported remembers which unreadable records were reported, by their version, so that each is reported once.
type reported struct {
	mu       sync.Mutex
	versions map[string]string
}

func newReported() *reported { return &reported{versions: map[string]string{}} }

// first reports whether this version of a Node's record has not been reported yet.
func (r *reported) first(node, version string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.versions[node] == version {
		return false
	}
	r.versions[node] = version
	return true
}

func (c *Controller) reportUnreadable(seen *Node, version string, err error) {
	if seen.UID == "" || !c.leading.Load() || !c.reported.first(seen.Name, version) {
		return
	}
	c.Logger.Error("record cannot be read; nothing is restored from it and nothing is written over it", "node", seen.Name, "error", err)
	c.Events.Eventf(reference(seen), corev1.EventTypeWarning, RecordInvalid,
		"What is remembered of this Node cannot be read, so nothing is restored and the taint %s stays if it is on: mend or delete ConfigMap %s. (%v)",
		c.Policy().Gate(), store.Name(seen.Name), err)
}

func (c *Controller) reportWrite(step Step, before, after store.Record, seen *Node) {
	c.Metrics.stepped(step)
	c.Logger.Info("record written", "node", after.Node, "step", step, "labels", len(after.Items), "withheld", len(after.Withheld.Items))
	if step == Isolate {
		c.Logger.Warn("another machine has the name of a node; nothing is restored until a person has decided", "node", after.Node)
		c.Events.Eventf(reference(seen), corev1.EventTypeWarning, MachineMismatch,
			"Another machine registered under this name; nothing is restored, and the taint %s stays if it is on. To decide: kubectl -n NAMESPACE annotate configmap %s %s=%s (what was remembered belongs to this machine) or %s=%s (it does not)",
			c.Policy().Gate(), store.Name(after.Node), store.AcceptAnnotation, store.OldMachine, store.AcceptAnnotation, store.NewMachine)
	}
	if step != Adopt {
		return
	}
	var restored []string
	for _, key := range seen.Stamp.Restored {
		if _, remembered := before.Remembered()[key]; remembered && len(seen.Owners[key]) == 0 {
			restored = append(restored, key)
		}
	}
	if len(restored) > 0 {
		c.Events.Eventf(reference(seen), corev1.EventTypeNormal, LabelsRestored, "Restored at registration: %s", strings.Join(restored, ", "))
	}
}

func (c *Controller) reportChange(done Plan, seen *Node) {
	c.Metrics.stepped(done.Step)
	c.Logger.Info("node changed", "node", seen.Name, "step", done.Step, "given", len(done.Give),
		"putRight", len(done.PutRight)+len(done.TakeBack), "gateLifted", done.LiftGate)
	if len(done.Give) > 0 {
		c.Events.Eventf(reference(seen), corev1.EventTypeNormal, LabelsGivenBack, "Gave back: %s", keyList(done.Give))
	}
	if len(done.PutRight)+len(done.TakeBack) > 0 {
		c.Events.Eventf(reference(seen), corev1.EventTypeNormal, LabelsPutRight,
			"Registration had used a record a moment too old; set: %s; removed: %s", keyList(done.PutRight), strings.Join(done.TakeBack, ", "))
	}
	if done.LiftGate {
		c.Events.Eventf(reference(seen), corev1.EventTypeNormal, GateLifted, "Nothing is left to restore; took off the taint %s", c.Policy().Gate())
	}
}

func (c *Controller) reportRefused(seen *Node, key string, refusal error) {
	c.Metrics.refusedLabel()
	c.Logger.Error("label refused; it stays remembered and the gate stays on", "node", seen.Name, "key", key, "error", refusal)
	c.Events.Eventf(reference(seen), corev1.EventTypeWarning, LabelRefused,
		"Label %s is remembered but refused, and the taint %s stays until it is taken off by hand or the policy ignores the label. (%v)",
		key, c.Policy().Gate(), refusal)
}

// reference names the Node object that an Event is about.
func reference(seen *Node) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: seen.Name, UID: seen.UID}
}

func keyList(labels map[string]string) string {
	return strings.Join(slices.Sorted(maps.Keys(labels)), ", ")
}
