package integration

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"

	"nodekeep.dev/nodekeep/test/harness"
)

const worker = "node-role.kubernetes.io/worker"

// settles is how long anything that nodekeep does by itself may take in a test on a busy machine.
const settles = harness.Settles

// givenTo are the keys that a Node's stamp says nodekeep set.
func givenTo(t testing.TB, node *corev1.Node) []string {
	t.Helper()
	stamp, ok := record.ParseStamp(node.Annotations[policy.StampAnnotation])
	require.True(t, ok, "node %s must carry a stamp", node.Name)
	return slices.Collect(maps.Keys(stamp.Given))
}

// givenNow is the stamp of a Node once nodekeep has set labels on the state that it is in now.
func givenNow(t testing.TB, name string, labels map[string]string) string {
	t.Helper()
	version, err := record.ParseVersion(nodekeep.Node(t, name).ResourceVersion)
	require.NoError(t, err)
	return record.Stamp{}.With(labels, version).String()
}
