package gc

import (
	"cmp"
	"slices"
	"time"

	"nodekeep.dev/nodekeep/record"
)

// emptyRetention is how long the record of a deleted Node stays although it holds nothing. Until then a replica of the webhook may
// restore from an older state of the record, and a capture may be about to record an older observation. The record names its object and
// version, which distinguishes these from newer ones. It is longer than the 110 s after which a webhook knows that its watch is stalled.
const emptyRetention = 2 * time.Minute

// Due reports whether a record may be collected if its Node does not exist: the Node was deleted longer ago than records are kept (0: they
// are kept for ever), or nothing would be lost with the record.
//
// The clock that wrote deletedAt may have been another one. A Node that is deleted in the future is never due. A clock that has
// jumped ahead makes everything due, and what [SweepsAtMost] allows for each sweep bounds the harm until an operator notices.
//
// A record that is quarantined waits for an operator's decision, however long. It holds what two machines had, and without it nobody
// would know that there is something to decide.
//
// A record without deletedAt is never due, also where it holds nothing. While its Node lives, it distinguishes a label that
// a client removed from one that was lost, should an older observation come late or a registration use an older record.
// There are at most as many of these as Nodes.
func Due(r record.Record, retention time.Duration, now time.Time) bool {
	if r.DeletedAt.IsZero() || r.Quarantined != nil {
		return false
	}
	gone := now.Sub(r.DeletedAt)
	return retention > 0 && gone > retention || r.Empty() && gone > emptyRetention
}

// candidate is a record that may be collected.
type candidate struct {
	node string
	gone time.Time // since when its Node is
}

// oldest are those of the candidates whose Nodes went first, not more than most.
func oldest(all []candidate, most int) []candidate {
	sorted := slices.Clone(all)
	slices.SortFunc(sorted, func(a, b candidate) int { return cmp.Or(a.gone.Compare(b.gone), cmp.Compare(a.node, b.node)) })
	return sorted[:min(len(sorted), most)]
}

// DefaultSweepFraction is how many of all records a sweep collects at most, where capture is not told otherwise.
const DefaultSweepFraction = 0.1

// SweepsAtMost is how many records one sweep may collect: a fraction of all that there are, and one where that is less than one,
// so that small clusters are swept at all.
func SweepsAtMost(fraction float64, records int) int {
	return max(1, int(fraction*float64(records)))
}
