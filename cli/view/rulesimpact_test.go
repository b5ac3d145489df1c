package view

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/cli/impact"
	"nodekeep.dev/nodekeep/policy"
)

func TestTheImpactOfRulesIsASentence(t *testing.T) {
	for name, c := range map[string]struct {
		impact impact.RulesImpact
		want   string
	}{
		"rules that change nothing": {impact.RulesImpact{Rules: "abc"}, "the rules abc would remove and change no label"},
		"rules that are held":       {impact.RulesImpact{Rules: "abc", Altered: 5, Held: true}, "the rules abc would remove or change labels on 5 Nodes, once an operator accepts that: nodekeep accept rules abc"},
		"no rules any more":         {impact.RulesImpact{Rules: policy.NoRules, Altered: 1}, "the policy without rules would remove or change labels on 1 Node"},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, rulesImpactText(c.impact)) })
	}
}
