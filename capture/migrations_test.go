package capture

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/capture/rollout"
	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

const (
	oldKey = "gpu.model" // a dotted key
	newKey = "example.com/gpu.model"
)

func migrating(phase policy.MigrationPhase) string {
	return fmt.Sprintf("labels: {migrations: [{from: %s, to: %s, phase: %s}]}\n", oldKey, newKey, phase)
}

// accepts puts a policy in force whose rules are accepted.
func (r *replica) accepts(sections string) {
	r.cluster.policy = loadPolicy(r.cluster.t, sections).WithPredecessor(r.cluster.policy)
	r.releases(r.cluster.policy.RulesHash())
	r.EnqueueAll()
}

// follows works under such a policy.
func (r *replica) follows(sections string) {
	r.accepts(sections)
	require.Empty(r.cluster.t, r.works())
}

// refusing has the API server refuse Nodes that have a label, or lack it.
func refusing(key string, ok bool) func(prev, updated *corev1.Node) error {
	return func(_, updated *corev1.Node) error {
		if _, found := updated.Labels[key]; found == ok {
			return errors.New("no such label")
		}
		return nil
	}
}

// neverWithout fails the test if a PATCH would leave n1 without both keys.
func (c *cluster) neverWithout(keys ...string) {
	c.admits = func(_, updated *corev1.Node) error {
		for _, key := range keys {
			if _, ok := updated.Labels[key]; ok {
				return nil
			}
		}
		assert.Fail(c.t, "the Node would lack all of them", "%v", keys)
		return nil
	}
}

func TestAMigrationRenamesAKeyOnANodeThatIsThere(t *testing.T) {
	w := newCluster(t, "", node("a", "10", labels{oldKey: "rtx", "rack": "r1"}, owned("kubectl-label", oldKey, "rack")))
	w.neverWithout(oldKey, newKey)
	r := w.leads()

	r.follows(migrating(policy.MigrateBoth))
	assert.Equal(t, labels{oldKey: "rtx", newKey: "rtx", "rack": "r1"}, w.shows())
	assert.Equal(t, labels{oldKey: "rtx", "rack": "r1"}, w.record().Items(), "the new key is derived")

	w.label(oldKey, "a100")
	require.Empty(t, r.works())
	assert.Equal(t, "a100", w.shows()[newKey], "the new key follows")

	r.wrote()
	r.follows(migrating(policy.MigrateNew))
	assert.Equal(t, []string{"put n1", "patch n1"}, r.wrote(), "the record first")
	assert.Equal(t, labels{newKey: "a100", "rack": "r1"}, w.shows())
	assert.Equal(t, labels{newKey: "a100", "rack": "r1"}, w.record().Items())
	assert.NotContains(t, w.node().Annotations, policy.LabelsAnnotation, "the new key is an operator's")

	r.follows("")
	assert.Equal(t, labels{newKey: "a100", "rack": "r1"}, w.shows(), "the entry can be removed from the policy")
	assert.Empty(t, r.wrote())

	w.label(newKey, "b200")
	w.delete()
	require.Empty(t, r.works())
	w.register(node("b", "200", nil, gated))
	require.Empty(t, r.works())
	assert.Equal(t, labels{newKey: "b200", "rack": "r1"}, w.shows())
}

func TestAMigrationOfANodeThatIsAway(t *testing.T) {
	for name, webhook := range map[string]func(*corev1.Node){
		"restored by capture":                           func(*corev1.Node) {},
		"restored by the webhook":                       given(labels{newKey: "rtx"}),
		"restored by a webhook with a record of before": given(labels{oldKey: "rtx"}),
		"restored by such a webhook that has the policy": func(n *corev1.Node) {
			given(labels{oldKey: "rtx"})(n)
			listing(ruledBy(classify.CopyRule, labels{newKey: "rtx"}))(n)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t, "", remembered("a", 10, labels{oldKey: "rtx"}, goneSince(earlier)))
			r := w.leader()
			r.follows(migrating(policy.MigrateBoth))
			assert.Equal(t, labels{oldKey: "rtx"}, w.record().Items())
			r.follows(migrating(policy.MigrateNew))
			assert.Equal(t, labels{newKey: "rtx"}, w.record().Items())
			assert.Equal(t, []string{"put n1"}, r.wrote())

			w.neverWithout(oldKey, newKey)
			items := labels{}
			returned := node("b", "200", nil, gated, webhook)
			for key, by := range parsedStamp(t, returned).Given {
				items[key] = by.Value
			}
			if listed := returned.Annotations[policy.LabelsAnnotation]; listed != "" {
				items[newKey] = "rtx"
			}
			w.register(node("b", "200", items, gated, webhook))
			require.Empty(t, r.works())
			assert.Equal(t, labels{newKey: "rtx"}, w.shows())
			assert.Equal(t, labels{newKey: "rtx"}, w.record().Items())
		})
	}
}

