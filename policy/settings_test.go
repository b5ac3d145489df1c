package policy

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/intstr"

	"nodekeep.dev/nodekeep/policy/policytest"
)

func TestSettingsAreThoseOfThePolicyInTheOrderOfTheFile(t *testing.T) {
	assert.Equal(t, []Setting{
		{"labels.onConflict", "keepNode"}, {"labels.protected", "deferred"}, {"labels.migrations", "none"}, {"cordon", "ignore"}, {"machine.onMismatch", "restore"}, {"machine.follow", "false"},
		{"verify.label", "nodekeep.dev/verified"}, {"verify.start.perSecond", "10"}, {"verify.start.inFlight", "200"},
		{"verify.limits.stopAbove", "20%"}, {"verify.limits.deletionsPerHour", "3"}, {"verify.limits.orPercent", "10"}, {"verify.limits.cooldown", "15m"}, {"verify.profiles", "none"}, {"retention", "720h"},
		{"governance.keys", "none"}, {"governance.noncompliant.taint", ""}, {"governance.noncompliant.after", "0"}, {"accept", ""},
	}, Default().Settings())

	loaded, err := Load([]byte(policytest.Manifest("labels: {onConflict: restoreStored, protected: never}\ncordon: keep\nmachine: {onMismatch: quarantine, follow: true}\nretention: 0\n"+
		"verify: {label: a.example/ok, start: {perSecond: 1, inFlight: 2}, profiles: [{name: gpu, nodeSelector: gpu, checks: [{name: api, api: {}}]}, {name: rest, taint: 'a.example/new:NoExecute', checks: [{name: api, api: {}}]}]}\n"+
		"governance: {keys: [{key: a, mode: deny}, {key: b}], reserved: [x.example/*], noncompliant: {taint: 'a.example/bad:NoSchedule', after: 5m}}\naccept: 0123456789ab\n")), DefaultGate)
	require.NoError(t, err)
	hash := loaded.Verify().All()[0].Hash
	assert.Equal(t, []Setting{
		{"labels.onConflict", "restoreStored"}, {"labels.protected", "never"}, {"labels.migrations", "none"}, {"cordon", "keep"}, {"machine.onMismatch", "quarantine"}, {"machine.follow", "true"},
		{"verify.label", "a.example/ok"}, {"verify.start.perSecond", "1"}, {"verify.start.inFlight", "2"},
		{"verify.limits.stopAbove", "20%"}, {"verify.limits.deletionsPerHour", "3"}, {"verify.limits.orPercent", "10"}, {"verify.limits.cooldown", "15m"},
		{"verify.profiles", "gpu (gpu, nodekeep.dev/unverified:NoSchedule, checks " + hash + "); rest (a.example/new:NoExecute, checks " + hash + ")"}, {"retention", "0 (for ever)"},
		{"governance.keys", "1 denied, 0 warned about, 1 audited; 1 reserved patterns"}, {"governance.noncompliant.taint", "a.example/bad:NoSchedule"}, {"governance.noncompliant.after", "5m"}, {"accept", "0123456789ab"},
	}, loaded.Settings())
}

// Every field of the file that has a single value is a setting: one that was left out would change without a word.
func TestEverySingleValueOfTheFileIsASetting(t *testing.T) {
	var single []string
	var walk func(of reflect.Type, path string)
	walk = func(of reflect.Type, path string) {
		for i := range of.NumField() {
			field := of.Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			at := strings.TrimPrefix(path+"."+name, ".")
			switch {
			case field.Type == reflect.TypeFor[*int](), field.Type.Kind() == reflect.String, field.Type.Kind() == reflect.Bool, field.Type.Kind() == reflect.Int,
				field.Type == reflect.TypeFor[*intstr.IntOrString]():
				single = append(single, at)
			case field.Type.Kind() == reflect.Struct:
				walk(field.Type, at)
			}
		}
	}
	walk(reflect.TypeFor[Spec](), "")
	var settings []string
	for _, setting := range Default().Settings() {
		settings = append(settings, setting.Field)
	}
	assert.ElementsMatch(t, append(single, "verify.profiles", "governance.keys", "labels.migrations"), settings) // lists, but one line of each says what changed
}

func TestRetentionIsWrittenAsInAPolicyFile(t *testing.T) {
	for want, retention := range map[string]time.Duration{
		"720h": 720 * time.Hour, "10m": 10 * time.Minute, "1h30m": 90 * time.Minute, "1h0m30s": time.Hour + 30*time.Second, "20h": 20 * time.Hour, "0 (for ever)": 0,
	} {
		assert.Equal(t, want, written(retention))
	}
}
