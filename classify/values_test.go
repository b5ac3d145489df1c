package classify_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/record"
)

type labels = map[string]string

// gpus returns the rule that names the model of a GPU, and a Node with such devices.
func gpus(products ...string) (classify.Rule, classify.Facts) {
	facts := classify.Facts{PluginsRegistered: true, DevicesKnown: true, Labels: labels{"zone": "B.1"}}
	for _, product := range products {
		facts.Devices = append(facts.Devices, classify.Device{Driver: "gpu.nvidia.com", Attributes: labels{"productName": product}})
	}
	return classify.Rule{
		Name: "gpu", Condition: classify.Condition{Clause: classify.Clause{Devices: &classify.DeviceCondition{Driver: "gpu.nvidia.com"}}},
		Set: labels{"gpu.model": "{devices.productName}", "gpu.place": "{labels.zone}-{devices.productName}"},
	}, facts
}

func TestAValueIsMadeOfLabelsAndOfWhatDevicesSay(t *testing.T) {
	const rtx = "NVIDIA GeForce RTX 5070 Ti"
	for name, c := range map[string]struct {
		products []string
		rule     func(*classify.Rule)
		facts    func(*classify.Facts)
		want     labels
		blocked  bool
		problem  string
	}{
		"a name of a product becomes a value": {products: []string{rtx, rtx}, want: labels{"gpu.model": "nvidia-geforce-rtx-5070-ti", "gpu.place": "B.1-nvidia-geforce-rtx-5070-ti"}},
		"dots, slashes and brackets, too":     {products: []string{"A100-SXM4/80.0 (MIG)"}, want: labels{"gpu.model": "a100-sxm4-80-0-mig", "gpu.place": "B.1-a100-sxm4-80-0-mig"}},
		"a table comes first": {
			products: []string{rtx}, rule: func(r *classify.Rule) { r.Values = labels{rtx: "RTX5070Ti", "B.1": "b"} }, want: labels{"gpu.model": "RTX5070Ti", "gpu.place": "b-RTX5070Ti"},
		},
		"no longer than a value may be": {
			products: []string{"x 23456789 23456789 23456789 23456789 23456789 23456789 2345678 90123"}, rule: func(r *classify.Rule) { delete(r.Set, "gpu.place") },
			want: labels{"gpu.model": "x-23456789-23456789-23456789-23456789-23456789-23456789-2345678"},
		},
		"none without the label":                              {products: []string{rtx}, facts: func(f *classify.Facts) { f.Labels = nil }, want: labels{"gpu.model": "nvidia-geforce-rtx-5070-ti"}},
		"unknown while a cloud controller may set the label":  {products: []string{rtx}, facts: func(f *classify.Facts) { f.Labels, f.Uninitialized = nil, true }, want: labels{"gpu.model": "nvidia-geforce-rtx-5070-ti"}, blocked: true},
		"a label that is there before the cloud controller's": {products: []string{rtx}, facts: func(f *classify.Facts) { f.Uninitialized = true }, want: labels{"gpu.model": "nvidia-geforce-rtx-5070-ti", "gpu.place": "B.1-nvidia-geforce-rtx-5070-ti"}},
		"none without the attribute":                          {products: []string{""}, want: nil},
		"unknown until all are read":                          {products: []string{rtx}, facts: func(f *classify.Facts) { f.Incomplete = []string{"gpu.nvidia.com"} }, blocked: true},
		"none of devices that differ":                         {products: []string{rtx, "NVIDIA H100"}, problem: `devices of gpu.nvidia.com differ in productName: "NVIDIA GeForce RTX 5070 Ti" and "NVIDIA H100"; count one kind of them with when.devices.attributes`},
		"unknown, though those that are read differ":          {products: []string{rtx, "NVIDIA H100"}, facts: func(f *classify.Facts) { f.Incomplete = []string{"gpu.nvidia.com"} }, blocked: true},
		"of those that the rule counts": {
			products: []string{rtx, "NVIDIA H100"}, rule: func(r *classify.Rule) {
				r.Condition.Devices.Attributes = map[string]string{"productName": "*H100"}
			},
			want: labels{"gpu.model": "nvidia-h100", "gpu.place": "B.1-nvidia-h100"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			rule, facts := gpus(c.products...)
			if c.rule != nil {
				c.rule(&rule)
			}
			if c.facts != nil {
				c.facts(&facts)
			}
			rules, errs := classify.Compile([]classify.Rule{rule}, field.NewPath("rules"))
			require.Empty(t, errs)
			result := rules.Evaluate(facts, nil, time.Unix(1, 0))
			var got labels
			for key, label := range result.Labels {
				if got == nil {
					got = labels{}
				}
				got[key] = label.Value
			}
			assert.Equal(t, c.want, got)
			assert.Equal(t, c.blocked, len(result.Blocked) > 0)
			if c.problem == "" {
				assert.Empty(t, result.Problems)
			} else if assert.NotEmpty(t, result.Problems) {
				assert.Contains(t, result.Problems[0].Reason, c.problem)
			}
			_, steps := rules.Explain(facts, nil, time.Unix(1, 0))
			assert.NotEmpty(t, steps)
		})
	}
}

