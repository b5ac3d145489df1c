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
    - {key: hardware.tier, values: [dual-gpu, standard], required: true, mode: warn}
    - {key: rack, pattern: '^r[0-9]{1,3}$', immutable: true, mode: deny}
    reserved: ["*.example.com/*"]
    noncompliant: {taint: "example.com/noncompliant:PreferNoSchedule", after: 10m}
`

func TestTheSectionGovernanceIsRead(t *testing.T) {
	p, err := Load([]byte(governed), DefaultGate)
	require.NoError(t, err)
	assert.Len(t, p.Governance().Violations(nil), 1)
	assert.True(t, Default().Governance().Empty())
	taint, delay, ok := p.Governance().Noncompliant()
	assert.True(t, ok)
	assert.Equal(t, "example.com/noncompliant:PreferNoSchedule", taint.ToString())
	assert.Equal(t, "10m0s", delay.String())
	assert.True(t, p.RulesMake(taint))
	assert.True(t, Default().WithPredecessor(p).RulesMake(taint), "another process may still add it")
	assert.False(t, Default().RulesMake(taint))
	assert.Empty(t, p.WantedTaints(false, nil))
	assert.Len(t, p.WantedTaints(true, nil), 1)
	assert.Empty(t, Default().WantedTaints(true, nil))
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

func TestARuleAgainstGovernanceIsAnError(t *testing.T) {
	for name, tt := range map[string]struct{ rule, wrong string }{
		"a value that is not listed":                {"set: {hardware.tier: gpu}", "spec.labels.rules[0].set[hardware.tier]"},
		"a value that does not match":               {"set: {rack: a1}", "spec.labels.rules[0].set[rack]"},
		"a reserved key":                            {"set: {a.example.com/b: c}", "spec.labels.rules[0].set[a.example.com/b]"},
		"a reserved key with a value of facts":      {"set: {a.example.com/b: \"{node.arch}\"}", "spec.labels.rules[0].set[a.example.com/b]"},
		"the removal of a required label":           {"ensureAbsent: [hardware.tier]", "spec.labels.rules[0].ensureAbsent[0]"},
		"a table with such a value":                 {"set: {rack: \"{labels.place}\"}, values: {Hall 1: r1, Hall 2: hall}", "spec.labels.rules[0].values[Hall 2]"},
		"a table that other facts use, too":         {"set: {rack: \"{labels.place}\", x: \"{node.arch}\"}, values: {Hall 1: r1, amd64: x86}", ""},
		"a table that a part of the name uses, too": {"when: {names: [\"^(?P<g>.)\"]}, set: {rack: \"{labels.place}\", b: \"{name.g}\"}, values: {a: x}", ""},
		"a table of a part of a value":              {"set: {rack: \"r{labels.place}\"}, values: {Hall 1: \"1\"}", ""},
		"a listed value":                            {"set: {hardware.tier: standard}", ""},
		"a value that facts decide":                 {"set: {rack: \"{node.arch}\"}", ""},
		"the removal of a label that may be had":    {"ensureAbsent: [rack]", ""},
	} {
		t.Run(name, func(t *testing.T) {
			manifest := governed + "  labels: {rules: [{name: a, " + tt.rule + "}]}\n"
			_, err := Load([]byte(manifest), DefaultGate)
			if tt.wrong == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.wrong)
			require.ErrorContains(t, err, "is against governance")
			_, err = Load([]byte(strings.NewReplacer("mode: warn", "mode: audit", "mode: deny", "mode: audit", `reserved: ["*.example.com/*"]`, "reserved: []").Replace(manifest)), DefaultGate)
			assert.NoError(t, err, "mode audit reports only")
		})
	}
}
