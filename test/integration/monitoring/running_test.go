package monitoring

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"nodekeep.dev/nodekeep/test/harness"

	"nodekeep.dev/nodekeep/policy/policytest"
)

// One control plane serves everything here that needs one: what runs is scraped, and what the chart makes for Prometheus and Grafana is
// applied.
func TestOnARealControlPlane(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	control := harness.ForTest(t, harness.Options{})
	nodekeep, err := harness.Install(ctx, control)
	require.NoError(t, err)
	require.NoError(t, nodekeep.Start(ctx))

	t.Run("every series, label and value that an alert or a panel names is served", func(t *testing.T) {
		served := exposed{}
		ruleLabelsDrift(t, nodekeep)
		verifies(t, nodekeep)
		for _, process := range []string{"webhook", "capture", "verify"} {
			served.add(t, scraped(t, nodekeep.MetricsURL(process)), nil)
		}
		failOpen(t, nodekeep)
		apiServer, err := nodekeep.Admin.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
		require.NoError(t, err)
		served.add(t, bytes.NewReader(apiServer), foreign)

		for _, e := range parsedExpressions(t) {
			assert.Empty(t, served.lacks(e.named), "%s: %s", e.place, e.promql)
		}
		for _, name := range foreign {
			assert.NotEmpty(t, served[name], "declared as the API server's, which does not serve it")
		}
		t.Run("and what nobody serves is seen", func(t *testing.T) { complains(t, served) })
	})

	t.Run("the objects of the chart are accepted where the Prometheus operator's kinds are", func(t *testing.T) {
		applyCRDs(t, nodekeep)
		for name, values := range map[string]string{
			"plain metrics":                      "metrics.secure=false",
			"metrics for those who may get them": "metrics.secure=true",
			"a token from elsewhere":             "metrics.secure=true,monitoring.podMonitor.tokenSecret=prometheus",
			"everything set": "monitoring.labels.release=prometheus,monitoring.podMonitor.interval=15s," +
				"monitoring.podMonitor.relabelings[0].action=labeldrop,monitoring.podMonitor.relabelings[0].regex=pod," +
				"monitoring.prometheusRule.alertLabels.team=platform,monitoring.prometheusRule.runbookURL=https://example.com/#,monitoring.dashboard.annotations.grafana_folder=Nodes",
		} {
			t.Run(name, func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "rendered.yaml")
				require.NoError(t, os.WriteFile(file, rendered(t, values), 0o600))
				out, err := nodekeep.Kubectl(t.Context(), "apply", "--server-side", "--dry-run=server", "-f", file,
					"-l", "app.kubernetes.io/component in (monitoring, metrics-reader)")
				require.NoError(t, err, out)
				want := []string{"configmap/nodekeep-dashboard", "podmonitor.monitoring.coreos.com/nodekeep", "podmonitor.monitoring.coreos.com/nodekeep-capture", "prometheusrule.monitoring.coreos.com/nodekeep"}
				if values == "metrics.secure=true" {
					want = append(want, "secret/nodekeep-metrics-reader", "serviceaccount/nodekeep-metrics-reader",
						"clusterrole.rbac.authorization.k8s.io/nodekeep-metrics-reader", "clusterrolebinding.rbac.authorization.k8s.io/nodekeep-metrics-reader")
				}
				assert.ElementsMatch(t, want, regexp.MustCompile(`(?m)^\S+`).FindAllString(out, -1))
			})
		}
	})

	t.Run("the commands of the alerts", func(t *testing.T) { remedies(t, nodekeep) })
}