func TestWhatAMigrationLeavesAlone(t *testing.T) {
	for name, c := range map[string]struct {
		policy string
		node   *corev1.Node
		admits func(prev, updated *corev1.Node) error
		shows  labels
		holds  labels
	}{
		"two values, set by operators": {
			node:  node("a", "10", labels{oldKey: "rtx", newKey: "a100"}, owned("kubectl-label", oldKey, newKey)),
			shows: labels{oldKey: "rtx", newKey: "a100"}, holds: labels{oldKey: "rtx", newKey: "a100"},
		},
		"the kubelet sets the old key": {
			node:  node("a", "10", labels{oldKey: "rtx"}, owned("kubelet", oldKey)),
			shows: labels{oldKey: "rtx", newKey: "rtx"}, holds: labels{},
		},
		"the new key is refused": {
			node:   node("a", "10", labels{oldKey: "rtx"}, owned("kubectl-label", oldKey)),
			admits: refusing(newKey, true),
			shows:  labels{oldKey: "rtx"}, holds: labels{oldKey: "rtx"},
		},
		"the removal is refused": {
			node:   node("a", "10", labels{oldKey: "rtx"}, owned("kubectl-label", oldKey)),
			admits: refusing(oldKey, false),
			shows:  labels{oldKey: "rtx", newKey: "rtx"}, holds: labels{newKey: "rtx"},
		},
		"one value, set by operators under both keys": {
			node:  node("a", "10", labels{oldKey: "rtx", newKey: "rtx"}, owned("kubectl-label", oldKey, newKey)),
			shows: labels{newKey: "rtx"}, holds: labels{newKey: "rtx"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t, "", c.node)
			w.neverWithout(oldKey, newKey)
			if c.admits != nil {
				w.admits = c.admits
			}
			r := w.leader()
			r.accepts(migrating(policy.MigrateNew))
			for range 3 { // a refusal is an error, and then known
				_ = r.works()
				r.enqueueAll()
			}
			require.Empty(t, r.works())
			assert.Equal(t, c.shows, w.shows())
			assert.Equal(t, c.holds, w.record().Items())
			r.wrote()
			for range 3 { // heartbeats
				w.edit(func(*corev1.Node) {})
				require.Empty(t, r.works())
			}
			assert.Empty(t, r.wrote(), "nothing is left to do")
		})
	}
}

func TestEditsWhileAMigrationGoesOnAreNotLost(t *testing.T) {
	register := func(t *testing.T, phase policy.MigrationPhase) (*cluster, *replica) {
		w := newCluster(t, "", node("a", "10", labels{oldKey: "rtx"}, owned("kubectl-label", oldKey)))
		w.neverWithout(oldKey, newKey)
		r := w.leader()
		r.follows(migrating(phase))
		return w, r
	}
	t.Run("the new key is edited in both: a conflict, which is listed and left alone, until it is resolved", func(t *testing.T) {
		w, r := register(t, policy.MigrateBoth)
		r.reported()
		w.label(newKey, "b200")
		require.Empty(t, r.works())
		r.follows(migrating(policy.MigrateNew))
		assert.Equal(t, labels{oldKey: "rtx", newKey: "b200"}, w.shows())
		assert.Equal(t, labels{oldKey: "rtx", newKey: "b200"}, w.record().Items())
		assert.Contains(t, r.reported(), ItemTaken)

		w.admits = nil
		w.unset(oldKey)
		require.Empty(t, r.works())
		assert.Equal(t, labels{newKey: "b200"}, w.shows())
		assert.Equal(t, labels{newKey: "b200"}, w.record().Items())
	})
	t.Run("the old key is edited between the record and the Node", func(t *testing.T) {
		w, r := register(t, policy.MigrateBoth)
		edited := false
		r.meanwhile("patch n1", func() {
			edited = true
			w.label(oldKey, "b200")
		})
		r.follows(migrating(policy.MigrateNew))
		require.True(t, edited)
		assert.Equal(t, "b200", w.shows()[oldKey], "the edit is there still")
		assert.Equal(t, "b200", w.record().Items()[oldKey])
		assert.Contains(t, r.reported(), ItemTaken)
	})
	t.Run("withdrawn, from new to both to nothing", func(t *testing.T) {
		w, r := register(t, policy.MigrateBoth)
		w.admits = refusing(oldKey, false)
		r.accepts(migrating(policy.MigrateNew))
		require.NotEmpty(t, r.works(), "only the record was written")
		w.neverWithout(oldKey, newKey)
		r.follows(migrating(policy.MigrateBoth))
		r.follows("")
		assert.Equal(t, labels{oldKey: "rtx", newKey: "rtx"}, w.shows())
		assert.Equal(t, labels{oldKey: "rtx", newKey: "rtx"}, w.record().Items())
	})
	for name, c := range map[string]struct {
		phase policy.MigrationPhase
		edit  func(w *cluster, r *replica)
		shows labels // and so the record
	}{
		"the old key is removed in both: the new one goes with it": {
			policy.MigrateBoth, func(w *cluster, _ *replica) { w.admits = nil; w.unset(oldKey) }, labels{},
		},
		"the old key is set again in new, to the same value: it is removed": {
			policy.MigrateNew, func(w *cluster, _ *replica) { w.label(oldKey, "rtx") }, labels{newKey: "rtx"},
		},
		"the old key is set again in new, to another value: both stay": {
			policy.MigrateNew, func(w *cluster, _ *replica) { w.label(oldKey, "other") }, labels{oldKey: "other", newKey: "rtx"},
		},
		"the new key is removed in new: that is an operator's decision": {
			policy.MigrateNew, func(w *cluster, _ *replica) { w.unset(newKey) }, labels{},
		},
		"withdrawn from both: the new key goes": {
			policy.MigrateBoth, func(_ *cluster, r *replica) { r.follows("") }, labels{oldKey: "rtx"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, r := register(t, c.phase)
			c.edit(w, r)
			require.Empty(t, r.works())
			assert.Equal(t, c.shows, w.shows())
			assert.Equal(t, c.shows, w.record().Items())
		})
	}
}

