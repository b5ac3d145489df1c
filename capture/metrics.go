package capture

import (
	"iter"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"nodekeep.dev/nodekeep/capture/pace"
)

// Metrics are capture's series. None carries a node's name.
type Metrics struct {
	registry prometheus.Registerer
	steps    *prometheus.CounterVec
	errors   *prometheus.CounterVec
	vanished prometheus.Counter

	lag          prometheus.Histogram
	gatedSeconds prometheus.Histogram
	items        *prometheus.CounterVec
	churn        pace.Churn

	drifted  *prometheus.CounterVec
	wouldSet *prometheus.CounterVec
}

// Kinds of errors in nodekeep_controller_errors_total.
const (
	recordConflict = "record_conflict" // an optimistic write of a record met another writer
	nodeConflict   = "node_conflict"   // the same of a Node
	failure        = "failure"         // the work on a Node was put off
	panicked       = "panic"           // a panic was contained
)

// itemOutcome is what capture did with an item of a Node.
type itemOutcome string

const (
	itemRestored itemOutcome = "restored"     // it was recorded, and the Node lacked it
	itemRecorded itemOutcome = "recorded"     // a client changed it, and the record has it now
	itemFlapped  itemOutcome = "flapped"      // it was recorded, and the change undid the one before
	itemRefused  itemOutcome = "refused"      // the API server would not have it
	ruleSet      itemOutcome = "rule_set"     // a rule set it
	ruleRemoved  itemOutcome = "rule_removed" // a rule removed it
	ruleDrifted  itemOutcome = "rule_drifted" // a rule set or removed it again, after another client had changed it
	ruleInvalid  itemOutcome = "rule_invalid" // a rule made a value for it that no label can have
)

// itemOutcomes returns those that items of each kind can have.
func itemOutcomes() map[string][]itemOutcome {
	return map[string][]itemOutcome{
		labelKind:      {itemRestored, itemRecorded, itemFlapped, itemRefused, ruleSet, ruleRemoved, ruleDrifted, ruleInvalid},
		taintKind:      {itemRestored, itemRecorded, itemFlapped, itemRefused, ruleSet, ruleRemoved, ruleDrifted},
		annotationKind: {itemRestored, itemRecorded, itemFlapped, itemRefused},
	}
}

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
	m := &Metrics{
		registry: registry, churn: pace.NewChurn(),
		steps: counters(factory, "nodekeep_capture_steps_total", "Records written and Nodes changed, by what for.", "step",
			StepCreateRecord, StepFollowMachine, StepUpdateRecord, StepAdoptObject, StepMarkDeleted, StepQuarantine, StepReturnMachine, StepNewMachine, StepRenameLabel, StepApplyDecision, StepEndQuarantine, StepRestore, StepLiftGate, StepResetVersions, StepApplyRules, StepRestoreOwners, StepNoteBoot),
		errors: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "nodekeep_controller_errors_total", Help: "Failures of work on one Node or record, by controller and kind. The work is tried again, and work on all others goes on.",
			ConstLabels: prometheus.Labels{"controller": "capture"},
		}, []string{"kind"}),
		vanished: counter("nodekeep_capture_records_vanished_total", "Records of live Nodes that another client deleted or replaced by older ones; capture writes them again."),

		lag: factory.NewHistogram(prometheus.HistogramOpts{
			Name: "nodekeep_capture_lag_seconds", Help: "Time from the leader's observation of a Node's change to the first record stored for it.",
			Buckets: []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60},
		}),
		gatedSeconds: factory.NewHistogram(prometheus.HistogramOpts{
			Name: "nodekeep_capture_gated_duration_seconds", Help: "How long Nodes carried the gate, observed by the leader when the gate is removed.",
			Buckets: []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14400},
		}),
		items: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "nodekeep_capture_items_total", Help: "Labels, taints and annotations of Nodes, by kind and by what capture did with them.",
		}, []string{"kind", "outcome"}),

		drifted: counters[string](factory, "nodekeep_rule_labels_drifted_total",
			"Labels of rules that another client changed or removed, and what it put back that a rule removes; capture corrected each.", "key"),
		wouldSet: counters[string](factory, "nodekeep_rule_labels_audited_total",
			"Labels that a rule of mode audit would set, and what it would remove, once for each Node and value.", "rule"),
	}
	for _, kind := range []string{recordConflict, nodeConflict, failure, panicked} {
		m.errors.WithLabelValues(kind)
	}
	for kind, outcomes := range itemOutcomes() {
		for _, outcome := range outcomes {
			m.items.WithLabelValues(kind, string(outcome))
		}
	}
	return m
}

// counters returns counters by a label. Those of the values that are known are there from the start.
func counters[V ~string](factory promauto.Factory, name, help, label string, known ...V) *prometheus.CounterVec {
	vec := factory.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	for _, value := range known {
		vec.WithLabelValues(string(value))
	}
	return vec
}

// registerController adds the series that are read off a controller at each scrape.
func (m *Metrics) registerController(c *Controller) {
	m.registry.MustRegister(c.rollout.Collectors()...)
	m.registry.MustRegister(
		c.observations.labelCounts,
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
		labelledGauge("nodekeep_controller_queue_length", "Nodes that wait to be worked on, by controller.", "controller", "capture",
			func() float64 { return float64(c.queue.Len()) }),
		gauge("nodekeep_guard_policies_in_force", "1 while policies in the API server keep kubelets from nodekeep's annotations; 0 while these are read with care.",
			func() float64 { return oneIf(c.Guard.InForce()) }),
		heldNodes("rules", func() float64 { return float64(c.rollout.HeldNodes()) }),
		heldNodes("inventory", func() float64 { return float64(c.inventories.HeldNodes()) }),
		heldNodes("corrections", func() float64 { return float64(c.brake.HeldNodes()) }),
		factsUnknown("devices", func() float64 { return oneIf(!c.devices.known(c.Policy())) }),
		factsUnknown("features", func() float64 { return oneIf(!c.features.known(c.Policy())) }),
		labelledGauge("nodekeep_controller_leading", "1 while this process leads, by controller.", "controller", "capture", func() float64 { return oneIf(c.leading.Load()) }),
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

// labelledGauge returns one gauge of several that a label tells apart.
func labelledGauge(name, help, label, value string, read func() float64) prometheus.GaugeFunc {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: prometheus.Labels{label: value}}, read)
}

func heldNodes(kind string, read func() float64) prometheus.GaugeFunc {
	return labelledGauge("nodekeep_capture_held_nodes", "Nodes that a held change would alter, by what the change comes from; 0 while none waits for an operator.", "kind", kind, read)
}

func factsUnknown(source string, read func() float64) prometheus.GaugeFunc {
	return labelledGauge("nodekeep_rules_facts_unknown", "1 while rules look at what this source has about Nodes, and it has not been read; 0 otherwise.", "source", source, read)
}

// count counts items, each by its kind.
func (m *Metrics) count(outcome itemOutcome, items iter.Seq[string]) {
	for item := range items {
		m.items.WithLabelValues(kindOf(item), string(outcome)).Inc()
	}
}
