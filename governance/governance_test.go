package governance

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

type labels = map[string]string

// example is the one of the docs.
func example() Settings {
	return Settings{
		Keys: []Key{
			{Key: "hardware.tier", Values: []string{"dual-gpu", "high-performance", "standard"}, Required: true, Mode: Warn},
			{Key: "rack", Pattern: "r[0-9]{1,3}", Immutable: true, Mode: Deny},
			{Key: "gpu.count", Requires: []string{"accelerator"}},
			{Key: "team.owner", Owners: []string{"group:platform-admins", "user:ann", "serviceaccount:ops/labeler"}, Mode: Deny},
			{Key: "a.example.com/known", Mode: Deny},
		},
		Reserved:     []string{"*.example.com/*"},
		Noncompliant: Noncompliant{Taint: "example.com/noncompliant:PreferNoSchedule", After: "10m"},
	}
}

func compiled(t *testing.T, settings Settings) Rules {
	t.Helper()
	rules, errs := Compile(settings, field.NewPath("governance"))
	require.Empty(t, errs)
	return rules
}

// said are violations as KIND KEY VALUE.
func said(violations []Violation) (all []string) {
	for _, v := range violations {
		all = append(all, strings.TrimSpace(string(v.Kind)+" "+v.Key+" "+v.Value))
	}
	return all
}

func TestLabelsOfANodeShowWhatIsWrongWithThem(t *testing.T) {
	rules := compiled(t, example())
	for name, tt := range map[string]struct {
		labels labels
		want   []string
	}{
		"all is right":               {labels{"hardware.tier": "standard", "rack": "r7", "gpu.count": "1", "accelerator": "", "a.example.com/known": "x"}, nil},
		"no labels":                  {nil, []string{"required hardware.tier"}},
		"a value of none":            {labels{"hardware.tier": ""}, []string{"value hardware.tier"}},
		"a value that is not listed": {labels{"hardware.tier": "Standard"}, []string{"value hardware.tier Standard"}},
		"only a part matches":        {labels{"hardware.tier": "standard", "rack": "xr7"}, []string{"pattern rack xr7"}},
		"another label is missing":   {labels{"hardware.tier": "standard", "gpu.count": "1"}, []string{"requires gpu.count accelerator"}},
		"a reserved key":             {labels{"hardware.tier": "standard", "b.example.com/x": "1"}, []string{"reserved b.example.com/x 1"}},
		"all at once": {labels{"rack": "7", "gpu.count": "", "z.example.com/x": "", "a.example.com/y": ""},
			[]string{"required hardware.tier", "pattern rack 7", "requires gpu.count accelerator", "reserved a.example.com/y", "reserved z.example.com/x"}},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tt.want, said(rules.Violations(tt.labels))) })
	}
	assert.Equal(t, Violation{Rule: "*.example.com/*", Kind: Reserved, Mode: Deny, Key: "b.example.com/x"}, rules.Violations(labels{"hardware.tier": "standard", "b.example.com/x": ""})[0])
	assert.Empty(t, Rules{}.Violations(labels{"a": "b"}))
}

