package view

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/cli/impact"
	"nodekeep.dev/nodekeep/governance"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/policy/policytest"
	"nodekeep.dev/nodekeep/record"
)

func TestComparisonCountsWhatAnotherPolicyWouldChange(t *testing.T) {
	worker := present("worker-1", map[string]string{"dedicated": "ci", "example.com/a": "1", "node-role.kubernetes.io/worker": ""}, taint("tenant", "blue"))
	gone := past("worker-2", 5*time.Hour, map[string]string{"dedicated": "ci", "node-role.kubernetes.io/worker": ""})
	ruled := present("worker-3", map[string]string{"dedicated": "ci"}, taint("dedicated", "ci"))
	ruled.Record = recorded(set{"dedicated": "ci"})
	ruled.Node.Annotations = map[string]string{policy.TaintsAnnotation: "dedicated=ci:NoSchedule"}
	foreign := present("worker-4", map[string]string{"dedicated": "ci"}, taint("dedicated", "mine"))
	byKubelet := present("worker-5", map[string]string{"rack": "7"})
	byKubelet.Node.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:rack":{}}}}`)}}
	byKubelet.Record = recorded(nil)
	held := past("worker-6", time.Hour, map[string]string{"example.com/a": "1"})
	held.Record.Quarantined = recorded(set{"example.com/a": "2"})

	const rule = "taints: {rules: [{selector: dedicated, taint: 'dedicated={value}:NoSchedule'}]}"
	for name, test := range map[string]struct {
		now, then string
		states    []NodeState
		want      []string
		waiting   Count
		due       Count
	}{
		"the same policy": {states: []NodeState{worker, gone, ruled, foreign, byKubelet, held}, waiting: Count{3, 3}},
		"a key that is ignored from now on": {
			then: "labels: {ignore: ['example.com/*']}", states: []NodeState{worker},
			want: []string{"dropped example.com/a (labels.ignore has example.com/*) 1 [worker-1]"}, waiting: Count{1, 1},
		},
		"a key that is no longer ignored": {
			now: "labels: {ignore: ['example.com/*']}", states: []NodeState{worker},
			want: []string{"kept example.com/a (labels.keep has *) 1 [worker-1]"}, waiting: Count{1, 1},
		},
		"a key that is ignored, of a deleted Node": {
			then: "labels: {ignore: [dedicated]}", states: []NodeState{gone},
			want: []string{"notGiven dedicated (labels.ignore has dedicated) 1 [worker-2]"}, waiting: Count{1, 1},
		},
		"a key that was ignored, of a deleted Node": {
			now: "labels: {ignore: [dedicated]}", states: []NodeState{gone},
			want: []string{"restored dedicated (labels.keep has *) 1 [worker-2]"}, waiting: Count{1, 1},
		},
		"protected labels that are no longer restored": {
			then: "labels: {protected: never}", states: []NodeState{worker, gone},
			want:    []string{"notGiven node-role.kubernetes.io/worker (protected, and the policy says never) 2 [worker-1 worker-2]"},
			waiting: Count{2, 0},
		},
		"protected labels in the CREATE itself": {
			then: "labels: {protected: inline}", states: []NodeState{worker},
			want:    []string{"inlined node-role.kubernetes.io/worker () 1 [worker-1]"},
			waiting: Count{1, 0},
		},
		"a label that waits for capture when a kubelet registers": {
			then: "labels: {defer: ['example.com/*']}", states: []NodeState{worker},
			want: []string{"deferred example.com/a (labels.defer has example.com/*) 1 [worker-1]"}, waiting: Count{1, 1},
		},
		"a label that no longer waits": {
			now: "labels: {defer: ['example.com/*']}", states: []NodeState{worker},
			want: []string{"restored example.com/a () 1 [worker-1]"}, waiting: Count{1, 1},
		},
		"protected labels behind the gate again": {
			now: "labels: {protected: never}", states: []NodeState{gone},
			want:    []string{"deferred node-role.kubernetes.io/worker () 1 [worker-2]"},
			waiting: Count{0, 1},
		},
		"a taint that is no longer kept": {
			then: "taints: {keep: [maintenance]}", states: []NodeState{worker},
			want: []string{"dropped tenant:NoSchedule (taints.keep does not select it) 1 [worker-1]"}, waiting: Count{1, 1},
		},
		"a rule that taints a Node, and whose taint on another one has another owner": {
			then: rule, states: []NodeState{worker, foreign},
			want: []string{"putOn dedicated=ci:NoSchedule () 1 [worker-1]", "blocked dedicated=ci:NoSchedule () 1 [worker-4]"}, waiting: Count{1, 1},
		},
		"a rule that taints at the registration of a deleted Node": {
			then: rule, states: []NodeState{gone},
			want: []string{"registered dedicated=ci:NoSchedule () 1 [worker-2]"}, waiting: Count{1, 1},
		},
		"a rule that goes": {
			now: rule, states: []NodeState{ruled, gone},
			want: []string{"takenOff dedicated=ci:NoSchedule () 1 [worker-3]", "notAnyMore dedicated=ci:NoSchedule () 1 [worker-2]"}, waiting: Count{1, 1},
		},
		"a rule that goes, after which nobody keeps the taint that it set": {now: rule, then: rule, states: []NodeState{ruled}},
		"a taint that new Nodes get once": {
			then: "taints: {register: [{taint: 'example.com/unverified:NoSchedule', nodeSelector: dedicated}]}", states: []NodeState{worker, gone, byKubelet},
			want: []string{"registered example.com/unverified:NoSchedule () 2 [worker-1 worker-2]"}, waiting: Count{2, 2},
		},
		"a taint that new Nodes got once, and that is kept from now on": {
			now: "taints: {register: [{taint: 'tenant=blue:NoSchedule'}]}", states: []NodeState{worker}, waiting: Count{1, 1},
			want: []string{"kept tenant:NoSchedule (taints.keep has *; no longer in taints.register: Nodes that have it keep it until a client removes it) 1 [worker-1]", "notAnyMore tenant=blue:NoSchedule () 1 [worker-1]"},
		},
		"a manager that is no longer ignored": {
			then: "labels: {ignoreManagers: []}", states: []NodeState{byKubelet},
			want: []string{"kept rack (labels.keep has *) 1 [worker-5]"},
		},
		"a shorter retention": {
			then: "retention: 2h", states: []NodeState{gone, held, worker}, waiting: Count{3, 3}, due: Count{0, 1},
		},
		"what is not restored on another machine until an operator decides": {
			then: "labels: {ignore: ['example.com/*']}", states: []NodeState{held}, waiting: Count{1, 1},
		},
		"a record that cannot be read": {
			then: "labels: {ignore: ['example.com/*']}", states: []NodeState{{Name: "worker-1", Node: worker.Node, Unreadable: errors.New("torn")}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewComparison(under(load(t, test.now)), load(t, test.then), policy.NoRules, nil, nil)
			for _, s := range test.states {
				require.NoError(t, c.See(s))
			}
			found := c.Impact()
			var got []string
			for _, change := range found.Changes {
				got = append(got, fmt.Sprintf("%s %s (%s) %d %v", change.Kind, change.Item, change.Why, change.Nodes, change.First))
			}
			assert.Equal(t, test.want, got)
			assert.Equal(t, test.waiting, found.Waiting, "waiting")
			assert.Equal(t, test.due, found.Due, "due")
			assert.Equal(t, impact.ContentChanges(load(t, test.now).Content(), load(t, test.then).Content()), found.Settings)
			assert.Equal(t, test.now != test.then, found.Changed())
		})
	}
}

