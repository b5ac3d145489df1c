package capture

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/capture/pace"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/record"
)

const (
	controlPlane = "node-role.kubernetes.io/control-plane:NoSchedule"
	absentRule   = "labels:\n  rules:\n  - {name: one-node, ensureAbsent: [joined, \"" + controlPlane + "\"]}\n"
	absentGPU    = "labels:\n  rules:\n  - {name: one-node, trust: kubelet, when: {capacity: {nvidia.com/gpu: \">=1\"}}, ensureAbsent: [joined, \"" + controlPlane + "\"]}\n"
)

const absentHold = "labels:\n  rules:\n  - {name: one-node, when: {names: [other]}, hold: 1h, ensureAbsent: [joined, \"" + controlPlane + "\"]}\n"

// heldUntil returns items that a rule holds for a time from now on.
func heldUntil(derived derivedLabels, hold time.Duration) derivedLabels {
	held := derivedLabels{}
	for key, label := range derived {
		label.End = now.Add(hold).UTC().Truncate(time.Second)
		held[key] = label
	}
	return held
}

// absentBy returns items that a rule removes.
func absentBy(rule string, keys ...string) derivedLabels {
	derived := derivedLabels{}
	for _, key := range keys {
		derived[key] = record.RuleLabel{Rule: rule, Absent: true}
	}
	return derived
}

