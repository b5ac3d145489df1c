package trial

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/api/v1alpha1"
	"nodekeep.dev/nodekeep/record"
)

// sample returns a cluster of two Nodes that live, the second behind the gate and not verified, and one that is deleted.
func sample() State {
	object := record.Object{UID: "1"}
	return State{
		Time: time.Now(),
		Nodes: map[string]*corev1.Node{
			"a": {ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"rack": "r1"}}},
			"b": {ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{
				{Key: gateKey, Effect: corev1.TaintEffectNoSchedule}, {Key: unverifiedKey, Effect: corev1.TaintEffectNoSchedule},
			}}},
		},
		Records: map[string]record.Record{
			"a": record.New("a", object, map[string]string{"rack": "r1"}),
			"c": record.New("c", object, map[string]string{"rack": "r3", "tenant:NoSchedule": ""}),
		},
		Pods:   map[string][]string{webhookProcess: {"w"}, captureProcess: {"p"}, verifyProcess: {"v"}},
		Leader: "p",
		Policy: &v1alpha1.NodePolicy{
			ObjectMeta: metav1.ObjectMeta{Generation: 2},
			Status: v1alpha1.NodePolicyStatus{
				ObservedGeneration: 2, ReadBy: map[string]int64{"w": 2, "p": 2, "v": 2},
				Conditions: []metav1.Condition{{Type: v1alpha1.Accepted, Status: metav1.ConditionTrue, ObservedGeneration: 2}},
			},
		},
	}
}

