package view

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/cli/nodestate"
	"nodekeep.dev/nodekeep/cli/nodestate/statetest"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/record/history"
)

func TestASummaryCountsTheItemsAndSaysWhoChangedThemLast(t *testing.T) {
	prev := *statetest.Recorded(set{"a": "1", "b": "2", "t:NoSchedule": ""}, statetest.NotShown("b"))
	r := history.Append(prev, record.Forget(prev, []string{"a"}), func(string, history.Values) history.Cause {
		return history.Cause{Actor: "alice", Time: metav1.NewTime(now.Add(-time.Minute))}
	})
	r.RuleLabels = map[string]record.RuleLabel{"tier": {Value: "gold", Rule: "all"}, "rack": {Absent: true, Rule: "all"}}
	summary := SummaryOf(statetest.State(statetest.Live(set{"t:NoSchedule": ""}), &r), statetest.Under(policy.Default()))
	assert.Equal(t, Summary{
		Name: "n1", Status: nodestate.Present, StatusStart: now.Add(-time.Hour), UID: "1", Labels: 1, Taints: 1, NotShown: 1, RuleLabels: 1,
		LastChange: now.Add(-time.Minute), ChangedBy: "alice", Current: false, Reason: "change not recorded yet",
	}, summary)
}

// ofNodekeep says by managedFields that nodekeep has set label a.
func ofNodekeep(node *corev1.Node) {
	node.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: observe.FieldManager, Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:a":{}}}}`)}}
}

// ofArgo says that a tool owned label a.
func ofArgo(r *record.Record) { r.Entries[0].Owners = "Apply argocd-controller" }

func TestWhatIsLeftToDoAboutANode(t *testing.T) {
	combined := set{"a": "1", "t:NoSchedule": ""}
	for name, c := range map[string]struct {
		state nodestate.State
		want  string
	}{
		"nothing":                           {statetest.State(statetest.Live(combined), statetest.Recorded(combined)), ""},
		"nothing of a deleted one":          {statetest.State(nil, statetest.Recorded(combined, statetest.GoneSince(time.Hour))), ""},
		"nobody has seen it go":             {statetest.State(nil, statetest.Recorded(combined)), "not marked as deleted"},
		"no record":                         {statetest.State(statetest.Live(combined), nil), "not recorded yet"},
		"nothing to be remembered":          {statetest.State(statetest.Live(nil), nil), ""},
		"another value":                     {statetest.State(statetest.Live(set{"a": "2", "t:NoSchedule": ""}), statetest.Recorded(combined)), "change not recorded yet"},
		"a new object that lacks something": {statetest.State(statetest.Live(nil), statetest.Recorded(combined, statetest.OfAnother)), "2 to restore"},
		"a new object that has all":         {statetest.State(statetest.Live(combined), statetest.Recorded(combined, statetest.OfAnother)), "change not recorded yet"},
		"the gate":                          {statetest.State(statetest.Live(combined, gatedFor(time.Hour)), statetest.Recorded(combined)), "gate to be lifted"},
		"two machines":                      {statetest.State(statetest.Live(combined), statetest.Recorded(combined, statetest.Quarantining(combined))), "quarantined"},
		"a boot":                            {statetest.State(statetest.Live(combined, rebooted), statetest.Recorded(combined)), "boot to be noted"},
		"an owner":                          {statetest.State(statetest.Live(combined, ofNodekeep), statetest.Recorded(combined, ofArgo)), "owners to restore"},
	} {
		t.Run(name, func(t *testing.T) {
			summary := SummaryOf(c.state, statetest.Under(policy.Default()))
			assert.Equal(t, c.want, summary.Reason)
			assert.Equal(t, c.want == "", summary.Current)
		})
	}
}

// rebooted has the Node run another boot than its stamp names.
func rebooted(n *corev1.Node) {
	n.Status.NodeInfo.BootID = "2"
	n.Annotations = map[string]string{policy.StampAnnotation: record.Stamp{Boot: "1"}.String()}
}
