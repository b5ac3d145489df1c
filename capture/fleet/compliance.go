package fleet

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"nodekeep.dev/nodekeep/governance"
)

// Compliance counts which rules of governance the Nodes break. It holds only Nodes that break a rule.
// It is a collector of its series, which the policy bounds. Any goroutine may call its methods.
type Compliance struct {
	rules func() governance.Rules
	desc  *prometheus.Desc

	mu     sync.Mutex
	byNode map[string][]brokenRule
	counts map[brokenRule]int // of Nodes
}

// brokenRule is a rule and how it is broken.
type brokenRule struct {
	rule string
	kind governance.Kind
}

// NewCompliance knows no Node yet; rules are those in force, asked at each scrape.
func NewCompliance(rules func() governance.Rules) *Compliance {
	return &Compliance{
		rules: rules, byNode: map[string][]brokenRule{}, counts: map[brokenRule]int{},
		desc: prometheus.NewDesc("nodekeep_governance_violations",
			"Nodes whose labels break a rule of governance, by the key of the rule and the kind: required, value, pattern, requires or reserved.", []string{"key", "kind"}, nil),
	}
}

// Observe notes what is wrong with a Node now.
func (c *Compliance) Observe(node string, violations []governance.Violation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(node)
	counted := map[brokenRule]bool{}
	for _, v := range violations {
		if broken := (brokenRule{v.Rule, v.Kind}); !counted[broken] { // several reserved keys are one Node
			counted[broken] = true
			c.byNode[node] = append(c.byNode[node], broken)
			c.counts[broken]++
		}
	}
}

// Forget drops a Node object that is deleted.
func (c *Compliance) Forget(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(node)
}

func (c *Compliance) remove(node string) {
	for _, broken := range c.byNode[node] {
		if c.counts[broken]--; c.counts[broken] == 0 {
			delete(c.counts, broken)
		}
	}
	delete(c.byNode, node)
}

// Breaking returns how many Nodes break a rule in that way.
func (c *Compliance) Breaking(rule string, kind governance.Kind) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[brokenRule{rule, kind}]
}

// Describe is for the registry.
func (c *Compliance) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

// Collect is for the registry.
func (c *Compliance) Collect(ch chan<- prometheus.Metric) {
	for _, v := range c.rules().Countable() {
		ch <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(c.Breaking(v.Rule, v.Kind)), v.Rule, string(v.Kind))
	}
}