func TestTheCheckerFindsWhatIsNotTrue(t *testing.T) {
	emergency := func(s *State) { s.Emergency = true }
	invalid := func(s *State) { s.Policy.Status.Conditions[0].Status = metav1.ConditionFalse }
	behind := func(s *State) { s.Policy.Status.ReadBy["v"] = 1 }
	const lists = "NAME   STATUS       SINCE   LABELS   TAINTS   GATED\n"
	for name, row := range map[string]struct {
		command []string
		text    string
		code    int
		change  func(s *State)
		untrue  int
	}{
		"a list that is right": {
			command: []string{"list"}, text: lists + "a      Present      3s      1        0        no\nb      Present      3s      0        0        yes\nc      Gone         3s      1        1        no\n",
		},
		"a list without a Node": {
			command: []string{"list"}, text: lists + "a      Present      3s      1        0        no\nb      Present      3s      0        0        yes\n", untrue: 1,
		},
		"a list with wrong status, count and gate": {
			command: []string{"list"}, text: lists + "a      Gone         3s      2        0        yes\nb      Present      3s      0        0        yes\nc      Gone         3s      1        1        no\n", untrue: 3,
		},
		"a Node with nothing to keep, as unrecorded": {
			command: []string{"list"}, text: lists + "a      Present      3s      1        0        no\nb      Unrecorded   3s      0        0        yes\nc      Gone         3s      1        1        no\n", untrue: 1,
		},
		"the gate":                   {command: []string{"list", "--waiting", "gate"}, text: "NAME   GATED   WHY\nb      3s      x\n"},
		"no Node at the gate":        {command: []string{"list", "--waiting", "gate"}, text: "No Node is behind the gate.\n", untrue: 1},
		"another Node":               {command: []string{"list", "--waiting", "gate"}, text: "NAME   GATED   WHY\nb      3s      x\na      1s      y\n", untrue: 1},
		"no differences":             {command: []string{"show", "a", "--diff"}, text: "No differences.\n"},
		"differences, unsaid":        {command: []string{"show", "a", "--diff"}, text: "No differences.\n", change: func(s *State) { s.Nodes["a"].Labels = nil }, untrue: 1},
		"a wrong difference":         {command: []string{"show", "a", "--diff"}, text: "DIFFERENT   KEY    RECORD   NODE   WHY\nlabel       rack   r2       -      x\n", untrue: 2},
		"a record":                   {command: []string{"show", "c"}, text: "Status:   Gone, for 3s\n\nRECORDED   KEY                 VALUE   STATE\nlabel      rack                r3      recorded\ntaint      tenant:NoSchedule   \"\"      recorded\n"},
		"a record, in part":          {command: []string{"show", "c"}, text: "Status:   Present\n\nRECORDED   KEY    VALUE   STATE\nlabel      rack   r4      recorded\n", untrue: 3},
		"an explanation":             {command: []string{"explain", "a"}, text: "Status:   Present\n\nITEM    KEY    NODE   RECORD   WHY\nlabel   rack   r1     r1       x\n"},
		"capture does not run":       {command: []string{"explain", "a"}, text: "Status:   Present\n", change: func(s *State) { s.Leader, s.Pods[captureProcess] = "", nil }, untrue: 1},
		"verification":               {command: []string{"list", "--waiting", "verification"}, text: "NAME   STATE      WHY\na      verified   -\nb      stuck      -\n"},
		"open, with the taint":       {command: []string{"list", "--waiting", "verification"}, text: "NAME   STATE   WHY\nb      open    -\n", untrue: 1},
		"a closed Node, unsaid":      {command: []string{"list", "--waiting", "verification"}, text: "every Node is open\n", untrue: 1},
		"one Node's state":           {command: []string{"show", "b", "--verification"}, text: "State:   verified\n", untrue: 1},
		"an old Pod of an open Node": {command: []string{"show", "a", "--verification"}, text: "State:   open\nWhy:   an old worker Pod is on the Node: x\n", untrue: 1},
		"no controller, unsaid":      {command: []string{"show", "b", "--verification"}, text: "State:   stuck\n", change: func(s *State) { s.Pods[verifyProcess] = nil }, untrue: 1},
		"no controller, said":        {command: []string{"show", "b", "--verification"}, text: "No verification controller has led for 40s, so nothing is checked until one does.\nState:   stuck\n", change: func(s *State) { s.Pods[verifyProcess] = nil }},
		"a controller, denied":       {command: []string{"show", "b", "--verification"}, text: "No verification controller has ever led here.\nState:   stuck\n", untrue: 1},
		"history":                    {command: []string{"show", "a", "--history"}, text: "NUMBER   KEY    FROM   TO\n1        rack   -      r2\n", untrue: 1},
		"a report":                   {command: []string{"report"}, text: "Nodes:   3\n", untrue: 1},
		"no webhook runs":            {command: []string{"doctor"}, text: "CHECK             STATUS   WHAT\nwebhook-answers   ok       3 of 3\n", code: 1, change: func(s *State) { s.Pods[webhookProcess] = nil }, untrue: 1},
		"doctor ends well":           {command: []string{"doctor"}, text: "all is well", change: func(s *State) { s.Pods[captureProcess] = nil }, untrue: 1},
		"a wrong count":              {command: []string{"doctor"}, text: "CHECK         STATUS   WHAT\ngated-nodes   ok       0 of 2 Nodes are behind the gate\n", untrue: 1},
		"an emergency, unsaid":       {command: []string{"explain", "a"}, change: emergency, untrue: 1},
		"an emergency, said":         {command: []string{"explain", "a"}, text: "An emergency was declared 3s ago.", change: emergency},
		"recheck, in an emergency":   {command: []string{"show", "b", "--verification"}, text: "An emergency was declared 3s ago.\nState: stuck\nWhy: x; `nodekeep recheck b` checks it\n", change: emergency, untrue: 1},
		"no emergency":               {command: []string{"explain", "a"}, text: "An emergency was declared 3s ago.", untrue: 1},
		"an invalid policy":          {command: []string{"explain", "a"}, change: invalid, untrue: 1},
		"a valid one":                {command: []string{"explain", "a"}, text: "what was accepted last stays in force", untrue: 1},
		"not read, unsaid":           {command: []string{"explain", "a"}, change: behind, untrue: 1},
		"all have read it":           {command: []string{"explain", "a"}, text: "not read yet by v", untrue: 1},
	} {
		t.Run(name, func(t *testing.T) {
			state := sample()
			if row.change != nil {
				row.change(&state)
			}
			assert.Len(t, Untrue(Output{Command: row.command, Text: row.text, Code: row.code}, state), row.untrue)
		})
	}
}

func TestWhatWasTrueBeforeOrAfterIsTrue(t *testing.T) {
	prev, next := sample(), sample()
	next.Nodes["b"].Spec.Taints = nil
	out := Output{Command: []string{"list", "--waiting", "gate"}, Text: "No Node is behind the gate.\n"}
	assert.Empty(t, Untrue(out, prev, next))
	assert.Empty(t, Untrue(out, next, prev))
	assert.NotEmpty(t, Untrue(out, prev, prev))
}
