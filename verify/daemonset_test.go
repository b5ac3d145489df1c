package verify_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/verify"
)

func TestADaemonSetRunsOnANodeThatItSelectsAndWhoseTaintsItTolerates(t *testing.T) {
	all := []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	unverified := []corev1.Toleration{{Key: verify.Taint, Operator: corev1.TolerationOpExists}}
	affinity := func(key, value string, field bool) *corev1.Affinity {
		item := corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}
		term := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{item}}
		if field {
			term = corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{item}}
		}
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}}}}
	}
	preferred := &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
		{Weight: 1, Preference: affinity("gpu", "no", false).NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0]},
	}}}
	for name, row := range map[string]struct {
		pod   corev1.PodSpec
		taint *corev1.Taint // besides that of verification
		runs  bool
	}{
		"it tolerates every taint":                       {pod: corev1.PodSpec{Tolerations: all}, runs: true},
		"it tolerates the taint of verification":         {pod: corev1.PodSpec{Tolerations: unverified}, runs: true},
		"it does not tolerate the taint":                 {pod: corev1.PodSpec{}},
		"it tolerates another effect of the taint":       {pod: corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: verify.Taint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}}}},
		"its nodeSelector selects the Node":              {pod: corev1.PodSpec{Tolerations: all, NodeSelector: map[string]string{"gpu": "yes"}}, runs: true},
		"its nodeSelector selects others":                {pod: corev1.PodSpec{Tolerations: all, NodeSelector: map[string]string{"gpu": "no"}}},
		"its affinity selects the Node":                  {pod: corev1.PodSpec{Tolerations: all, Affinity: affinity("gpu", "yes", false)}, runs: true},
		"its affinity selects others":                    {pod: corev1.PodSpec{Tolerations: all, Affinity: affinity("gpu", "no", false)}},
		"its affinity names the Node":                    {pod: corev1.PodSpec{Tolerations: all, Affinity: affinity("metadata.name", "n1", true)}, runs: true},
		"its affinity names another Node":                {pod: corev1.PodSpec{Tolerations: all, Affinity: affinity("metadata.name", "n2", true)}},
		"it only prefers others":                         {pod: corev1.PodSpec{Tolerations: all, Affinity: preferred}, runs: true},
		"its template names the Node":                    {pod: corev1.PodSpec{Tolerations: all, NodeName: "n1"}, runs: true},
		"its template names another Node":                {pod: corev1.PodSpec{Tolerations: all, NodeName: "n2"}},
		"the Node is cordoned":                           {pod: corev1.PodSpec{Tolerations: unverified}, taint: &corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}, runs: true},
		"the Node is short of memory":                    {pod: corev1.PodSpec{Tolerations: unverified}, taint: &corev1.Taint{Key: corev1.TaintNodeMemoryPressure, Effect: corev1.TaintEffectNoSchedule}, runs: true},
		"the Node is not ready yet":                      {pod: corev1.PodSpec{Tolerations: unverified}, taint: &corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute}, runs: true},
		"the Node has no network, and it needs none":     {pod: corev1.PodSpec{Tolerations: unverified, HostNetwork: true}, taint: &corev1.Taint{Key: corev1.TaintNodeNetworkUnavailable, Effect: corev1.TaintEffectNoSchedule}, runs: true},
		"the Node has no network, and it needs one":      {pod: corev1.PodSpec{Tolerations: unverified}, taint: &corev1.Taint{Key: corev1.TaintNodeNetworkUnavailable, Effect: corev1.TaintEffectNoSchedule}},
		"the Node has a taint that it does not endure":   {pod: corev1.PodSpec{Tolerations: unverified}, taint: &corev1.Taint{Key: "team", Value: "a", Effect: corev1.TaintEffectNoSchedule}},
		"the Node has a taint that is only a preference": {pod: corev1.PodSpec{Tolerations: unverified}, taint: &corev1.Taint{Key: "team", Value: "a", Effect: corev1.TaintEffectPreferNoSchedule}, runs: true},
		"an affinity that cannot be read":                {pod: corev1.PodSpec{Tolerations: all, Affinity: affinity("a b c", "no", false)}},
	} {
		t.Run(name, func(t *testing.T) {
			node := readyNode()
			if row.taint != nil {
				node.Taints = append(node.Taints, *row.taint)
			}
			assert.Equal(t, row.runs, verify.DaemonSet{Name: "a/b", Pod: row.pod}.RunsOn(node))
		})
	}
}
