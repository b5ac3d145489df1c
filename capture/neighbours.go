package capture

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"nodekeep.dev/nodekeep/capture/brake"
	"nodekeep.dev/nodekeep/capture/fleet"
	"nodekeep.dev/nodekeep/capture/inventories"
	"nodekeep.dev/nodekeep/capture/rollout"
	"nodekeep.dev/nodekeep/inventory"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/policy"
)

// This file connects the controller with the parts of capture that work on all Nodes at once: inventories, rollout and brake.

func (c *Controller) newInventories() *inventories.Sources {
	return inventories.New(inventories.Options{
		Notes: c.notes, Files: c.InventoryFiles, Policy: c.Policy, Controller: c, Records: c.Records, ClusterUID: c.ClusterUID, Now: c.Now, Logger: c.Logger,
		CountAltered: func(p policy.Policy, replacements map[string]inventory.Snapshot) (altered, total int) {
			altered, _, total = c.countAlteredNodes(p, replacements)
			return altered, total
		},
		OnChange: func() { c.rollout.Trigger(); c.enqueueAll() },
		Warn:     c.policyWarningEvent,
	})
}

func (c *Controller) newRollout() *rollout.Rollout {
	return rollout.New(rollout.Options{
		Notes: c.notes, Policy: c.Policy, Manifest: c.PolicySource.Accepted, Controller: c, Now: c.Now, Logger: c.Logger,
		FeaturesKnown: c.features.known,
		RulesJudgeable: func(p policy.Policy) bool {
			return c.devices.rulesJudgeable(p) && c.features.rulesJudgeable(p) && c.inventories.Known(p)
		},
		CountAltered: func(p policy.Policy) (changed, renamed, total int) { return c.countAlteredNodes(p, nil) },
		CountMigrations: func(p policy.Policy) map[policy.MigrationState]int {
			return fleet.CountMigrations(c.everyNode(), p, c.Guard.InForce())
		},
		OnRelease: c.enqueueAll,
		Warn:      c.policyWarningEvent,
	})
}

func (c *Controller) newBrake() *brake.Brake {
	return brake.New(brake.Options{Notes: c.notes, Live: c.LiveNodes, Warn: c.policyWarningEvent, Now: c.Now, Logger: c.Logger})
}

// countAlteredNodes counts on how many Nodes rules would change labels. Snapshots in replacements count instead of those that are in force.
func (c *Controller) countAlteredNodes(p policy.Policy, replacements map[string]inventory.Snapshot) (changed, renamed, total int) {
	return fleet.CountAltered(c.everyLiveNode(), plan.Inputs{
		Policy: p, GuardInForce: c.Guard.InForce(), Devices: c.devices.factsByNode(p), Features: c.features.factsByNode(p), Inventory: c.inventories.FactsFunc(p, replacements), Now: c.Now(),
	})
}

// everyNode returns each Node that lives, and each that there is a record of, as memory has them.
func (c *Controller) everyNode() iter.Seq[fleet.Node] {
	return func(yield func(fleet.Node) bool) {
		for name := range sets.New(c.observations.names()...).Insert(c.Records.NodeNames()...) {
			entry, err := c.Records.Get(name)
			if _, live := c.observations.get(name); !yield(fleet.Node{Live: live, Record: entry.Record, Recorded: err == nil}) {
				return
			}
		}
	}
}

// everyLiveNode returns each Node that lives, with its record, as memory has them.
func (c *Controller) everyLiveNode() iter.Seq[fleet.Node] {
	return func(yield func(fleet.Node) bool) {
		for _, name := range c.observations.names() {
			_, live := c.observations.get(name)
			if live == nil {
				continue
			}
			entry, err := c.Records.Get(name)
			if !yield(fleet.Node{Live: live, Record: entry.Record, Recorded: err == nil}) {
				return
			}
		}
	}
}

// SystemUUIDs returns the systemUUIDs that the Nodes which are there report.
func (c *Controller) SystemUUIDs() map[string]string {
	live := map[string]string{}
	for _, name := range c.observations.names() {
		if _, node := c.observations.get(name); node != nil && node.Fault == nil {
			live[name] = node.Machine.SystemUUID
		}
	}
	return live
}

// HeldRules returns the rules of the policy in force that wait for an operator; nil: none do. It is not known before their Nodes are counted.
func (c *Controller) HeldRules() (held *rollout.HeldRules, known bool) { return c.rollout.HeldRules() }

// maxShownError is how many bytes of the errors in a policy are shown in an Event.
const maxShownError = 4 << 10

// ReportPolicy reports that the NodePolicy cannot be used, or was deleted.
func (c *Controller) ReportPolicy(err error) {
	if !c.leading.Load() {
		return // the leader says it
	}
	c.policyWarningEvent(PolicyInvalid, "The last good policy stays in force: %v", policy.Shortened(err.Error(), maxShownError))
}

// policyWarningEvent creates an Event about the NodePolicy. kubectl describe shows the Event only with its UID. An Event without it is better than
// none.
func (c *Controller) policyWarningEvent(reason, format string, args ...any) {
	about := &corev1.ObjectReference{APIVersion: "nodekeep.dev/v1alpha1", Kind: "NodePolicy", Name: "default", UID: c.PolicySource.UID()}
	c.Events.Eventf(about, corev1.EventTypeWarning, reason, format, args...)
}