func TestAMigrationIsHeldUntilAnOperatorAcceptsIt(t *testing.T) {
	w := newCluster(t, "", node("a", "10", labels{oldKey: "rtx"}, owned("kubectl-label", oldKey)))
	r := w.leader()
	r.follows(migrating(policy.MigrateBoth))
	w.policy = loadPolicy(t, migrating(policy.MigrateNew)).WithPredecessor(w.policy)
	changed, renamed, total := r.countAlteredNodes(w.policy, nil)
	assert.Equal(t, [3]int{1, 1, 1}, [3]int{changed, renamed, total})
	assert.True(t, rollout.RulesNeedAcceptance(changed, renamed, 1000), "however few they are: workloads may select on the old key")
	r.EnqueueAll()
	require.Empty(t, r.works())
	assert.Equal(t, labels{oldKey: "rtx", newKey: "rtx"}, w.shows())
	assert.Equal(t, labels{oldKey: "rtx"}, w.record().Items())
}

func TestAMigrationAndAnotherMachine(t *testing.T) {
	w := newCluster(t, "machine: {onMismatch: quarantine}\n", remembered("a", 10, labels{oldKey: "rtx"}, ofMachine("m1")))
	r := w.leader()
	w.register(node("b", "200", labels{"own": "x"}, machine("m2"), gated))
	require.Empty(t, r.works())
	r.follows("machine: {onMismatch: quarantine}\n" + migrating(policy.MigrateNew))
	assert.Equal(t, labels{"own": "x"}, w.record().Items(), "nothing of the other machine")
	assert.Equal(t, labels{oldKey: "rtx"}, w.record().Quarantined.Items(), "until an operator has decided")
}

func TestTwoCapturesWithDifferentPoliciesMigrateWithoutLoss(t *testing.T) {
	w := newCluster(t, migrating(policy.MigrateBoth), node("a", "10", labels{oldKey: "rtx"}, owned("kubectl-label", oldKey)))
	w.neverWithout(oldKey, newKey)
	behind := w.policy
	slow := w.leader(func(o *Options) { o.Policy = func() policy.Policy { return behind } })
	slow.releases(behind.RulesHash())
	require.Empty(t, slow.works())
	fast := w.leader()
	w.policy = loadPolicy(t, migrating(policy.MigrateNew))
	middle := 0
	fast.hook = func(string) { // the other one gets in between
		if middle++; middle < 4 {
			w.edit(func(*corev1.Node) {})
			require.Empty(t, slow.works())
		}
	}
	fast.releases(w.policy.RulesHash())
	fast.EnqueueAll()
	for range 5 {
		require.Empty(t, fast.works())
		require.Empty(t, slow.works())
	}
	assert.Equal(t, labels{newKey: "rtx"}, w.shows())
	assert.Equal(t, labels{newKey: "rtx"}, w.record().Items())
	assert.Empty(t, fast.works())
}

func parsedStamp(t *testing.T, n *corev1.Node) record.Stamp {
	t.Helper()
	text, stamped := n.Annotations[policy.StampAnnotation]
	if !stamped {
		return record.Stamp{}
	}
	stamp, ok := record.ParseStamp(text)
	require.True(t, ok)
	return stamp
}

