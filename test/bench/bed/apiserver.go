package bed

import (
	"bytes"
	"context"
	"fmt"

	"nodekeep.dev/nodekeep/test/bench/measure"
)

// CallsFailedOpen is how many calls of the benchmarks' webhooks the API server has given up on since its start. Their Nodes passed unchanged.
func (b *Bed) CallsFailedOpen(ctx context.Context) (int, error) {
	page, err := b.Admin.RESTClient().Get().AbsPath("/metrics").SetHeader("Accept", "text/plain").DoRaw(ctx)
	if err != nil {
		return 0, fmt.Errorf("scrape API server: %w", err)
	}
	series, err := measure.ReadSeries(bytes.NewReader(page))
	if err != nil {
		return 0, fmt.Errorf("scrape API server: %w", err)
	}
	return int(series.Sum("apiserver_admission_webhook_fail_open_count", `.bench.nodekeep.dev"`)), nil
}
