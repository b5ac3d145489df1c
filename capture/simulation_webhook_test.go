//go:build oldcore

package capture

import (
	"maps"
	"slices"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// simWebhook is one replica of the webhook: what the design says of it, with a cache of records that lags.
type simWebhook struct {
	down  bool
	stale bool           // its watch has made no progress for long, and it knows
	heard map[string]int // how much of each record's history its watch has brought
	own   map[string]int // writes of its own that the watch has not brought yet; the same measure
}

func (h *simWebhook) inMemory(name string) int { return max(h.heard[name], h.own[name]) }

// review is what a replica does to a Node that is about to be created.
func (w *world) review(h *simWebhook, n *simNode, occasion policy.Occasion) {
	var record store.Record
	if at := h.inMemory(n.name); at > 0 {
		record = w.history[n.name][at-1].Record
	}
	remembered, brought := record.Remembered(), n.items()
	restore := w.policy.Missing(policy.Kept{Items: brought, Machine: policy.Machine{SystemUUID: n.machine}}, policy.Kept{Items: remembered, Machine: policy.Machine(record.Machine)}, occasion)
	var carried []string
	broughtTaints := map[string]string{}
	for item, value := range remembered {
		own, is := brought[item]
		switch {
		case !is:
		case !policy.IsTaint(item):
			carried = append(carried, item)
		case own == value:
			broughtTaints[item] = value
		}
	}
	for item, value := range restore.Add { // nobody owns what a webhook adds; who brought a key owns it still
		w.edits = append(w.edits, simEdit{object: n.uid, item: item, value: value, manager: fieldManager}) // told with the time of sight
		if policy.IsTaint(item) {
			setItem(n, item, &value, "")
		} else {
			n.labels[item] = value
		}
	}
	final := maps.Clone(n.items())
	maps.Copy(final, restore.Protected)
	byRule := policy.FreeOf(w.policy.TaintsFor(final), n.taints)
	stamp := policy.NewStamp(carried, slices.Collect(maps.Keys(restore.Protected))).Given(restore.Add)
	stamp.Brought, stamp.RuleTaints = broughtTaints, policy.Items(nil, byRule)
	n.stamp = stamp.String()
	n.taints = append(n.taints, byRule...)
	if !h.stale {
		n.taints = gate.Without(n.taints)
	}
	if len(restore.Protected) > 0 && !gate.Holds(n.taints) {
		n.taints = append(n.taints, gate.Taint())
	}
	if !h.stale && h.inMemory(n.name) == len(w.history[n.name]) {
		w.judgeReview(n)
	}
}

// judgeReview checks that nobody can see a Node without the gate that lacks an ordinary label, if the replica is current.
func (w *world) judgeReview(n *simNode) {
	for key := range w.rememberedOf(n.name) {
		if _, shown := n.items()[key]; !shown && !w.neverGiven(key) && !gate.Holds(n.taints) {
			w.fail("%s registers without %s and without the gate", n.name, key)
		}
	}
}

func (w *world) webhookSteps() []step {
	return []step{
		{3, "webhook goes or comes", func() {
			h := w.webhooks[w.rng.IntN(len(w.webhooks))]
			h.down = !h.down
			w.say("webhook: %d is down: %t", slices.Index(w.webhooks, h), h.down)
		}},
		{1, "webhook stalls or recovers", func() {
			h := w.webhooks[w.rng.IntN(len(w.webhooks))]
			h.stale = !h.stale
			w.say("webhook: %d knows that it is stale: %t", slices.Index(w.webhooks, h), h.stale)
		}},
		{2, "late write", w.landLate},
		{6, "webhook hears of a record", func() {
			h := w.webhooks[w.rng.IntN(len(w.webhooks))]
			name := w.anyName()
			if h.heard[name] < len(w.history[name]) {
				h.heard[name]++
				w.say("webhook: %d hears of %s, %s", slices.Index(w.webhooks, h), name, brief(w.history[name][h.heard[name]-1].Record))
			}
		}},
	}
}
