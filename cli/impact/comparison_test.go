package impact

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/cli/nodestate"
	"nodekeep.dev/nodekeep/cli/nodestate/statetest"
	"nodekeep.dev/nodekeep/governance"
	"nodekeep.dev/nodekeep/policy"
)

func TestComparisonCountsWhatAnotherPolicyWouldChange(t *testing.T) {
	worker := statetest.Present("worker-1", map[string]string{"dedicated": "ci", "example.com/a": "1", "node-role.kubernetes.io/worker": ""}, statetest.Taint("tenant", "blue"))
	gone := statetest.Past("worker-2", 5*time.Hour, map[string]string{"dedicated": "ci", "node-role.kubernetes.io/worker": ""})
	ruled := statetest.Present("worker-3", map[string]string{"dedicated": "ci"}, statetest.Taint("dedicated", "ci"))
	ruled.Record = statetest.Recorded(set{"dedicated": "ci"})
	ruled.Node.Annotations = map[string]string{policy.TaintsAnnotation: "dedicated=ci:NoSchedule"}
	foreign := statetest.Present("worker-4", map[string]string{"dedicated": "ci"}, statetest.Taint("dedicated", "mine"))
	byKubelet := statetest.Present("worker-5", map[string]string{"rack": "7"})
	byKubelet.Node.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:rack":{}}}}`)}}
	byKubelet.Record = statetest.Recorded(nil)
	held := statetest.Past("worker-6", time.Hour, map[string]string{"example.com/a": "1"})
	held.Record.Quarantined = statetest.Recorded(set{"example.com/a": "2"})

	const rule = "taints: {rules: [{selector: dedicated, taint: 'dedicated={value}:NoSchedule'}]}"
	for name, test := range map[string]struct {
		now, planned string
		states       []nodestate.State
		want         []string
		waiting      NowAndPlanned
		due          NowAndPlanned
	}{
		"the same policy": {states: []nodestate.State{worker, gone, ruled, foreign, byKubelet, held}, waiting: NowAndPlanned{3, 3}},
		"a key that is ignored from now on": {
			planned: "labels: {ignore: ['example.com/*']}", states: []nodestate.State{worker},
			want: []string{"dropped example.com/a (labels.ignore has example.com/*) 1 [worker-1]"}, waiting: NowAndPlanned{1, 1},
		},
		"a key that is no longer ignored": {
			now: "labels: {ignore: ['example.com/*']}", states: []nodestate.State{worker},
			want: []string{"kept example.com/a (labels.keep has *) 1 [worker-1]"}, waiting: NowAndPlanned{1, 1},
		},
		"a key that is ignored, of a deleted Node": {
			planned: "labels: {ignore: [dedicated]}", states: []nodestate.State{gone},
			want: []string{"notRestored dedicated (labels.ignore has dedicated) 1 [worker-2]"}, waiting: NowAndPlanned{1, 1},
		},
		"a key that was ignored, of a deleted Node": {
			now: "labels: {ignore: [dedicated]}", states: []nodestate.State{gone},
			want: []string{"restored dedicated (labels.keep has *) 1 [worker-2]"}, waiting: NowAndPlanned{1, 1},
		},
		"protected labels that are no longer restored": {
			planned: "labels: {protected: never}", states: []nodestate.State{worker, gone},
			want:    []string{"notRestored node-role.kubernetes.io/worker (protected, and the policy says never) 2 [worker-1 worker-2]"},
			waiting: NowAndPlanned{2, 0},
		},
		"protected labels in the CREATE itself": {
			planned: "labels: {protected: inline}", states: []nodestate.State{worker},
			want:    []string{"restoredInline node-role.kubernetes.io/worker () 1 [worker-1]"},
			waiting: NowAndPlanned{1, 0},
		},
		"a label that waits for capture when a kubelet registers": {
			planned: "labels: {defer: ['example.com/*']}", states: []nodestate.State{worker},
			want: []string{"deferred example.com/a (labels.defer has example.com/*) 1 [worker-1]"}, waiting: NowAndPlanned{1, 1},
		},
		"a label that no longer waits": {
			now: "labels: {defer: ['example.com/*']}", states: []nodestate.State{worker},
			want: []string{"restored example.com/a () 1 [worker-1]"}, waiting: NowAndPlanned{1, 1},
		},
		"protected labels behind the gate again": {
			now: "labels: {protected: never}", states: []nodestate.State{gone},
			want:    []string{"deferred node-role.kubernetes.io/worker () 1 [worker-2]"},
			waiting: NowAndPlanned{0, 1},
		},
		"a taint that is no longer kept": {
			planned: "taints: {keep: [maintenance]}", states: []nodestate.State{worker},
			want: []string{"dropped tenant:NoSchedule (taints.keep does not select it) 1 [worker-1]"}, waiting: NowAndPlanned{1, 1},
		},
		"a rule that taints a Node, and whose taint on another one has another owner": {
			planned: rule, states: []nodestate.State{worker, foreign},
			want: []string{"taintAdded dedicated=ci:NoSchedule () 1 [worker-1]", "blocked dedicated=ci:NoSchedule () 1 [worker-4]"}, waiting: NowAndPlanned{1, 1},
		},
		"a rule that taints at the registration of a deleted Node": {
			planned: rule, states: []nodestate.State{gone},
			want: []string{"registrationTaintAdded dedicated=ci:NoSchedule () 1 [worker-2]"}, waiting: NowAndPlanned{1, 1},
		},
		"a rule that goes": {
			now: rule, states: []nodestate.State{ruled, gone},
			want: []string{"taintRemoved dedicated=ci:NoSchedule () 1 [worker-3]", "registrationTaintDropped dedicated=ci:NoSchedule () 1 [worker-2]"}, waiting: NowAndPlanned{1, 1},
		},
		"a rule that goes, after which nobody keeps the taint that it set": {now: rule, planned: rule, states: []nodestate.State{ruled}},
		"a taint that new Nodes get once": {
			planned: "taints: {register: [{taint: 'example.com/unverified:NoSchedule', nodeSelector: dedicated}]}", states: []nodestate.State{worker, gone, byKubelet},
			want: []string{"registrationTaintAdded example.com/unverified:NoSchedule () 2 [worker-1 worker-2]"}, waiting: NowAndPlanned{2, 2},
		},
		"a taint that new Nodes got once, and that is kept from now on": {
			now: "taints: {register: [{taint: 'tenant=blue:NoSchedule'}]}", states: []nodestate.State{worker}, waiting: NowAndPlanned{1, 1},
			want: []string{"kept tenant:NoSchedule (taints.keep has *; no longer in taints.register: Nodes that have it keep it until a client removes it) 1 [worker-1]", "registrationTaintDropped tenant=blue:NoSchedule () 1 [worker-1]"},
		},
		"a manager that is no longer ignored": {
			planned: "labels: {ignoreManagers: []}", states: []nodestate.State{byKubelet},
			want: []string{"kept rack (labels.keep has *) 1 [worker-5]"},
		},
		"a shorter retention": {
			planned: "retention: 2h", states: []nodestate.State{gone, held, worker}, waiting: NowAndPlanned{3, 3}, due: NowAndPlanned{0, 1},
		},
		"what is not restored on another machine until an operator decides": {
			planned: "labels: {ignore: ['example.com/*']}", states: []nodestate.State{held}, waiting: NowAndPlanned{1, 1},
		},
		"a record that cannot be read": {
			planned: "labels: {ignore: ['example.com/*']}", states: []nodestate.State{{Name: "worker-1", Node: worker.Node, Unreadable: errors.New("torn")}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewComparison(statetest.Under(statetest.Load(t, test.now)), statetest.Load(t, test.planned), policy.NoRules, nil, nil)
			for _, s := range test.states {
				require.NoError(t, c.Add(s))
			}
			found := c.Impact()
			var got []string
			for _, change := range found.Changes {
				got = append(got, fmt.Sprintf("%s %s (%s) %d %v", change.Kind, change.Item, change.Reason, change.Nodes, change.First))
			}
			assert.Equal(t, test.want, got)
			assert.Equal(t, test.waiting, found.Waiting, "waiting")
			assert.Equal(t, test.due, found.Due, "due")
			assert.Equal(t, ContentChanges(statetest.Load(t, test.now).Content(), statetest.Load(t, test.planned).Content()), found.Settings)
			assert.Equal(t, test.now != test.planned, found.Changed())
		})
	}
}

