package fleet

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/governance"
)

// Compliance counts which rules of governance the Nodes break, and knows since when a Node breaks one. It holds only Nodes that break a rule.
// It is a collector of its series, which the policy bounds. Any goroutine may call its methods.
type Compliance struct {
	rules func() governance.Rules
	desc  *prometheus.Desc

	mu     sync.Mutex
	byNode map[string]nodeViolations
	counts map[brokenRule]int // of Nodes
}

// brokenRule is a rule and how it is broken.
type brokenRule struct {
	rule string
	kind governance.Kind
}

// nodeViolations is what is wrong with one Node object.
type nodeViolations struct {
	uid         types.UID
	rules       []brokenRule
	brokenSince time.Time // since when it breaks a rule of mode warn or deny; zero: it breaks none
}

// NewCompliance knows no Node yet; rules are those in force, asked at each scrape.
func NewCompliance(rules func() governance.Rules) *Compliance {
	return &Compliance{
		rules: rules, byNode: map[string]nodeViolations{}, counts: map[brokenRule]int{},
		desc: prometheus.NewDesc("nodekeep_governance_violations",
			"Nodes whose labels break a rule of governance, by the key of the rule and the kind: required, value, pattern, requires or reserved.", []string{"key", "kind"}, nil),
	}
}

// Observe notes what is wrong with a Node now. It returns since when the Node breaks a rule of mode warn or deny; zero: it breaks none.
func (c *Compliance) Observe(node string, uid types.UID, violations []governance.Violation, now time.Time) (start time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	prev := c.remove(node)
	if len(violations) == 0 {
		return time.Time{}
	}
	next := nodeViolations{uid: uid}
	counted := map[brokenRule]bool{}
	for _, v := range violations {
		if broken := (brokenRule{v.Rule, v.Kind}); !counted[broken] { // several reserved keys are one Node
			counted[broken] = true
			next.rules = append(next.rules, broken)
			c.counts[broken]++
		}
	}
	if governance.Breaks(violations) {
		next.brokenSince = now
		if prev.uid == uid && !prev.brokenSince.IsZero() {
			next.brokenSince = prev.brokenSince
		}
	}
	c.byNode[node] = next
	return next.brokenSince
}

// Overdue notes what is wrong with a Node now, and reports whether it has broken a rule for as long as the policy allows before the taint. If
// not, remaining is how long it may still break the rule; 0 means for ever.
func (c *Compliance) Overdue(node string, uid types.UID, violations []governance.Violation, now time.Time) (overdue bool, remaining time.Duration) {
	start := c.Observe(node, uid, violations, now)
	_, delay, taints := c.rules().Noncompliant()
	if start.IsZero() || !taints {
		return false, 0
	}
	remaining = max(0, start.Add(delay).Sub(now))
	return remaining == 0, remaining
}

// Forget drops a Node object that is deleted.
func (c *Compliance) Forget(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(node)
}

func (c *Compliance) remove(node string) nodeViolations {
	prev := c.byNode[node]
	delete(c.byNode, node)
	for _, broken := range prev.rules {
		if c.counts[broken]--; c.counts[broken] == 0 {
			delete(c.counts, broken)
		}
	}
	return prev
}

// CountBreaking returns how many Nodes break a rule in that way.
func (c *Compliance) CountBreaking(rule string, kind governance.Kind) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[brokenRule{rule, kind}]
}

// Describe is for the registry.
func (c *Compliance) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

// Collect is for the registry.
func (c *Compliance) Collect(ch chan<- prometheus.Metric) {
	for _, v := range c.rules().Countable() {
		ch <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(c.CountBreaking(v.Rule, v.Kind)), v.Rule, string(v.Kind))
	}
}
