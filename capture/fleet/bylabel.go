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

// ByLabel counts Nodes by the value of each governed label, and for how long they had it. It is updated when the labels or the CPU of a
// Node change. So a heartbeat costs nothing, and a scrape walks over no Nodes. It is a collector of its series. Any goroutine may call its
// methods; the caller orders the changes of one Node.
type ByLabel struct {
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

// NewByLabel counts by no label yet.
func NewByLabel(now func() time.Time) *ByLabel {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{"key", "value"}, nil)
	}
	return &ByLabel{
		now: now, keys: map[string]map[string]*labelCount{},
		nodes:       desc("nodekeep_nodes_by_label", "Nodes by the value of each governed label; other: all values beyond the first 100."),
		seconds:     desc("nodekeep_node_seconds_total", "Seconds that Nodes with this value of a governed label existed while this process ran, added up over the Nodes."),
		coreSeconds: desc("nodekeep_cpu_core_seconds_total", "The same, each Node times the CPU cores of its capacity."),
	}
}

// Govern counts by these keys from now on. If every Node has to be counted again, it returns true and all numbers are 0. The sums of a key
// that stays continue. Values that the policy lists come before those that Nodes happen to have.
func (b *ByLabel) Govern(keys []governance.Key) (recount bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	governed := map[string]map[string]*labelCount{}
	for _, key := range keys {
		counted, known := b.keys[key.Key]
		if !known {
			counted, recount = map[string]*labelCount{}, true
		}
		for _, value := range key.Values {
			if counted[value] == nil && len(counted) < maxValues {
				counted[value], recount = &labelCount{start: b.now()}, true // Nodes with it may have been counted as others
			}
		}
		governed[key.Key] = counted
	}
	b.keys = governed
	if recount {
		for _, byValue := range b.keys {
			for _, l := range byValue {
				l.change(-l.nodes, -l.cores, b.now())
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

// Replaced counts the new state of a Node instead of the one before; nil: there is none.
func (b *ByLabel) Replaced(prev, node *observe.Slim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.keys) == 0 {
		return
	}
	b.count(prev, -1)
	b.count(node, 1)
}

func (b *ByLabel) count(slim *observe.Slim, nodes int) {
	if slim == nil {
		return
	}
	node := slim.Node()
	cores := node.Reported.Cores() * float64(nodes)
	for key, counted := range b.keys {
		value, ok := node.Items[key]
		if !ok {
			continue
		}
		if counted[value] == nil {
			if len(counted) >= maxValues {
				value = otherValue
			}
			if counted[value] == nil {
				counted[value] = &labelCount{start: b.now()}
			}
		}
		counted[value].change(nodes, cores, b.now())
	}
}

// Describe is for the registry.
func (b *ByLabel) Describe(ch chan<- *prometheus.Desc) {
	ch <- b.nodes
	ch <- b.seconds
	ch <- b.coreSeconds
}

// Collect is for the registry.
func (b *ByLabel) Collect(ch chan<- prometheus.Metric) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, byValue := range b.keys {
		for value, l := range byValue {
			seconds, coreSeconds := l.sums(b.now())
			ch <- prometheus.MustNewConstMetric(b.nodes, prometheus.GaugeValue, float64(l.nodes), key, value)
			ch <- prometheus.MustNewConstMetric(b.seconds, prometheus.CounterValue, seconds, key, value)
			ch <- prometheus.MustNewConstMetric(b.coreSeconds, prometheus.CounterValue, coreSeconds, key, value)
		}
	}
}
