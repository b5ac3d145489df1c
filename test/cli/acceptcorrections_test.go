package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"
)

func TestAnOperatorLetsRecordsCorrectAnyNumberOfNodesForAnHour(t *testing.T) {
	accepted := func() string {
		state, err := nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace).Get(t.Context(), store.AcceptedConfigMap, metav1.GetOptions{})
		if err != nil {
			return ""
		}
		return state.Data[store.CorrectionsAccepted]
	}
	a := run(t, "accept", "corrections", "--dry-run")
	require.Equal(t, 0, a.Code, a.ErrOut)
	assert.Contains(t, a.Out, "took labels or taints off 0 Nodes")
	assert.Empty(t, accepted())
	answering(t, "no\n", "accept", "corrections")
	assert.Empty(t, accepted())
	a = answering(t, "yes\n", "accept", "corrections")
	require.Equal(t, 0, a.Code, a.ErrOut)
	assert.Contains(t, a.Out, "accepted for an hour")
	instant, err := time.Parse(time.RFC3339, accepted())
	require.NoError(t, err)
	assert.WithinDuration(t, time.Now(), instant, time.Hour)
}
