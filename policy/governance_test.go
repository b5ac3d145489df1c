package policy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/governance"
)

const governed = `
apiVersion: nodekeep.dev/v1alpha1
kind: NodePolicy
metadata: {name: default}
spec:
  governance:
    keys:
    - {key: hardware.tier, description: performance class, values: [dual-gpu, standard], required: true, mode: warn}
    - {key: rack, pattern: '^r[0-9]{1,3}$', immutable: true, mode: deny}
    reserved: ["*.example.com/*"]
    noncompliant: {taint: "example.com/noncompliant:PreferNoSchedule", after: 10m}
`

func TestTheSectionGovernanceIsRead(t *testing.T) {
	p, err := Load([]byte(governed), DefaultGate)
	require.NoError(t, err)
	assert.Len(t, p.Governance().Violations(nil), 1)
	assert.True(t, Default().Governance().Empty())
	taint, after, ok := p.Governance().Noncompliant()
	assert.True(t, ok)
	assert.Equal(t, "example.com/noncompliant:PreferNoSchedule", taint.ToString())
	assert.Equal(t, "10m0s", after.String())
	assert.True(t, p.RulesMake(taint))
	assert.True(t, Default().After(p).RulesMake(taint), "another process may still add it")
	assert.False(t, Default().RulesMake(taint))
	assert.Empty(t, p.TaintsWith(false, nil))
	assert.Len(t, p.TaintsWith(true, nil), 1)
	assert.Empty(t, Default().TaintsWith(true, nil))
	assert.Equal(t, governance.Warn, p.Governance().Settings().Keys[0].Mode)
}

func TestGovernanceOfWhatOthersOwnIsAnError(t *testing.T) {
	for name, tt := range map[string]struct{ from, to, want string }{
		"a key of nodekeep":         {"key: rack", "key: nodekeep.dev/verified", "governance.keys[1].key"},
		"all keys":                  {`"*.example.com/*"`, `"*"`, "governance.reserved[0]"},
		"keys of the kubelet":       {`"*.example.com/*"`, `"*.io/os"`, "governance.reserved[0]"},
		"roles":                     {`"*.example.com/*"`, `"node-role.*"`, "governance.reserved[0]"},
		"the gate":                  {"example.com/noncompliant:PreferNoSchedule", string(DefaultGate) + ":NoSchedule", "governance.noncompliant.taint"},
		"a taint of Kubernetes":     {"example.com/noncompliant:PreferNoSchedule", "node.kubernetes.io/not-ready:NoSchedule", "governance.noncompliant.taint"},
		"the taint of verification": {"example.com/noncompliant:PreferNoSchedule", "nodekeep.dev/unverified:NoSchedule", "governance.noncompliant.taint"},
		"a taint of a rule":         {"governance:", "taints: {rules: [{selector: a, taint: \"example.com/noncompliant:PreferNoSchedule\"}]}\n  governance:", "governance.noncompliant.taint"},
		"a registration taint":      {"governance:", "taints: {register: [{taint: \"example.com/noncompliant:PreferNoSchedule\"}]}\n  governance:", "governance.noncompliant.taint"},
		"a value of another type":   {"standard]", "1]", "governance.keys[0].values[1]"},
		"an unknown field":          {"required: true", "require: true", "unknown field"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load([]byte(strings.Replace(governed, tt.from, tt.to, 1)), DefaultGate)
			require.Error(t, err)
			assert.Contains(t, err.Error(), tt.want)
		})
	}
}
