package capture

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// Forget is the record without items that a person wants to be forgotten, and without what is withheld of others. A
// registration may still restore one from an older state of the record, so taints are noted as former ones.
func Forget(record store.Record, items, withheldOnly []string, by store.Cause) store.Record {
	next := record
	next.Items, next.Withheld.Items = maps.Clone(record.Items), maps.Clone(record.Withheld.Items)
	next.Later, next.LaterVersions = maps.Clone(record.Later), maps.Clone(record.LaterVersions)
	for _, item := range items {
		delete(next.Items, item)
		delete(next.Later, item)
		delete(next.LaterVersions, item)
		delete(next.Withheld.Items, item)
	}
	for _, item := range withheldOnly {
		delete(next.Withheld.Items, item)
	}
	next.RuleClaims = slices.DeleteFunc(slices.Clone(record.RuleClaims), func(claim corev1.Taint) bool {
		return slices.Contains(items, policy.TaintItem(claim))
	})
	return Replacing(record, next, by)
}

// Replacing is a record that a person puts in the place of another, with what every write of a record brings along: the history
// goes on with what that changes.
func Replacing(prev, next store.Record, by store.Cause) store.Record {
	return Continuing(prev, next.Following(prev, func(string, store.Values) store.Cause { return by }))
}

// Continuing is the same for a record that has a history of its own, which goes on from the other's.
func Continuing(prev, next store.Record) store.Record {
	next.FormerTaints = formerTaints(prev, next)
	return next
}
