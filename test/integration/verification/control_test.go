package verification

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/verify"
)

func TestAFaultThatVerifiedNodesShareCountsNoAttemptAndTheNodesOpenWhenItEnds(t *testing.T) {
	warm(t)
	labels := map[string]string{selected: "shared"}
	verified := registerWith(t, "shared-verified", labels, honest)
	waitOpen(t, "shared-verified", 1)
	verified.reportWith(failing) // DNS is down for all
	kubelets := map[string]*kubelet{}
	for i := range 3 {
		name := fmt.Sprint("shared-", i)
		kubelets[name] = registerWith(t, name, labels, failing)
	}
	for name := range kubelets {
		node := waitFor(t, name, "tried twice", func(node *corev1.Node) bool { return progress(node).Shared >= 2 })
		assert.True(t, held(node))
		assert.Zero(t, progress(node).Attempts)
		assert.Equal(t, verify.ReasonShared, progress(node).Last.Reason)
		assert.Contains(t, progress(node).Last.Message, "verified Node shared-verified fails it, too")
	}
	nodekeep.WaitEvent(t, "shared-verified", "SharedFailure")
	assert.InDelta(t, 1, harness.Series(t, nodekeep.MetricsURL("verify"), `nodekeep_verify_shared_failure{profile="shared"}`), 0)
	harness.Eventually(t, func() bool { // a control Pod goes, and the next one comes
		return slices.ContainsFunc(workers(t, "shared-verified"), func(pod corev1.Pod) bool { return strings.HasPrefix(pod.Name, verify.ControlPrefix) })
	}, settles, 50*time.Millisecond)

	verified.reportWith(honest)
	for _, k := range kubelets {
		k.reportWith(honest)
	}
	for name := range kubelets {
		waitOpen(t, name, 1)
	}
}
