package capture

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"nodekeep.dev/nodekeep/record"
)

// Metrics are capture's series. None carries a node's name.
type Metrics struct {
	registry  prometheus.Registerer
	steps     *prometheus.CounterVec
	conflicts *prometheus.CounterVec
	failures  prometheus.Counter
	panics    prometheus.Counter
	refused   prometheus.Counter
	vanished  prometheus.Counter

	lag       prometheus.Histogram
	gated     prometheus.Histogram
	giveBacks *prometheus.CounterVec
	changes   *prometheus.CounterVec
	flaps     *prometheus.CounterVec
	churn     churn
}

// What an optimistic write lost against.
const (
	recordConflict = "record"
	nodeConflict   = "node"
)

// Kinds of items.
const (
	labelKind = "label"
	taintKind = "taint"
)

// NewMetrics registers the series, each with a first value of 0.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		registry: registry,
		steps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nodekeep_capture_steps_total", Help: "Records written and Nodes changed, by what for.",
		}, []string{"step"}),
		conflicts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nodekeep_capture_conflicts_total", Help: "Optimistic writes that somebody else was faster than, and that were planned again.",
		}, []string{"object"}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "nodekeep_capture_failures_total", Help: "Times that a Node could not be dealt with and was put off.",
		}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "nodekeep_capture_panics_total", Help: "Panics in the work on one Node or record. The process and the work on all others go on.",
		}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "nodekeep_capture_labels_refused_total", Help: "Labels that the API server would not have back on a Node.",
		}),
		vanished: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "nodekeep_capture_records_vanished_total", Help: "Records of Nodes that live which somebody took away; they are written anew from what the Nodes show.",
		}),

		lag: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "nodekeep_capture_lag_seconds", Help: "Time from the moment that the leader heard of a Node's change to the first record stored for it.",
			Buckets: []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60},
		}),
		gated: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "nodekeep_capture_gated_duration_seconds", Help: "How long Nodes carried the gate, told by the leader when it sees that the gate is gone.",
			Buckets: []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14400},
		}),
		giveBacks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nodekeep_capture_give_backs_total", Help: "Labels and taints that capture gave back to Nodes.",
		}, []string{"kind"}),
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nodekeep_capture_changes_total", Help: "Recorded changes of labels and taints of living Nodes.",
		}, []string{"kind"}),
		flaps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nodekeep_capture_flaps_total", Help: "Recorded changes that undid the one before, of the same label or taint of the same Node, within a minute.",
		}, []string{"kind"}),
	}
	registry.MustRegister(m.steps, m.conflicts, m.failures, m.panics, m.refused, m.vanished)
	registry.MustRegister(m.lag, m.gated, m.giveBacks, m.changes, m.flaps)
	for _, step := range []Step{Create, Update, Adopt, MarkGone, Isolate, Accept, Complete, Lift, Reset, FollowRules} {
		m.steps.WithLabelValues(string(step))
	}
	m.conflicts.WithLabelValues(recordConflict)
	m.conflicts.WithLabelValues(nodeConflict)
	for _, items := range []*prometheus.CounterVec{m.giveBacks, m.changes, m.flaps} {
		items.WithLabelValues(labelKind)
		items.WithLabelValues(taintKind)
	}
	return m
}

// watch adds the series that are read off a controller at each scrape.
func (m *Metrics) watch(c *Controller) {
	m.registry.MustRegister(
		gauge("nodekeep_capture_nodes", "Nodes that exist.", func() float64 { live, _, _ := c.observations.counts(); return float64(live) }),
		gauge("nodekeep_capture_nodes_current", "Nodes whose record is current: nothing that was heard of them is left to be recorded, and nothing to be given back.",
			func() float64 { _, current, _ := c.observations.counts(); return float64(current) }),
		gauge("nodekeep_capture_nodes_gated", "Nodes that carry the gate.", func() float64 { _, _, gated := c.observations.counts(); return float64(gated) }),
		gauge("nodekeep_capture_longest_gated_seconds", "How long the gate has been on the Node that has carried it longest; 0 where none does.",
			func() float64 { return c.observations.longestGated().Seconds() }),
		gauge("nodekeep_capture_items_paused", "Labels and taints that nodekeep waits to set again because another client keeps undoing them.",
			func() float64 { return float64(c.brake.paused(c.Now())) }),
		gauge("nodekeep_capture_queue_length", "Nodes waiting to be dealt with.", func() float64 { return float64(c.queue.Len()) }),
		gauge("nodekeep_capture_guard_policies_in_force", "1 while policies in the API server keep kubelets from nodekeep's annotations; 0 while these are read with care.",
			func() float64 { return oneIf(c.Guard.InForce()) }),
		gauge("nodekeep_capture_leading", "1 while this process leads.", func() float64 { return oneIf(c.leading.Load()) }),
	)
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

func gauge(name, help string, read func() float64) prometheus.GaugeFunc {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read)
}

func (m *Metrics) stepped(step Step)        { m.steps.WithLabelValues(string(step)).Inc() }
func (m *Metrics) conflicted(object string) { m.conflicts.WithLabelValues(object).Inc() }
func (m *Metrics) failed()                  { m.failures.Inc() }
func (m *Metrics) panicked()                { m.panics.Inc() }
func (m *Metrics) refusedLabel()            { m.refused.Inc() }
func (m *Metrics) vanishedRecord()          { m.vanished.Inc() }

func (m *Metrics) stored(lag time.Duration)   { m.lag.Observe(lag.Seconds()) }
func (m *Metrics) lifted(after time.Duration) { m.gated.Observe(after.Seconds()) }

func (m *Metrics) gaveBack(items map[string]string) {
	for item := range items {
		m.giveBacks.WithLabelValues(kindOf(item)).Inc()
	}
}

// changed counts what a write changed in the record of a Node that lives.
func (m *Metrics) changed(before, after record.Record, now time.Time) {
	changed, flapped := m.churn.compare(after.Newest().UID, before.Items(), after.Items(), now)
	for _, item := range changed {
		m.changes.WithLabelValues(kindOf(item)).Inc()
	}
	for _, item := range flapped {
		m.flaps.WithLabelValues(kindOf(item)).Inc()
	}
}

func kindOf(item string) string {
	if record.IsTaint(item) {
		return taintKind
	}
	return labelKind
}
