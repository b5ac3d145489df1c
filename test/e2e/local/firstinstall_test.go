package local

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/test/harness"
)

// README's words on the clusters of a first try: `helm install --wait` ends only when every replica is ready. The Nodes of this machine share
// its network, so replicas on the host network meet on one host, however many Nodes there are.
func TestAFirstInstallIsReadyOnAnyCluster(t *testing.T) {
	const controlPlane = "--register-with-taints=node-role.kubernetes.io/control-plane=:NoSchedule"
	for name, nodes := range map[string][][]string{ // the flags of their kubelets
		"one Node":                                {nil},
		"one Node of the control plane":           {{controlPlane}},
		"three Nodes":                             {{controlPlane}, nil, nil},
		"one Node with an operator's taint":       {{"--register-with-taints=dedicated=ci:NoSchedule"}},
		"Nodes gated by a nodekeep that was lost": {{"--register-with-taints=" + string(policy.DefaultGate) + "=:NoSchedule"}, {"--register-with-taints=" + string(policy.DefaultGate) + "=:NoSchedule"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := forTest(t)
			var names []string
			for n, flags := range nodes {
				names = append(names, c.add(t, "node-"+string(rune('a'+n)), flags...).name)
			}
			began := time.Now()
			c.installed(t)
			t.Logf("installed and ready after %s", time.Since(began).Round(time.Second))

			pods, err := c.Admin.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			ready := map[string]int{}
			for _, pod := range pods.Items {
				if pod.DeletionTimestamp == nil && pod.Status.ContainerStatuses[0].Ready {
					ready[pod.Labels["app.kubernetes.io/component"]]++
				}
				assert.Zero(t, pod.Status.ContainerStatuses[0].RestartCount, pod.Name)
			}
			assert.Equal(t, map[string]int{"webhook": 3, "capture": 2}, ready)
			for _, name := range names {
				harness.Eventually(t, func() bool { return !policy.DefaultGate.Present(c.Node(t, name).Spec.Taints) }, settles, 20*time.Millisecond, "the gate of %s must be lifted", name)
			}
			harness.Eventually(t, func() bool {
				return strings.Contains(scrape(t), "\nnodekeep_controller_leading{controller=\"capture\"} 1\n")
			}, settles, 100*time.Millisecond,
				"the replica that leads must serve the metrics of the host")
		})
	}
}

// scrape returns what the port of capture's metrics answers on this host.
func scrape(t *testing.T) string {
	t.Helper()
	response, err := http.Get("http://127.0.0.1:9641/metrics")
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(content)
}
