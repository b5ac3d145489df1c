package main

import (
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAProcessKeepsToNineTenthsOfTheMemoryOfItsContainer(t *testing.T) {
	prev := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(prev) })
	for _, variable := range []string{"GOMEMLIMIT", "AUTOMEMLIMIT"} {
		t.Setenv(variable, "") // restores it after the test
		require.NoError(t, os.Unsetenv(variable))
	}
	fn := func(bytes uint64, err error) int64 {
		debug.SetMemoryLimit(prev)
		limitMemory(slog.New(slog.DiscardHandler), func() (uint64, error) { return bytes, err })
		return debug.SetMemoryLimit(-1)
	}
	assert.EqualValues(t, 450<<20, fn(500<<20, nil))
	assert.EqualValues(t, math.MaxInt64, fn(0, memlimit.ErrNoLimit))
	assert.Equal(t, prev, fn(0, os.ErrPermission), "what is not known limits nothing")
	t.Setenv("GOMEMLIMIT", "400MiB")
	assert.Equal(t, prev, fn(500<<20, nil), "the Go runtime has read the variable before, and it decides")
}