func TestAChangeIsJudgedByWhatItAdds(t *testing.T) {
	rules := compiled(t, example())
	admin := Requester{User: "bob", Groups: []string{"platform-admins"}}
	for name, tt := range map[string]struct {
		old, labels labels
		by          Requester
		want        []string
	}{
		"what was wrong before stays":           {labels{"hardware.tier": "x", "rack": "7", "gpu.count": "1", "b.example.com/x": ""}, labels{"hardware.tier": "x", "rack": "7", "gpu.count": "1", "b.example.com/x": "", "new": ""}, Requester{}, nil},
		"a required label is removed":           {labels{"hardware.tier": "standard"}, nil, Requester{}, nil},
		"one wrong value replaces another":      {labels{"hardware.tier": "x"}, labels{"hardware.tier": "y"}, Requester{}, []string{"value hardware.tier y"}},
		"a wrong value is corrected":            {labels{"hardware.tier": "x"}, labels{"hardware.tier": "standard"}, Requester{}, nil},
		"an immutable label is set":             {nil, labels{"rack": "r1"}, Requester{}, nil},
		"an immutable label is changed":         {labels{"rack": "r1"}, labels{"rack": "r2"}, Requester{}, []string{"immutable rack r2"}},
		"an immutable label is removed":         {labels{"rack": "r1"}, nil, Requester{}, []string{"immutable rack"}},
		"a label comes without what it needs":   {nil, labels{"gpu.count": "1"}, Requester{}, []string{"requires gpu.count accelerator"}},
		"what a label needs is removed":         {labels{"gpu.count": "1", "accelerator": ""}, labels{"gpu.count": "1"}, Requester{}, []string{"requires gpu.count accelerator"}},
		"both are removed":                      {labels{"gpu.count": "1", "accelerator": ""}, nil, Requester{}, nil},
		"a label changes without what it needs": {labels{"gpu.count": "1"}, labels{"gpu.count": "2"}, Requester{}, nil},
		"a stranger sets an owned label":        {nil, labels{"team.owner": "x"}, Requester{User: "bob", Groups: []string{"ann"}}, []string{"owners team.owner x"}},
		"a stranger removes an owned label":     {labels{"team.owner": "x"}, nil, Requester{User: "platform-admins"}, []string{"owners team.owner"}},
		"a stranger leaves an owned label":      {labels{"team.owner": "x"}, labels{"team.owner": "x", "a": ""}, Requester{User: "bob"}, nil},
		"the owning group":                      {nil, labels{"team.owner": "x"}, admin, nil},
		"the owning user":                       {nil, labels{"team.owner": "x"}, Requester{User: "ann"}, nil},
		"the owning service account":            {nil, labels{"team.owner": "x"}, Requester{User: "system:serviceaccount:ops:labeler"}, nil},
		"a service account of the same name":    {nil, labels{"team.owner": "x"}, Requester{User: "system:serviceaccount:default:labeler"}, []string{"owners team.owner x"}},
		"a reserved key is added":               {nil, labels{"b.example.com/x": "1"}, admin, []string{"reserved b.example.com/x 1"}},
		"a reserved key that is there changes":  {labels{"b.example.com/x": "1"}, labels{"b.example.com/x": "2"}, admin, nil},
		"a listed key is added":                 {nil, labels{"a.example.com/known": "1"}, admin, nil},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tt.want, said(rules.ViolationsOf(tt.old, tt.labels, tt.by))) })
	}
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
			{Key: "described", Description: strings.Repeat("d", 501)},
		},
		Reserved:     []string{"", "a b", "a/b/c", "x.com/*", "x.com/*"},
		Noncompliant: Noncompliant{Taint: "a b=ü:Never", After: "soon"},
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
		"governance.keys[9].owners[5]", "governance.keys[9].owners[6]", "governance.keys[10].description",
		"governance.reserved[0]", "governance.reserved[1]", "governance.reserved[2]", "governance.reserved[4]",
		"governance.noncompliant.taint", "governance.noncompliant.after",
	} {
		assert.Contains(t, fields, want)
	}
	_, errs = Compile(Settings{Noncompliant: Noncompliant{After: "1m"}}, field.NewPath("governance"))
	assert.Len(t, errs, 1, "a delay without a taint")
	_, errs = Compile(Settings{Keys: make([]Key, MaxKeys+1)}, field.NewPath("governance"))
	assert.Len(t, errs, 1)
}

func TestTablesThatNoAPIServerReadsAreRefused(t *testing.T) {
	var settings Settings
	for i := range 10 {
		key := Key{Key: "k" + string(rune('a'+i))}
		for j := range MaxValues {
			key.Values = append(key.Values, strings.Repeat("v", 30)+string(rune('a'+j%26))+strings.Repeat("w", j/26))
		}
		settings.Keys = append(settings.Keys, key)
	}
	_, errs := Compile(settings, field.NewPath("governance"))
	require.Len(t, errs, 1)
	assert.Contains(t, errs[0].Detail, "80000 characters")
	for i := range 5 {
		settings.Keys[i].Mode = Deny
	}
	_, errs = Compile(settings, field.NewPath("governance"))
	assert.Empty(t, errs, "each mode is a policy of its own")
}
