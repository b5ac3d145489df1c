package view

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/cli/nodestate"
	"nodekeep.dev/nodekeep/cli/nodestate/statetest"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

func TestDiffSaysWhatIsStillToBeRecordedAndRestoredAndWhatIsNotShown(t *testing.T) {
	ofKubelet := func(n *corev1.Node) {
		n.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:a":{}}}}`)}}
	}
	stale := func(n *corev1.Node) {
		n.Annotations = map[string]string{policy.StampAnnotation: record.Stamp{}.Merge(set{"a": "1", "b": "1", "c": "1"}, record.Record{}, 0).String()}
	}
	forgotten := func(r *record.Record) { *r = record.Forget(*r, []string{"b"}) }
	tainted := func(n *corev1.Node) { n.Annotations = map[string]string{policy.TaintsAnnotation: "r=1:NoSchedule"} }
	const rule = "taints: {rules: [{selector: a, taint: 'a={value}:NoSchedule'}]}"
	for name, c := range map[string]struct {
		state    nodestate.State
		policy   string
		items    map[string]string
		notShown map[string]string
	}{
		"nothing": {state: statetest.State(statetest.Live(set{"a": "1"}), statetest.Recorded(set{"a": "1"}))},
		"a client's changes": {
			state: statetest.State(statetest.Live(set{"a": "2", "c": "1"}), statetest.Recorded(set{"a": "1", "b": "1"})),
			items: set{"a": "changed on the Node, not recorded yet", "b": "removed from the Node, not recorded yet", "c": "not recorded yet"},
		},
		"a new object that lacks something": {
			state: statetest.State(statetest.Live(set{"a": "1"}), statetest.Recorded(set{"a": "1", "b": "1"}, statetest.OfAnother)),
			items: set{"b": "to be restored"},
		},
		"what was restored from a stale record": {
			state: statetest.State(statetest.Live(set{"a": "1", "b": "1", "c": "1"}, stale), statetest.Recorded(set{"a": "2", "b": "1"}, statetest.OfAnother, forgotten)),
			items: set{"a": "restored from a stale record, to be corrected", "b": "restored from a stale record, to be removed", "c": "not recorded yet"},
		},
		"a label that the kubelet sets itself": {
			state: statetest.State(statetest.Live(set{"a": "mine"}, ofKubelet), statetest.Recorded(set{"a": "1"}, statetest.OfAnother)), notShown: set{"a": string(policy.Conflict)},
		},
		"a label that the policy ignores": {
			state: statetest.State(statetest.Live(nil), statetest.Recorded(set{"a": "1"}, statetest.OfAnother)), policy: "labels: {ignore: [a]}", notShown: set{"a": string(policy.NotKept)},
		},
		"a quarantined record": {
			state: statetest.State(statetest.Live(nil), statetest.Recorded(set{"b": "1"}, statetest.OfAnother, statetest.Quarantining(set{"a": "2"}))), policy: "machine: {onMismatch: quarantine}",
			items:    set{"a": "another machine has taken the name; nothing is restored before an operator accepts a side"},
			notShown: set{"b": "another machine has taken the name; nothing is restored before an operator accepts a side"},
		},
		"rules": {
			state: statetest.State(statetest.Live(set{"a": "1", "r:NoSchedule": "1"}, tainted), statetest.Recorded(set{"a": "1"})), policy: rule,
			items: set{"a:NoSchedule": "a rule is to add it", "r:NoSchedule": "a rule is to remove it"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inputs := statetest.Under(statetest.Load(t, c.policy))
			inputs.GuardInForce = true
			difference := Diff(c.state, inputs)
			reasons := func(items []DifferentItem) map[string]string {
				var found map[string]string
				for _, item := range items {
					if found == nil {
						found = map[string]string{}
					}
					found[item.Item] = item.Reason
				}
				return found
			}
			assert.Equal(t, c.items, reasons(difference.Items))
			assert.Equal(t, c.notShown, reasons(difference.NotShown), "not shown")
		})
	}
}
