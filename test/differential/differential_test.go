package differential

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What a run is like without settings.
const (
	usualNodes  = 100
	usualRounds = 12
)

func TestRandomNodesEndAsTheOperatorLastWantedThem(t *testing.T) {
	seed := setting(t, "NODEKEEP_SEED", rand.Uint64())
	nodes := int(setting(t, "NODEKEEP_NODES", usualNodes))
	rounds := int(setting(t, "NODEKEEP_ROUNDS", usualRounds))
	slow := setting(t, "NODEKEEP_SLOW_CAPTURE", 1)
	w := newWorld(t, nodes)
	replay := fmt.Sprintf("NODEKEEP_SEED=%d NODEKEEP_NODES=%d NODEKEEP_ROUNDS=%d NODEKEEP_SLOW_CAPTURE=%d go test -run '^%s$' ./test/differential", seed, nodes, rounds, slow, t.Name())
	fmt.Fprintln(os.Stderr, "replay:", replay) // also when the run is cut off

	all, started := write(seed, nodes, rounds, slow > 0), time.Now()
	last := part{webhook: true, capture: true, operations: make([][]operation, nodes), early: make([]bool, nodes)}
	for r, round := range append(all, []part{last}) {
		if r == rounds {
			w.registerRest(last)
		}
		for p, part := range round {
			require.NoError(t, w.play(t.Context(), fmt.Sprintf("round %d.%d", r+1, p+1), part), replay)
		}
		wrong, picture, err := w.settle(t.Context())
		require.NoError(t, err, replay)
		if len(wrong) > 0 {
			w.report(t, wrong, picture)
			t.Fatalf("after round %d of %d; %s", r+1, rounds, replay)
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
	checked, nothing, open, used := 0, 0, map[limit]int{}, map[limit]int{}
	for _, s := range w.subjects {
		checked += len(s.wanted.labels) * (len(all) + 1)
		nothing += s.nothing
		for limit, times := range s.open {
			open[limit] += times
			used[limit] += s.used[limit]
		}
	}
	for limit, times := range open {
		t.Logf("limit %q: allowed another answer for %d of %d labels looked at, and %d had one", limit, times, checked, used[limit])
	}
	t.Logf("edits that changed nothing, against the operator's last wish: %d", nothing)
}

func setting(t *testing.T, name string, usual uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	value, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err, "%s must be a number", name)
	return value
}
