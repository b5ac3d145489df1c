package store

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/record"
)

func TestARecordThatPanicsWhenItIsReadCannotBeReadAndEndsNoProcess(t *testing.T) {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: Name("n1"), Namespace: "nodekeep-system", ResourceVersion: "7"}}
	entry := compactWith(func(document) (record.Record, error) { panic("this record") }, cm)
	require.ErrorContains(t, entry.unreadable(), "this record")
	assert.Equal(t, "n1", entry.node(), "its Node is known by the name of the ConfigMap")
	assert.Equal(t, "7", entry.GetObjectMeta().GetResourceVersion())

	counts := totals{sizes: map[int]int{}}
	counts.replaced(nil, entry)
	assert.Equal(t, 1, counts.sum().Unreadable, "the metric of unreadable records counts it")
}
