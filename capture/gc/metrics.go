package gc

import "github.com/prometheus/client_golang/prometheus"

// Outcome is what became of a record that a sweep looked at.
type Outcome string

// The outcomes.
const (
	Collected    Outcome = "collected" // removed
	WouldCollect Outcome = "dry_run"   // would have been removed
	Kept         Outcome = "kept"      // the last read before the removal showed that it is not due: the Node exists, or another client has changed or removed the record
	PutBack      Outcome = "put_back"  // removed and written again, because the Node registered at the same time, or may have
	Failed       Outcome = "failed"    // the API server did not answer as it should; the sweep has ended
)

// Metrics are the series of sweeps.
type Metrics struct {
	collected *prometheus.CounterVec
	records   *prometheus.GaugeVec
}

// swept shows how many records of deleted Nodes a sweep found, and how many of these it may remove.
func (m *Metrics) swept(deleted, due int) {
	m.records.WithLabelValues("gone").Set(float64(deleted))
	m.records.WithLabelValues("due").Set(float64(due))
}

// NewMetrics registers the series, each with a first value of 0.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		collected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nodekeep_capture_records_collected_total", Help: "Records of deleted Nodes that sweeps examined, by outcome.",
		}, []string{"outcome"}),
		records: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "nodekeep_capture_records", Help: "Records of deleted Nodes, at the last sweep of this process; due: those that a sweep may remove.",
		}, []string{"state"}),
	}
	registry.MustRegister(m.collected, m.records)
	m.swept(0, 0)
	for _, outcome := range []Outcome{Collected, WouldCollect, Kept, PutBack, Failed} {
		m.collected.WithLabelValues(string(outcome))
	}
	return m
}
