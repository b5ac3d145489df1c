package policy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/policy/policytest"
)

func TestMigrationsThatAPolicyCannotHave(t *testing.T) {
	for name, c := range map[string]struct {
		sections string
		errors   []string // each field, and what is said of it
	}{
		"a migration": {sections: "labels: {migrations: [{from: gpu, to: example.com/gpu, phase: both}]}"},
		"a dotted key, in the last phase": {
			sections: "labels: {migrations: [{from: gpu.model, to: example.com/gpu.model, phase: new}]}",
		},
		"keys that no label can have": {
			sections: "labels: {migrations: [{from: \"a b\", to: \"x/y/z\", phase: both}]}",
			errors:   []string{"labels.migrations[0].from", "labels.migrations[0].to"},
		},
		"no phase, and one that is none": {
			sections: "labels: {migrations: [{from: a, to: b}, {from: c, to: d, phase: old}]}",
			errors:   []string{"labels.migrations[0].phase", "labels.migrations[1].phase"},
		},
		"a chain": {
			sections: "labels: {migrations: [{from: a, to: b, phase: both}, {from: b, to: c, phase: both}]}",
			errors:   []string{"spec.labels.migrations[0].to: Forbidden: labels.migrations[1] has this key", "spec.labels.migrations[1].from: Forbidden: labels.migrations[0] has this key"},
		},
		"a cycle": {
			sections: "labels: {migrations: [{from: a, to: b, phase: both}, {from: b, to: a, phase: both}]}",
			errors:   []string{"labels.migrations[0].from", "labels.migrations[0].to", "labels.migrations[1].from", "labels.migrations[1].to"},
		},
		"a key to itself": {
			sections: "labels: {migrations: [{from: a, to: a, phase: both}]}",
			errors:   []string{"labels.migrations[0].from", "labels.migrations[0].to"},
		},
		"two to one key, and one to two keys": {
			sections: "labels: {migrations: [{from: a, to: x, phase: both}, {from: b, to: x, phase: both}, {from: a, to: y, phase: both}]}",
			errors:   []string{"spec.labels.migrations[1].to: Duplicate", "spec.labels.migrations[2].from: Duplicate"},
		},
		"a key that a component sets": {
			sections: "labels: {migrations: [{from: topology.kubernetes.io/zone, to: example.com/zone, phase: both}]}",
			errors:   []string{"spec.labels.migrations[0].from: Forbidden: nodekeep does not record this label"},
		},
		"to a key that is not kept": {
			sections: "labels: {ignore: [\"example.com/*\"], migrations: [{from: gpu, to: example.com/gpu, phase: both}]}",
			errors:   []string{"spec.labels.migrations[0].to: Forbidden: nodekeep does not record this label: labels.ignore has example.com/*"},
		},
		"a key that a rule sets, or would": {
			sections: "labels: {rules: [{name: r, set: {gpu: x}}], migrations: [{from: gpu, to: example.com/gpu, phase: both}]}",
			errors:   []string{"spec.labels.migrations[0].from: Forbidden: rule r decides this label"},
		},
		"an ordinary key to a protected one": {
			sections: "labels: {migrations: [{from: gpu, to: node-role.kubernetes.io/gpu, phase: both}]}",
			errors:   []string{"spec.labels.migrations[0].to: Forbidden: a kubelet may not set this label"},
		},
		"an ordinary key to a protected one, whose value the kubelet may choose": {
			sections: "labels: {migrations: [{from: gpu, to: node-role.kubernetes.io/gpu, phase: both, trust: kubelet}]}",
		},
		"an ordinary key to an isolation label": {
			sections: "labels: {keep: [\"*\", \"node-restriction.kubernetes.io/*\"], migrations: [{from: gpu, to: node-restriction.kubernetes.io/gpu, phase: both, trust: kubelet}]}",
			errors:   []string{"spec.labels.migrations[0].to: Forbidden: it is an isolation boundary"},
		},
		"the removal of a required key": {
			sections: "labels: {migrations: [{from: gpu, to: example.com/gpu, phase: new}]}\ngovernance: {keys: [{key: gpu, required: true, mode: deny}]}",
			errors:   []string{"spec.labels.migrations[0].from: Invalid value: \"gpu\": is against governance: label gpu is required and missing"},
		},
		"a required key that stays": {
			sections: "labels: {migrations: [{from: gpu, to: example.com/gpu, phase: both}]}\ngovernance: {keys: [{key: gpu, required: true, mode: deny}]}",
		},
		"the removal of a key that is required in mode audit": {
			sections: "labels: {migrations: [{from: gpu, to: example.com/gpu, phase: new}]}\ngovernance: {keys: [{key: gpu, required: true}]}",
		},
		"a rule of the reserved name": {
			sections: "labels: {rules: [{name: migration, set: {gpu: x}}]}",
			errors:   []string{"labels.rules[0].name"},
		},
		"too many": {
			sections: "labels: {migrations: [" + strings.Repeat("{from: a, to: b, phase: both},", maxMigrations+1) + "]}",
			errors:   []string{"spec.labels.migrations: Too many"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load([]byte(policytest.Manifest(c.sections+"\n")), DefaultGate)
			if len(c.errors) == 0 {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
			for _, want := range c.errors {
				assert.Contains(t, err.Error(), want)
			}
		})
	}
}

func TestThePhaseOfAMigrationChangesTheHashOfTheRules(t *testing.T) {
	combined, finishing := loadPolicy(t, "labels: {migrations: [{from: a, to: b, phase: both}]}"), loadPolicy(t, "labels: {migrations: [{from: a, to: b, phase: new}]}")
	assert.NotEqual(t, combined.RulesHash(), finishing.RulesHash())
	assert.Equal(t, NoRules, loadPolicy(t, "labels: {migrations: []}").RulesHash())
}
