package classify_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/classify"
)

func TestRulesThatCanNeverActAreNamed(t *testing.T) {
	condition := func(clause classify.Clause) classify.Condition { return classify.Condition{Clause: clause} }
	node := func(arch, os string) classify.Clause {
		var selected []string
		for key, value := range map[string]string{"kubernetes.io/arch": arch, "kubernetes.io/os": os} {
			if value != "" {
				selected = append(selected, key+" in ("+value+")")
			}
		}
		return classify.Clause{Labels: strings.Join(selected, ",")}
	}
	set := labels{"tier": "a"}
	const shadow = "rule late never decides tier: rule all before it is for every Node, and the first rule that is true decides. Move it before all"
	for name, c := range map[string]struct {
		rules []classify.Rule
		want  []string
	}{
		"a default that is last":                 {rules(), nil},
		"after a rule for every Node":            {[]classify.Rule{{Name: "all", Set: set}, {Name: "late", Condition: condition(node("amd64", "")), Set: labels{"tier": "b", "other": "b"}}}, []string{shadow}},
		"after a rule for every name":            {[]classify.Rule{{Name: "all", Condition: condition(classify.Clause{Names: []string{"x", "*"}}), Set: set}, {Name: "late", Set: set}}, []string{shadow}},
		"after an alternative for every Node":    {[]classify.Rule{{Name: "all", Condition: classify.Condition{Alternatives: []classify.Clause{node("arm64", ""), {}}}, Set: set}, {Name: "late", Set: set}}, []string{shadow}},
		"after a rule that keeps it off":         {[]classify.Rule{{Name: "all", EnsureAbsent: []string{"tier"}}, {Name: "late", Set: set}}, []string{shadow}},
		"after a value that each Node reports":   {[]classify.Rule{{Name: "all", Set: labels{"tier": "{node.arch}"}}, {Name: "late", Set: set}}, []string{shadow}},
		"after a value that a Node may not have": {[]classify.Rule{{Name: "all", Set: labels{"tier": "{labels.x}"}}, {Name: "late", Set: set}}, nil},
		"after a rule of mode audit":             {[]classify.Rule{{Name: "all", Set: set, Mode: classify.Audit}, {Name: "late", Set: set}}, nil},
		"after a rule for some Nodes":            {[]classify.Rule{{Name: "all", Condition: condition(node("amd64,arm64", "")), Set: set}, {Name: "late", Set: set}}, nil},
		"another key":                            {[]classify.Rule{{Name: "all", Set: set}, {Name: "late", Set: labels{"other": "a"}}}, nil},
		"an architecture that is misspelt":       {[]classify.Rule{{Name: "a", Condition: condition(node("amd46", "")), Set: set}}, []string{"rule a asks for kubernetes.io/arch=amd46, which no kubelet reports (did you mean amd64?): it never acts"}},
		"an architecture as uname names it":      {[]classify.Rule{{Name: "a", Condition: condition(node("x86_64", "")), Set: set}}, []string{"rule a asks for kubernetes.io/arch=x86_64, which no kubelet reports (did you mean amd64?): it never acts"}},
		"an architecture that is none":           {[]classify.Rule{{Name: "a", Condition: condition(node("vax", "")), Set: set}}, []string{"rule a asks for kubernetes.io/arch=vax, which no kubelet reports: it never acts"}},
		"an operating system with a capital":     {[]classify.Rule{{Name: "a", Condition: condition(node("amd64", "Linux")), Set: set}}, []string{"rule a asks for kubernetes.io/os=Linux, which no kubelet reports (did you mean linux?): it never acts"}},
		"patterns":                               {[]classify.Rule{{Name: "a", Condition: condition(node("arm,arm64", "linux")), Set: set}}, nil},
		"one of two alternatives":                {[]classify.Rule{{Name: "a", Condition: classify.Condition{Alternatives: []classify.Clause{node("arm64", ""), node("aarch64", "")}}, Set: set}}, []string{"rule a asks in any[1] for kubernetes.io/arch=aarch64, which no kubelet reports (did you mean arm64?): this alternative is never true"}},
		"all alternatives":                       {[]classify.Rule{{Name: "a", Condition: classify.Condition{Alternatives: []classify.Clause{node("", "winows")}}, Set: set}}, []string{"rule a asks in any[0] for kubernetes.io/os=winows, which no kubelet reports (did you mean windows?): this alternative is never true", "rule a has no other alternative: it never acts"}},
		"the rule of a migration":                {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			compiled := compiled(t, c.rules...).Copying(labels{"new": "old"})
			assert.Equal(t, c.want, compiled.DeadRuleWarnings())
		})
	}
}
