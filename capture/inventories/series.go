package inventories

import (
	"github.com/prometheus/client_golang/prometheus"

	"nodekeep.dev/nodekeep/inventory/fetch"
)

// series describes the metrics of inventory sources. Only sources of the policy have series, which bounds their number.
type series struct {
	age, nodes, stale, failed, left *prometheus.Desc
}

func newSeries() series {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, append([]string{"source"}, labels...), nil)
	}
	return series{
		age:    desc("nodekeep_inventory_age_seconds", "How long ago the source last said what is in force; 0 before it was read."),
		nodes:  desc("nodekeep_inventory_nodes", "Nodes that the snapshot in force lists; contradicted: those whose systemUUID is another one, so that rules do not know its facts of them.", "state"),
		stale:  desc("nodekeep_inventory_stale", "1 while the source was not read for longer than staleAfter, or not at all. Rules do not know its facts, and labels stay as they are."),
		failed: desc("nodekeep_inventory_failures_total", "Reads of the source that failed, by reason.", "reason"),
		left: prometheus.NewDesc("nodekeep_inventory_preloads_left",
			"Nodes that inventories list and that have no record, because as many records as are allowed were written ahead.", nil, nil),
	}
}

// Describe is for the registry.
func (s *Sources) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{s.series.age, s.series.nodes, s.series.stale, s.series.failed, s.series.left} {
		ch <- desc
	}
}

// HeldNodes returns how many Nodes the held snapshot that alters most would no longer list, or would change labels of. It is 0 while none is held.
func (s *Sources) HeldNodes() (count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, source := range s.Policy().Inventory() {
		if known := s.sources[source.Name]; known != nil {
			count = max(count, known.change.Lost, known.change.Altered)
		}
	}
	return count
}

// Collect is for the registry.
func (s *Sources) Collect(ch chan<- prometheus.Metric) {
	now := s.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	gauge(s.series.left, float64(s.notPreloaded))
	for _, source := range s.Policy().Inventory() {
		st, name := s.sources[source.Name], source.Name
		if st == nil {
			st = &state{source: source} // this process does not read it
		}
		confirmed, stale := now, 0.0
		if st.hasSnapshot {
			confirmed = st.confirmed
		}
		if st.stale(now) {
			stale = 1
		}
		gauge(s.series.age, now.Sub(confirmed).Seconds(), name)
		gauge(s.series.nodes, float64(st.inForce.Len()), name, "listed")
		gauge(s.series.nodes, float64(st.mismatched), name, "contradicted")
		gauge(s.series.stale, stale, name)
		for _, reason := range fetch.Reasons() {
			ch <- prometheus.MustNewConstMetric(s.series.failed, prometheus.CounterValue, float64(st.failures[reason]), name, string(reason))
		}
	}
}
