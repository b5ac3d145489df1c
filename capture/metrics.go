package capture

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are capture's series. None carries a node's name.
type Metrics struct {
	registry  prometheus.Registerer
	steps     *prometheus.CounterVec
	conflicts *prometheus.CounterVec
	failures  prometheus.Counter
	refused   prometheus.Counter
	vanished  prometheus.Counter
}

// What an optimistic write lost against.
const (
	recordConflict = "record"
	nodeConflict   = "node"
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
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "nodekeep_capture_labels_refused_total", Help: "Labels that the API server would not have back on a Node.",
		}),
		vanished: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "nodekeep_capture_records_vanished_total", Help: "Records of Nodes that live which somebody took away; they are written anew from what the Nodes show.",
		}),
	}
	registry.MustRegister(m.steps, m.conflicts, m.failures, m.refused, m.vanished)
	for _, step := range []Step{Create, Update, Adopt, Merge, MarkGone, Isolate, Accept, Complete, Lift, FollowRules} {
		m.steps.WithLabelValues(string(step))
	}
	m.conflicts.WithLabelValues(recordConflict)
	m.conflicts.WithLabelValues(nodeConflict)
	return m
}

// watch adds the series that are read off a controller at each scrape.
func (m *Metrics) watch(c *Controller) {
	gated := func(node *Node) bool { return c.Policy().Gate().On(node.Taints) }
	m.registry.MustRegister(
		gauge("nodekeep_capture_nodes", "Nodes that exist.", func() float64 { live, _ := c.sightings.count(gated); return float64(live) }),
		gauge("nodekeep_capture_nodes_gated", "Nodes that carry the gate.", func() float64 { _, behind := c.sightings.count(gated); return float64(behind) }),
		gauge("nodekeep_capture_queue_length", "Nodes waiting to be dealt with.", func() float64 { return float64(c.queue.Len()) }),
		gauge("nodekeep_capture_leading", "1 while this process leads.", func() float64 {
			if c.leading.Load() {
				return 1
			}
			return 0
		}),
	)
}

func gauge(name, help string, read func() float64) prometheus.GaugeFunc {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read)
}

func (m *Metrics) stepped(step Step)        { m.steps.WithLabelValues(string(step)).Inc() }
func (m *Metrics) conflicted(object string) { m.conflicts.WithLabelValues(object).Inc() }
func (m *Metrics) failed()                  { m.failures.Inc() }
func (m *Metrics) refusedLabel()            { m.refused.Inc() }
func (m *Metrics) vanishedRecord()          { m.vanished.Inc() }
