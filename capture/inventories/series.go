package inventories

import (
	"github.com/prometheus/client_golang/prometheus"

	"nodekeep.dev/nodekeep/inventory/fetch"
)

// series are those of the sources that the policy has. There are at most as many as these.
type series struct {
	age, nodes, held, stale, contradicts, failed, left *prometheus.Desc
}

func newSeries() series {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, append([]string{"source"}, labels...), nil)
	}
	return series{
		age:         desc("nodekeep_inventory_age_seconds", "How long ago the source last said what is in force; 0 before it was read."),
		nodes:       desc("nodekeep_inventory_nodes", "Nodes that the snapshot in force lists."),
		held:        desc("nodekeep_inventory_held_nodes", "Nodes that a held snapshot would no longer list, or whose labels it would change. 0 while none waits for an operator."),
		stale:       desc("nodekeep_inventory_stale", "1 while the source was not read for longer than staleAfter, or not at all. Rules do not know its facts, and labels stay as they are."),
		contradicts: desc("nodekeep_inventory_contradicted_nodes", "Nodes whose systemUUID is another one than the snapshot lists: rules do not know its facts of them."),
		failed:      desc("nodekeep_inventory_failures_total", "Reads of the source that failed, by reason.", "reason"),
		left: prometheus.NewDesc("nodekeep_inventory_preloads_left",
			"Nodes that inventories list and that have no record, because as many records as are allowed were written ahead.", nil, nil),
	}
}

// Describe is for the registry.
func (s *Sources) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{s.series.age, s.series.nodes, s.series.held, s.series.stale, s.series.contradicts, s.series.failed, s.series.left} {
		to <- desc
	}
}

// Collect is for the registry.
func (s *Sources) Collect(to chan<- prometheus.Metric) {
	now := s.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	gauge(s.series.left, float64(s.left))
	for _, source := range s.Policy().Inventory() {
		of, name := s.sources[source.Name], source.Name
		if of == nil {
			of = &state{source: source} // this process does not read it
		}
		since, stale := now, 0.0
		if of.read {
			since = of.confirmed
		}
		if of.stale(now) {
			stale = 1
		}
		gauge(s.series.age, now.Sub(since).Seconds(), name)
		gauge(s.series.nodes, float64(of.inForce.Len()), name)
		gauge(s.series.held, float64(max(of.change.Lost, of.change.Altered)), name)
		gauge(s.series.stale, stale, name)
		gauge(s.series.contradicts, float64(of.differs), name)
		for _, reason := range fetch.Reasons() {
			to <- prometheus.MustNewConstMetric(s.series.failed, prometheus.CounterValue, float64(of.failures[reason]), name, string(reason))
		}
	}
}
