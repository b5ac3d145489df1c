package governance

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/test/harness"
)

// violating reports whether capture counts one Node that breaks the values of tier.
func violating(t *testing.T) string {
	t.Helper()
	response, err := http.Get(nodekeep.MetricsURL("capture"))
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	for line := range strings.SplitSeq(string(body), "\n") {
		if strings.HasPrefix(line, `nodekeep_governance_violations{key="tier",kind="value"}`) {
			return line[strings.LastIndex(line, " ")+1:]
		}
	}
	return ""
}

func TestAKubeletWithAForbiddenValueRegistersAndIsReportedAndTaintedUntilItIsCorrected(t *testing.T) {
	applied(t, rendered(t, documented(t)))
	restore := nodekeep.UsePolicy(t, documented(t)+"  noncompliant: {taint: \"example.com/noncompliant:PreferNoSchedule\", after: 2s}\n")
	defer restore()
	nodekeep.RegisterNode(t, harness.RegistrationWith("forbidden", map[string]string{"tier": "iron", "site": "north"}))
	nodekeep.WaitEvent(t, "forbidden", capture.GovernanceViolated)
	require.Eventually(t, func() bool { return violating(t) == "1" }, harness.Settles, 50*time.Millisecond)
	tainted := func(node *corev1.Node) bool {
		for _, taint := range node.Spec.Taints {
			if taint.Key == "example.com/noncompliant" {
				return true
			}
		}
		return false
	}
	require.Eventually(t, func() bool { return tainted(nodekeep.Node(t, "forbidden")) }, harness.Settles, 50*time.Millisecond)
	nodekeep.Label(t, "forbidden", map[string]any{"tier": "gold"})
	require.Eventually(t, func() bool { return !tainted(nodekeep.Node(t, "forbidden")) && violating(t) == "0" }, harness.Settles, 50*time.Millisecond)
}
