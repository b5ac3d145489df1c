// Package random is what tests share that play a random script on a real control plane and compare it with a model: how a run is set and replayed,
// what is done to many Nodes at once, and the wait until all is at rest and as the model says. It shares no code with nodekeep either.
//
// Environment variables change a run:
//
//	NODEKEEP_SEED    chooses the script; without it, each run has another one, and prints how to replay it
//	NODEKEEP_NODES   how many Nodes take part
//	NODEKEEP_ROUNDS  how many rounds they go through
package random

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const seedVariable = "NODEKEEP_SEED"

// Run is one run of a random script.
type Run struct {
	Seed          uint64
	Nodes, Rounds int
	Replay        string // the command that runs it again
}

// NewRun reads the settings of a run of the tests in folder. usual has those that the environment does not say; more are other variables that the
// run depends on.
func NewRun(t testing.TB, folder string, usual Run, extra ...string) Run {
	t.Helper()
	r := Run{
		Seed:   Seed(t),
		Nodes:  int(Setting(t, "NODEKEEP_NODES", uint64(usual.Nodes))),
		Rounds: int(Setting(t, "NODEKEEP_ROUNDS", uint64(usual.Rounds))),
	}
	extra = append(extra, fmt.Sprintf("NODEKEEP_NODES=%d NODEKEEP_ROUNDS=%d", r.Nodes, r.Rounds))
	r.Replay = Replay(t, folder, r.Seed, extra...)
	return r
}

// Seed returns that of the environment, or a new one.
func Seed(t testing.TB) uint64 {
	t.Helper()
	return Setting(t, seedVariable, rand.Uint64())
}

// Replay returns the command that runs a test again with a seed. It is printed at once, so that it is there also when the run is cut off.
func Replay(t testing.TB, folder string, seed uint64, extra ...string) string {
	t.Helper()
	variables := append([]string{fmt.Sprintf("%s=%d", seedVariable, seed)}, extra...)
	command := fmt.Sprintf("%s go test -run '^%s$' %s", strings.Join(variables, " "), t.Name(), folder)
	fmt.Fprintln(os.Stderr, "replay:", command)
	return command
}

// Setting returns a number from the environment, or the usual one.
func Setting(t testing.TB, variable string, usual uint64) uint64 {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return usual
	}
	value, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err, "%s must be a number", variable)
	return value
}
