package impact

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/cli/nodestate"
	"nodekeep.dev/nodekeep/cli/nodestate/statetest"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
)

func TestWhatTheRulesOfAPolicyWouldChangeOnTheNodes(t *testing.T) {
	const gold, cpu = "labels: {rules: [{name: all, set: {tier: gold}}]}", "labels: {rules: [{name: big, when: {capacity: {cpu: '>=4'}}, set: {tier: big}}]}"
	listed := func(name string, labels set) nodestate.State {
		s := statetest.Present(name, labels)
		s.Record = statetest.Recorded(nil)
		s.Record.Node = name
		statetest.RuledBy("all", labels)(s.Node)
		return s
	}
	rest, operators := statetest.Present("a", nil), statetest.Present("b", set{"tier": "mine"})
	iron, match, restores := listed("c", set{"tier": "iron"}), listed("d", set{"tier": "gold"}), listed("e", set{"tier": "gold"})
	restores.Record = statetest.Recorded(set{"tier": "mine"})
	restores.Record.Node = "e"
	for name, c := range map[string]struct {
		now, planned string
		inForce      string
		states       []nodestate.State
		want         []string
		altered      int
		held         bool
		changed      bool
		none         bool
	}{
		"no rules, and no labels of them":                   {states: []nodestate.State{rest, operators}, none: true},
		"a label that is missing":                           {planned: gold, states: []nodestate.State{rest}, want: []string{"added tier - gold all 1 [a]"}, changed: true},
		"a label that is right":                             {planned: gold, states: []nodestate.State{match}},
		"a label that an operator set":                      {planned: gold, states: []nodestate.State{operators}, want: []string{"kept tier mine gold all 1 [b]"}},
		"a label of the rule":                               {now: gold, planned: gold, states: []nodestate.State{iron, match}, want: []string{"changed tier iron gold all 1 [c]"}, altered: 1, changed: true},
		"on more than one Node in ten":                      {planned: gold, states: []nodestate.State{iron, iron, iron}, want: []string{"changed tier iron gold all 3 [c c c]"}, altered: 3, held: true, changed: true},
		"rules that are in force are not held":              {planned: gold, inForce: statetest.Load(t, gold).RulesHash(), states: []nodestate.State{iron, iron}, want: []string{"changed tier iron gold all 2 [c c]"}, altered: 2, changed: true},
		"the rules go":                                      {now: gold, inForce: "x", states: []nodestate.State{match, iron}, want: []string{"removed tier gold - all 1 [d]", "removed tier iron - all 1 [c]"}, altered: 2, held: true, changed: true},
		"the rules go, and an operator's value is restored": {now: gold, states: []nodestate.State{restores}, want: []string{"changed tier gold mine  1 [e]"}, altered: 1, changed: true},
		"a fact is not known":                               {planned: cpu, states: []nodestate.State{rest, operators}, want: []string{"blocked tier - - big 1 [a]", "blocked tier mine - big 1 [b]"}},
		"devices that were not read":                        {planned: "labels: {rules: [{name: gpu, when: {devices: {driver: gpu.example.com}}, set: {tier: gpu}}]}", states: []nodestate.State{rest}, want: []string{"blocked tier - - gpu 1 [a]"}},
	} {
		t.Run(name, func(t *testing.T) {
			now := statetest.Under(statetest.Load(t, c.now))
			now.GuardInForce = true
			now.Policy = now.Policy.WithRulesHeld(true) // that the rules of now are held, and which devices they look at, says nothing of others
			now.Devices = func(string) observe.Devices { return observe.DevicesOf(nil) }
			if c.inForce == "" {
				c.inForce = policy.NoRules
			}
			comparison := NewComparison(now, statetest.Load(t, c.planned), c.inForce, nil, nil)
			for _, s := range c.states {
				require.NoError(t, comparison.Add(s))
			}
			impact := comparison.Impact()
			if c.none {
				assert.False(t, impact.LabelRules.HasRules, "the text shows nothing of rules")
				assert.Empty(t, impact.LabelRules.Labels)
				return
			}
			var got []string
			for _, l := range impact.LabelRules.Labels {
				got = append(got, fmt.Sprint(l.Kind, " ", l.Key, " ", nodestate.FormatValue(l.Now), " ", nodestate.FormatValue(l.Planned), " ", l.Rule, " ", l.Nodes, " ", l.First))
			}
			assert.Equal(t, c.want, got)
			assert.Equal(t, c.altered, impact.LabelRules.Altered)
			assert.Equal(t, c.held, impact.LabelRules.Held)
			assert.Equal(t, c.changed, impact.LabelRules.Changed())
		})
	}
}

func TestWhatRulesChangeIsBoundedHoweverManyNodesThereAre(t *testing.T) {
	c := ruleComparison{}
	for i := range maxChanges + 10 {
		value := fmt.Sprint(i)
		c.count(RuleLeaves, "tier", &value, nil, "all", "a")
	}
	impact := c.impact(statetest.Load(t, "labels: {rules: [{name: all, set: {tier: gold}}]}"), policy.NoRules)
	assert.Len(t, impact.Labels, maxChanges)
	assert.Equal(t, 10, impact.Omitted)
	for range 10 {
		c.count(RuleAdds, "tier", nil, nil, "all", "a")
	}
	for range firstNodes + 1 {
		value := "0"
		c.count(RuleLeaves, "tier", &value, nil, "all", "a")
	}
	assert.Equal(t, 20, c.changes.omitted)
	zero := "0"
	assert.Len(t, c.changes.counts[ruleChangeKey{RuleLeaves, "tier", zero, nodestate.FormatValue(nil), "all"}].First, firstNodes)
}
