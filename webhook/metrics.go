package webhook

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

// Metrics are the webhook's series. None carries a node's name.
type Metrics struct {
	reviews  *prometheus.CounterVec
	duration prometheus.Histogram
	requests *prometheus.HistogramVec
	items    *prometheus.CounterVec
}

// itemKind is what an item of a Node is.
type itemKind string

const (
	labelKind      itemKind = "label"
	taintKind      itemKind = "taint"
	annotationKind itemKind = "annotation"
)

// itemOutcome is what became of an item at a registration.
type itemOutcome string

// The outcomes of what was recorded and the Node lacked.
const (
	itemRestored itemOutcome = "restored"
	itemDeferred itemOutcome = "deferred"
	itemWithheld itemOutcome = "withheld"
	itemInvalid  itemOutcome = "invalid"
)

// The outcomes of what the policy says.
const (
	taintAdded  itemOutcome = "added"         // by a rule, or once
	ruleSet     itemOutcome = "rule_set"      // a rule set it
	ruleRemoved itemOutcome = "rule_removed"  // a rule keeps it off Nodes, and removed it
	ruleWaits   itemOutcome = "rule_deferred" // a rule sets it, and capture does that
)

// itemOutcomes returns those that items of each kind can have.
func itemOutcomes() map[itemKind][]itemOutcome {
	return map[itemKind][]itemOutcome{
		labelKind:      {itemRestored, itemDeferred, itemWithheld, itemInvalid, ruleSet, ruleRemoved, ruleWaits},
		taintKind:      {itemRestored, itemWithheld, itemInvalid, taintAdded, ruleRemoved},
		annotationKind: {itemRestored, itemWithheld, itemInvalid},
	}
}

// NewMetrics registers the series, each with a first value of 0.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		reviews: counter(registry, "nodekeep_webhook_reviews_total", "AdmissionReviews answered, by outcome.", "outcome", outcomes()...),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "nodekeep_webhook_review_duration_seconds", Help: "Time to decide on a registering Node, once its AdmissionReview is decoded.",
			Buckets: []float64{0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1},
		}),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "nodekeep_webhook_request_duration_seconds", Help: "Time from an AdmissionReview's arrival until it is answered, body and answer included.",
			Buckets: []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1},
		}, []string{"review"}),
		items: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nodekeep_webhook_items_total", Help: "Labels, taints and annotations that a registering Node lacked by its record, or that the policy sets or removes, by kind and outcome.",
		}, []string{"kind", "outcome"}),
	}
	registry.MustRegister(m.duration, m.requests, m.items)
	for kind, outcomes := range itemOutcomes() {
		for _, outcome := range outcomes {
			m.items.WithLabelValues(string(kind), string(outcome))
		}
	}
	for _, review := range []Review{RestoreReview, ProtectedReview, DeletionReview, PolicyReview} {
		m.requests.WithLabelValues(string(review))
	}
	return m
}

// counter registers a counter with one label, and has it count each value of the label from 0.
func counter[Value ~string](registry prometheus.Registerer, name, help, label string, values ...Value) *prometheus.CounterVec {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	registry.MustRegister(vec)
	for _, value := range values {
		vec.WithLabelValues(string(value))
	}
	return vec
}

func (m *Metrics) reviewed(result outcome, took time.Duration) {
	m.reviews.WithLabelValues(string(result)).Inc()
	m.duration.Observe(took.Seconds())
}

// passedOver counts a review on which nothing was decided.
func (m *Metrics) passedOver(result outcome) { m.reviews.WithLabelValues(string(result)).Inc() }

// planned counts what a registering Node gets, and what it does not.
func (m *Metrics) planned(d decision) {
	for _, edit := range d.Edits {
		switch edit.Cause {
		case plan.CauseRecord:
			if edit.Deferred {
				m.count(labelKind, itemDeferred, 1)
			} else {
				m.count(kindOf(edit.Item), itemRestored, 1)
			}
		case plan.CauseRule:
			m.count(kindOf(edit.Item), ruledBy(edit), 1)
		case plan.CauseDerivedTaint, plan.CauseRegistrationTaint:
			m.count(taintKind, taintAdded, 1)
		default: // the gate
		}
	}
	m.count(labelKind, ruleWaits, len(d.LabelsWithoutRoom))
	m.count(labelKind, itemInvalid, d.dropped.Labels)
	m.count(taintKind, itemInvalid, d.dropped.Taints)
	m.count(annotationKind, itemInvalid, d.dropped.Annotations)
	for item, reason := range d.Withheld {
		if reason == policy.Invalid {
			m.count(kindOf(item), itemInvalid, 1)
		} else {
			m.count(kindOf(item), itemWithheld, 1)
		}
	}
}

func (m *Metrics) count(kind itemKind, outcome itemOutcome, items int) {
	m.items.WithLabelValues(string(kind), string(outcome)).Add(float64(items))
}

func ruledBy(edit plan.Edit) itemOutcome {
	switch {
	case edit.Deferred:
		return ruleWaits
	case edit.Removed:
		return ruleRemoved
	default:
		return ruleSet
	}
}

func kindOf(item string) itemKind {
	switch {
	case record.IsTaint(item):
		return taintKind
	case record.IsAnnotation(item):
		return annotationKind
	default:
		return labelKind
	}
}