// returned returns a Node that registers after its record was renamed, while something refuses the new key.
func returned(t *testing.T, returned *corev1.Node) *cluster {
	t.Helper()
	w := newCluster(t, "", remembered("a", 10, labels{newKey: "rtx"}, goneSince(earlier)), returned)
	w.admits = refusing(newKey, true)
	r := w.leader()
	r.accepts(migrating(policy.MigrateNew))
	for range 8 {
		_ = r.works()
		r.enqueueAll()
	}
	return w
}

func TestTheOldKeyStaysOnANodeThatReturnsWithItWhileTheNewOneIsRefused(t *testing.T) {
	w := returned(t, node("b", "200", labels{oldKey: "rtx"}, gated, given(labels{oldKey: "rtx"}))) // by a webhook whose record is older
	assert.Equal(t, "rtx", w.shows()[oldKey])
	assert.NotContains(t, w.shows(), newKey)
}

func TestARenamedNodeThatReturnsStaysGatedWhileTheNewKeyIsRefused(t *testing.T) {
	w := returned(t, node("b", "200", nil, gated))
	assert.True(t, gate.Present(w.node().Spec.Taints), "it lacks what it carried")
	assert.Equal(t, labels{newKey: "rtx"}, w.record().Items(), "nothing is forgotten")
}

func TestAnOlderStateOfTheNodeDoesNotUndoARename(t *testing.T) {
	for name, shown := range map[string]bool{"of a Node that shows both keys": true, "of a Node that does not exist": false} {
		t.Run(name, func(t *testing.T) {
			prev := remembered("a", 10, labels{oldKey: "rtx"})
			prev.Seen[0].Version = 50
			next, renamed := record.Rename(*prev, oldKey, newKey, shown)
			require.True(t, renamed)
			late := record.Observation{UID: "a", Version: 30, Items: map[string]record.Item{oldKey: {Value: "rtx", Owner: record.Client}}}
			assert.Equal(t, labels{newKey: "rtx"}, record.Merge(next, late).Items())
		})
	}
}

// A record can be renamed while the last state of its deleted Node is not recorded yet: the DELETE handler was slow.
func TestTheLastStateOfANodeThatIsRecordedAfterARenameKeepsWhatWasRenamed(t *testing.T) {
	for name, c := range map[string]struct {
		last, want labels
	}{
		"which it showed under its old key":            {labels{oldKey: "rtx"}, labels{newKey: "rtx"}},
		"which a client had changed":                   {labels{oldKey: "a100"}, labels{newKey: "a100"}},
		"unless a client had removed it":               {labels{}, labels{}},
		"and what a client had set under the new key":  {labels{oldKey: "rtx", newKey: "a100"}, labels{newKey: "a100"}},
		"which it showed under both keys":              {labels{oldKey: "rtx", newKey: "rtx"}, labels{newKey: "rtx"}},
		"which a client had moved to the new key only": {labels{newKey: "rtx"}, labels{newKey: "rtx"}},
	} {
		t.Run(name, func(t *testing.T) {
			inputs := plan.Inputs{Policy: loadPolicy(t, migrating(policy.MigrateNew)).WithPredecessor(policy.Policy{}).WithRulesHeld(false), GuardInForce: true, Now: now}
			entry := store.Entry{Record: *remembered("a", 10, labels{oldKey: "rtx"}, goneSince(earlier))}
			for _, decide := range []func() Action{
				func() Action { return DecideAbsent(entry, true, inputs) },
				func() Action {
					return Decide(entry, true, observe.FromNode(node("a", "30", c.last)), NodeDeleted, inputs)
				},
				func() Action { return DecideAbsent(entry, true, inputs) },
			} {
				if next := decide(); next.Record != nil {
					entry.Record = *next.Record
				}
			}
			assert.Equal(t, c.want, entry.Record.Items())
		})
	}
}

// Otherwise the next observation would show that a client has removed it.
func TestWhatARuleRemovesIsNotListedAsGivenAnyMore(t *testing.T) {
	for name, c := range map[string]struct {
		by   func(*corev1.Node)
		want string
	}{
		"what nodekeep gave":      {given(labels{oldKey: "rtx", "rack": "1"}), `{"given":{"rack":{"value":"1"}}}`},
		"what the Node brought":   {stamped(record.Stamp{Brought: labels{oldKey: "rtx"}}), `{}`},
		"nothing else is written": {given(labels{"rack": "1"}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := observe.FromNode(node("b", "20", labels{oldKey: "rtx", newKey: "rtx", "rack": "1"}, c.by))
			stamp, _ := n.Stamp(true)
			var patch struct {
				Metadata struct{ Annotations map[string]string }
			}
			require.NoError(t, json.Unmarshal([]byte(patchOf(t, n, plan.Plan{Edits: plan.RemoveItems(plan.CauseEndedRule, oldKey), StampBefore: stamp})), &patch))
			assert.Equal(t, c.want, patch.Metadata.Annotations[policy.StampAnnotation])
		})
	}
}
