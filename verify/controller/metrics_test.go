package controller

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/verify"
)

func TestTheTimesOfChecksAreCountedUpToTheirTimeout(t *testing.T) {
	profiles, errs := verify.Compile(verify.Settings{Profiles: []verify.Profile{{Name: "all", Checks: []verify.Check{
		{Name: "api", API: &verify.API{}}, {Name: "fast", Timeout: "5s", TCP: new(verify.TCP("a:1"))}, {Name: "kubelet", Kubelet: &verify.Kubelet{}},
	}}}}, nil)
	require.Empty(t, errs)
	registry := prometheus.NewRegistry()
	c := &Controller{Options: Options{Metrics: NewMetrics(registry)}}
	c.Metrics.profiles(profiles)
	c.count(verify.Action{Profile: profiles.All()[0], Judged: verify.Judged{Verdict: verify.VerdictFailed, Results: []verify.Result{
		{Check: "fast", Outcome: verify.Failed, Required: true, Reason: verify.ReasonTimeout, Millis: 3_600_000}, // a kubelet says an hour
		{Check: "api", Outcome: verify.Passed, Required: true, Millis: 250},
		{Check: "kubelet", Outcome: verify.Passed, Required: true},
	}}})
	families, err := registry.Gather()
	require.NoError(t, err)
	sums := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "nodekeep_verify_check_seconds" {
			continue
		}
		for _, metric := range family.GetMetric() {
			sums[metric.GetLabel()[0].GetValue()+" "+metric.GetLabel()[1].GetValue()] = metric.GetHistogram().GetSampleSum()
		}
	}
	assert.Equal(t, map[string]float64{"api passed": 0.25, "api failed": 0, "fast passed": 0, "fast failed": 5}, sums)
}
