package differential

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/test/harness/proxy"
	"nodekeep.dev/nodekeep/test/random"
)

// soakVariable says how long the soak goes on.
const soakVariable = "NODEKEEP_SOAK"

// What happens between capture and the API server during a soak.
const (
	cutEvery    = 10 * time.Second // connections are cut, watches and answers on their way included
	errorsEvery = 15               // of so many writes one is answered with an error
)

// The same as the differential test for as long as is asked for, with more going wrong: capture's connections are cut, some
// of its writes are refused or hang, and between rounds the API server is restarted. Memory and goroutines of both
// processes are printed at the start and at the end.
func TestALongTimeOfRandomFaults(t *testing.T) {
	duration, err := time.ParseDuration(os.Getenv(soakVariable))
	if err != nil {
		t.Skipf("%s does not say for how long (30m, say): %v; make soak does", soakVariable, err)
	}
	run := random.NewRun(t, "./test/differential", usual, fmt.Sprintf("%s=%s", soakVariable, duration))
	w := newWorld(t, run.Nodes)
	link := w.breakCapturesLine(t)
	w.nodekeep.CaptureArgs = []string{"--leader-elect=false"} // one that cannot renew its Lease ends, and nothing starts it again here
	require.NoError(t, w.processes.bring(t.Context(), part{webhook: true, capture: true, restartCapture: true}))
	faults := rand.New(rand.NewPCG(run.Seed, 1))
	afterCuts := &landmark{subject: *w.subject(t, "landmark-after-cuts")}
	require.NoError(t, afterCuts.register(t.Context()))
	stopCutting := cutNowAndThen(t.Context(), link, w.processes.capture, afterCuts)
	defer stopCutting()

	head := footprints(t, w.nodekeep)
	writer, started := newWriter(run.Seed, run.Nodes, true), time.Now()
	var all script
	restarts, reported := 0, time.Now()
	for time.Since(started) < duration {
		round := writer.round()
		all = append(all, round)
		for p, part := range round {
			require.NoError(t, w.play(t.Context(), fmt.Sprintf("round %d.%d", len(all), p+1), part), run.Replay)
		}
		wrong, picture, err := w.settle(t.Context())
		require.NoError(t, err, run.Replay)
		if len(wrong) > 0 {
			w.report(t, wrong, picture)
			t.Fatalf("after round %d; %s", len(all), run.Replay)
		}
		for _, s := range w.subjects {
			s.story = nil // it is right so far, and the next rounds are enough to tell why it is not
		}
		if faults.IntN(20) == 0 {
			require.NoError(t, w.nodekeep.Cluster.RestartAPIServer(t.Context()))
			_, _, err := w.settle(t.Context()) // until capture watches again: what a new list does not show, it cannot know
			require.NoError(t, err, run.Replay)
			restarts++
		}
		if time.Since(reported) > time.Minute {
			reported = time.Now()
			fmt.Fprintf(os.Stderr, "%s: %d rounds\n", time.Since(started).Round(time.Second), len(all))
		}
	}
	w.logFigures(t, all, time.Since(started))
	t.Logf("API server restarted %d times; capture's connections cut about every %s, 1 of %d of its writes refused", restarts, cutEvery, errorsEvery)
	t.Logf("at the start: %s", head)
	t.Logf("at the end:   %s", footprints(t, w.nodekeep))
}

// breakCapturesLine puts a proxy between capture and the API server that refuses some writes.
func (w *world) breakCapturesLine(t *testing.T) *proxy.Proxy {
	t.Helper()
	link, err := proxy.Start(w.nodekeep.Cluster.Admin())
	require.NoError(t, err)
	t.Cleanup(link.Stop)
	w.nodekeep.Route = func(process string, direct *rest.Config) *rest.Config {
		if process == "nodekeep-capture" {
			return link.Config(direct)
		}
		return direct
	}
	writes := func(r *http.Request) bool { return proxy.RecordWrites(r) || proxy.NodeWrites(r) }
	link.Break(proxy.Answer(writes, http.StatusInternalServerError, metav1.StatusReasonInternalError, errorsEvery))
	return link
}

// cutNowAndThen cuts all connections. A watch that cannot continue where it was begins with a new list, and no list shows what happened in
// between to Nodes that are deleted: for the model, capture was down until it records an edit that was made after the cut.
func cutNowAndThen(ctx context.Context, link *proxy.Proxy, capture *process, next *landmark) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Duration(rand.Int64N(int64(2 * cutEvery)))):
				capture.disturbed()
				link.CutConnections()
				for next.pass(ctx) != nil && ctx.Err() == nil { // the API server or capture may be down
					time.Sleep(300 * time.Millisecond)
				}
				capture.disturbed()
			}
		}
	}()
	return func() { cancel(); <-done }
}

// footprint are the series that tell how much a process holds on to.
var footprint = regexp.MustCompile(`(?m)^(process_resident_memory_bytes|go_goroutines|go_memstats_heap_inuse_bytes) (.*)$`)

func footprints(t *testing.T, nodekeep *harness.Installation) string {
	t.Helper()
	var all []string
	for _, process := range []string{"webhook", "capture"} {
		response, err := http.Get(nodekeep.MetricsURL(process))
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		require.NoError(t, err)
		for _, series := range footprint.FindAllStringSubmatch(string(body), -1) {
			all = append(all, process+" "+series[1]+" "+series[2])
		}
	}
	return strings.Join(all, ", ")
}
