package capture_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"nodekeep.dev/nodekeep/test/simulation/oracle"
)

// How much TestSimulation does, from the environment.
const (
	seedVariable      = "NODEKEEP_SIMULATION_SEED"      // one scenario again, with its event log
	scenariosVariable = "NODEKEEP_SIMULATION_SCENARIOS" // how many
	firstVariable     = "NODEKEEP_SIMULATION_FIRST"     // the seed of the first one; several processes can share a long run
	failuresVariable  = "NODEKEEP_SIMULATION_FAILURES"  // how many may fail before the run ends
	shrinkVariable    = "NODEKEEP_SIMULATION_SHRINK"    // attempts to shorten the first failure of each kind
)

// A scenario has one goroutine, so the race detector finds nothing in it. `make test` runs 5,000 scenarios without it.
const usualScenarios = 300

func setting(variable string, usual uint64) uint64 {
	if value, err := strconv.ParseUint(os.Getenv(variable), 10, 64); err == nil {
		return value
	}
	return usual
}

// Nothing that clients decided is lost and nothing rises that they removed, whatever happens in whatever order, but for the limits
// that each are an [oracle.Excuse]. See the cluster's steps for what happens, and [cluster.check] for what must hold at rest.
//
// Two processes share a long run, each with half of the scenarios:
//
//	NODEKEEP_SIMULATION_FIRST=0 NODEKEEP_SIMULATION_SCENARIOS=500000 go test -count=1 -timeout 0 -v -run TestSimulation ./capture &
//	NODEKEEP_SIMULATION_FIRST=500000 NODEKEEP_SIMULATION_SCENARIOS=500000 go test -count=1 -timeout 0 -v -run TestSimulation ./capture
func TestSimulation(t *testing.T) {
	if seed, err := strconv.ParseUint(os.Getenv(seedVariable), 10, 64); err == nil {
		w := run(seed, &draws{source: rand.NewPCG(seed, 0)}, true)
		t.Log("\n" + strings.Join(w.lines, "\n"))
		report(t, seed, w)
		return
	}
	first, scenarios, maximum := setting(firstVariable, 0), setting(scenariosVariable, usualScenarios), setting(failuresVariable, 10)
	started := time.Now()
	totals := newTotals()
	for seed := first; seed < first+scenarios && totals.failed < maximum; seed++ {
		w := run(seed, &draws{source: rand.NewPCG(seed, 0)}, false)
		if totals.add(seed, w) {
			report(t, seed, w)
		}
		if totals.scenarios%50_000 == 0 {
			t.Logf("after %s\n%s", time.Since(started).Round(time.Second), totals)
		}
	}
	t.Logf("scenarios with seeds %d to %d in %s\n%s", first, first+uint64(totals.scenarios)-1, time.Since(started).Round(time.Second), totals)
	if totals.delays == 0 {
		t.Error("capture must have had to wait")
	}
}

// totals are what a run has come to.
type totals struct {
	scenarios, delays int
	failed            uint64
	excuses, shows    [oracle.Excuses]int // scenarios that needed each excuse
	failures          map[string][]uint64 // seeds by kind
}

func newTotals() *totals { return &totals{failures: map[string][]uint64{}} }

// add counts a scenario and reports whether it fails in a new way.
func (t *totals) add(seed uint64, w *cluster) (fails bool) {
	t.scenarios++
	t.delays += w.delays
	for e := range oracle.Excuses {
		t.excuses[e] += min(w.excuses[e], 1)
		t.shows[e] += min(w.shows[e], 1)
	}
	if w.failure == "" {
		return false
	}
	t.failed++
	name := factResource(w.failure)
	t.failures[name] = append(t.failures[name], seed)
	return len(t.failures[name]) == 1
}

func (t *totals) String() string {
	var b strings.Builder
	for e := range oracle.Excuses {
		fmt.Fprintf(&b, "%8d scenarios: %s\n", t.excuses[e], e)
		if t.shows[e] > 0 {
			fmt.Fprintf(&b, "%8d scenarios: a Node shows something else: %s\n", t.shows[e], e)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.failures)) {
		seeds := t.failures[name]
		fmt.Fprintf(&b, "%8d FAILURES: %s, seeds %v\n", len(seeds), name, seeds[:min(10, len(seeds))])
	}
	return b.String()
}

// report fails the test if the scenario failed, and shows the shortest scenario that fails like it.
func report(t *testing.T, seed uint64, w *cluster) {
	t.Helper()
	if w.failure == "" {
		return
	}
	logged := shrink(w.draws.logged, int(setting(shrinkVariable, 3000)), func(logged []uint64) bool {
		return factResource(run(seed, &draws{logged: logged}, false).failure) == factResource(w.failure)
	})
	short := run(seed, &draws{logged: logged}, true)
	t.Errorf("%s\n%s=%d replays the whole scenario; in short:\n%s\n%s",
		w.failure, seedVariable, seed, strings.Join(short.lines, "\n"), short.failure)
}

// factResource returns what a failure says without the names and values in it.
func factResource(failure string) string {
	words := strings.Fields(failure)
	return strings.Join(words[:min(2, len(words))], " ")
}

// run plays one scenario and says what went wrong, if anything did.
func run(seed uint64, d *draws, telling bool) (w *cluster) {
	w = newCluster(seed, d)
	w.telling = telling
	defer func() {
		switch reason := recover().(type) {
		case nil:
		case violation:
		default:
			panic(fmt.Sprintf("seed %d: %v", seed, reason))
		}
	}()
	w.play()
	return w
}