func TestATableShowsWhereLongValuesDiffer(t *testing.T) {
	same := strings.Repeat("x", 1000)
	now, then := excerpts(impact.SettingChange{Now: same + "one", Then: same + "two" + same})
	assert.Equal(t, "..."+same[:50]+"one", now)
	assert.True(t, strings.HasPrefix(then, "..."+same[:50]+"twox"), then)
	assert.Len(t, then, 3+longestSetting+3)
	now, then = excerpts(impact.SettingChange{Then: "b"})
	assert.Equal(t, []string{"-", "b"}, []string{now, then})
}

func TestComparisonNamesTheNodesThatWouldBreakGovernance(t *testing.T) {
	c := NewComparison(under(load(t, "governance: {keys: [{key: tier, values: [gold]}]}")), load(t, "governance: {keys: [{key: tier, values: [silver], mode: deny}, {key: owner, required: true, mode: warn}]}"), policy.NoRules, nil, nil)
	for i := range 7 {
		require.NoError(t, c.See(present(fmt.Sprintf("gold-%d", i), map[string]string{"tier": "gold", "owner": "me"})))
	}
	require.NoError(t, c.See(present("silver", map[string]string{"tier": "silver"})))
	require.NoError(t, c.See(past("gone", time.Hour, map[string]string{"tier": "iron"})))
	first := []string{"gold-0", "gold-1", "gold-2", "gold-3", "gold-4"}
	assert.Equal(t, []BrokenRule{
		{brokenRule{"tier", governance.Value, governance.Deny}, NodeCount{7, first}, 7, first},
		{brokenRule{"owner", governance.Required, governance.Warn}, NodeCount{1, []string{"silver"}}, 1, []string{"silver"}},
	}, c.Impact().Broken)

	c = NewComparison(c.then, c.then.Policy, policy.NoRules, nil, nil)
	require.NoError(t, c.See(present("gold", map[string]string{"tier": "gold", "owner": "me"})))
	assert.Equal(t, []BrokenRule{{brokenRule{"tier", governance.Value, governance.Deny}, NodeCount{1, []string{"gold"}}, 0, nil}}, c.Impact().Broken, "it breaks the rule already")
	assert.False(t, c.Impact().Changed())
}

