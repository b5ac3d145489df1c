package monitoring

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/yaml"

	"nodekeep.dev/nodekeep/test/harness"
)

// relabeling is one of a PodMonitor, as far as the chart's go, with Prometheus' own names on the way out.
type relabeling struct {
	Action       string   `json:"action"`
	SourceLabels []string `json:"sourceLabels"`
	Regex        string   `json:"regex"`
	TargetLabel  string   `json:"targetLabel"`
	Replacement  string   `json:"replacement"`
}

func (r relabeling) config() map[string]any {
	config := map[string]any{"action": r.Action, "regex": r.Regex}
	if r.Action == "replace" {
		config["source_labels"], config["target_label"], config["replacement"] = r.SourceLabels, r.TargetLabel, r.Replacement
	}
	return config
}

// ofCapture returns the relabelings of the PodMonitor that is shipped for capture on the host network.
func ofCapture(t *testing.T) (all []relabeling) {
	t.Helper()
	file, err := os.ReadFile(filepath.Join(harness.Root(), "manifests", "nodekeep-monitoring.yaml"))
	require.NoError(t, err)
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(file), 4096); ; {
		var monitor struct {
			Metadata struct{ Name string }
			Spec     struct {
				PodMetricsEndpoints []struct {
					Port        string
					Relabelings []relabeling
				}
			}
		}
		require.NoError(t, decoder.Decode(&monitor), "there must be a PodMonitor for capture")
		if monitor.Metadata.Name == "nodekeep-capture" {
			require.Empty(t, monitor.Spec.PodMetricsEndpoints[0].Port, "the Pods declare none")
			return monitor.Spec.PodMetricsEndpoints[0].Relabelings
		}
	}
}

// Without a declared port, Prometheus takes a container for one target, at the Pod's address. It scrapes targets with the same labels once.
func TestReplicasOfCaptureOnOneNodeAreOneTargetAtItsPort(t *testing.T) {
	pod := func(name, ip string) map[string]any {
		return map[string]any{"targets": []string{ip}, "labels": map[string]string{
			"__meta_kubernetes_namespace": "nodekeep-system", "__meta_kubernetes_pod_name": name, "__meta_kubernetes_pod_ip": ip,
		}}
	}
	relabelings := []relabeling{ // as the Prometheus operator begins them
		{Action: "replace", SourceLabels: []string{"__meta_kubernetes_namespace"}, Regex: "(.*)", TargetLabel: "namespace", Replacement: "$1"},
		{Action: "replace", SourceLabels: []string{"__meta_kubernetes_pod_name"}, Regex: "(.*)", TargetLabel: "pod", Replacement: "$1"},
	}
	var configs []any
	for _, r := range append(relabelings, ofCapture(t)...) {
		configs = append(configs, r.config())
	}
	config, err := json.Marshal(map[string]any{"scrape_configs": []any{map[string]any{
		"job_name": "capture", "relabel_configs": configs,
		"static_configs": []any{pod("a", "192.0.2.1"), pod("b", "192.0.2.1"), pod("c", "192.0.2.2"), pod("d", "2001:db8::1")},
	}}})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "prometheus.yaml")
	require.NoError(t, os.WriteFile(file, config, 0o600))
	out, err := promtool(t, "check", "service-discovery", "--timeout=1s", file, "capture")
	require.NoError(t, err, out)
	var targets []struct{ Labels map[string]string }
	require.NoError(t, json.Unmarshal([]byte(out), &targets), out)
	scraped := map[string]int{}
	for _, target := range targets {
		encoded, err := json.Marshal(target.Labels)
		require.NoError(t, err)
		scraped[string(encoded)]++
		assert.NotContains(t, target.Labels, "pod")
		assert.Equal(t, "nodekeep-system", target.Labels["namespace"])
	}
	var addresses []string
	for encoded := range scraped {
		var labels map[string]string
		require.NoError(t, json.Unmarshal([]byte(encoded), &labels))
		addresses = append(addresses, labels["instance"])
	}
	assert.ElementsMatch(t, []string{"192.0.2.1:9641", "192.0.2.2:9641", "[2001:db8::1]:9641"}, addresses)
}
