package policy

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReferencesNameEveryFieldThatHasAKey(t *testing.T) {
	p, err := Load([]byte(`
apiVersion: nodekeep.dev/v1alpha1
kind: NodePolicy
metadata: {name: default}
spec:
  labels:
    keep: ["*", kept]
    ignore: [ignored, "*.example.com/*"]
    defer: [deferred]
    rules:
    - name: one
      when: {labels: "old,other in (a,b)", any: [{labels: "!inner"}, {names: [x]}]}
      set: {derived: "yes"}
      ensureAbsent: [unwanted, "some:NoSchedule"]
      trust: kubelet
    - {name: two, set: {derived: "no"}}
  taints:
    register: [{taint: "new:NoSchedule", nodeSelector: fresh=1}]
    rules:
    - {selector: dedicated, taint: "dedicated={value}:NoSchedule"}
    - {selector: "pool=ci,old", taint: "ci:NoSchedule"}
  verify:
    profiles: [{name: p, nodeSelector: verified-pool, checks: [{name: api, api: {}}]}]
`), DefaultGate)
	require.NoError(t, err)
	assert.Equal(t, []Reference{
		{"labels.keep[1]", "kept", false},
		{"labels.ignore[0]", "ignored", false},
		{"labels.defer[0]", "deferred", false},
		{"labels.rules[0].when", "inner", true},
		{"labels.rules[0].when", "old", true},
		{"labels.rules[0].when", "other", true},
		{"labels.rules[0].set", "derived", false},
		{"labels.rules[0].ensureAbsent", "unwanted", false},
		{"labels.rules[1].set", "derived", false},
		{"taints.register[0].nodeSelector", "fresh", true},
		{"taints.rules[0].selector", "dedicated", true},
		{"taints.rules[1].selector", "old", true},
		{"taints.rules[1].selector", "pool", true},
		{"verify.profiles[0].nodeSelector", "verified-pool", true},
	}, p.References())
	assert.Empty(t, Default().References())
}