func TestComparisonLeavesInputsAlone(t *testing.T) {
	worker := present("worker-1", map[string]string{"example.com/a": "1"})
	before := worker.Record.Items()
	c := NewComparison(under(load(t, "labels: {keep: [b]}")), load(t, ""), policy.NoRules, nil, nil)
	require.NoError(t, c.See(worker))
	assert.Equal(t, before, worker.Record.Items())
}

func TestComparisonIsBoundedHoweverManyNodesThereAre(t *testing.T) {
	c := NewComparison(under(load(t, "")), load(t, "labels: {keep: [none]}"), policy.NoRules, nil, nil)
	const nodes = mostChanges + 10
	for i := range nodes {
		require.NoError(t, c.See(present(fmt.Sprintf("worker-%d", i), map[string]string{fmt.Sprintf("example.com/key-%d", i): "1", "pool": "a"})))
	}
	impact := c.Impact()
	assert.Equal(t, nodes, impact.Nodes)
	assert.Len(t, impact.Changes, mostChanges)
	assert.Equal(t, 11, impact.More)
	first := NodeCount{nodes, []string{"worker-0", "worker-1", "worker-2", "worker-3", "worker-4"}}
	assert.Equal(t, Change{changed{Dropped, "pool", "labels.keep does not select it"}, first}, impact.Changes[0])
}

func TestOneSweepCollectsAFractionOfAllRecords(t *testing.T) {
	c := NewComparison(under(load(t, "")), load(t, "retention: 1h"), policy.NoRules, nil, nil)
	for i := range 30 {
		require.NoError(t, c.See(past(fmt.Sprintf("worker-%02d", i), 5*time.Hour, map[string]string{"a": "1"})))
	}
	impact := c.Impact()
	assert.Equal(t, Count{0, 30}, impact.Due)
	assert.Equal(t, 3, impact.SweepsAtMost)
}

// load reads sections of a policy file; without any it is the default.
func load(t *testing.T, sections string) policy.Policy {
	t.Helper()
	p, err := policy.Load([]byte(policytest.Manifest(sections)), policy.DefaultGate)
	require.NoError(t, err)
	return p
}

// present returns a Node and the record of it.
func present(name string, labels map[string]string, taints ...corev1.Taint) NodeState {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "1", ResourceVersion: "5", Labels: labels}, Spec: corev1.NodeSpec{Taints: taints}}
	s := NodeState{Name: name, Node: node, Record: recorded(record.Join(labels, taints))}
	s.Record.Node = name
	return s
}

// past returns the record of a deleted Node.
func past(name string, since time.Duration, items map[string]string) NodeState {
	s := NodeState{Name: name, Record: recorded(items, goneSince(since))}
	s.Record.Node = name
	return s
}

func taint(key, value string) corev1.Taint {
	return corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffectNoSchedule}
}

func TestAComparisonNamesFactsThatRulesAskForAndNoNodeHas(t *testing.T) {
	p := load(t, `labels: {rules: [
  {name: gpu, when: {capacity: {nvidia.com/gpu: ">=1"}}, set: {gpu: "{capacity.nvidia.com/gpu}"}},
  {name: arm, when: {node: {arch: arm64}}, set: {cpu: arm}},
  {name: arms, when: {any: [{node: {arch: arm64}}, {node: {os: linux}}]}, set: {tier: a}},
  {name: resize, when: {features: {Resize: "*"}}, set: {resize: "true"}}]}`)
	comparison := NewComparison(under(load(t, "")), p, "", nil, nil)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u", ResourceVersion: "5"}, Status: corev1.NodeStatus{
		Capacity:         corev1.ResourceList{"cpu": resource.MustParse("4")},
		NodeInfo:         corev1.NodeSystemInfo{Architecture: "amd64", OperatingSystem: "linux"},
		DeclaredFeatures: []string{"Other"},
	}}
	require.NoError(t, comparison.See(NodeState{Name: "a", Node: node}))
	found := comparison.Impact()
	require.Len(t, found.Missing, 3)
	var d Document
	found.document(&d)
	assert.Contains(t, text(d), "Note: rules arm, arms ask for node.arch arm64, which the one Node does not have. Unless such Nodes are to come")
}
