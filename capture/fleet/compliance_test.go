package fleet

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/governance"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)

func TestComplianceCountsNodesAndKnowsSinceWhenTheyBreakRules(t *testing.T) {
	c := NewCompliance(nil)
	reserved := brokenRule{"*.example.com/*", governance.Reserved}
	denied := []governance.Violation{
		{Rule: reserved.rule, Kind: reserved.kind, Key: "a.example.com/x", Mode: governance.Deny},
		{Rule: reserved.rule, Kind: reserved.kind, Key: "a.example.com/y", Mode: governance.Deny},
	}
	audited := []governance.Violation{{Rule: "cost", Kind: governance.Value, Key: "cost", Mode: governance.Audit}}
	pos := func(minutes int) time.Time { return now.Add(time.Duration(minutes) * time.Minute) }

	assert.Equal(t, pos(0), c.Observe("n1", "a", denied, pos(0)))
	assert.Equal(t, 1, c.CountBreaking(reserved.rule, reserved.kind), "a Node counts once, however many reserved keys it has")
	assert.Equal(t, pos(0), c.Observe("n1", "a", denied, pos(1)), "since the first time")
	assert.Equal(t, 1, c.CountBreaking(reserved.rule, reserved.kind))
	assert.Equal(t, pos(2), c.Observe("n1", "b", denied, pos(2)), "another object of the name begins anew")

	assert.Equal(t, pos(3), c.Observe("n2", "c", denied, pos(3)))
	assert.Equal(t, 2, c.CountBreaking(reserved.rule, reserved.kind))
	assert.Zero(t, c.Observe("n2", "c", audited, pos(4)), "rules of mode audit cause no taint")
	assert.Equal(t, 1, c.CountBreaking("cost", governance.Value))
	assert.Equal(t, pos(5), c.Observe("n2", "c", denied, pos(5)), "it broke no rule of mode deny meanwhile")

	c.Forget("n1")
	assert.Zero(t, c.Observe("n2", "c", nil, pos(6)))
	assert.Zero(t, c.CountBreaking(reserved.rule, reserved.kind))
	assert.Empty(t, c.byNode, "only Nodes that break a rule are held")
	assert.Empty(t, c.counts)
}
