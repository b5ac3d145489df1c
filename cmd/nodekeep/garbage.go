package main

import (
	"os"
	"runtime/debug"
)

// garbagePercent is how much garbage the webhook lets grow, in percent of what it holds; 100 is Go's own default. It holds the records, which hardly
// change. Scanning them twice as often is cheap compared with a quarter less memory.
const garbagePercent = 50

// holdGarbageDown is for the webhook; a GOGC in the environment decides.
func holdGarbageDown() {
	if _, set := os.LookupEnv("GOGC"); !set {
		debug.SetGCPercent(garbagePercent)
	}
}
