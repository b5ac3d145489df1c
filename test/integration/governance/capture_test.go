package governance

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/test/harness"
)

// violating returns how many Nodes break the values of tier, as capture counts them.
func violating(t *testing.T) float64 {
	t.Helper()
	return harness.Series(t, nodekeep.MetricsURL("capture"), `nodekeep_governance_violations{key="tier",kind="value"}`)
}

func TestAKubeletWithAForbiddenValueRegistersAndIsReportedAndTaintedUntilItIsCorrected(t *testing.T) {
	restore := nodekeep.UsePolicy(t, documented(t)+"    noncompliant: {taint: \"example.com/noncompliant:PreferNoSchedule\", after: 2s}\n")
	defer restore()
	nodekeep.RegisterNode(t, harness.RegistrationWith("forbidden", map[string]string{"tier": "iron", "site": "north", "owner": "a"}))
	nodekeep.WaitEvent(t, "forbidden", capture.GovernanceViolated)
	harness.Eventually(t, func() bool { return violating(t) == 1 }, harness.Settles, 50*time.Millisecond)
	tainted := func(node *corev1.Node) bool {
		return harness.Carries(node, "example.com/noncompliant:PreferNoSchedule")
	}
	harness.Eventually(t, func() bool { return tainted(nodekeep.Node(t, "forbidden")) }, harness.Settles, 50*time.Millisecond)
	nodekeep.Label(t, "forbidden", map[string]any{"tier": "gold"})
	harness.Eventually(t, func() bool { return !tainted(nodekeep.Node(t, "forbidden")) && violating(t) == 0 }, harness.Settles, 50*time.Millisecond)
}
