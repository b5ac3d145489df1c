package webhook

import "github.com/prometheus/client_golang/prometheus"

// deletionOutcome is the result of recording a Node that is about to be deleted.
type deletionOutcome string

const (
	deletionRecorded  deletionOutcome = "recorded"  // the record was behind and is not any more
	deletionUnchanged deletionOutcome = "unchanged" // the record had it all
	deletionAbsent    deletionOutcome = "absent"    // the API server has no Node of that name and UID
	deletionFailed    deletionOutcome = "failed"    // not recorded before the answer; the deletion went on, and the write may still succeed
)

// DeletionMetrics are the series of [Deletions].
type DeletionMetrics struct{ total *prometheus.CounterVec }

// NewDeletionMetrics registers the series, each with a first value of 0.
func NewDeletionMetrics(registry prometheus.Registerer) *DeletionMetrics {
	return &DeletionMetrics{counter(registry, "nodekeep_webhook_deletions_total", "Reviews of deletions of Nodes, by outcome when they were answered.", "outcome",
		deletionRecorded, deletionUnchanged, deletionAbsent, deletionFailed)}
}

func (m *DeletionMetrics) seen(outcome deletionOutcome) {
	m.total.WithLabelValues(string(outcome)).Inc()
}