func TestAValueThatCanNoLongerBeMadeStaysForTheHold(t *testing.T) {
	rule, differ := gpus("NVIDIA H100", "NVIDIA H100 SXM")
	rules, errs := classify.Compile([]classify.Rule{rule}, nil)
	require.Empty(t, errs)
	_, long := gpus("NVIDIA H100")
	long.Labels = labels{"zone": strings.Repeat("z", 60)}
	now := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		facts classify.Facts
		key   string
		rest  labels
		held  bool
	}{
		"a driver renames a product, pool by pool": {differ, "gpu.model", nil, true},
		"a value that is too long":                 {long, "gpu.place", nil, true},
		"not where an operator has set the label":  {differ, "gpu.model", labels{"gpu.model": "mine"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			prev := map[string]record.RuleLabel{c.key: {Value: "old", Rule: "gpu"}}
			if c.rest != nil {
				c.facts.Labels = c.rest
			}
			result := rules.Evaluate(c.facts, prev, now)
			require.NotEmpty(t, result.Problems, "it is reported at once")
			label, held := result.Labels[c.key]
			require.Equal(t, c.held, held)
			if !held {
				return
			}
			assert.Equal(t, "old", label.Value)
			assert.Equal(t, now.Add(classify.PluginGrace).UTC(), label.End.UTC())
			_, steps := rules.Explain(c.facts, prev, now)
			assert.True(t, slices.ContainsFunc(steps, func(step classify.Step) bool { return step.Key == c.key && step.Outcome == classify.Held }))
			result = rules.Evaluate(c.facts, result.Labels, now.Add(classify.PluginGrace))
			assert.NotContains(t, result.Labels, c.key)
			assert.NotEmpty(t, result.Problems)
		})
	}
}

func TestALabelThatACloudControllerSetsLaterIsUnknown(t *testing.T) {
	for name, c := range map[string]struct {
		selector, want string
		labels         labels
		initialized    bool
	}{
		"a zone":                      {selector: "topology.kubernetes.io/zone=a"},
		"none":                        {selector: "!node.kubernetes.io/instance-type"},
		"a zone that is there":        {selector: "topology.kubernetes.io/zone=a", want: "yes", labels: labels{"topology.kubernetes.io/zone": "a"}},
		"no cloud is going to set it": {selector: "topology.kubernetes.io/zone=a", want: "no", initialized: true},
		"another label":               {selector: "!tier", want: "yes"},
	} {
		t.Run(name, func(t *testing.T) {
			rules, errs := classify.Compile([]classify.Rule{
				{Name: "is", Condition: classify.Condition{Clause: classify.Clause{Labels: c.selector}}, Set: labels{"hit": "yes"}}, {Name: "rest", Set: labels{"hit": "no"}},
			}, nil)
			require.Empty(t, errs)
			result := rules.Evaluate(classify.Facts{Uninitialized: !c.initialized, Labels: c.labels}, nil, time.Unix(1, 0))
			assert.Equal(t, c.want, result.Labels["hit"].Value)
			assert.Equal(t, c.want == "", result.Unknown)
		})
	}
}

func TestAValueUsesLabelsOfEarlierRulesOnly(t *testing.T) {
	first := classify.Rule{Name: "first", Set: labels{"a": "1"}}
	copies := classify.Rule{Name: "copies", Set: labels{"b": "{labels.a}"}}
	rules, errs := classify.Compile([]classify.Rule{first, copies}, nil)
	require.Empty(t, errs)
	assert.Equal(t, "1", rules.Evaluate(classify.Facts{}, nil, time.Unix(1, 0)).Labels["b"].Value)
	assert.Equal(t, []string{"a"}, rules.Keyed()[1].Selects)
	_, errs = classify.Compile([]classify.Rule{copies, first}, nil)
	require.Len(t, errs, 1)
	assert.Contains(t, errs[0].Error(), "a rule uses labels of earlier rules only")

	for name, rule := range map[string]classify.Rule{
		"itself":                     {Name: "r", Set: labels{"a": "{labels.a}"}},
		"with the key of a label":    {Name: "r", Set: labels{"a": "{labels.}"}},
		"needs when.devices":         {Name: "r", Set: labels{"a": "{devices.productName}"}},
		"write {devices.ATTRIBUTE}":  {Name: "r", Set: labels{"a": "{devices.}"}},
		"whose text the table could": {Name: "r", Set: labels{"a": "b"}, Values: labels{"x": "y"}},
		"a valid label must be":      {Name: "r", Set: labels{"a": "{labels.b}"}, Values: labels{"x": "no value"}},
		"a text that a Node can":     {Name: "r", Set: labels{"a": "{labels.b}"}, Values: labels{"": "y"}},
	} {
		_, errs := classify.Compile([]classify.Rule{rule}, nil)
		if assert.NotEmpty(t, errs, name) && name != "itself" {
			assert.Contains(t, errs[0].Error(), name)
		}
	}
}

func TestFactsOfARuleAreKnownWhateverElseItsValuesHave(t *testing.T) {
	rule := classify.Rule{Set: labels{"a": "{name.rack}-{labels.tier}-{inventory.cmdb.hall}", "b": "{wrong.}-{labels.zone}", "c": "{labels.open}-{"}}
	assert.Equal(t, []string{"tier", "zone", "open"}, rule.LabelFacts())
	facts := rule.InventoryFacts(field.NewPath("rule"))
	require.Len(t, facts, 1)
	assert.Equal(t, "cmdb hall rule.set[a]", facts[0].Source+" "+facts[0].Attribute+" "+facts[0].Path.String())
	rule = classify.Rule{Set: labels{"a": "{labels.place}", "b": "{name.rack}"}, Values: labels{"Hall 1": "h1"}}
	assert.Nil(t, rule.Listed("a"), "the table may be for the name")
	delete(rule.Set, "b")
	assert.Equal(t, labels{"Hall 1": "h1"}, rule.Listed("a"))
}
