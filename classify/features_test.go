package classify_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/record"
)

// featureRules set hit to true if a Node has the features, and to false if not.
func featureRules(t *testing.T, features labels) classify.Rules {
	t.Helper()
	rules, errs := classify.Compile([]classify.Rule{
		{Name: "has", Condition: classify.Condition{Clause: classify.Clause{Features: features}}, Set: labels{"hit": "true"}},
		{Name: "lacks", Set: labels{"hit": "false"}},
	}, nil)
	require.Empty(t, errs)
	return rules
}

func TestARuleLooksAtFeatures(t *testing.T) {
	const avx, amx, vendor, resize = "cpu.cpuid.AVX512F", "cpu.cpuid.AMXTILE", "pci.device.vendor", "GuaranteedQoSPodCPUResize"
	kubelet := classify.System{Kubelet: "v1.36.0"}
	found := classify.Facts{PluginsRegistered: true, System: kubelet, Declared: []string{resize}, Features: map[string][]string{
		avx: {"true"}, amx: nil, vendor: {"10de", "8086"}, "kernel.version.major": {"6"}, "local.feature.example.com/a.b": {""},
	}}
	starting, unread, unreported := found, found, found
	starting.PluginsRegistered, unread.Features = false, nil
	unreported.Declared = nil
	for name, c := range map[string]struct {
		features labels
		facts    classify.Facts
		want     string // empty: unknown
	}{
		"a flag":                                       {labels{avx: "*"}, found, "true"},
		"a flag is true":                               {labels{avx: "true"}, found, "true"},
		"a flag that the Node lacks":                   {labels{amx: "*"}, found, "false"},
		"an attribute":                                 {labels{"kernel.version.major": "6"}, found, "true"},
		"an attribute with another value":              {labels{"kernel.version.major": "5"}, found, "false"},
		"a value of one of several instances":          {labels{vendor: "10d*"}, found, "true"},
		"a value of no instance":                       {labels{vendor: "1002"}, found, "false"},
		"an element whose name has dots":               {labels{"local.feature.example.com/a.b": "*"}, found, "true"},
		"two features":                                 {labels{avx: "*", resize: "*"}, found, "true"},
		"one of two":                                   {labels{avx: "*", vendor: "1002"}, found, "false"},
		"a declared feature":                           {labels{resize: "*"}, found, "true"},
		"a feature that the kubelet does not declare":  {labels{"Other": "*"}, found, "false"},
		"while the Node declares nothing at all":       {labels{resize: "*"}, unreported, ""},
		"a declared feature needs no NodeFeature":      {labels{resize: "true"}, unread, "true"},
		"before the NodeFeatures are read":             {labels{avx: "*"}, unread, ""},
		"one of a set that no NodeFeature has":         {labels{"usb.device.vendor": "*"}, found, ""},
		"a feature that is there, before NFD was read": {labels{avx: "*"}, starting, "true"},
		"a missing one, while NFD may still start":     {labels{amx: "*"}, starting, ""},
	} {
		t.Run(name, func(t *testing.T) {
			rules := featureRules(t, c.features)
			result, steps := rules.Explain(c.facts, nil, time.Unix(1, 0))
			assert.Equal(t, c.want, result.Labels["hit"].Value)
			assert.Equal(t, c.want == "", result.Unknown)
			assert.Equal(t, result, rules.Evaluate(c.facts, nil, time.Unix(1, 0)))
			require.NotEmpty(t, steps)
			assert.Contains(t, steps[0].Tests[0].Fact, classify.FeatureFact)
		})
	}
}

func TestAFeatureThatDisappearsIsHeldLikeADevice(t *testing.T) {
	gone := classify.Facts{PluginsRegistered: true, Features: map[string][]string{"cpu.cpuid.AVX512F": nil}, System: classify.System{Kubelet: "v1"}}
	prev := map[string]record.RuleLabel{"hit": {Value: "true", Rule: "has"}}
	now := time.Unix(1000, 0)
	result := featureRules(t, labels{"cpu.cpuid.AVX512F": "*"}).Evaluate(gone, prev, now)
	assert.Equal(t, now.Add(classify.PluginGrace).UTC(), result.Labels["hit"].End.UTC(), "NFD's worker may restart")
	declared := featureRules(t, labels{"Resize": "*"})
	result = declared.Evaluate(gone, prev, now)
	assert.Equal(t, record.RuleLabel{Value: "true", Rule: "has"}, result.Labels["hit"], "an API server without the field drops the list")
	assert.Contains(t, result.Blocked, "hit")
	gone.Declared = []string{"Other"}
	result = declared.Evaluate(gone, prev, now)
	assert.Equal(t, now.Add(classify.PluginGrace).UTC(), result.Labels["hit"].End.UTC(), "an older kubelet may have run for a moment")
	result = declared.Evaluate(gone, result.Labels, now.Add(classify.PluginGrace))
	assert.Equal(t, "false", result.Labels["hit"].Value)
}

func TestOnlyWhatRulesUseOfFeaturesIsKnown(t *testing.T) {
	rules := featureRules(t, labels{"pci.device.vendor": "*", "Resize": "*", "cpu.cpuid.AVX": "*"})
	assert.Equal(t, classify.UsedFeatures{"cpu.cpuid.AVX", "pci.device.vendor"}, rules.NodeFeatures())
	assert.Equal(t, classify.UsedFeatures{"Resize"}, rules.Declared())
	a := classify.Facts{System: classify.System{Kubelet: "v1"}, Declared: []string{"Resize"}}
	b := a
	b.Declared = []string{"Other", "Resize"}
	assert.True(t, rules.EqualFacts(a, b))
	b.Declared = []string{"Other"}
	assert.False(t, rules.EqualFacts(a, b))
	b.Declared = nil
	assert.False(t, rules.EqualFacts(a, b))
	a.Declared = []string{"Other"}
	assert.False(t, rules.EqualFacts(a, b), "of a Node that declares nothing, nothing is known")
	assert.True(t, classify.Rule{Condition: classify.Condition{Alternatives: []classify.Clause{{Features: labels{"Resize": "*"}}}}}.Reported())
}

func TestANameOfAFeatureHasOnePartOrThree(t *testing.T) {
	for name, pattern := range map[string]string{"cpu.cpuid": "*", "cpu.": "*", ".cpuid.A": "*", "cpu..A": "*", "cpu.cpuid.": "*", "": "*", "Resize": "", "cpu.cpuid.A": ""} {
		_, errs := classify.Compile([]classify.Rule{{Name: "r", Condition: classify.Condition{Clause: classify.Clause{Features: labels{name: pattern}}}, Set: labels{"a": "b"}}}, field.NewPath("rules"))
		if assert.Len(t, errs, 1, "%q", name) {
			assert.Contains(t, errs[0].Field, "rules[0].when.features")
		}
	}
}
