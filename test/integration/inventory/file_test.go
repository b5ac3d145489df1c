package inventory

import (
	"fmt"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/harness"
)

// This test runs on a cluster without Nodes: one Node may change its label there without an operator.
func TestAFileMakesLabelsAndItsLossChangesNone(t *testing.T) {
	const name, uuid = "from-file", "uuid-from-file"
	path, inPolicy := mounted(t, "inventory.json")
	write := func(rack string) {
		t.Helper()
		answer := httptest.NewRecorder()
		listing(listed(name, uuid, rack))(answer, nil)
		require.NoError(t, os.WriteFile(path+".new", answer.Body.Bytes(), 0o600))
		require.NoError(t, os.Rename(path+".new", path)) // no reader sees half of it
	}
	write("r1")
	defer nodekeep.UsePolicy(t, fmt.Sprintf(`apiVersion: nodekeep.dev/v1alpha1
kind: NodePolicy
metadata: {name: default}
spec:
  labels:
    rules:
    - {name: rack, set: {example.com/rack: "{inventory.racks.rack}"}}
  inventory:
  - {name: racks, file: %q, interval: 1s, attributes: [rack]}
`, inPolicy), nodekeep.CaptureArgs...)()
	defer nodekeep.DeleteNode(t, name)
	createAs(t, name, uuid)
	rackIs(t, name, "r1")
	write("r2")
	rackIs(t, name, "r2")
	for reason, spoil := range map[string]func() error{
		"invalid":    func() error { return os.WriteFile(path, []byte("{"), 0o600) },
		"unreadable": func() error { return os.Remove(path) },
	} {
		require.NoError(t, spoil())
		failsTwice(t, "racks", reason)
		assert.Equal(t, "r2", nodekeep.Node(t, name).Labels[rackLabel], reason)
	}
	write("r3")
	rackIs(t, name, "r3")
}

// failsTwice waits until capture could not read a source two more times for one reason.
func failsTwice(t *testing.T, source, reason string) {
	t.Helper()
	failures := func() float64 {
		return harness.Series(t, nodekeep.MetricsURL("capture"), fmt.Sprintf(`nodekeep_inventory_failures_total{reason=%q,source=%q}`, reason, source))
	}
	prev := failures()
	require.Eventually(t, func() bool { return failures() >= prev+2 }, harness.Settles, 20*time.Millisecond, "%s fails: %s", source, reason)
}
