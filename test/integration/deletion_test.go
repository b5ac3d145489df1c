package integration

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/harness"
)

// recordHolds waits until the record of a Node that may be gone holds this: where the API server is busy, the webhook writes
// it after it has answered.
func recordHolds(t *testing.T, node string, want map[string]string) {
	t.Helper()
	recordComes(t, node, func(r record.Record) bool { return r.Node != "" && maps.Equal(r.Items(), want) })
}

func TestAChangeAndADeletionInOneMomentWhileCaptureIsDownAreNotLost(t *testing.T) {
	const count = 100
	names := harness.Names("moment", count)
	eachNode(names, func(name string) {
		nodekeep.RegisterRecorded(t, name, map[string]string{"edited": "before", "removed": "1"})
	})
	nodekeep.WithoutCapture(t, func() {
		eachNode(names, func(name string) {
			nodekeep.Label(t, name, map[string]any{"edited": "after", "added": "1", "removed": nil})
			nodekeep.DeleteNode(t, name)
		})
		for _, name := range names {
			recordHolds(t, name, map[string]string{"edited": "after", "added": "1"})
		}
		webhookHasRecords(t)
		for _, name := range names {
			returned := nodekeep.Register(t, name)
			assert.True(t, harness.HasAll(returned.Labels, map[string]string{"edited": "after", "added": "1"}), "%v", returned.Labels)
			assert.NotContains(t, returned.Labels, "removed")
		}
	})
}

func TestADryRunOfADeletionWritesNothing(t *testing.T) {
	const name = "dryrun-1"
	nodekeep.RegisterRecorded(t, name, map[string]string{"a": "1"})
	nodekeep.WithoutCapture(t, func() {
		nodekeep.Label(t, name, map[string]any{"a": "2"})
		version := nodekeep.RecordMap(t, name).ResourceVersion
		for range 3 {
			require.NoError(t, nodekeep.Admin.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}))
		}
		assert.Equal(t, version, nodekeep.RecordMap(t, name).ResourceVersion)
	})
	nodekeep.WaitRecorded(t, nodekeep.Node(t, name), map[string]string{"a": "2"})
}

func TestACallProvesNoDeletion(t *testing.T) {
	const name = "refused-deletion-1"
	nodekeep.RegisterRecorded(t, name, map[string]string{"a": "1"})
	wrong := types.UID("00000000-0000-0000-0000-000000000000")
	err := nodekeep.Admin.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &wrong}})
	require.Error(t, err)
	record, _ := nodekeep.Record(t, name)
	assert.Zero(t, record.DeletedAt)
	assert.Equal(t, map[string]string{"a": "1"}, record.Items())
}

func TestDeletingManyNodesAtOnceLosesNothing(t *testing.T) {
	names := []string{"collected-1", "collected-2", "collected-3"}
	for _, name := range names {
		nodekeep.RegisterRecorded(t, name, map[string]string{"collected": "yes", "a": "1"})
	}
	nodekeep.WithoutCapture(t, func() {
		for _, name := range names {
			nodekeep.Label(t, name, map[string]any{"a": "2"})
		}
		require.NoError(t, nodekeep.Admin.CoreV1().Nodes().DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "collected=yes"}))
		for _, name := range names {
			recordHolds(t, name, map[string]string{"collected": "yes", "a": "2"})
		}
	})
}

func TestAChangeMadeWhileAFinalizerHoldsTheNodeIsNotLost(t *testing.T) {
	const name = "finalized-1"
	nodekeep.RegisterRecorded(t, name, map[string]string{"a": "1"})
	finalizers := func(value any) {
		nodekeep.MergeNode(t, name, map[string]any{"metadata": map[string]any{"finalizers": value}})
	}
	finalizers([]string{"example.com/held"})
	nodekeep.DeleteNode(t, name)
	nodekeep.Label(t, name, map[string]any{"a": "2"})
	finalizers(nil)
	recordComes(t, name, func(r record.Record) bool { return r.Items()["a"] == "2" && !r.DeletedAt.IsZero() })
	nodekeep.Register(t, name)
	nodekeep.WaitRestored(t, name, map[string]string{"a": "2"})
}

func TestADeletedNodeThatWasNeverWholeAddsWhatItShowed(t *testing.T) {
	const name = "never-whole-1"
	nodekeep.RegisterRecorded(t, name, map[string]string{"a": "1", worker: ""})
	nodekeep.WithoutCapture(t, func() {
		nodekeep.DeleteNode(t, name)
		nodekeep.Register(t, name)
		nodekeep.Label(t, name, map[string]any{"b": "2"})
		nodekeep.DeleteNode(t, name)
		recordHolds(t, name, map[string]string{"a": "1", worker: "", "b": "2"})
	})
}
