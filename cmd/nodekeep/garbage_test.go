package main

import (
	"os"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheWebhookHoldsGarbageDownUnlessGOGCIsSet(t *testing.T) {
	usual := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(usual) })
	t.Setenv("GOGC", "100")
	holdGarbageDown()
	assert.Equal(t, 100, debug.SetGCPercent(100))
	require.NoError(t, os.Unsetenv("GOGC")) // Setenv puts it back
	holdGarbageDown()
	assert.Equal(t, garbagePercent, debug.SetGCPercent(100))
}
