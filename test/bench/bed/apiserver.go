package bed

import (
	"bytes"
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/bench/measure"
)

// CallsFailedOpen returns how many calls of the benchmarks' webhooks the API server has given up on since its start. Their Nodes passed unchanged.
func (b *Bed) CallsFailedOpen(ctx context.Context) int {
	return int(b.apiServerSeries(ctx).Sum("apiserver_admission_webhook_fail_open_count", `.bench.nodekeep.dev"`))
}

// CreateParts is what the API server says of the CREATEs of Nodes since its start.
type CreateParts struct {
	Count float64
	// WithinObjective is how many took a second at most by the API server's service level indicator, which leaves out the
	// time in webhooks and in the queues of priority and fairness. A second at p99 is the objective of Kubernetes for mutating
	// calls: github.com/kubernetes/community, sig-scalability/slos/api_call_latency.md.
	WithinObjective float64
	// Whole and Webhook are all their time, and what webhooks took of it.
	Whole, Webhook time.Duration
	// Queued is of all requests with the identity of a Node.
	Queued time.Duration
}

// CreateParts returns the sums of all CREATEs so far.
func (b *Bed) CreateParts(ctx context.Context) CreateParts {
	series := b.apiServerSeries(ctx)
	const indicator, node, create = "apiserver_request_sli_duration_seconds", `resource="nodes"`, `verb="POST"`
	seconds := func(name string, labels ...string) time.Duration {
		return time.Duration(series.Sum(name, labels...) * float64(time.Second))
	}
	return CreateParts{
		Count:           series.Sum(indicator+"_count", node, create),
		WithinObjective: series.Sum(indicator+"_bucket", node, create, `le="1"`),
		Whole:           seconds("apiserver_request_duration_seconds_sum", node, create),
		Webhook:         seconds("apiserver_admission_webhook_admission_duration_seconds_sum", `operation="CREATE"`, `.bench.nodekeep.dev"`),
		Queued:          seconds("apiserver_flowcontrol_request_wait_duration_seconds_sum", `flow_schema="system-node-high"`, `execute="true"`),
	}
}

// Since returns what has come since an earlier time.
func (p CreateParts) Since(then CreateParts) CreateParts {
	return CreateParts{
		Count: p.Count - then.Count, WithinObjective: p.WithinObjective - then.WithinObjective,
		Whole: p.Whole - then.Whole, Webhook: p.Webhook - then.Webhook, Queued: p.Queued - then.Queued,
	}
}

// apiServerSeries reads the metrics of the API server.
func (b *Bed) apiServerSeries(ctx context.Context) measure.Series {
	page, err := b.Admin.RESTClient().Get().AbsPath("/metrics").SetHeader("Accept", "text/plain").DoRaw(ctx)
	require.NoError(b, err)
	series, err := measure.ReadSeries(bytes.NewReader(page))
	require.NoError(b, err)
	return series
}
