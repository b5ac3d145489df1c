package capture

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// Noted is the record after a look at a Node by somebody who has not followed it from the start, for tools; nil where the record
// tells all that already. It is what the look at a deletion writes: what the Node shows counts, nothing is given, and the
// end of an older object of the name, which may still be on its way to capture, counts later. A nil record says that there
// is none.
func Noted(record *store.Record, node *corev1.Node, guarded bool, p policy.Policy, now time.Time) *store.Record {
	return noted(record, nodeOf(node).withGuards(guarded), p, now)
}

// noted plans as for a Node that is on its way out: what it shows counts, and nothing is given any more.
func noted(prev *store.Record, seen *Node, p policy.Policy, now time.Time) *store.Record {
	if next := shown(prev, seen, p, now); next != nil {
		return next
	}
	return seenUntil(prev, seen, p)
}

// shown is the record with what the Node shows; nil where it says all that already.
func shown(prev *store.Record, seen *Node, p policy.Policy, now time.Time) *store.Record {
	if seen.DeletionTimestamp == nil {
		leaving := *seen
		leaving.DeletionTimestamp = &metav1.Time{Time: now}
		seen = &leaving
	}
	next := plan(prev, seen, Present, p, now).Write
	if next != nil && (prev == nil || prev.Early) {
		next.Early = true // an older object of the name may have ended just before, and its end is still to come
		if prev != nil && next.Same(*prev) {
			return nil
		}
	}
	return next
}

// seenUntil is the record with nothing but the moment of this sight changed; nil where it tells of none older. Otherwise a
// capture that lags behind could still record what was undone before the deletion, and be gone before it sees that.
func seenUntil(prev *store.Record, seen *Node, p policy.Policy) *store.Record {
	if prev == nil || compareVersions(seen.ResourceVersion, prev.NodeResourceVersion) <= 0 {
		return nil
	}
	until := *prev
	if prev.UID == seen.UID {
		until.NodeResourceVersion = seen.ResourceVersion
		return &until
	}
	if prev.Quarantined != nil {
		return nil
	}
	until.LaterVersions = unadopted(*prev, seen, Present, p).LaterVersions
	if maps.Equal(until.LaterVersions, prev.LaterVersions) {
		return nil
	}
	return &until
}
