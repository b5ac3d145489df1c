package impact

import (
	"cmp"
	"slices"
	"strings"

	"nodekeep.dev/nodekeep/cli/nodestate"
	"nodekeep.dev/nodekeep/governance"
)

// BrokenRule is a rule of governance that Nodes break under a policy as they are now.
type BrokenRule struct {
	brokenRuleKey
	NodeCount
	// New counts those of the Nodes that do not break the rule under the policy in force.
	New int `json:"new"`
	// FirstNew names the first of them.
	FirstNew []string `json:"firstNew,omitempty"`
}

// brokenRuleKey is which rule, and how.
type brokenRuleKey struct {
	Rule string          `json:"rule"` // the key of the rule; of a reserved key, the pattern
	Kind governance.Kind `json:"kind"`
	Mode governance.Mode `json:"mode"`
}

// addViolations counts which rules of governance a Node breaks, under both policies.
func (c *Comparison) addViolations(s nodestate.State) {
	brokenNow := map[brokenRuleKey]bool{}
	for _, v := range s.Violations(c.current) {
		brokenNow[brokenRuleKey{v.Rule, v.Kind, v.Mode}] = true
	}
	seen := map[brokenRuleKey]bool{}
	for _, v := range s.Violations(c.planned) {
		rule := brokenRuleKey{v.Rule, v.Kind, v.Mode}
		if seen[rule] { // a rule counts once for each Node, however many keys break it
			continue
		}
		seen[rule] = true
		broken := c.broken.entry(rule, maxChanges, BrokenRule{brokenRuleKey: rule})
		if broken == nil {
			continue
		}
		broken.add(s.Name)
		if fresh := (NodeCount{broken.New, broken.FirstNew}); !brokenNow[rule] {
			fresh.add(s.Name)
			broken.New, broken.FirstNew = fresh.Nodes, fresh.First
		}
	}
}

func compareBroken(a, b BrokenRule) int {
	order := func(r BrokenRule) int {
		return slices.Index([]governance.Mode{governance.Deny, governance.Warn, governance.Audit}, r.Mode)
	}
	return cmp.Or(cmp.Compare(b.New, a.New), cmp.Compare(order(a), order(b)), strings.Compare(a.Rule, b.Rule), strings.Compare(string(a.Kind), string(b.Kind)))
}
