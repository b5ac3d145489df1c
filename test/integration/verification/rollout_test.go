package verification

import (
	"testing"

	"github.com/stretchr/testify/assert"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/verify"
)

func TestNodesThatExistAreTakenIntoVerificationAFewAtATimeUpToTheFirstThatFails(t *testing.T) {
	warm(t)
	names := []string{"exists-0", "exists-1", "exists-2", "exists-3", "exists-4"}
	kubelets := map[string]*kubelet{}
	for _, name := range names { // no profile selects them yet
		kubelets[name] = registerWith(t, name, map[string]string{"exists": "yes"}, honest)
		waitFor(t, name, "open", func(node *corev1.Node) bool { return len(node.Spec.Taints) == 0 })
	}
	nodekeep.MustKubectl(t, "label", "nodes", "-l", "exists=yes", selected+"=checked")
	kubelets["exists-2"].reportWith(failing)
	seen := watchFrom(t)

	run := func() harness.Answer {
		return nodekeep.Command(t, "", "", "recheck", "-l", "exists=yes", "--max", "40%", "--yes")
	}
	a := run()
	assert.Equal(t, 1, a.Code, a.ErrOut)
	assert.Contains(t, a.ErrOut, "node/exists-2 did not pass: failed")
	assert.Regexp(t, `\n  [123] Nodes? verified; \d closed, which open by themselves once they pass \(nodekeep list --waiting verification\); \d remain; run it again to go on\n$`, a.ErrOut)
	for _, name := range []string{"exists-0", "exists-1"} {
		waitOpen(t, name, 2)
	}
	assert.True(t, held(nodekeep.Node(t, "exists-2")))

	kubelets["exists-2"].reportWith(honest)
	waitOpen(t, "exists-2", 2)
	a = run()
	assert.Zero(t, a.Code, a.ErrOut)
	assert.Contains(t, a.Out, "verified\n")
	for _, name := range names {
		waitOpen(t, name, 2)
	}
	assert.LessOrEqual(t, seen.closed(t, names), 2, "40% of five")
	assert.Contains(t, run().ErrOut, "5 Nodes, 0 to be checked, at most 2 closed at one time; 5 passed these checks before")
	nodekeep.MustKubectl(t, "label", "node", "exists-4", verify.Label+"=no", "--overwrite") // the controller checks it again by itself
	waitOpen(t, "exists-4", 3)
}
