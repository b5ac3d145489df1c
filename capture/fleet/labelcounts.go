package fleet

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"nodekeep.dev/nodekeep/governance"
	"nodekeep.dev/nodekeep/observe"
)

// maxValues is how many values of a governed label have series of their own. Nodes with any other value are counted as otherValue.
const (
	maxValues  = 100
	otherValue = "other"
)

// LabelCounts counts Nodes by the value of each governed label, and for how long they had it. It is updated when the labels or the CPU of a
// Node change. So a heartbeat costs nothing, and a scrape walks over no Nodes. It is a collector of its series. Any goroutine may call its
// methods; the caller orders the changes of one Node.
type LabelCounts struct {
	now                         func() time.Time
	nodes, seconds, coreSeconds *prometheus.Desc

	mu   sync.Mutex
	keys map[string]map[string]*labelCount // by key and value
}

// labelCount is the Nodes with one value of a label.
type labelCount struct {
	nodes                int
	cores                float64
	seconds, coreSeconds float64 // of Nodes and of their CPUs, up to start
	start                time.Time
}

// NewLabelCounts counts by no label yet.
func NewLabelCounts(now func() time.Time) *LabelCounts {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{"key", "value"}, nil)
	}
	return &LabelCounts{
		now: now, keys: map[string]map[string]*labelCount{},
		nodes:       desc("nodekeep_nodes_by_label", "Nodes by the value of each governed label; other: all values beyond the first 100."),
		seconds:     desc("nodekeep_node_seconds_total", "Seconds that Nodes with this value of a governed label existed while this process ran, added up over the Nodes."),
		coreSeconds: desc("nodekeep_cpu_core_seconds_total", "The same, each Node times the CPU cores of its capacity."),
	}
}

// SetKeys has Nodes counted by these keys from now on. If every Node has to be counted again, it returns true and all numbers are 0. The sums of a key
// that stays continue. Values that the policy lists come before those that Nodes happen to have.
func (c *LabelCounts) SetKeys(keys []governance.Key) (recount bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	governed := map[string]map[string]*labelCount{}
	for _, key := range keys {
		counted, known := c.keys[key.Key]
		if !known {
			counted, recount = map[string]*labelCount{}, true
		}
		for _, value := range key.Values {
			if counted[value] == nil && len(counted) < maxValues {
				counted[value], recount = &labelCount{start: c.now()}, true // Nodes with it may have been counted as others
			}
		}
		governed[key.Key] = counted
	}
	c.keys = governed
	if recount {
		for _, byValue := range c.keys {
			for _, l := range byValue {
				l.change(-l.nodes, -l.cores, c.now())
				l.cores = 0 // without what is left of rounding
			}
		}
	}
	return recount
}

// change brings the sums up to now, and then changes the numbers.
func (l *labelCount) change(nodes int, cores float64, now time.Time) {
	l.seconds, l.coreSeconds = l.sums(now)
	l.start = now
	l.nodes += nodes
	l.cores = max(0, l.cores+cores)
}

// sums returns those up to a moment. They never shrink, whatever the clock does.
func (l *labelCount) sums(now time.Time) (seconds, coreSeconds float64) {
	passed := max(0, now.Sub(l.start).Seconds())
	return l.seconds + passed*float64(l.nodes), l.coreSeconds + passed*l.cores
}

// Update counts the new state of a Node instead of the one before; nil: there is none.
func (c *LabelCounts) Update(prev, node *observe.CompactNode) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.keys) == 0 {
		return
	}
	c.count(prev, -1)
	c.count(node, 1)
}

func (c *LabelCounts) count(compact *observe.CompactNode, nodes int) {
	if compact == nil {
		return
	}
	node := compact.Node()
	cores := node.Reported.Cores() * float64(nodes)
	for key, counted := range c.keys {
		value, ok := node.Items[key]
		if !ok {
			continue
		}
		if counted[value] == nil {
			if len(counted) >= maxValues {
				value = otherValue
			}
			if counted[value] == nil {
				counted[value] = &labelCount{start: c.now()}
			}
		}
		counted[value].change(nodes, cores, c.now())
	}
}

// Describe is for the registry.
func (c *LabelCounts) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.nodes
	ch <- c.seconds
	ch <- c.coreSeconds
}

// Collect is for the registry.
func (c *LabelCounts) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, byValue := range c.keys {
		for value, l := range byValue {
			seconds, coreSeconds := l.sums(c.now())
			ch <- prometheus.MustNewConstMetric(c.nodes, prometheus.GaugeValue, float64(l.nodes), key, value)
			ch <- prometheus.MustNewConstMetric(c.seconds, prometheus.CounterValue, seconds, key, value)
			ch <- prometheus.MustNewConstMetric(c.coreSeconds, prometheus.CounterValue, coreSeconds, key, value)
		}
	}
}
