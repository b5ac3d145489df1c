package capture

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// withHistory is the record that a plan writes, with the history of the one that it replaces and what this write changes of
// what is remembered. An entry comes into being only together with the change that it tells of, in one optimistic write:
// whoever lost, or did not get the answer, reads live and finds the change there or makes it, so none is lost or told twice.
// Of two machines under one name each has a history of its own.
func withHistory(prev store.Record, next Plan, seen *Node, p policy.Policy, now time.Time) *store.Record {
	if next.Step == Isolate || next.Step == Accept {
		return next.Write
	}
	written := next.Write.Following(prev, func(item string, values store.Values) store.Cause {
		return causeOf(prev, seen, item, values, p, now)
	})
	return &written
}

// causeOf tells who changed an item, and when, as far as the Node tells. It does not guess: of a label that was taken off
// managedFields tell nothing, so nobody is named, and the time is that of the sight.
func causeOf(prev store.Record, seen *Node, item string, values store.Values, p policy.Policy, now time.Time) store.Cause {
	shown, is := seen.Items[item]
	unknown := store.Cause{Time: *timestamp(now)}
	ours := store.Cause{Actor: fieldManager, Time: unknown.Time}
	wrote := func(w writer) bool { return slices.Contains(w.Labels, item) }
	if policy.IsTaint(item) {
		wrote = func(w writer) bool { return w.Taints }
	}
	switch last, found := lastWriter(seen.Writers, wrote); {
	case is && values.To == nil: // it is remembered no more as somebody's: a rule is known now that makes it
		return ours
	case values.To != nil && (!is || shown != *values.To):
		return unknown
	case is && prev.UID != seen.UID && isUntouched(seen, item): // admission gave it, and it was not put right
		return ours
	case !found || last.Manager == ancientChanges || policy.IsTaint(item) && !tellsOfTaints(last.Manager, p):
		return unknown
	case last.At == 0:
		return store.Cause{Actor: last.Manager, Time: unknown.Time}
	default:
		return store.Cause{Actor: last.Manager, Time: metav1.Unix(last.At, 0)}
	}
}

// lastWriter is who wrote last of those that own an item.
func lastWriter(writers []writer, wrote func(writer) bool) (last writer, found bool) {
	for _, w := range writers {
		if wrote(w) && (!found || w.At >= last.At) {
			last, found = w, true
		}
	}
	return last, found
}

// tellsOfTaints reports whether that a manager wrote the list of taints last says that it made a change of a taint that is
// kept. The list has one owner. Controllers of the cluster, and nodekeep itself, write it often, for taints that are not kept:
// they would be taken for whoever changed another taint a moment before.
func tellsOfTaints(manager string, p policy.Policy) bool {
	return manager != fieldManager && !strings.HasSuffix(manager, "controller-manager") && p.OwnedByPeople([]string{manager})
}

func isUntouched(seen *Node, item string) bool {
	_, untouched := untouched(seen)[item]
	return untouched
}
