package fleet

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/governance"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)

func TestComplianceCountsNodesThatBreakRules(t *testing.T) {
	c := NewCompliance(nil)
	reserved := brokenRule{"*.example.com/*", governance.Reserved}
	denied := []governance.Violation{
		{Rule: reserved.rule, Kind: reserved.kind, Key: "a.example.com/x", Mode: governance.Deny},
		{Rule: reserved.rule, Kind: reserved.kind, Key: "a.example.com/y", Mode: governance.Deny},
	}
	audited := []governance.Violation{{Rule: "cost", Kind: governance.Value, Key: "cost", Mode: governance.Audit}}

	c.Observe("n1", denied)
	assert.Equal(t, 1, c.Breaking(reserved.rule, reserved.kind), "a Node counts once, however many reserved keys it has")
	c.Observe("n1", denied)
	assert.Equal(t, 1, c.Breaking(reserved.rule, reserved.kind))
	c.Observe("n2", denied)
	assert.Equal(t, 2, c.Breaking(reserved.rule, reserved.kind))
	c.Observe("n2", audited)
	assert.Equal(t, 1, c.Breaking("cost", governance.Value))
	assert.Equal(t, 1, c.Breaking(reserved.rule, reserved.kind))

	c.Forget("n1")
	c.Observe("n2", nil)
	assert.Zero(t, c.Breaking(reserved.rule, reserved.kind))
	assert.Empty(t, c.byNode, "only Nodes that break a rule are held")
	assert.Empty(t, c.counts)
}
