package integration

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/test/harness"
)

func TestWithBothDownNodesRegisterGatedAndNothingIsLost(t *testing.T) {
	const count = 30
	names := harness.Names("both-down", count)
	want := map[string]string{"dedicated": "ci", worker: ""}
	eachNode(names, func(name string) { nodekeep.RegisterRecorded(t, name, want) })
	stop := watchRecords(t)
	nodekeep.WithoutBoth(t, func() {
		eachNode(names, func(name string) {
			nodekeep.DeleteNode(t, name)
			returned := nodekeep.Register(t, name)
			assert.NotContains(t, returned.Labels, "dedicated")
			assert.True(t, policy.DefaultGate.Holds(returned.Spec.Taints), "%s must not be schedulable", name)
		})
		for _, name := range names {
			assert.True(t, policy.DefaultGate.Holds(nodekeep.Node(t, name).Spec.Taints), "and stays so")
		}
	})
	for _, name := range names {
		nodekeep.WaitRecorded(t, nodekeep.WaitRestored(t, name, want), want)
	}
	for _, record := range stop() {
		if strings.HasPrefix(record.Node, "both-down-") {
			assert.Equal(t, want, record.Items(), "the record of %s lost a key on the way", record.Node)
		}
	}
}