func TestComparisonNamesTheNodesThatWouldBreakGovernance(t *testing.T) {
	c := NewComparison(statetest.Under(statetest.Load(t, "governance: {keys: [{key: tier, values: [gold]}]}")), statetest.Load(t, "governance: {keys: [{key: tier, values: [silver], mode: deny}, {key: owner, required: true, mode: warn}]}"), policy.NoRules, nil, nil)
	for i := range 7 {
		require.NoError(t, c.Add(statetest.Present(fmt.Sprintf("gold-%d", i), map[string]string{"tier": "gold", "owner": "me"})))
	}
	require.NoError(t, c.Add(statetest.Present("silver", map[string]string{"tier": "silver"})))
	require.NoError(t, c.Add(statetest.Past("gone", time.Hour, map[string]string{"tier": "iron"})))
	first := []string{"gold-0", "gold-1", "gold-2", "gold-3", "gold-4"}
	assert.Equal(t, []BrokenRule{
		{brokenRuleKey{"tier", governance.Value, governance.Deny}, NodeCount{7, first}, 7, first},
		{brokenRuleKey{"owner", governance.Required, governance.Warn}, NodeCount{1, []string{"silver"}}, 1, []string{"silver"}},
	}, c.Impact().Broken)

	c = NewComparison(c.planned, c.planned.Policy, policy.NoRules, nil, nil)
	require.NoError(t, c.Add(statetest.Present("gold", map[string]string{"tier": "gold", "owner": "me"})))
	assert.Equal(t, []BrokenRule{{brokenRuleKey{"tier", governance.Value, governance.Deny}, NodeCount{1, []string{"gold"}}, 0, nil}}, c.Impact().Broken, "it breaks the rule already")
	assert.False(t, c.Impact().Changed())
}

