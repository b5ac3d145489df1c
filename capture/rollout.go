package capture

import (
	"context"
	"iter"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"

	"nodekeep.dev/nodekeep/capture/fleet"
	"nodekeep.dev/nodekeep/inventory"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// rolloutInterval is how often capture looks whether rules that are held were accepted.
const rolloutInterval = 10 * time.Second

// mostChanged is the part of all Nodes on which rules may remove or change labels without acceptance: one in ten.
const mostChanged = 10

// RulesNeedAcceptance reports whether new rules that remove or change labels on so many Nodes wait for an operator's acceptance. The
// parameter renamed counts the Nodes from which a migration removes the old key. Each counts, because workloads may still select on that
// key, which capture does not know.
func RulesNeedAcceptance(changed, renamed, of int) bool {
	return renamed > 0 || changed > max(1, of/mostChanged)
}

// rollout keeps new rules from removing or changing labels on many Nodes at once. They only add labels until they are known to change few
// Nodes, or an operator has accepted them.
type rollout struct {
	released atomic.Value              // the hash of the rules that may do so; nothing at the start
	held     atomic.Pointer[HeldRules] // nil: none
}

// withoutFeatures ends the name of rules that were judged while features were not known. They act until these are known, and are judged again
// then: only then is it known what they change.
const withoutFeatures = "-without-features"

// holdsRules reports whether the rules of a policy must only add labels.
func (c *Controller) holdsRules(p policy.Policy) bool {
	rules := p.RulesHash()
	return c.rollout.holds(rules) && (c.features.known(p) || c.rollout.holds(rules+withoutFeatures))
}

// HeldRules are rules for labels that wait for an operator.
type HeldRules struct {
	Rules string // their hash
	Nodes int    // on how many Nodes they would remove or change labels
}

// holds reports whether rules must only add labels.
func (r *rollout) holds(rules string) bool { return r.released.Load() != any(rules) }

// release lets rules do all that they say.
func (r *rollout) release(rules string) {
	r.released.Store(rules)
	r.held.Store(nil)
}

// hold notes on how many Nodes rules are held, and reports whether it is news that they are.
func (r *rollout) hold(rules string, nodes int) (news bool) {
	before := r.held.Swap(&HeldRules{rules, nodes})
	return before == nil || before.Rules != rules
}

// HeldRules are the rules of the policy in force that wait for an operator; nil: none do. It is not known before their Nodes are counted.
func (c *Controller) HeldRules() (held *HeldRules, known bool) {
	p := c.Policy()
	if !c.holdsRules(p) {
		return nil, true
	}
	held = c.rollout.held.Load()
	return held, held != nil && held.Rules == p.RulesHash()
}

// rollOut looks after the rules of the policy until ctx is done.
func (c *Controller) rollOut(ctx context.Context) {
	ticker := time.NewTicker(rolloutInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.newPolicy:
		case <-ticker.C:
		}
		c.checkRules(ctx)
		c.keepAccepted(ctx)
		if err := c.Contained("count migrations", "", func() error { c.countMigrations(); return nil }); err != nil {
			c.Logger.Error("migrations cannot be counted", "error", err)
		}
	}
}

// checkRules releases the rules of the policy, or holds them.
func (c *Controller) checkRules(ctx context.Context) {
	p := c.Policy()
	rules := p.RulesHash()
	if c.leading.Load() && !c.holdsRules(p) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, turn)
	defer cancel()
	if err := c.Contained("check rules", "", func() error { return c.checkNewRules(ctx, p, rules) }); err != nil && ctx.Err() == nil {
		c.Logger.Warn("rules for labels only add labels until it is known which rules were in force", "error", err)
	}
}

