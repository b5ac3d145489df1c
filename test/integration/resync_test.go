package integration

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/test/harness"
)

// The Nodes that all tests before have left, in every state that rules and registrations bring about, are among those that resyncs leave alone.
func aRulesTaintComesBackAndResyncsWriteNothing(t *testing.T) {
	const name = "resynced-1"
	nodekeep.Register(t, name)
	nodekeep.Taint(t, name, "admins=1:NoExecute")
	nodekeep.Label(t, name, map[string]any{"dedicated": "ci", worker: ""})
	comesToCarry(t, name, "admins=1:NoExecute", "dedicated=ci:NoSchedule")
	started := time.Now()
	nodekeep.Untaint(t, name, "dedicated=ci:NoSchedule")
	comesToCarry(t, name, "admins=1:NoExecute", "dedicated=ci:NoSchedule")
	t.Logf("removed by an operator, it was back after %s", time.Since(started).Round(time.Millisecond))

	nodes, records := nodeVersions(t), recordVersions(t)
	changed := time.Now()
	harness.Eventually(t, func() bool { // everything has come to rest: no item is paused, and no record waits for its second
		nodesBefore, recordsBefore := nodes, records
		if nodes, records = nodeVersions(t), recordVersions(t); !maps.Equal(nodes, nodesBefore) || !maps.Equal(records, recordsBefore) {
			changed = time.Now()
		}
		return time.Since(changed) > 2*time.Second && metric(t, "capture", "nodekeep_capture_items_paused ") == 0
	}, 3*settles, 200*time.Millisecond)
	measured := []string{"nodekeep_capture_steps_total", `nodekeep_controller_errors_total{controller="capture",kind="node_conflict"}`, `nodekeep_controller_errors_total{controller="capture",kind="failure"}`}
	prev := map[string]float64{}
	for _, series := range measured {
		prev[series] = metric(t, "capture", series)
	}
	time.Sleep(3*resync + 500*time.Millisecond)
	assert.Equal(t, nodes, nodeVersions(t), "a Node was written")
	assert.Equal(t, records, recordVersions(t), "a record was written")
	for _, series := range measured {
		assert.InDelta(t, prev[series], metric(t, "capture", series), 0, series)
	}
	t.Logf("three resyncs of %d Nodes and %d records wrote nothing", len(nodes), len(records))
}
