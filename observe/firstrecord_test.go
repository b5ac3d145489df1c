package observe

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/record/history"
)

// A record with a history is read live before each write, and most records never change.
func TestAFirstRecordHasNoHistoryAndTheNextChangeIsItsFirst(t *testing.T) {
	merged := func(r record.Record, version string, labels map[string]string) record.Record {
		node := Of(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-1", UID: "1", ResourceVersion: version, Labels: labels}})
		next, isolated := node.Merge(r, node.Observation(r, policy.Default(), true), policy.Default(), time.Now())
		require.False(t, isolated)
		return next
	}
	first := merged(record.Record{}, "5", map[string]string{"dedicated": "ci"})
	assert.Equal(t, map[string]string{"dedicated": "ci"}, first.Items())
	assert.Empty(t, history.Of(first))

	changed := merged(first, "6", map[string]string{"dedicated": "batch"})
	require.Len(t, history.Of(changed), 1)
	assert.Equal(t, 1, history.Of(changed)[0].Number)

	emptied := merged(merged(first, "6", nil), "7", map[string]string{"dedicated": "ci"})
	assert.Len(t, history.Of(emptied), 2, "a record that was emptied is no first one")
}
