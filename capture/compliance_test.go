package capture

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/governance"
)

func TestComplianceCountsNodesAndKnowsSinceWhenTheyBreakRules(t *testing.T) {
	c := newCompliance()
	reserved := brokenRule{"*.example.com/*", governance.Reserved}
	denied := []governance.Violation{
		{Rule: reserved.rule, Kind: reserved.kind, Key: "a.example.com/x", Mode: governance.Deny},
		{Rule: reserved.rule, Kind: reserved.kind, Key: "a.example.com/y", Mode: governance.Deny},
	}
	audited := []governance.Violation{{Rule: "cost", Kind: governance.Value, Key: "cost", Mode: governance.Audit}}
	at := func(minutes int) time.Time { return now.Add(time.Duration(minutes) * time.Minute) }

	assert.Equal(t, at(0), c.observe("n1", "a", denied, at(0)))
	assert.Equal(t, 1, c.nodes(reserved), "a Node counts once, however many reserved keys it has")
	assert.Equal(t, at(0), c.observe("n1", "a", denied, at(1)), "since the first time")
	assert.Equal(t, 1, c.nodes(reserved))
	assert.Equal(t, at(2), c.observe("n1", "b", denied, at(2)), "another object of the name begins anew")

	assert.Equal(t, at(3), c.observe("n2", "c", denied, at(3)))
	assert.Equal(t, 2, c.nodes(reserved))
	assert.Zero(t, c.observe("n2", "c", audited, at(4)), "rules of mode audit cause no taint")
	assert.Equal(t, 1, c.nodes(brokenRule{"cost", governance.Value}))
	assert.Equal(t, at(5), c.observe("n2", "c", denied, at(5)), "it broke no rule of mode deny meanwhile")

	c.forget("n1")
	assert.Zero(t, c.observe("n2", "c", nil, at(6)))
	assert.Zero(t, c.nodes(reserved))
	assert.Empty(t, c.byNode, "only Nodes that break a rule are held")
	assert.Empty(t, c.counts)
}

func TestAHeartbeatOfANodeThatBreaksARuleCausesNoWork(t *testing.T) {
	w := newCluster(t, "governance: {keys: [{key: tier, values: [gold], mode: deny}]}\n")
	w.register(node("a", "10", labels{"tier": "iron"}, owned("kubectl-label", "tier")))
	r := w.leader()
	_ = r.works()
	assert.Equal(t, 1, r.compliance.nodes(brokenRule{"tier", governance.Value}))
	r.wrote()
	w.edit(func(*corev1.Node) {})
	assert.Zero(t, r.queue.Len())
	assert.Empty(t, r.wrote())
	w.label("tier", "gold")
	_ = r.works()
	assert.Zero(t, r.compliance.nodes(brokenRule{"tier", governance.Value}))
}