func (c *Controller) checkNewRules(ctx context.Context, p policy.Policy, rules string) error {
	state, err := c.configMaps.Get(ctx, store.AcceptedName)
	if err != nil {
		return err
	}
	note := noteOf(state)
	if !c.leading.Load() { // the leader puts rules in force: a replica with another policy must not undo what it does
		if c.rollout.holds(note.judged()) {
			c.rollout.release(note.judged())
			c.enqueueAll()
		}
		return nil
	}
	next := rulesNote{inForce: rules, noted: true}
	if note.judged() != rules && !c.features.known(p) && !p.AcceptsRules() {
		next.withoutFeatures = true
	}
	// Where nothing is noted, rules may have been in force whose note was deleted. Then even a policy without rules would remove their labels.
	if (next.judged() != note.judged() || !note.noted) && note.accepted != rules && !p.AcceptsRules() {
		if !c.devices.settled(p) || !c.features.settled(p) || !c.inventories.Known(p) {
			return nil // what the rules would change is not known; this is called again once it is
		}
		changed, renamed, of := c.alteredNodes(p, nil)
		if RulesNeedAcceptance(changed, renamed, of) {
			if c.rollout.hold(rules, changed) {
				c.reportHeld(p, changed, renamed, of)
			}
			if note.inForce != rules {
				return nil
			}
			return c.noteRules(ctx, state, rulesNote{inForce: note.judged()}) // the webhook and operators see that the rules wait
		}
	}
	if next.judged() != note.judged() || next.inForce != note.inForce {
		// An acceptance counts once. The next time that the same rules come, they may affect other Nodes.
		if err := c.noteRules(ctx, state, next); err != nil {
			return err
		}
	}
	c.rollout.release(next.judged())
	c.enqueueAll()
	return nil
}

// rulesNote is what the ConfigMap notes of rules.
type rulesNote struct {
	inForce, accepted string
	withoutFeatures   bool // they were judged without features
	noted             bool
}

func noteOf(state *corev1.ConfigMap) rulesNote {
	note := rulesNote{inForce: policy.NoRules}
	if state == nil {
		return note
	}
	note.accepted = state.Data[store.RulesAccepted]
	if value, ok := state.Data[store.RulesInForce]; ok {
		note.inForce, note.noted = value, true
		note.withoutFeatures = state.Data[store.RulesWithoutFeatures] == value
	}
	return note
}

// judged names the rules, and what they were judged by.
func (n rulesNote) judged() string {
	if n.withoutFeatures {
		return n.inForce + withoutFeatures
	}
	return n.inForce
}

// noteRules notes which rules are in force.
func (c *Controller) noteRules(ctx context.Context, state *corev1.ConfigMap, note rulesNote) error {
	data := map[string]*string{store.RulesInForce: &note.inForce, store.RulesAccepted: nil}
	if note.withoutFeatures {
		data[store.RulesWithoutFeatures] = &note.inForce
	} else if state != nil && state.Data[store.RulesWithoutFeatures] != "" {
		data[store.RulesWithoutFeatures] = nil
	}
	err := c.configMaps.Set(ctx, store.AcceptedName, state != nil, data)
	if apierrors.IsAlreadyExists(err) { // another replica may have done so
		return nil
	}
	return err
}

// alteredNodes counts on how many Nodes rules would change labels. Snapshots of instead replace those that are in force.
func (c *Controller) alteredNodes(p policy.Policy, instead map[string]inventory.Snapshot) (changed, renamed, of int) {
	return fleet.Altered(c.everyNode(), plan.Circumstances{
		Policy: p, Guarded: c.Guard.InForce(), Devices: c.devices.under(p), Features: c.features.under(p), Inventory: c.inventories.Under(p, instead), Now: c.Now(),
	})
}

// everyNode is each Node that lives, and each that there is a record of, as memory has them.
func (c *Controller) everyNode() iter.Seq[fleet.Node] {
	return func(yield func(fleet.Node) bool) {
		for name := range sets.New(c.observations.names()...).Insert(c.Records.Nodes()...) {
			entry, err := c.Records.Get(name)
			if _, live := c.observations.look(name); !yield(fleet.Node{Live: live, Record: entry.Record, Recorded: err == nil}) {
				return
			}
		}
	}
}