func TestWhatRulesRemoveFromANode(t *testing.T) {
	combined := absentBy("one-node", "joined", controlPlane)
	for name, c := range map[string]ruling{
		"a label and a taint that others set are removed, and listed": {
			policy: absentRule, node: node("a", "10", labels{"joined": "yes", controlPlane: "", "rack": "r1", "dedicated:NoSchedule": ""}),
			unlabel: []string{"joined", controlPlane}, lists: combined, relist: true,
		},
		"what is not there is listed, so that what the record has is not restored": {
			policy: absentRule, node: node("a", "10", nil), lists: combined, relist: true,
		},
		"nothing is left to do": {policy: absentRule, node: node("a", "10", nil, listing(combined)), lists: combined},
		"what an installer has put back is removed again, and that counts as drift": {
			policy: absentRule, node: node("a", "10", labels{controlPlane: ""}, listing(combined)),
			unlabel: []string{controlPlane}, lists: combined, relist: true, drifted: []string{controlPlane},
		},
		"without its rule, what an operator set is restored": {
			node:   node("a", "10", nil, listing(combined)),
			record: remembered("a", 9, labels{"joined": "yes", controlPlane: "x"}),
			label:  labels{"joined": "yes", controlPlane: "x"}, relist: true,
		},
		"without its rule, what nobody set stays away":    {node: node("a", "10", nil, listing(combined)), relist: true},
		"without its rule, an operator's new value stays": {node: node("a", "10", labels{"joined": "again"}, listing(combined)), record: remembered("a", 9, labels{"joined": "yes"}), relist: true},
		"another rule sets the label": {
			policy: "labels:\n  rules:\n  - {name: sets, set: {joined: \"\"}}\n", node: node("a", "10", nil, listing(absentBy("one-node", "joined"))),
			label: labels{"joined": ""}, lists: ruledBy("sets", labels{"joined": ""}), relist: true,
		},
		"another rule sets the label, and a client has put it back without a value: it stays": {
			policy: "labels:\n  rules:\n  - {name: sets, set: {joined: x}}\n", node: node("a", "10", labels{"joined": ""}, listing(absentBy("one-node", "joined"))),
			relist: true,
		},
		"a rule that set the label removes it now": {
			policy: absentRule, node: node("a", "10", labels{"joined": ""}, listing(ruledBy("sets", labels{"joined": ""}))),
			unlabel: []string{"joined"}, lists: combined, relist: true,
		},
		"held: nothing is removed": {
			held: true, policy: absentRule, node: node("a", "10", labels{"joined": "yes", controlPlane: ""}),
		},
		"held: what is absent stays so": {
			held: true, node: node("a", "10", nil, listing(combined)), record: remembered("a", 9, labels{"joined": "yes"}), lists: combined,
		},
		"a fact is not known: nothing is removed": {
			policy: absentGPU, node: node("a", "10", labels{"joined": "yes"}, gpus("0", 0)),
		},
		"a fact is not known: what is absent is not restored, and what was put back stays": {
			policy: absentGPU, node: node("a", "10", labels{controlPlane: ""}, gpus("0", 0), listing(combined)), record: remembered("a", 9, labels{"joined": "yes"}),
			lists: absentBy("one-node", "joined"), relist: true,
		},
		"the rule is false and holds: what a client puts back is removed again": {
			policy: absentHold, node: node("a", "10", labels{"joined": "yes", controlPlane: ""}, listing(combined)), record: remembered("a", 9, labels{"joined": "yes", controlPlane: ""}),
			unlabel: []string{"joined", controlPlane}, lists: heldUntil(combined, time.Hour), relist: true, waits: time.Hour - 6, drifted: []string{"joined", controlPlane},
		},
		"without guard policies: a list that a kubelet forged holds off nothing that no kubelet may remove": {
			unguarded: true, policy: absentHold, node: node("a", "10", labels{"joined": "yes", controlPlane: ""}, listing(combined)), record: remembered("a", 9, labels{"joined": "yes", controlPlane: ""}),
			unlabel: []string{"joined"}, lists: heldUntil(absentBy("one-node", "joined"), time.Hour), relist: true, waits: time.Hour - 6, drifted: []string{"joined"},
		},
		"a removal that the API server refused is not tried again": {
			policy: absentRule, node: node("a", "10", labels{"joined": "yes"}), refused: "joined",
			lists: absentBy("one-node", controlPlane), relist: true,
		},
		"no room to list it: nothing is removed": {policy: absentRule, node: node("a", "10", labels{"joined": "yes"}, withoutRoom)},
		"a rule in audit removes nothing": {
			policy: "labels:\n  rules:\n  - {name: one-node, ensureAbsent: [joined], mode: audit}\n", node: node("a", "10", labels{"joined": "yes"}),
		},
		"without guard policies: a list of a taint that the record does not have is not believed": {
			unguarded: true, policy: "labels:\n  rules:\n  - {name: w, when: {names: [other]}, ensureAbsent: [\"dedicated:NoSchedule\"]}\n",
			node: node("a", "10", nil, listing(absentBy("w", "dedicated:NoSchedule"))), record: remembered("a", 9, labels{"dedicated:NoSchedule": ""}), relist: true,
		},
		"without guard policies: a list of a protected label as absent is not believed where the record says that a rule set it": {
			unguarded: true, policy: workerRule, node: node("a", "10", nil, listing(absentBy("w", worker))),
			record: remembered("a", 9, labels{worker: ""}, withDerived(ruledBy("w", labels{worker: ""}))), relist: true,
		},
		"without guard policies: a list of a taint that the record has is believed": {
			unguarded: true, policy: "labels:\n  rules:\n  - {name: w, when: {names: [other]}, ensureAbsent: [\"" + controlPlane + "\"]}\n",
			node: node("a", "10", nil, listing(absentBy("w", controlPlane))), record: remembered("a", 9, labels{controlPlane: ""}, withDerived(absentBy("w", controlPlane))),
			label: labels{controlPlane: ""}, relist: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.check(t)
			assert.Equal(t, c.drifted, got.Drifted())
			assert.Equal(t, got.HasRuleEdits(), got.RemovesOrReplacesLabels(c.node.Labels), "new rules are held for it")
			assert.Equal(t, !c.held && got.RemovesOrReplacesLabels(c.node.Labels) || c.held && c.policy != "" || c.held && c.record != nil, plan.RulesRemoveOrReplaceLabels(c.recorded(), observe.FromNode(c.node), c.planInputs(t)),
				"whether it is held or not")
		})
	}
}

