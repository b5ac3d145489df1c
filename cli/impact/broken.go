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
	brokenRule
	NodeCount
	// New counts those of the Nodes that do not break the rule under the policy in force.
	New int `json:"new"`
	// FirstNew names the first of them.
	FirstNew []string `json:"firstNew,omitempty"`
}

// brokenRule is which rule, and how.
type brokenRule struct {
	Rule string          `json:"rule"` // the key of the rule; of a reserved key, the pattern
	Kind governance.Kind `json:"kind"`
	Mode governance.Mode `json:"mode"`
}

// seeViolations counts which rules of governance a Node breaks, under both policies.
func (c *Comparison) seeViolations(s nodestate.State) {
	brokenNow := map[brokenRule]bool{}
	for _, v := range s.Violations(c.current) {
		brokenNow[brokenRule{v.Rule, v.Kind, v.Mode}] = true
	}
	seen := map[brokenRule]bool{}
	for _, v := range s.Violations(c.planned) {
		rule := brokenRule{v.Rule, v.Kind, v.Mode}
		if seen[rule] { // a rule counts once for each Node, however many keys break it
			continue
		}
		seen[rule] = true
		broken := c.broken.entry(rule, mostChanges, BrokenRule{brokenRule: rule})
		if broken == nil {
			continue
		}
		broken.see(s.Name)
		if fresh := (NodeCount{broken.New, broken.FirstNew}); !brokenNow[rule] {
			fresh.see(s.Name)
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
