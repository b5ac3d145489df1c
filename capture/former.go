package capture

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// maxFormer bounds how many taints are remembered as former ones.
const maxFormer = 20

// formerTaints are those that a record held once and that are not what is remembered after its next write, the newest last.
// A registration that used an older record may have restored one.
func formerTaints(prev, next store.Record) []corev1.Taint {
	held := slices.Clone(prev.FormerTaints)
	for _, item := range slices.Sorted(maps.Keys(prev.Later)) {
		if value := prev.Later[item]; value != nil && policy.IsTaint(item) {
			held = append(held, policy.TaintOf(item, *value))
		}
	}
	for _, items := range []map[string]string{prev.Withheld.Items, prev.Items} {
		_, taints := policy.Split(items)
		held = append(held, taints...)
	}
	remembered := next.Remembered()
	var former []corev1.Taint
	for _, taint := range slices.Backward(held) {
		value, is := remembered[policy.TaintItem(taint)]
		if is && value == taint.Value || withholds(next, taint) || slices.Contains(former, taint) || len(former) == maxFormer {
			continue
		}
		former = append(former, taint)
	}
	slices.Reverse(former)
	return former
}

// onceHeld reports whether an older state of the record may have had this very taint.
func onceHeld(record store.Record, taint corev1.Taint) bool {
	return slices.Contains(record.FormerTaints, taint) || withholds(record, taint)
}

func withholds(record store.Record, taint corev1.Taint) bool {
	value, is := record.Withheld.Items[policy.TaintItem(taint)]
	return is && value == taint.Value
}
