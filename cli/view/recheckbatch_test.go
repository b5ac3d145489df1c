package view

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"nodekeep.dev/nodekeep/cli/nodestate/statetest"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/verify"
)

var rolloutNow = time.Unix(1_700_000_000, 0)

// rolloutPolicy verifies Nodes with pool=a.
func rolloutPolicy(t *testing.T) policy.Policy {
	t.Helper()
	return statetest.Load(t, `verify:
  profiles:
  - name: a
    nodeSelector: pool=a
    checks: [{name: api, api: {}}]
`)
}

// rolloutNode returns a Ready Node of the pool that nobody has checked.
func rolloutNode(name string, changes ...func(*corev1.Node)) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("u-" + name), Labels: map[string]string{"pool": "a"}, Annotations: map[string]string{}},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	for _, change := range changes {
		change(node)
	}
	return node
}

func withProgress(progress verify.Progress) func(*corev1.Node) {
	return func(node *corev1.Node) { node.Annotations[verify.Annotation] = progress.String() }
}

func tainted(node *corev1.Node) {
	node.Spec.Taints = []corev1.Taint{{Key: verify.Taint, Effect: corev1.TaintEffectNoSchedule}}
}

func cordoned(node *corev1.Node) { node.Spec.Unschedulable = true }

func notReady(node *corev1.Node) { node.Status.Conditions[0].Status = corev1.ConditionFalse }

