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
	reviews     *prometheus.CounterVec
	duration    prometheus.Histogram
	requests    *prometheus.HistogramVec
	labels      *prometheus.CounterVec
	annotations *prometheus.CounterVec
	taints      *prometheus.CounterVec
	ruled       *prometheus.CounterVec
}

// What became of a label, taint or annotation at a registration.
const (
	itemRestored = "restored"
	itemDeferred = "deferred"
	itemWithheld = "withheld"
	itemInvalid  = "invalid"
	taintAdded   = "added" // by a rule, or once
)

// What rules do to a label, and to what they keep off Nodes, at a registration.
const (
	ruleSets    = "set"
	ruleDefers  = "deferred"
	ruleRemoves = "removed"
)

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
		annotations: counter(registry, "nodekeep_webhook_annotations_total",
			"Recorded annotations that a registering Node lacked, by outcome.", "outcome", itemRestored, itemWithheld, itemInvalid),
		labels: counter(registry, "nodekeep_webhook_labels_total",
			"Recorded labels that a registering Node lacked, by outcome.", "outcome", itemRestored, itemDeferred, itemWithheld, itemInvalid),
		taints: counter(registry, "nodekeep_webhook_taints_total",
			"Recorded taints that a registering Node lacked, by outcome, and taints added by the policy.", "outcome", itemRestored, itemWithheld, itemInvalid, taintAdded),
		ruled: counter(registry, "nodekeep_webhook_rule_labels_total",
			"Labels that rules set on registering Nodes, and labels and taints that they removed; deferred: labels that wait for capture.",
			"change", ruleSets, ruleDefers, ruleRemoves),
	}
	registry.MustRegister(m.duration, m.requests)
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

func (m *Metrics) reviewed(how outcome, took time.Duration) {
	m.reviews.WithLabelValues(string(how)).Inc()
	m.duration.Observe(took.Seconds())
}

// passedOver counts a review on which nothing was decided.
func (m *Metrics) passedOver(how outcome) { m.reviews.WithLabelValues(string(how)).Inc() }

// planned counts what a registering Node gets, and what it does not.
func (m *Metrics) planned(d decision) {
	for _, edit := range d.Edits {
		switch edit.Cause {
		case plan.Record:
			if edit.Later {
				m.labels.WithLabelValues(itemDeferred).Inc()
			} else {
				m.of(edit.Item).WithLabelValues(itemRestored).Inc()
			}
		case plan.Rule:
			m.ruled.WithLabelValues(ruledBy(edit)).Inc()
		case plan.Derivation, plan.Registration:
			m.taints.WithLabelValues(taintAdded).Inc()
		default: // the gate
		}
	}
	m.ruled.WithLabelValues(ruleDefers).Add(float64(len(d.NoRoom)))
	m.labels.WithLabelValues(itemInvalid).Add(float64(d.dropped.Labels))
	m.taints.WithLabelValues(itemInvalid).Add(float64(d.dropped.Taints))
	m.annotations.WithLabelValues(itemInvalid).Add(float64(d.dropped.Annotations))
	for item, reason := range d.Withheld {
		if reason == policy.Invalid {
			m.of(item).WithLabelValues(itemInvalid).Inc()
		} else {
			m.of(item).WithLabelValues(itemWithheld).Inc()
		}
	}
}

func ruledBy(edit plan.Edit) string {
	switch {
	case edit.Later:
		return ruleDefers
	case edit.Removed:
		return ruleRemoves
	default:
		return ruleSets
	}
}

func (m *Metrics) of(item string) *prometheus.CounterVec {
	switch {
	case record.IsTaint(item):
		return m.taints
	case record.IsAnnotation(item):
		return m.annotations
	default:
		return m.labels
	}
}
