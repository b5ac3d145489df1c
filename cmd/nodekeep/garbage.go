package main

import (
	"os"
	"runtime/debug"
)

// garbagePercent is how much garbage the webhook lets pile up, in percent of what it holds; 100 is Go's own default. What it holds
// are the records, which hardly change: looking through them twice as often is cheap compared with a quarter less memory.
const garbagePercent = 50

// holdGarbageDown is for the webhook; a GOGC in the environment decides.
func holdGarbageDown() {
	if _, set := os.LookupEnv("GOGC"); !set {
		debug.SetGCPercent(garbagePercent)
	}
}