func TestARolloutClosesFewNodesAtATimeAndNeverTheLastThatTakesPods(t *testing.T) {
	p := rolloutPolicy(t)
	hash := p.Verify().All()[0].Hash
	last := func(result verify.Verdict) *verify.Last {
		return &verify.Last{Result: result, Check: "api", Reason: "Timeout", Message: "no answer", Time: rolloutNow.Add(-time.Minute)}
	}
	passed := func(node *corev1.Node) {
		node.Labels[verify.Label] = "true"
		withProgress(verify.Progress{Round: 2, Hash: hash, Last: last(verify.VerdictPassed)})(node)
	}
	failing := func(node *corev1.Node) {
		tainted(node)
		withProgress(verify.Progress{Round: 1, Attempts: 1, Failed: 1, Hash: hash, Last: last(verify.VerdictFailed)})(node)
	}
	n := rolloutNode
	for name, test := range map[string]struct {
		nodes    []*corev1.Node
		limit    int // 1 where it is 0
		repeat   bool
		taken    []string // opened once before
		closes   []string
		inFlight int
		verified int
		stop     string
		ended    bool
	}{
		"one of three":                           {nodes: []*corev1.Node{n("a"), n("b"), n("c")}, closes: []string{"a"}},
		"two of three":                           {nodes: []*corev1.Node{n("a"), n("b"), n("c")}, limit: 2, closes: []string{"a", "b"}},
		"all of three, but for the last":         {nodes: []*corev1.Node{n("a"), n("b"), n("c")}, limit: 3, closes: []string{"a", "b"}},
		"a Node that no profile selects stays":   {nodes: []*corev1.Node{n("a"), n("b", func(n *corev1.Node) { n.Labels = nil })}, limit: 2, closes: []string{"a"}},
		"Nodes that passed are left out":         {nodes: []*corev1.Node{n("a", passed), n("b"), n("c")}, closes: []string{"b"}},
		"with --again they are not":              {nodes: []*corev1.Node{n("a", passed), n("b"), n("c")}, repeat: true, closes: []string{"a"}},
		"Nodes that passed other checks are due": {nodes: []*corev1.Node{n("a", passed, withProgress(verify.Progress{Round: 1, Hash: "other", Last: last(verify.VerdictPassed)})), n("b", passed)}, closes: []string{"a"}},
		"a Node that passed and lost its label":  {nodes: []*corev1.Node{n("a", passed, func(n *corev1.Node) { delete(n.Labels, verify.Label) }), n("b", passed)}, closes: []string{"a"}},
		"Nodes that were released are the last":  {nodes: []*corev1.Node{n("a", withProgress(verify.Progress{Round: 1, Last: last(verify.VerdictReleased)})), n("b"), n("c", passed)}, closes: []string{"b"}},
		"nothing is due":                         {nodes: []*corev1.Node{n("a", passed), n("b", passed)}, ended: true},
		"Nodes that are not Ready are left out":  {nodes: []*corev1.Node{n("a", notReady), n("b", passed)}, ended: true},
		"a Node that registers is left out":      {nodes: []*corev1.Node{n("a", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: string(policy.DefaultGate)}} }), n("b", passed)}, ended: true},

		"a Node that is closed already counts":         {nodes: []*corev1.Node{n("a", tainted), n("b"), n("c")}},
		"with more room, the next is closed":           {nodes: []*corev1.Node{n("a", tainted), n("b"), n("c")}, limit: 2, closes: []string{"b"}},
		"a taken Node is waited for":                   {nodes: []*corev1.Node{n("a", tainted, withProgress(verify.Progress{Round: 1})), n("b"), n("c")}, taken: []string{"a"}, inFlight: 1},
		"once it has passed, the next":                 {nodes: []*corev1.Node{n("a", passed), n("b"), n("c")}, taken: []string{"a"}, verified: 1, closes: []string{"b"}},
		"all taken have passed":                        {nodes: []*corev1.Node{n("a", passed), n("b", passed)}, taken: []string{"a", "b"}, verified: 2, ended: true},
		"the last taken is waited for":                 {nodes: []*corev1.Node{n("a", passed), n("b", tainted)}, taken: []string{"a", "b"}, verified: 1, inFlight: 1},
		"a taken Node fails":                           {nodes: []*corev1.Node{n("a", failing), n("b"), n("c")}, limit: 2, taken: []string{"a"}, inFlight: 1, stop: "node/a did not pass: failed 60s ago: check api (Timeout): no answer"},
		"a taken Node is released":                     {nodes: []*corev1.Node{n("a", withProgress(verify.Progress{Round: 2, Last: last(verify.VerdictReleased)})), n("b")}, taken: []string{"a"}, stop: "node/a was opened without passing: released"},
		"another client removes the taint":             {nodes: []*corev1.Node{n("a", withProgress(verify.Progress{Round: 1})), n("b")}, taken: []string{"a"}, stop: "another client removed the taint"},
		"a taken Node is deleted":                      {nodes: []*corev1.Node{n("b"), n("c")}, taken: []string{"a"}, closes: []string{"b"}},
		"with --again, taken Nodes are not due again":  {nodes: []*corev1.Node{n("a", passed), n("b", passed)}, repeat: true, taken: []string{"a", "b"}, verified: 2, ended: true},
		"closed Nodes that failed leave no room":       {nodes: []*corev1.Node{n("a", failing), n("b"), n("c")}, stop: "node/a did not pass"},
		"a closed Node that may open leaves room soon": {nodes: []*corev1.Node{n("a", failing), n("b", tainted), n("c"), n("d")}, limit: 2},

		"the only Node stays open":                       {nodes: []*corev1.Node{n("a")}, limit: 3, stop: "node/a is the last Node that takes Pods, so it stays open; nodekeep recheck a checks it"},
		"the last Node that is not cordoned":             {nodes: []*corev1.Node{n("a"), n("b", cordoned, passed)}, stop: "node/a is the last Node"},
		"a cordoned Node takes no Pods anyway":           {nodes: []*corev1.Node{n("a", cordoned), n("b", passed)}, closes: []string{"a"}},
		"the last Node waits for one that is taken":      {nodes: []*corev1.Node{n("a", tainted), n("b")}, limit: 2, taken: []string{"a"}, inFlight: 1},
		"the last Node waits for one that was closed":    {nodes: []*corev1.Node{n("a", tainted), n("b")}, limit: 2},
		"the last Node does not wait for one that fails": {nodes: []*corev1.Node{n("a", failing), n("b")}, limit: 2, stop: "node/b is the last Node"},
	} {
		t.Run(name, func(t *testing.T) {
			var taken []ClosedNode
			for _, name := range test.taken {
				taken = append(taken, ClosedNode{Name: name, UID: "u-" + name, Round: 1})
			}
			r := RecheckStateOf(test.nodes, labels.Everything(), p, rolloutNow)
			step := r.Next(max(1, test.limit), test.repeat, taken)
			var closes []string
			for _, node := range step.Close {
				closes = append(closes, node.Name)
			}
			assert.Equal(t, test.closes, closes)
			assert.Equal(t, test.ended, step.Ended)
			assert.Equal(t, test.inFlight, step.InFlight)
			assert.Equal(t, test.verified, step.Verified)
			if test.stop == "" {
				assert.Empty(t, step.Stop)
			}
			assert.Contains(t, step.Stop, test.stop)
		})
	}
}

func TestHowManyNodesARolloutClosesAtOneTime(t *testing.T) {
	for _, test := range []struct {
		nodes int
		max   string
		want  int
	}{{3, "10%", 1}, {3, "34%", 1}, {3, "67%", 2}, {100, "10%", 10}, {109, "10%", 10}, {5, "3", 3}, {0, "10%", 1}} {
		r := RecheckState{Nodes: make([]RecheckNode, test.nodes)}
		assert.Equal(t, test.want, r.Limit(intstr.Parse(test.max)), fmt.Sprint(test))
	}
}
