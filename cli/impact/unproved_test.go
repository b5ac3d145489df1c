package impact

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/cli/nodestate/statetest"
	"nodekeep.dev/nodekeep/verify"
)

func TestWhichProfilesAreNotProvedAndWhy(t *testing.T) {
	const gate, byDefault = "nodekeep.dev/restoring", "nodekeep.dev/unverified:NoSchedule"
	p := statetest.Load(t, `verify:
  profiles:
  - {name: waits, nodeSelector: waits=yes, wait: {conditions: {A: "True"}}}
  - {name: machine, nodeSelector: gpu=yes, checks: [{name: smi, container: {image: a}}, {name: net, dns: {names: [a]}, required: false}]}
  - {name: report, nodeSelector: report, mode: report, checks: [{name: api, api: {}}]}
  - {name: rest, nodeSelector: "!control", checks: [{name: api, api: {}}]}
`).Verify()
	rest, _ := p.Named("rest")
	node := func(items set) *corev1.Node {
		return statetest.Live(items, func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		})
	}
	annotated := func(n *corev1.Node, progress verify.Progress) *corev1.Node {
		n.Annotations = map[string]string{verify.Annotation: progress.String()}
		return n
	}
	passed := func(hash string, skipped ...string) verify.Progress {
		return verify.Progress{Round: 1, Hash: hash, Last: &verify.Last{Result: verify.VerdictPassed, Skipped: skipped}}
	}
	trial := func(result verify.Verdict, hash string) map[string]verify.SavedReport {
		return map[string]verify.SavedReport{"rest": {
			Node: "n", Profile: "rest", Hash: hash, Result: result, Check: "api", Reason: "Timeout", Message: "no\nanswer", Time: now.Add(-3 * time.Minute),
		}}
	}
	const untried = "profile rest: not yet proved: no trial on an open Node has ended yet"
	for name, row := range map[string]struct {
		nodes  []*corev1.Node
		trials map[string]verify.SavedReport
		want   string // empty: all are proved
	}{
		"no Node is selected":                            {nodes: []*corev1.Node{node(set{"control": ""})}},
		"a Node has passed":                              {nodes: []*corev1.Node{node(nil), annotated(node(nil), passed(rest.Hash))}},
		"a Node has passed, and is checked again":        {nodes: []*corev1.Node{annotated(node(set{byDefault: ""}), passed(rest.Hash))}},
		"a Node has passed, and a trial failed":          {nodes: []*corev1.Node{annotated(node(nil), passed(rest.Hash))}, trials: trial(verify.VerdictFailed, rest.Hash)},
		"a Node has passed other checks":                 {nodes: []*corev1.Node{annotated(node(nil), passed("other"))}, want: untried},
		"a Node has passed with checks left out":         {nodes: []*corev1.Node{annotated(node(nil), passed(rest.Hash, "api"))}, want: untried},
		"a Node was released":                            {nodes: []*corev1.Node{annotated(node(nil), verify.Progress{Hash: rest.Hash}.ReleasedBy("me", now))}, want: untried},
		"a trial has passed":                             {nodes: []*corev1.Node{node(nil)}, trials: trial(verify.VerdictPassed, rest.Hash)},
		"a trial of other checks has passed":             {nodes: []*corev1.Node{node(nil)}, trials: trial(verify.VerdictPassed, "other"), want: untried},
		"a trial without the checks that it is about":    {nodes: []*corev1.Node{node(nil)}, trials: trial(verify.VerdictPassed, ""), want: untried},
		"a trial of other checks has failed":             {nodes: []*corev1.Node{node(nil)}, trials: trial(verify.VerdictFailed, "other"), want: untried},
		"all Nodes wait":                                 {nodes: []*corev1.Node{node(set{byDefault: ""})}, want: "profile rest: not yet proved: no open Node of it to try on"},
		"the open Node is behind the gate":               {nodes: []*corev1.Node{node(set{gate + ":NoSchedule": ""})}, want: "profile rest: not yet proved: no open Node of it to try on"},
		"only checks of the machine are required":        {nodes: []*corev1.Node{node(set{"gpu": "yes"})}, want: "profile machine: not yet proved: it requires checks of kind container and kubelet alone, which are tried on no open Node; the first new Node that passes proves it"},
		"without checks there is nothing to be proved":   {nodes: []*corev1.Node{node(set{"waits": "yes"})}},
		"Nodes that are only reported wait for nothing":  {nodes: []*corev1.Node{node(set{"report": "yes"})}},
		"a trial has failed, also while no Node is open": {nodes: []*corev1.Node{node(set{byDefault: ""})}, trials: trial(verify.VerdictFailed, rest.Hash), want: "profile rest: not yet proved: check api failed in a trial on Node n 3m ago (Timeout): no answer; correct the check or what it asks for, or new Nodes wait; a controller that leads tries it again on the next open Node that it selects"},
		"a trial gave no result": {nodes: []*corev1.Node{node(nil)}, trials: map[string]verify.SavedReport{
			"rest": {Node: "n", Profile: "rest", Hash: rest.Hash, Result: verify.VerdictInconclusive, Reason: string(verify.CauseImage), Message: "x:1 of container c", Time: now.Add(-time.Minute)},
		}, want: "profile rest: not yet proved: the trial on Node n 60s ago gave no result: an image cannot be pulled: x:1 of container c; a controller that leads tries again by itself"},
	} {
		t.Run(name, func(t *testing.T) {
			proofs := NewProofs(p, gate)
			for _, node := range row.nodes {
				proofs.Add(node)
			}
			unproved := proofs.Unproved(row.trials, now)
			if row.want == "" {
				assert.Empty(t, unproved)
				return
			}
			require.Len(t, unproved, 1)
			assert.Equal(t, row.want, unproved[0].Line())
			text, err := json.Marshal(unproved)
			require.NoError(t, err)
			assert.Contains(t, string(text), `[{"profile":"`+unproved[0].Profile+`","why":"`)
		})
	}
}
