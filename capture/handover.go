package capture

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/record"
)

// managedFields is the item that stands for all owners in a fight and in a refusal.
const managedFields = "metadata.managedFields"

// handOver completes a change by the owners of what nodekeep has restored. The API server books a value that changes in a PATCH under the
// manager of that PATCH. So owners go with the next one, and the gate with them.
func (c *Change) handOver(r record.Record, node *observe.Node, in Circumstances) {
	if restoresOwned(r, c.Add, in) || restoresOwned(r, c.Correct, in) {
		c.LiftGate = false
		return
	}
	owners, known := c.ownersOn(r, node, in)
	if in.Refused[managedFields] || len(owners) == 0 || !known && !c.LiftGate {
		return
	}
	if node.ManagedFields == nil { // memory does not hold them; the Node is read first
		c.Owners = owners
		return
	}
	if after, err := observe.RestoreOwners(node.ManagedFields, owners, metav1.NewTime(stored(in.Now))); err == nil {
		c.Owners, c.ManagedFields = owners, after
	}
}

// restoresOwned reports whether the record knows the owner of any of the items.
func restoresOwned(r record.Record, items map[string]string, in Circumstances) bool {
	for key := range items {
		if e, _ := r.Entry(key); observe.Lasting(e.Owners, in.Policy) != "" {
			return true
		}
	}
	return false
}

// ownersOn are the owners of what the API server books under nodekeep and nodekeep did not decide. Known says that any of it has one.
func (c *Change) ownersOn(r record.Record, node *observe.Node, in Circumstances) (owners map[string]record.Owners, known bool) {
	for _, wrote := range node.Writers {
		if wrote.Manager != observe.FieldManager {
			continue
		}
		changes := c.keys()
		for _, key := range wrote.Labels {
			value, shown := node.Items[key]
			_, listed := c.Listed[key]
			_, ruled := c.Labels[key]
			e, recorded := r.Entry(key)
			if !shown || listed || ruled || !recorded || e.Removed || e.Value != value || slices.Contains(changes, key) {
				continue
			}
			if owners == nil {
				owners = map[string]record.Owners{}
			}
			owners[key] = observe.Lasting(e.Owners, in.Policy)
			known = known || owners[key] != ""
		}
	}
	return owners, known
}

// ownerSetting is that the Node shows the owners.
func (c Change) ownerSetting() setting {
	return setting{item: managedFields, value: strings.Join(slices.Sorted(maps.Keys(c.Owners)), ", ")}
}
