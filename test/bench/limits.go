package main

import "time"

// patience bounds every wait for something that capture does by itself, at 100,000 Nodes on a slow machine.
const patience = 20 * time.Minute

// Capture has settled when it did nothing at so many looks in a row.
const (
	settlePoll   = 250 * time.Millisecond
	settledLooks = 8
)

// stepsSeries counts the records that capture wrote and the Nodes that it changed.
const stepsSeries = "nodekeep_capture_steps_total"

// changedLabel is what is changed while the time until the record has it is measured.
const changedLabel = "example.com/changed"
