package governance

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

type labels = map[string]string

// example returns the one of the docs.
func example() Settings {
	return Settings{
		Keys: []Key{
			{Key: "hardware.tier", Values: []string{"dual-gpu", "high-performance", "standard"}, Required: true, Mode: Warn},
			{Key: "rack", Pattern: "r[0-9]{1,3}", Immutable: true, Mode: Deny},
			{Key: "gpu.count", Requires: []string{"accelerator"}},
			{Key: "team.owner", Owners: []string{"group:platform-admins", "user:ann", "serviceaccount:ops/labeler"}, Mode: Deny},
			{Key: "zone.owner", Owners: []string{"serviceaccount:ops/label-*", "group:team-*"}, Mode: Deny},
			{Key: "a.example.com/known", Mode: Deny},
		},
		Reserved:     []string{"*.example.com/*"},
		Noncompliant: Noncompliant{Taint: "example.com/noncompliant:PreferNoSchedule", Delay: "10m"},
	}
}

func compiled(t *testing.T, settings Settings) Rules {
	t.Helper()
	rules, errs := Compile(settings, field.NewPath("governance"))
	require.Empty(t, errs)
	return rules
}

func TestLabelsOfANodeShowWhatIsWrongWithThem(t *testing.T) {
	rules := compiled(t, example())
	for name, tt := range map[string]struct {
		labels labels
		want   []string
	}{
		"all is right":               {labels{"hardware.tier": "standard", "rack": "r7", "gpu.count": "1", "accelerator": "", "a.example.com/known": "x"}, nil},
		"no labels":                  {nil, []string{"label hardware.tier is required and missing"}},
		"a value of none":            {labels{"hardware.tier": ""}, []string{`label hardware.tier has the value "", which is not one of its values`}},
		"a value that is not listed": {labels{"hardware.tier": "Standard"}, []string{`label hardware.tier has the value "Standard", which is not one of its values`}},
		"all else at once": {labels{"hardware.tier": "standard", "rack": "xr7", "gpu.count": "", "z.example.com/x": "", "a.example.com/y": ""}, []string{
			`label rack has the value "xr7", which does not match its pattern`, "label gpu.count requires label accelerator, which is missing",
			"label a.example.com/y is reserved by *.example.com/*, and is not listed", "label z.example.com/x is reserved by *.example.com/*, and is not listed",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var logged []string
			for _, violation := range rules.Violations(tt.labels) {
				logged = append(logged, violation.String())
			}
			assert.Equal(t, tt.want, logged)
		})
	}
	assert.Equal(t, Violation{Rule: "*.example.com/*", Kind: Reserved, Mode: Deny, Key: "b.example.com/x"}, rules.Violations(labels{"hardware.tier": "standard", "b.example.com/x": ""})[0])
	assert.Empty(t, Rules{}.Violations(labels{"a": "b"}))
	assert.Equal(t, []Violation{
		{Rule: "hardware.tier", Kind: Required, Mode: Warn}, {Rule: "hardware.tier", Kind: Value, Mode: Warn}, {Rule: "rack", Kind: Pattern, Mode: Deny},
		{Rule: "gpu.count", Kind: Requires, Mode: Audit}, {Rule: "*.example.com/*", Kind: Reserved, Mode: Deny},
	}, rules.Countable())
}

func TestWithoutAfterANodeThatBreaksARuleGetsTheTaintAtOnce(t *testing.T) {
	rules := compiled(t, Settings{Noncompliant: Noncompliant{Taint: "a:NoSchedule"}})
	_, delay, ok := rules.Noncompliant()
	assert.True(t, ok)
	assert.Zero(t, delay)
	assert.Equal(t, "0", rules.Settings().Noncompliant.Delay, "the settings show the default")
	assert.Equal(t, rules, compiled(t, Settings{Noncompliant: Noncompliant{Taint: "a:NoSchedule", Delay: "0"}}))
}

func TestEveryErrorOfTheSectionIsNamed(t *testing.T) {
	long := strings.Repeat("v", 64)
	_, errs := Compile(Settings{
		Keys: []Key{
			{},
			{Key: "a b", Mode: "deni"},
			{Key: "twice"}, {Key: "twice"},
			{Key: "values", Values: []string{"a", "a", "ü", long}, Pattern: "x"},
			{Key: "pattern", Pattern: "a)(b"},
			{Key: "unicode", Pattern: "ü"},
			{Key: "long", Pattern: strings.Repeat("x", 257)},
			{Key: "itself", Requires: []string{"itself", ""}},
			{Key: "owned", Owners: []string{"ann", "user:", "robot:x", "serviceaccount:x", "serviceaccount:X/y", "user:a\nb", "user:\xff"}},
		},
		Reserved:     []string{"", "a b", "a/b/c", "x.com/*", "x.com/*"},
		Noncompliant: Noncompliant{Taint: "a b=ü:Never", Delay: "soon"},
	}, field.NewPath("governance"))
	var fields []string
	for _, err := range errs {
		fields = append(fields, err.Field)
	}
	for _, want := range []string{
		"governance.keys[0].key", "governance.keys[1].key", "governance.keys[1].mode", "governance.keys[3].key",
		"governance.keys[4].pattern", "governance.keys[4].values[1]", "governance.keys[4].values[2]", "governance.keys[4].values[3]",
		"governance.keys[5].pattern", "governance.keys[6].pattern", "governance.keys[7].pattern", "governance.keys[8].requires[0]", "governance.keys[8].requires[1]",
		"governance.keys[9].owners[0]", "governance.keys[9].owners[1]", "governance.keys[9].owners[2]", "governance.keys[9].owners[3]", "governance.keys[9].owners[4]",
		"governance.keys[9].owners[5]", "governance.keys[9].owners[6]",
		"governance.reserved[0]", "governance.reserved[1]", "governance.reserved[2]", "governance.reserved[4]",
		"governance.noncompliant.taint", "governance.noncompliant.after",
	} {
		assert.Contains(t, fields, want)
	}
	_, errs = Compile(Settings{Noncompliant: Noncompliant{Delay: "1m"}}, field.NewPath("governance"))
	assert.Len(t, errs, 1, "a delay without a taint")
	_, errs = Compile(Settings{Keys: make([]Key, maxKeys+1)}, field.NewPath("governance"))
	assert.Len(t, errs, 1)
}
