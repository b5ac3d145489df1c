package rollout

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// Options are what a Rollout works with. All are required.
type Options struct {
	Notes      store.ConfigMapNotes // of the release namespace
	Policy     func() policy.Policy
	Manifest   func() []byte // of the policy in force, as JSON; nil: it does not come from an object
	Controller Controller
	// FeaturesKnown reports whether the features that the rules of a policy look at were read.
	FeaturesKnown func(p policy.Policy) bool
	// RulesJudgeable reports whether new rules can be judged. Then what they look at was read, or nothing is there to be read.
	RulesJudgeable func(p policy.Policy) bool
	// CountAltered counts all live Nodes (total), and those on which rules would remove or change labels (changed). The third count is of Nodes from
	// which migrations would remove the old key (renamed).
	CountAltered func(p policy.Policy) (changed, renamed, total int)
	// CountMigrations counts Nodes, and records of Nodes that do not exist, by how far the migrations of their labels are.
	CountMigrations func(p policy.Policy) map[policy.MigrationState]int
	// OnRelease is called when rules may do all that they say.
	OnRelease func()
	// Warn creates an Event about the NodePolicy.
	Warn   func(reason, format string, args ...any)
	Now    func() time.Time
	Logger *slog.Logger
}

// Controller is the controller of package capture.
type Controller interface {
	// Leading reports whether this process leads: only that one puts rules in force.
	Leading() bool
	// CallRecovering does the work on one object; a panic in it is an error like any other.
	CallRecovering(work, node string, fn func() error) error
}

// ChangesHeld is the reason of an Event about the NodePolicy. A change, here new rules, would alter many Nodes and waits for an operator.
const ChangesHeld = "ChangesHeld"

// checkInterval is how often it is looked at whether rules that are held were accepted.
const checkInterval = 10 * time.Second

// callTimeout is how long the calls for one look may take.
const callTimeout = 30 * time.Second

// maxChangedDivisor is the part of all Nodes on which rules may remove or change labels without acceptance: one in ten.
const maxChangedDivisor = 10

// RulesNeedAcceptance reports whether new rules that remove or change labels on so many Nodes wait for an operator's acceptance. The
// parameter renamed counts the Nodes from which a migration removes the old key. Each counts, because workloads may still select on that
// key, which capture does not know.
func RulesNeedAcceptance(changed, renamed, total int) bool {
	return renamed > 0 || changed > max(1, total/maxChangedDivisor)
}

// Rollout keeps new rules from removing or changing labels on many Nodes at once. They only add labels until they are known to change few
// Nodes, or an operator has accepted them. One goroutine runs it; any may ask it.
type Rollout struct {
	Options

	trigger     chan struct{} // holds one value when the rules are to be looked at
	keepFailure string        // why the policy in force could not be written, which was reported; only [Rollout.keepAccepted] uses it
	countedAt   time.Time     // when migrations were counted; only [Rollout.Run] uses it
	migrating   atomic.Pointer[map[policy.MigrationState]int]

	released atomic.Value              // the hash of the rules in force, which may also remove and change labels; nothing at the start
	held     atomic.Pointer[HeldRules] // nil: none
}

// New holds all rules before [Rollout.Check].
func New(options Options) *Rollout {
	return &Rollout{Options: options, trigger: make(chan struct{}, 1)}
}

// Trigger has the rules of the policy released or held.
func (r *Rollout) Trigger() {
	select {
	case r.trigger <- struct{}{}:
	default: // it is about to look
	}
}

// withoutFeatures is the suffix of the hash of rules that were released before features were known. Once features are known, the rules are judged again:
// only then is it known what they change.
const withoutFeatures = "-without-features"

// Holds reports whether the rules of a policy must only add labels.
func (r *Rollout) Holds(p policy.Policy) bool {
	rulesHash := p.RulesHash()
	return r.hashHeld(rulesHash) && (r.FeaturesKnown(p) || r.hashHeld(rulesHash+withoutFeatures))
}

// HeldRules are rules for labels that wait for an operator.
type HeldRules struct {
	Hash  string // their hash
	Nodes int    // on how many Nodes they would remove or change labels
}

// hashHeld reports whether the rules with this hash must only add labels.
func (r *Rollout) hashHeld(rulesHash string) bool { return r.released.Load() != any(rulesHash) }

// release lets rules do all that they say.
func (r *Rollout) release(rulesHash string) {
	r.released.Store(rulesHash)
	r.held.Store(nil)
}

// hold notes on how many Nodes rules are held, and reports whether they were not held before.
func (r *Rollout) hold(rulesHash string, nodes int) (isNew bool) {
	prev := r.held.Swap(&HeldRules{rulesHash, nodes})
	return prev == nil || prev.Hash != rulesHash
}

// HeldRules returns the rules of the policy in force that wait for an operator; nil: none do. It is not known before their Nodes are counted.
func (r *Rollout) HeldRules() (held *HeldRules, known bool) {
	p := r.Policy()
	if !r.Holds(p) {
		return nil, true
	}
	held = r.held.Load()
	return held, held != nil && held.Hash == p.RulesHash()
}