// complains shows that the look at what is served would find what it is there to find.
func complains(t *testing.T, served exposed) {
	for promql, complaint := range map[string]string{
		`rate(nodekeep_capture_failure_total[5m])`:                                            `no process serves "nodekeep_capture_failure_total"`,
		`nodekeep_store_records{state="unreadible"}`:                                          `no series nodekeep_store_records has state="unreadible"`,
		`nodekeep_store_records{status!=""}`:                                                  `no series nodekeep_store_records has status`,
		`nodekeep_webhook_reviews_total{outcome=~"panicked|to_large"}`:                        `looked for ^to_large$`,
		`sum by (reason) (rate(nodekeep_webhook_reviews_total[5m]))`:                          `no series in it has the label "reason"`,
		`nodekeep_capture_nodes and on (node) nodekeep_controller_leading == 1`:               `no series in it has the label "node"`,
		`histogram_quantile(0.9, sum by (le) (rate(nodekeep_capture_lag_seconds_count[5m])))`: `no series in it has the label "le"`,
		`apiserver_admission_webhook_fail_open_count{name=~"never[.]nodekeep[.]dev"}`:         `no series apiserver_admission_webhook_fail_open_count has name`,
		`apiserver_request_total`:                                                             `no process serves "apiserver_request_total"`,
		`absent(nodekeep_webhook_certificate_timestamp_second{namespace="whatever"})`:         `no process serves`,
		`nodekeep_capture_nodes{namespace="whatever"} + on (instance) nodekeep_capture_chaos`: `no process serves "nodekeep_capture_chaos"`,
	} {
		assert.Contains(t, strings.Join(served.lacks(parsed(t, promql)[0]), "\n"), complaint, promql)
	}
}

func scraped(t *testing.T, url string) *bytes.Buffer {
	t.Helper()
	response, err := http.Get(url)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, http.StatusOK, response.StatusCode)
	body := &bytes.Buffer{}
	_, err = body.ReadFrom(response.Body)
	require.NoError(t, err)
	return body
}

// governedTier gives the series by label a key and a value, and those of inventories a source.
const governedTier = "governance:\n  keys: [{key: tier, values: [gold], required: true}]\ninventory:\n- {name: cmdb, file: /var/run/nodekeep/absent.json, attributes: [rack]}\n"

// ruleLabelsDrift makes capture set a label of a rule again and audit another: it has no series for keys and rules before.
func ruleLabelsDrift(t *testing.T, nodekeep *harness.Installation) {
	t.Helper()
	nodekeep.SetPolicy(t, policytest.Manifest("labels:\n  rules:\n"+
		"  - {name: gold, set: {tier: gold}, precedence: rule}\n  - {name: all, set: {rack: r1}, mode: audit}\n"+governedTier))
	const name = "drifts"
	nodekeep.Register(t, name)
	nodekeep.WaitRestored(t, name, map[string]string{"tier": "gold"})
	nodekeep.Label(t, name, map[string]string{"tier": "lead"})
	harness.Eventually(t, func() bool {
		metrics := scraped(t, nodekeep.MetricsURL("capture")).String()
		return strings.Contains(metrics, `nodekeep_rule_labels_drifted_total{key="tier"} 1`) && strings.Contains(metrics, `nodekeep_rule_labels_audited_total{rule="all"} 1`)
	}, harness.Settles, 50*time.Millisecond)
	nodekeep.DeleteNode(t, name)
}

// verifies starts the controller with a profile, which names its series, and returns when it leads.
func verifies(t *testing.T, nodekeep *harness.Installation) {
	t.Helper()
	nodekeep.SetPolicy(t, policytest.Manifest("verify:\n  profiles:\n  - {name: gpu, nodeSelector: gpu=yes, checks: [{name: api, api: {}}]}\n"+governedTier))
	require.NoError(t, nodekeep.ReapplyVerify(t.Context()))
	require.NoError(t, nodekeep.StartVerify(t.Context()))
	harness.Eventually(t, func() bool {
		return strings.Contains(scraped(t, nodekeep.MetricsURL("verify")).String(), `nodekeep_controller_leading{controller="verify"} 1`)
	}, harness.Settles, 50*time.Millisecond)
}

// failOpen makes calls of the API server to both webhooks fail: it has no series for that before.
func failOpen(t *testing.T, nodekeep *harness.Installation) {
	t.Helper()
	require.NoError(t, nodekeep.StopWebhook())
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "in-vain"}}
	_, err := nodekeep.Admin.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, nodekeep.Admin.CoreV1().Nodes().Delete(t.Context(), node.Name, metav1.DeleteOptions{}))
}

func applyCRDs(t *testing.T, nodekeep *harness.Installation) {
	t.Helper()
	out, err := nodekeep.Kubectl(t.Context(), "apply", "--server-side", "-f", "testdata/crds")
	require.NoError(t, err, out)
	out, err = nodekeep.Kubectl(t.Context(), "wait", "--for=condition=Established", "--timeout=60s",
		"crd/podmonitors.monitoring.coreos.com", "crd/prometheusrules.monitoring.coreos.com")
	require.NoError(t, err, out)
	require.Eventually(t, func() bool {
		_, err := nodekeep.Kubectl(t.Context(), "get", "podmonitors,prometheusrules", "-n", harness.Namespace)
		return err == nil
	}, harness.Settles, 100*time.Millisecond)
}

