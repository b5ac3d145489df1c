package capture

import (
	"hash/fnv"
	"unique"

	"nodekeep.dev/nodekeep/contain"
	"nodekeep.dev/nodekeep/observe"
)

// A resync repairs what no event has brought. It reconciles only Nodes whose inputs have changed since there was nothing to do: with 100,000 Nodes, all
// decisions together take seconds.

// resyncsPerFullResync is in how many resyncs each Node is reconciled once, whatever its inputs are. That repairs what this file might not know of. At the
// default interval, it takes an hour.
const resyncsPerFullResync = 12

// resyncInputs are those inputs of a reconcile that can change without an event of the Node's own, or with a lost one. While they stay the same, a Node that
// had nothing to do has nothing to do. [observations] keep them, and drop them if something is left to do.
//
// All other inputs of a reconcile lead to the Node by themselves:
//
//   - the Node: a state that differs is pending ([observations.observeLive]). Other states are heartbeats. Of a heartbeat, only the size of the
//     annotations matters.
//   - the policy: [Controller.EnqueueAll]
//   - what the API server refused (refusals): a Node with a refused item is queued for the end of its pause
//   - that this process leads: [Controller.Lead]
//   - time: a Node with something due later is queued for that time. It does not count as idle until then ([Controller.requeueAfter]).
//   - the API server's state: a Node does not count as idle if it or its record was read live. Memory may be stale then.
//   - records of other Nodes: a Node without a record may follow its machine, so it never counts as idle
//   - fights, both coalescers, the pace and standby: they only delay what is to be done
type resyncInputs struct {
	recordVersion string // version of the ConfigMap; empty: there is no record
	devices       observe.Devices
	features      observe.Features
	annotations   int // bytes, of other clients
	shared        unique.Handle[sharedInputs]
}

// sharedInputs are equal for all Nodes.
type sharedInputs struct {
	guardInForce bool   // the guard policies are in force
	clusterUID   string // the UID of namespace kube-system, by which records name their cluster
	held         bool   // rules must only add labels
	inventory    string // which snapshots are in force and not stale
}

// resyncInputsOf returns those of a Node now; the zero value if it must be reconciled in any case.
func (c *Controller) resyncInputsOf(name string) resyncInputs {
	p := c.Policy()
	entry, _ := c.Records.Get(name) // of an unreadable record, the version says that it has changed
	if entry.Version == "" && p.Follows() {
		return resyncInputs{}
	}
	return resyncInputs{
		recordVersion: entry.Version, devices: c.devices.factsOf(name, p), features: c.features.factsOf(name, p), annotations: c.observations.annotationBytes(name),
		shared: unique.Make(sharedInputs{
			guardInForce: c.Guard.InForce(), clusterUID: c.ClusterUID(), held: c.rulesHeld(p), inventory: c.inventories.InForceKey(p),
		}),
	}
}

// resync queues the Nodes that may have something to do. round is how many resyncs there were before.
func (c *Controller) resync(round uint32) {
	for _, name := range c.observations.names() {
		unchanged := false
		_ = contain.Call(func() error { // a panic counts as changed; the reconcile that follows reports it
			unchanged = !dueForFullResync(name, round) && c.observations.unchangedSinceIdle(name, c.resyncInputsOf(name))
			return nil
		})
		if !unchanged {
			c.queue.Add(name)
		}
	}
	for _, name := range c.Records.NodeNames() {
		if !c.observations.tracks(name) {
			c.queue.Add(name)
		}
	}
}

// dueForFullResync spreads the Nodes evenly over the rounds.
func dueForFullResync(name string, round uint32) bool {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(name)) // never fails
	return (hash.Sum32()+round)%resyncsPerFullResync == 0
}