// Run looks after the rules of the policy until ctx is done.
func (r *Rollout) Run(ctx context.Context) {
	ticker := time.NewTicker(checkInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.trigger:
		case <-ticker.C:
		}
		r.Check(ctx)
		r.keepAccepted(ctx)
		if err := r.Controller.CallRecovering("count migrations", "", func() error { r.refreshMigrationCounts(); return nil }); err != nil {
			r.Logger.Error("migrations cannot be counted", "error", err)
		}
	}
}

// Check releases the rules of the policy, or holds them.
func (r *Rollout) Check(ctx context.Context) {
	p := r.Policy()
	rulesHash := p.RulesHash()
	if r.Controller.Leading() && !r.Holds(p) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := r.Controller.CallRecovering("check rules", "", func() error { return r.checkNewRules(ctx, p, rulesHash) }); err != nil && ctx.Err() == nil {
		r.Logger.Warn("rules for labels only add labels until it is known which rules were in force", "error", err)
	}
}

func (r *Rollout) checkNewRules(ctx context.Context, p policy.Policy, rulesHash string) error {
	state, err := r.Notes.Get(ctx, store.AcceptedConfigMap)
	if err != nil {
		return err
	}
	note := noteOf(state)
	if !r.Controller.Leading() { // the leader puts rules in force: a replica with another policy must not undo what it does
		if r.hashHeld(note.key()) {
			r.release(note.key())
			r.OnRelease()
		}
		return nil
	}
	next := rulesNote{inForce: rulesHash, exists: true}
	if note.key() != rulesHash && !r.FeaturesKnown(p) && !p.AcceptsRules() {
		next.withoutFeatures = true
	}
	// Where nothing is noted, rules may have been in force whose note was deleted. Then even a policy without rules would remove their labels.
	if (next.key() != note.key() || !note.exists) && note.accepted != rulesHash && !p.AcceptsRules() {
		if !r.RulesJudgeable(p) {
			return nil // what the rules would change is not known; this is called again once it is
		}
		changed, renamed, total := r.CountAltered(p)
		if RulesNeedAcceptance(changed, renamed, total) {
			if r.hold(rulesHash, changed) {
				r.reportHeld(p, changed, renamed, total)
			}
			if note.inForce != rulesHash {
				return nil // the webhook and operators see already that other rules are in force
			}
			// The rules were put in force without features of Nodes, which are known now. The note must not show them as in force while they are held.
			return r.noteRules(ctx, state, rulesNote{inForce: note.key()})
		}
	}
	if next.key() != note.key() || next.inForce != note.inForce {
		// An acceptance counts once. The next time that the same rules come, they may affect other Nodes.
		if err := r.noteRules(ctx, state, next); err != nil {
			return err
		}
	}
	r.release(next.key())
	r.OnRelease()
	return nil
}

// reportHeld reports that new rules may only add labels.
func (r *Rollout) reportHeld(p policy.Policy, changed, renamed, total int) {
	rulesHash := p.RulesHash()
	r.Logger.Warn("new rules would remove or change labels on many nodes; until they are accepted, they only add labels", "rules", rulesHash, "nodes", changed, "of", total)
	if !r.Controller.Leading() {
		return // the leader says it
	}
	accept := "the same without --dry-run, or spec.accept: " + rulesHash + " in the policy"
	if renamed > 0 {
		accept = "nodekeep accept migration, as the Event of the migration says"
	}
	r.Warn(ChangesHeld,
		"The new rules for labels would remove or change labels on %d of %d Nodes. Until they are accepted, they only add labels. To see on how many: nodekeep accept rules %s --dry-run. To accept: %s.",
		changed, total, rulesHash, accept)
	for _, m := range p.Migrations() {
		if m.Phase == policy.MigrateNew && renamed > 0 {
			r.Warn(ChangesHeld,
				"The migration of label %s to %s waits: capture does not remove the old key before an operator has seen that nothing selects on it. To check that and go on: nodekeep accept migration %s=%s",
				m.From, m.To, m.From, m.To)
		}
	}
}

// rulesNote is what the ConfigMap notes of rules.
type rulesNote struct {
	inForce, accepted string
	withoutFeatures   bool // they were judged without features
	exists            bool
}

func noteOf(state *corev1.ConfigMap) rulesNote {
	note := rulesNote{inForce: policy.NoRules}
	if state == nil {
		return note
	}
	note.accepted = state.Data[store.RulesAccepted]
	if value, ok := state.Data[store.RulesInForce]; ok {
		note.inForce, note.exists = value, true
		note.withoutFeatures = state.Data[store.RulesWithoutFeatures] == value
	}
	return note
}

// key returns the hash of the rules, with what they were judged by.
func (n rulesNote) key() string {
	if n.withoutFeatures {
		return n.inForce + withoutFeatures
	}
	return n.inForce
}

// noteRules notes which rules are in force.
func (r *Rollout) noteRules(ctx context.Context, state *corev1.ConfigMap, note rulesNote) error {
	data := map[string]*string{store.RulesInForce: &note.inForce, store.RulesAccepted: nil}
	if note.withoutFeatures {
		data[store.RulesWithoutFeatures] = &note.inForce
	} else if state != nil && state.Data[store.RulesWithoutFeatures] != "" {
		data[store.RulesWithoutFeatures] = nil
	}
	err := r.Notes.Set(ctx, store.AcceptedConfigMap, state != nil, data)
	if apierrors.IsAlreadyExists(err) { // another replica may have done so
		return nil
	}
	return err
}