// The rule goes at the end, and the record has kept what the operator had set.
func TestWhatAnInstallerPutsBackIsRemovedAndTheRecordKeepsWhatAnOperatorSet(t *testing.T) {
	w := newCluster(t, absentRule, node("a", "10", labels{"rack": "r1"}))
	r := w.leader()
	r.follows(absentRule)
	assert.Equal(t, labels{"rack": "r1"}, w.shows())
	install := func() {
		w.label("joined", "by-the-installer")
		w.edit(tainted(controlPlane))
	}
	for range pace.FreeFlaps {
		install()
		require.Empty(t, r.works())
		assert.Equal(t, labels{"rack": "r1"}, w.shows(), "at once")
		w.passes(time.Millisecond)
	}
	assert.Equal(t, labels{"rack": "r1", "joined": "by-the-installer", controlPlane: ""}, w.record().Items(), "as with precedence: rule")
	assert.InDelta(t, 2*pace.FreeFlaps, itemsOf(t, r, ruleRemoved), 0)
	assert.InDelta(t, 2*pace.FreeFlaps, itemsOf(t, r, ruleDrifted), 0)
	assert.Equal(t, pace.FreeFlaps, count(r.reported(), RulesApplied))

	t.Run("two that fight wait longer each time", func(t *testing.T) {
		r.wrote()
		for range 50 {
			install()
			require.Empty(t, r.works())
			w.passes(pace.RecordInterval / 10)
		}
		wrote := r.wrote()
		assert.LessOrEqual(t, count(wrote, "patch n1"), 4)
		assert.LessOrEqual(t, count(wrote, "put n1"), 6, "that the client has added them again, once a second")
		assert.Equal(t, 2, count(r.reported(), ItemPaused), "the label and the taint")
		assert.Contains(t, w.shows(), "joined")
		w.passes(8 * pace.FirstPause)
		r.reconciles()
		assert.Equal(t, labels{"rack": "r1"}, w.shows())
	})
	t.Run("a new object gets nothing of it back", func(t *testing.T) {
		w.delete()
		require.Empty(t, r.works())
		w.register(node("b", "500", nil, gated))
		require.Empty(t, r.works())
		assert.Equal(t, labels{"rack": "r1"}, w.shows())
		assert.Contains(t, w.record().Items(), "joined")
	})
	t.Run("the rule goes, and the record's values are restored once", func(t *testing.T) {
		w.passes(time.Minute) // records are written at once again
		r.follows("")
		want := labels{"rack": "r1", "joined": "by-the-installer", controlPlane: ""}
		assert.Equal(t, want, w.shows())
		assert.Equal(t, want, w.record().Items())
		w.unset("joined")
		require.Empty(t, r.works())
		assert.NotContains(t, w.shows(), "joined", "from now on an operator decides again")
		assert.NotContains(t, w.record().Items(), "joined")
	})
}

func TestRulesThatRemoveFromManyNodesAreHeld(t *testing.T) {
	w := newCluster(t, absentRule, node("a", "10", labels{"joined": "yes"}))
	r := w.leader()
	changed, _, total := r.countAlteredNodes(w.policy, nil)
	assert.Equal(t, [2]int{1, 1}, [2]int{changed, total}, "although no rule has set anything before")
	require.Empty(t, r.works())
	assert.Equal(t, labels{"joined": "yes"}, w.shows())
	r.follows(absentRule)
	assert.Empty(t, w.shows())
}

func TestARuleInAuditReportsOnceWhatItWouldRemove(t *testing.T) {
	w := newCluster(t, "labels:\n  rules:\n  - {name: audited, ensureAbsent: [joined, left], mode: audit}\n")
	w.register(node("a", "10", labels{"joined": "yes"}))
	r := w.leader()
	for range 3 {
		r.reconciles()
	}
	assert.InDelta(t, 1, valueOf(t, r.Metrics.wouldSet.WithLabelValues("audited")), 0, "the label that is there")
	assert.Equal(t, labels{"joined": "yes"}, w.shows())
}

