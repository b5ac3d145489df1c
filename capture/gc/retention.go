package gc

import (
	"cmp"
	"slices"
	"time"

	"nodekeep.dev/nodekeep/record"
)

// emptyRetention is how long the record of a deleted Node stays although it holds nothing. Until then, a replica of the webhook may restore from an older
// state of the record, and a capture may be about to record an older observation. The empty record still names its object and version, by which older
// states are recognised. The time is longer than the 110 s after which a webhook knows that its watch is stalled.
const emptyRetention = 2 * time.Minute

// Due reports whether a record may be collected if its Node does not exist. Either the Node was deleted longer ago than retention (0:
// records are kept for ever), or the record holds nothing.
//
// The clock that wrote deletedAt may have been another one. A Node that is deleted in the future is never due. A clock that has jumped
// ahead makes everything due. [MaxPerSweep] then bounds the harm of each sweep until an operator notices.
//
// A quarantined record waits for an operator's decision, however long. It holds the records of two machines. Without it, no operator would
// see that there is something to decide.
//
// A record without deletedAt is never due, even if it holds nothing. While its Node exists, it distinguishes a removed label from a lost
// one. That matters when an observation arrives late, or when a registration uses an older record. There are at most as many of these
// records as Nodes.
func Due(r record.Record, retention time.Duration, now time.Time) bool {
	if r.DeletedAt.IsZero() || r.Quarantined != nil {
		return false
	}
	age := now.Sub(r.DeletedAt)
	return retention > 0 && age > retention || r.Empty() && age > emptyRetention
}

// candidate is a record that may be collected.
type candidate struct {
	node      string
	deletedAt time.Time // when its Node was deleted
}

// oldest returns the candidates whose Nodes were deleted first, at most that many.
func oldest(all []candidate, limit int) []candidate {
	sorted := slices.Clone(all)
	slices.SortFunc(sorted, func(a, b candidate) int { return cmp.Or(a.deletedAt.Compare(b.deletedAt), cmp.Compare(a.node, b.node)) })
	return sorted[:min(len(sorted), limit)]
}

// DefaultSweepFraction is the fraction of all records that a sweep collects at most, by default.
const DefaultSweepFraction = 0.1

// MaxPerSweep returns how many records one sweep may collect: a fraction of all records, but at least one. Without that minimum, small clusters
// would never be swept.
func MaxPerSweep(fraction float64, records int) int {
	return max(1, int(fraction*float64(records)))
}
