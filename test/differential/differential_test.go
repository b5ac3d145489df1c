package differential

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/random"
)

// usual is what a run is like without settings.
var usual = random.Run{Nodes: 100, Rounds: 12}

func TestRandomNodesEndAsTheOperatorLastWantedThem(t *testing.T) {
	slow := random.Setting(t, "NODEKEEP_SLOW_CAPTURE", 1)
	run := random.NewRun(t, "./test/differential", usual, fmt.Sprintf("NODEKEEP_SLOW_CAPTURE=%d", slow))
	w := newWorld(t, run.Nodes)

	all, started := write(run.Seed, run.Nodes, run.Rounds, slow > 0), time.Now()
	last := part{webhook: true, capture: true, operations: make([][]operation, run.Nodes), early: make([]bool, run.Nodes)}
	for r, round := range append(all, []part{last}) {
		if r == run.Rounds {
			w.registerRest(last)
		}
		for p, part := range round {
			require.NoError(t, w.play(t.Context(), fmt.Sprintf("round %d.%d", r+1, p+1), part), run.Replay)
		}
		wrong, picture, err := w.settle(t.Context())
		require.NoError(t, err, run.Replay)
		if len(wrong) > 0 {
			w.report(t, wrong, picture)
			t.Fatalf("after round %d of %d; %s", r+1, run.Rounds, run.Replay)
		}
	}
	w.logFigures(t, all, time.Since(started))
}

// registerRest has every deleted Node register in the last round.
func (w *world) registerRest(last part) {
	for n, s := range w.subjects {
		if !s.wanted.exists {
			last.operations[n] = []operation{{kind: registering}}
		}
	}
}

func (w *world) logFigures(t *testing.T, all script, took time.Duration) {
	t.Helper()
	kinds, total := all.operations()
	t.Logf("%d Nodes, %d rounds, %d operations in %s: %v", len(w.subjects), len(all), total, took.Round(time.Second), kinds)
	t.Logf("webhook stopped %d times, capture %d times", w.processes.webhook.now().stops, w.processes.capture.now().stops)
	checked, blank, open, used := 0, 0, map[limit]int{}, map[limit]int{}
	for _, s := range w.subjects {
		checked += len(s.wanted.labels) * (len(all) + 1)
		blank += s.unchanged
		for limit, times := range s.open {
			open[limit] += times
			used[limit] += s.used[limit]
		}
	}
	for limit, times := range open {
		t.Logf("limit %q: allowed another answer for %d of %d labels looked at, and %d had one", limit, times, checked, used[limit])
	}
	t.Logf("edits that changed nothing, against the operator's last wish: %d", blank)
}