func TestComparisonLeavesInputsAlone(t *testing.T) {
	worker := statetest.Present("worker-1", map[string]string{"example.com/a": "1"})
	prev := worker.Record.Items()
	c := NewComparison(statetest.Under(statetest.Load(t, "labels: {keep: [b]}")), statetest.Load(t, ""), policy.NoRules, nil, nil)
	require.NoError(t, c.Add(worker))
	assert.Equal(t, prev, worker.Record.Items())
}

func TestComparisonIsBoundedHoweverManyNodesThereAre(t *testing.T) {
	c := NewComparison(statetest.Under(statetest.Load(t, "")), statetest.Load(t, "labels: {keep: [none]}"), policy.NoRules, nil, nil)
	const nodes = maxChanges + 10
	for i := range nodes {
		require.NoError(t, c.Add(statetest.Present(fmt.Sprintf("worker-%d", i), map[string]string{fmt.Sprintf("example.com/key-%d", i): "1", "pool": "a"})))
	}
	impact := c.Impact()
	assert.Equal(t, nodes, impact.Nodes)
	assert.Len(t, impact.Changes, maxChanges)
	assert.Equal(t, 11, impact.Omitted)
	first := NodeCount{nodes, []string{"worker-0", "worker-1", "worker-2", "worker-3", "worker-4"}}
	assert.Equal(t, Change{changeKey{Dropped, "pool", "labels.keep does not select it"}, first}, impact.Changes[0])
}

func TestOneSweepCollectsAFractionOfAllRecords(t *testing.T) {
	c := NewComparison(statetest.Under(statetest.Load(t, "")), statetest.Load(t, "retention: 1h"), policy.NoRules, nil, nil)
	for i := range 30 {
		require.NoError(t, c.Add(statetest.Past(fmt.Sprintf("worker-%02d", i), 5*time.Hour, map[string]string{"a": "1"})))
	}
	impact := c.Impact()
	assert.Equal(t, NowAndPlanned{0, 30}, impact.Due)
	assert.Equal(t, 3, impact.SweepsAtMost)
}

func TestAComparisonNamesFactsThatRulesAskForAndNoNodeHas(t *testing.T) {
	p := statetest.Load(t, `labels: {rules: [
  {name: gpu, when: {capacity: {nvidia.com/gpu: ">=1"}}, set: {gpu: "{capacity.nvidia.com/gpu}"}},
  {name: arm, when: {labels: kubernetes.io/arch=arm64}, set: {cpu: arm}},
  {name: arms, when: {any: [{labels: kubernetes.io/arch=arm64}, {labels: kubernetes.io/os=linux}]}, set: {tier: a}},
  {name: resize, when: {features: {Resize: "*"}}, set: {resize: "true"}}]}`)
	comparison := NewComparison(statetest.Under(statetest.Load(t, "")), p, "", nil, nil)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u", ResourceVersion: "5"}, Status: corev1.NodeStatus{
		Capacity:         corev1.ResourceList{"cpu": resource.MustParse("4")},
		NodeInfo:         corev1.NodeSystemInfo{Architecture: "amd64", OperatingSystem: "linux"},
		DeclaredFeatures: []string{"Other"},
	}}
	require.NoError(t, comparison.Add(nodestate.State{Name: "a", Node: node}))
	found := comparison.Impact()
	require.Len(t, found.Missing, 3)
	assert.Contains(t, found.Missing[2].Text(), "rules arm, arms ask for kubernetes.io/arch=arm64, which the one Node does not have. Unless such Nodes are to come")
}
