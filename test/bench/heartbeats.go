package main

import (
	"context"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/bench/measure"
)

// reportEvery is how often a kubelet reports a status that has not changed, by default (nodeStatusReportFrequency).
const reportEvery = 5 * time.Minute

// heartbeats has kubelets report their status, and compares what that costs capture with a time in which nothing happens.
// Not one record may be written.
func (b *bench) heartbeats(ctx context.Context, pair comparison, nodes []string) {
	b.settled(ctx, pair.capture)
	rate := max(1, int(float64(b.kubelets)/reportEvery.Seconds()))
	count := rate * int(b.period/time.Second)
	table := b.table(fmt.Sprintf("Heartbeats of %d kubelets, one each %s: %d a second for %s", b.kubelets, reportEvery, rate, b.period),
		"", "status updates", "records written", "CPU of capture", "of one CPU")
	defer table.Flush()
	prev := b.RecordVersions(ctx)
	row := func(name string, updates int, fn func()) {
		b.phase("%s for %s", name, b.period)
		took, cpu := spent(fn, pair.capture.CPU)
		b.sleep(ctx, 2*time.Second) // capture has the time to write
		written := b.RecordVersions(ctx).Changed(prev)
		table.Row(name, updates, written, measure.Milliseconds(cpu[0]), share(cpu[0], took))
		require.Zero(b, written, "%s: %d records were written, and none should have been", name, written)
	}
	row("nothing happens", 0, func() { b.sleep(ctx, b.period) })
	row("heartbeats", count, func() {
		b.pace(ctx, count, rate, func(ctx context.Context, number int) error {
			return b.Heartbeat(ctx, nodes[number%min(len(nodes), b.kubelets)])
		})
	})
}
