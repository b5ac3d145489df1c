package capture

import (
	"iter"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"nodekeep.dev/nodekeep/capture/pace"
	"nodekeep.dev/nodekeep/plan"
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

	lag      prometheus.Histogram
	gated    prometheus.Histogram
	restored *prometheus.CounterVec
	changes  *prometheus.CounterVec
	flaps    *prometheus.CounterVec
	churn    pace.Churn

	ruleLabels *prometheus.CounterVec
	drifted    *prometheus.CounterVec
	wouldSet   *prometheus.CounterVec
	badLabels  prometheus.Counter
}

// What an optimistic write lost against.
const (
	recordConflict = "record"
	nodeConflict   = "node"
)

// What rules do to a label.
const (
	labelSet     = "set"
	labelRemoved = "removed"
	labelDrifted = "drifted" // set again after another client had changed or removed it
)

// Kinds of items.
const (
	labelKind      = "label"
	taintKind      = "taint"
	annotationKind = "annotation"
)

// NewMetrics registers the series, each with a first value of 0.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	factory := promauto.With(registry)
	counter := func(name, help string) prometheus.Counter {
		return factory.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	kinds := []string{labelKind, taintKind, annotationKind}
	return &Metrics{
		registry: registry, churn: pace.NewChurn(),
		steps: counters(factory, "nodekeep_capture_steps_total", "Records written and Nodes changed, by what for.", "step",
			Create, Follow, Update, Adopt, MarkGone, Isolate, Return, Begin, Rename, Accept, Release, Complete, Lift, Reset, FollowRules, HandOver),
		conflicts: counters(factory, "nodekeep_capture_conflicts_total", "Optimistic writes that met a conflict with another writer, and were planned again.", "object",
			recordConflict, nodeConflict),
		failures: counter("nodekeep_capture_failures_total", "Times that reconciling a Node failed and was postponed."),
		panics:   counter("nodekeep_capture_panics_total", "Panics in the work on one Node or record. The process and the work on all others go on."),
		refused:  counter("nodekeep_capture_labels_refused_total", "Labels that the API server would not have back on a Node."),
		vanished: counter("nodekeep_capture_records_vanished_total", "Records of live Nodes that another client deleted or replaced by older ones; capture writes them again."),

		lag: factory.NewHistogram(prometheus.HistogramOpts{
			Name: "nodekeep_capture_lag_seconds", Help: "Time from the leader's observation of a Node's change to the first record stored for it.",
			Buckets: []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60},
		}),
		gated: factory.NewHistogram(prometheus.HistogramOpts{
			Name: "nodekeep_capture_gated_duration_seconds", Help: "How long Nodes carried the gate, observed by the leader when the gate is removed.",
			Buckets: []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14400},
		}),
		restored: counters(factory, "nodekeep_capture_restored_total", "Labels, taints and annotations that capture restored to Nodes.", "kind", kinds...),
		changes:  counters(factory, "nodekeep_capture_changes_total", "Recorded changes of labels and taints of living Nodes.", "kind", kinds...),
		flaps: counters(factory, "nodekeep_capture_flaps_total", "Recorded changes that undid the one before, of the same label or taint of the same Node, within a minute.", "kind",
			kinds...),

		ruleLabels: counters(factory, "nodekeep_rule_labels_total",
			"Labels and taints that capture set or removed on Nodes because of rules. Of these, drifted counts those that it set or removed again after another client.", "change",
			labelSet, labelRemoved, labelDrifted),
		drifted: counters[string](factory, "nodekeep_rule_labels_drifted_total",
			"Labels of rules that another client changed or removed, and what it put back that a rule removes; capture corrected each.", "key"),
		wouldSet: counters[string](factory, "nodekeep_rule_labels_audited_total",
			"Labels that a rule of mode audit would set, and what it would remove, once for each Node and value.", "rule"),
		badLabels: counter("nodekeep_rule_labels_invalid_total", "Values that a rule made and no label can have, once for each Node and value."),
	}
}

// counters returns counters by a label. Those of the values that are known are there from the start.
func counters[V ~string](factory promauto.Factory, name, help, label string, known ...V) *prometheus.CounterVec {
	vec := factory.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	for _, value := range known {
		vec.WithLabelValues(string(value))
	}
	return vec
}

// watch adds the series that are read off a controller at each scrape.
func (m *Metrics) watch(c *Controller) {
	m.registry.MustRegister(c.rollout.Series()...)
	m.registry.MustRegister(
		c.observations.labels,
		c.compliance,
		c.inventories,
		gauge("nodekeep_capture_nodes", "Nodes that exist.", func() float64 { return float64(c.LiveNodes()) }),
		gauge("nodekeep_capture_nodes_current", "Nodes whose record is current: every observation is recorded, and nothing is left to restore.",
			func() float64 { _, current, _ := c.observations.counts(); return float64(current) }),
		gauge("nodekeep_capture_nodes_gated", "Nodes that carry the gate.", func() float64 { _, _, gated := c.observations.counts(); return float64(gated) }),
		gauge("nodekeep_capture_longest_gated_seconds", "How long the gate has been on the Node that has carried it longest; 0 where none does.",
			func() float64 { return c.observations.longestGated().Seconds() }),
		gauge("nodekeep_capture_items_paused", "Labels and taints that nodekeep waits to set again because another client keeps undoing them.",
			func() float64 { return float64(c.fights.Paused(c.Now())) }),
		gauge("nodekeep_capture_queue_length", "Nodes waiting to be reconciled.", func() float64 { return float64(c.queue.Len()) }),
		gauge("nodekeep_capture_guard_policies_in_force", "1 while policies in the API server keep kubelets from nodekeep's annotations; 0 while these are read with care.",
			func() float64 { return oneIf(c.Guard.InForce()) }),
		gauge("nodekeep_corrections_held_nodes", "Nodes on which records would remove or revert items, and that wait for an operator; 0 while none do.",
			func() float64 { return float64(c.brake.nodes(c.Now())) }),
		gauge("nodekeep_rules_devices_unknown", "1 while rules look at devices and the ResourceSlices have not been read; 0 otherwise.",
			func() float64 { return oneIf(!c.devices.known(c.Policy())) }),
		gauge("nodekeep_rules_features_unknown", "1 while rules look at features of NodeFeature objects, and these have not been read; 0 otherwise.",
			func() float64 { return oneIf(!c.features.known(c.Policy())) }),
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

// countByKind counts items, each by its kind.
func countByKind(counter *prometheus.CounterVec, items iter.Seq[string]) {
	for item := range items {
		counter.WithLabelValues(kindOf(item)).Inc()
	}
}

// changed counts what a write changed in the record of a Node that lives.
func (m *Metrics) changed(before, after record.Record, now time.Time) {
	changed, flapped := m.churn.Compare(after.Newest().UID, before.Items(), after.Items(), now)
	countByKind(m.changes, slices.Values(changed))
	countByKind(m.flaps, slices.Values(flapped))
}

// followed counts what rules changed on a Node.
func (m *Metrics) followed(done plan.Plan) {
	edits := done.ByRules()
	m.ruleLabels.WithLabelValues(labelSet).Add(float64(len(edits.Values())))
	m.ruleLabels.WithLabelValues(labelRemoved).Add(float64(len(edits.Removed())))
	for _, key := range done.Drifted() {
		m.drifted.WithLabelValues(key).Inc()
		m.ruleLabels.WithLabelValues(labelDrifted).Inc()
	}
}
