package bed

import (
	"bytes"
	"context"

	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/bench/measure"
)

// CallsFailedOpen returns how many calls of the benchmarks' webhooks the API server has given up on since its start. Their Nodes passed unchanged.
func (b *Bed) CallsFailedOpen(ctx context.Context) int {
	page, err := b.Admin.RESTClient().Get().AbsPath("/metrics").SetHeader("Accept", "text/plain").DoRaw(ctx)
	require.NoError(b, err)
	series, err := measure.ReadSeries(bytes.NewReader(page))
	require.NoError(b, err)
	return int(series.Sum("apiserver_admission_webhook_fail_open_count", `.bench.nodekeep.dev"`))
}