// rendered returns the chart with all that monitoring has to offer, and with more values.
func rendered(t *testing.T, values string) []byte {
	t.Helper()
	out, err := harness.Template(t.Context(), harness.Namespace, "--set",
		"monitoring.podMonitor.enabled=true,monitoring.prometheusRule.enabled=true,monitoring.dashboard.enabled=true", "--set", values)
	require.NoError(t, err)
	return out
}

func TestTheChartShipsTheFilesAsTheyAre(t *testing.T) {
	var rules struct {
		Spec alertsFile `json:"spec"`
	}
	require.NoError(t, yaml.UnmarshalStrict(object(t, rendered(t, "metrics.secure=false"), "PrometheusRule", "nodekeep", "spec"), &rules))
	assert.Equal(t, alerts(t), rules.Spec)

	var dashboards struct {
		Data map[string]string `json:"data"`
	}
	require.NoError(t, yaml.UnmarshalStrict(object(t, rendered(t, "metrics.secure=false"), "ConfigMap", "nodekeep-dashboard", "data"), &dashboards))
	content, err := os.ReadFile(filepath.Join(shipped, "dashboard.json"))
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"nodekeep.json": string(content)}, dashboards.Data)
}

func TestValuesAddLabelsAndARunbookToEveryAlert(t *testing.T) {
	var rules struct {
		Spec alertsFile `json:"spec"`
	}
	out := rendered(t, "monitoring.prometheusRule.alertLabels.team=platform,monitoring.prometheusRule.runbookURL=https://example.com/#")
	require.NoError(t, yaml.UnmarshalStrict(object(t, out, "PrometheusRule", "nodekeep", "spec"), &rules))
	for _, a := range rules.Spec.alerts() {
		assert.Equal(t, "platform", a.Labels["team"])
		assert.NotEmpty(t, a.Labels["severity"])
		assert.Equal(t, "https://example.com/#"+a.Alert, a.Annotations["runbook_url"])
	}
	require.Len(t, rules.Spec.alerts(), len(alerts(t).alerts()))
}

func TestMonitoringIsLeftOutByDefaultAndRefusedWithoutMetrics(t *testing.T) {
	out, err := harness.Template(t.Context(), harness.Namespace)
	require.NoError(t, err)
	assert.NotContains(t, string(out), "monitoring.coreos.com")
	assert.NotContains(t, string(out), "nodekeep-dashboard")
	_, err = harness.Template(t.Context(), harness.Namespace, "--set", "monitoring.podMonitor.enabled=true,metrics.enabled=false")
	require.ErrorContains(t, err, "there is nothing to scrape with metrics.enabled=false")
}

func TestValuesOfMonitoringThatCannotBeAreRefused(t *testing.T) {
	for value, path := range map[string]string{
		"monitoring.podMonitors.enabled=true":                "at '/monitoring'",
		"monitoring.podMonitor.interval=often":               "at '/monitoring/podMonitor/interval'",
		"monitoring.podMonitor.tokenSecret=No_Name":          "at '/monitoring/podMonitor/tokenSecret'",
		"monitoring.prometheusRule.runbookURL=docs/runbooks": "at '/monitoring/prometheusRule/runbookURL'",
		"monitoring.prometheusRule.alertLabels=team":         "at '/monitoring/prometheusRule/alertLabels'",
		"monitoring.dashboard.enabled=maybe":                 "at '/monitoring/dashboard/enabled'",
	} {
		_, err := harness.Template(t.Context(), harness.Namespace, "--set", value)
		require.ErrorContains(t, err, path, value)
	}
}

// object returns one of the objects that were rendered, reduced to one of its fields.
func object(t *testing.T, rendered []byte, kind, name, field string) []byte {
	t.Helper()
	for _, document := range bytes.Split(rendered, []byte("\n---\n")) {
		var all map[string]any
		require.NoError(t, yaml.Unmarshal(document, &all))
		if all["kind"] == kind && all["metadata"].(map[string]any)["name"] == name {
			out, err := yaml.Marshal(map[string]any{field: all[field]})
			require.NoError(t, err)
			return out
		}
	}
	require.Fail(t, "no "+kind+" "+name)
	return nil
}
