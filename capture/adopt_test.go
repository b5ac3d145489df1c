package capture

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

// adopting returns the annotation once an operator has handed labels over to a rule.
func adopting(rule string, labels labels) func(*corev1.Node) {
	derived := ruledBy(rule, labels)
	for key, label := range derived {
		label.Adopted = true
		derived[key] = label
	}
	return listing(derived)
}

func TestALabelThatAnOperatorHandsOverIsForgottenAndThenListedWithoutTheMark(t *testing.T) {
	protectedRule := "labels:\n  rules:\n  - {name: w, when: {names: ['*']}, set: {" + worker + ": \"\"}}\n"
	tier, role := labels{"tier": "gold"}, labels{worker: ""}
	for name, c := range map[string]struct {
		policy    string
		record    *record.Record
		node      *corev1.Node
		unguarded bool
		keeps     bool // it stays the operator's
	}{
		"set on this object":      {policy: tierRule, record: remembered("a", 9, tier), node: node("a", "10", tier, adopting("tier", tier))},
		"restored on this object": {policy: tierRule, record: remembered("z", 5, tier), node: node("a", "10", tier, adopting("tier", tier), stamped(record.Stamp{}.Merge(tier, record.Record{}, 0)))},
		"protected":               {policy: protectedRule, record: remembered("a", 9, role), node: node("a", "10", role, adopting("w", role))},
		"without guard policies, a kubelet may set it": {policy: tierRule, unguarded: true, record: remembered("a", 9, tier), node: node("a", "10", tier, adopting("tier", tier))},
		"without guard policies, no kubelet may set it: a kubelet may have written the mark": {
			policy: protectedRule, unguarded: true, keeps: true, record: remembered("a", 9, role), node: node("a", "10", role, adopting("w", role)),
		},
		"another value has been set since: the mark says nothing": {
			policy: tierRule, keeps: true, record: remembered("a", 9, labels{"tier": "iron"}), node: node("a", "10", labels{"tier": "iron"}, adopting("tier", tier)),
		},
	} {
		t.Run(name, func(t *testing.T) {
			inputs := plan.Inputs{Policy: loadPolicy(t, c.policy), GuardInForce: !c.unguarded, Now: now}
			entry, n := store.Entry{Record: *c.record}, observe.CompactNodeOf(observe.FromNode(c.node)).Node()
			next := Decide(entry, true, n, NodePresent, inputs)
			if c.keeps {
				if next.Record != nil {
					entry.Record = *next.Record
					next = Decide(entry, true, n, NodePresent, inputs)
				}
				assert.Equal(t, c.record.Items(), entry.Record.Items())
				assert.Empty(t, next.RuleEdits().Removed())
				return
			}
			require.NotNil(t, next.Record, "the record comes first")
			assert.Empty(t, next.Record.Items(), "it forgets that an operator set the label")
			entry.Record = *next.Record
			next = Decide(entry, true, n, NodePresent, inputs)
			require.Nil(t, next.Record)
			assert.Empty(t, next.EditedItems(), "no label is set or removed")
			require.True(t, next.WriteLabelsAnnotation)
			body := patchOf(t, n, next.Plan)
			assert.NotContains(t, body, "adopted")
			assert.Contains(t, body, policy.LabelsAnnotation)
			relisted := node("a", "12", n.Items, annotated(policy.LabelsAnnotation, *next.AnnotationPatch(n)[policy.LabelsAnnotation]))
			if stamp, ok := n.Stamp(true); ok {
				stamped(stamp)(relisted)
			}
			assert.Equal(t, NoStep, Decide(entry, true, observe.FromNode(relisted), NodePresent, inputs).Step, "that is all")

			rest := Decide(entry, true, observe.FromNode(relisted), NodePresent, plan.Inputs{Policy: loadPolicy(t, "").WithPredecessor(inputs.Policy), GuardInForce: !c.unguarded, Now: now})
			if rest.Record != nil {
				entry.Record = *rest.Record
				rest = Decide(entry, true, observe.FromNode(relisted), NodePresent, plan.Inputs{Policy: loadPolicy(t, "").WithPredecessor(inputs.Policy), GuardInForce: !c.unguarded, Now: now})
			}
			assert.Len(t, rest.RuleEdits().Removed(), 1, "it goes with its rule")
			assert.Empty(t, rest.RuleEdits().Values())
		})
	}
}

// Processes observe the states of a Node late, twice and in any order.
func TestALateObservationDoesNotRestoreALabelThatWasHandedOver(t *testing.T) {
	tier := labels{"tier": "gold"}
	inputs := plan.Inputs{Policy: loadPolicy(t, tierRule), GuardInForce: true, Now: now}
	states := []*observe.Node{
		observe.FromNode(node("a", "8", tier)),
		observe.FromNode(node("a", "10", tier, adopting("tier", tier))),
		observe.FromNode(node("a", "12", tier, listing(ruledBy("tier", tier)))),
	}
	for _, first := range []*record.Record{remembered("a", 5, tier), remembered("a", 9, tier), {}} {
		for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}, {1, 0, 1, 2, 0, 1}} {
			r := *first
			for _, i := range order {
				r = states[i].Merge(r, states[i].Observation(r, inputs.Policy, inputs.GuardInForce), inputs.Policy, now)
			}
			assert.Empty(t, r.Items(), "order %v, record %v", order, first.Items())
		}
	}
	changed := observe.FromNode(node("a", "11", labels{"tier": "iron"}, adopting("tier", tier)))
	r := states[1].Merge(*remembered("a", 9, tier), states[1].Observation(record.Record{}, inputs.Policy, true), inputs.Policy, now)
	r = changed.Merge(r, changed.Observation(r, inputs.Policy, true), inputs.Policy, now)
	assert.Equal(t, labels{"tier": "iron"}, r.Items(), "what an operator sets later counts")
}