// The model is one line: what a rule removes is absent, and all else is as a client set it last.
func TestWhatIsAbsentIsWhatRulesSayAfterAnythingThatHappens(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			draw := rand.New(rand.NewPCG(seed, 1))
			w := newCluster(t, "", node("0", "10", nil))
			r := w.leader()
			keys, want := []string{"joined", controlPlane}, labels{}
			var removed []string
			var happened []string
			objects := 0
			for step := range 40 {
				key := keys[draw.IntN(len(keys))]
				action := draw.IntN(5)
				switch action {
				case 0: // a client sets an item
					want[key] = fmt.Sprint("v", step)
					w.set(key, want[key])
				case 1: // a client removes one; it cannot remove what is absent
					if !slices.Contains(removed, key) {
						delete(want, key)
						w.unset(key)
					}
				case 2: // the policy changes
					removed = [][]string{nil, keys[:1], keys[1:], keys}[draw.IntN(4)]
					r.accepts(absentPolicy(removed))
				case 3: // the Node registers again, as a kubelet does that the webhook has not seen
					w.delete()
					require.Empty(t, r.works())
					objects++
					w.register(node(types.UID(fmt.Sprint(objects)), fmt.Sprint(w.version+1), nil, gated))
				case 4: // capture starts again
					r = w.leader()
					r.releases(w.policy.RulesHash())
				}
				happened = append(happened, fmt.Sprint(action, " ", key))
				w.passes(time.Hour)
				require.Empty(t, r.works())
				shown := maps.Clone(want)
				for _, key := range removed {
					delete(shown, key)
				}
				require.Equal(t, shown, w.shows(), "%v; the rule removes %v", happened, removed)
				r.wrote()
				r.rests()
			}
			assert.Equal(t, want, w.record().Items())
		})
	}
}

func TestWhatAdmissionRemovedByARuleHasAnEventOnceForEachNodeObject(t *testing.T) {
	brought := absentBy("one-node", "joined", controlPlane)
	brought["joined"] = record.RuleLabel{Rule: "one-node", Absent: true, RemovedAtCreate: true}
	c := newCluster(t, absentRule)
	r := c.leader()
	registers := func(uid types.UID, listed derivedLabels) []string {
		c.register(node(uid, fmt.Sprint(c.version+1), labels{"rack": "r1"}, listing(listed)))
		require.Empty(t, r.works())
		r.EnqueueAll()
		require.Empty(t, r.works())
		return r.reported()
	}
	assert.Equal(t, []string{RulesApplied}, registers("a", brought), "the first object")
	c.delete()
	require.Empty(t, r.works())
	r.wrote()
	assert.Equal(t, []string{RulesApplied}, registers("b", brought), "the next one")
	c.delete()
	require.Empty(t, r.works())
	assert.Empty(t, registers("c", absentBy("one-node", "joined", controlPlane)), "it brought nothing of the kind")
}

func absentPolicy(removed []string) string {
	if len(removed) == 0 {
		return ""
	}
	return "labels:\n  rules:\n  - {name: one-node, ensureAbsent: [\"" + strings.Join(removed, `", "`) + "\"]}\n"
}

// set has a client set a label or a taint of n1; unset removes it.
func (c *cluster) set(key, value string) {
	if !record.IsTaint(key) {
		c.label(key, value)
		return
	}
	c.edit(func(n *corev1.Node) {
		taint := record.Taint(key, value)
		n.Spec.Taints = append(slices.DeleteFunc(n.Spec.Taints, func(candidate corev1.Taint) bool { return candidate.MatchTaint(&taint) }), taint)
	})
}

func (c *cluster) unset(key string) {
	if record.IsTaint(key) {
		c.untaint(record.Taint(key, "").Key)
		return
	}
	c.edit(func(n *corev1.Node) { delete(n.Labels, key) })
}
