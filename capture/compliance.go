package capture

import (
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/governance"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/plan"
)

// compliance counts which rules of governance the Nodes break, and knows since when a Node breaks one. It holds only Nodes that break a rule.
type compliance struct {
	mu     sync.Mutex
	byNode map[string]breaking
	counts map[brokenRule]int // of Nodes
}

// brokenRule is a rule and how it is broken.
type brokenRule struct {
	rule string
	kind governance.Kind
}

// breaking is what is wrong with one Node object.
type breaking struct {
	uid   types.UID
	rules []brokenRule
	since time.Time // since when it breaks a rule of mode warn or deny; zero: it breaks none
}

func newCompliance() *compliance {
	return &compliance{byNode: map[string]breaking{}, counts: map[brokenRule]int{}}
}

// observe notes what is wrong with a Node now. It returns since when the Node breaks a rule of mode warn or deny; zero: it breaks none.
func (c *compliance) observe(node string, uid types.UID, violations []governance.Violation, now time.Time) (since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.remove(node)
	if len(violations) == 0 {
		return time.Time{}
	}
	is := breaking{uid: uid}
	counted := map[brokenRule]bool{}
	for _, v := range violations {
		if one := (brokenRule{v.Rule, v.Kind}); !counted[one] { // several reserved keys are one Node
			counted[one] = true
			is.rules = append(is.rules, one)
			c.counts[one]++
		}
	}
	if governance.Breaks(violations) {
		is.since = now
		if before.uid == uid && !before.since.IsZero() {
			is.since = before.since
		}
	}
	c.byNode[node] = is
	return is.since
}

// forget drops a Node object that is deleted.
func (c *compliance) forget(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(node)
}

func (c *compliance) remove(node string) breaking {
	before := c.byNode[node]
	delete(c.byNode, node)
	for _, one := range before.rules {
		if c.counts[one]--; c.counts[one] == 0 {
			delete(c.counts, one)
		}
	}
	return before
}

// nodes is how many Nodes break a rule.
func (c *compliance) nodes(one brokenRule) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[one]
}

// violationSeries are read at each scrape. The policy bounds them.
func (c *Controller) violationSeries() series {
	desc := prometheus.NewDesc("nodekeep_governance_violations",
		"Nodes whose labels break a rule of governance, by the key of the rule and the kind: required, value, pattern, requires or reserved.", []string{"key", "kind"}, nil)
	return series{[]*prometheus.Desc{desc}, func(to chan<- prometheus.Metric) {
		for _, v := range c.Policy().Governance().Countable() {
			count := c.compliance.nodes(brokenRule{v.Rule, v.Kind})
			to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(count), v.Rule, string(v.Kind))
		}
	}}
}

// govern observes the labels of a live Node. If overdue, the Node has broken a rule for as long as the policy allows before the taint.
func (a *attempt) govern(in plan.Circumstances) (violations []governance.Violation, overdue bool) {
	rules := a.Policy().Governance()
	if rules.Empty() {
		a.compliance.forget(a.node.Name)
		return nil, false
	}
	violations = plan.Violations(a.entry.Record, a.node, in)
	since := a.compliance.observe(a.node.Name, a.node.UID, violations, a.Now())
	_, after, taints := rules.Noncompliant()
	if since.IsZero() || !taints {
		return violations, false
	}
	if wait := since.Add(after).Sub(a.Now()); wait > 0 {
		a.later(a.node.Name, wait)
		return violations, false
	}
	return violations, true
}

// maxShownViolations bounds the message of an Event.
const maxShownViolations = 10

// reportViolations reports wrong labels of a Node, once until they change.
func (c *Controller) reportViolations(node *observe.Node, violations []governance.Violation) {
	if len(violations) == 0 || !c.leading.Load() {
		return
	}
	var shown []string
	for _, v := range violations[:min(len(violations), maxShownViolations)] {
		shown = append(shown, v.String())
	}
	text := strings.Join(shown, "; ")
	if len(violations) > maxShownViolations {
		text += "; and more"
	}
	if !c.notesOf(node.UID).report("governance " + text) {
		return
	}
	c.Logger.Warn("labels of a node break rules of governance", "node", node.Name, "violations", len(violations))
	c.warn(node, GovernanceViolated, "Labels of this Node break the policy: %s. To see all: nodekeep explain %s", text, node.Name)
}
