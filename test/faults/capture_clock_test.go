package faults

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/test/harness"
)

// The times in a Lease are another machine's. Whoever waits counts from when it saw the Lease change, by its own clock.
func TestALeaseOfAHolderWhoseClockIsAnHourOffIsTakenOverLikeAnyOther(t *testing.T) {
	if !longFaults(t) {
		return
	}
	leases := nodekeep.Admin.CoordinationV1().Leases(harness.Namespace)
	for name, off := range map[string]time.Duration{"an hour ahead": time.Hour, "an hour behind": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			leads := func() {
				t.Helper()
				require.Eventually(t, func() bool {
					return series(t, nodekeep.MetricsURL("capture"), "nodekeep_capture_leading") == 1
				}, 2*settles, 20*time.Millisecond)
			}
			leads() // so there is a Lease
			require.NoError(t, nodekeep.StopCapture())
			lease, err := leases.Get(t.Context(), capture.LeaseName, metav1.GetOptions{})
			require.NoError(t, err)
			holder, at, seconds := "skewed", metav1.NewMicroTime(time.Now().Add(off)), int32(15)
			lease.Spec.HolderIdentity, lease.Spec.RenewTime, lease.Spec.AcquireTime, lease.Spec.LeaseDurationSeconds = &holder, &at, &at, &seconds
			_, err = leases.Update(t.Context(), lease, metav1.UpdateOptions{})
			require.NoError(t, err)
			started := time.Now()
			require.NoError(t, nodekeep.StartCapture(t.Context()))
			leads()
			took := time.Since(started)
			t.Logf("taken over %s after the last sign of the holder", took.Round(time.Millisecond))
			assert.Greater(t, took, 10*time.Second, "a holder that is alive must not be robbed because its clock is behind")
			assert.Less(t, took, takesOver, "nor a dead one be waited for because its clock is ahead")
		})
	}
}
