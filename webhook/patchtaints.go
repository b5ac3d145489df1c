package webhook

import (
	"slices"
	"strconv"

	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

// taintOperations change the list of taints piece by piece. So taint fields that a later Kubernetes adds stay unchanged. Values are
// replaced first. Then copies of the gate and the taints that rules remove are removed, the last one first. So no index moves under another
// operation. New taints come last. No key and effect is ever added twice.
func taintOperations(in incoming, d decision, restored []corev1.Taint) []jsonpatch.Operation {
	var operations []jsonpatch.Operation
	for i, taint := range in.taints {
		if value, replaced := d.restore.Add[record.TaintKey(taint)]; replaced && record.TaintKey(taint) != policy.Cordon {
			operations = append(operations, jsonpatch.NewOperation("add", "/spec/taints/"+strconv.Itoa(i)+"/value", value))
		}
	}
	added := addedTaints(in, d, restored)
	if slices.ContainsFunc(in.taints, d.removes) {
		if len(added) == 0 && !slices.ContainsFunc(in.taints, func(taint corev1.Taint) bool { return !d.removes(taint) }) {
			return []jsonpatch.Operation{jsonpatch.NewOperation("remove", "/spec/taints", nil)}
		}
		for i, taint := range slices.Backward(in.taints) {
			if d.removes(taint) {
				operations = append(operations, jsonpatch.NewOperation("remove", "/spec/taints/"+strconv.Itoa(i), nil))
			}
		}
	}
	switch {
	case len(added) == 0:
	case !in.hasSpec:
		operations = append(operations, jsonpatch.NewOperation("add", "/spec", map[string]any{"taints": added}))
	case in.taints == nil:
		operations = append(operations, jsonpatch.NewOperation("add", "/spec/taints", added))
	default:
		for _, taint := range added {
			operations = append(operations, jsonpatch.NewOperation("add", "/spec/taints/-", taint))
		}
	}
	return operations
}

// removes reports whether a taint is removed: as a copy of the gate, or by a rule.
func (d decision) removes(taint corev1.Taint) bool {
	return d.move == liftGate && d.gate.Is(taint) || d.labels[record.TaintKey(taint)].Absent
}

// addedTaints are the taints that the object does not have yet.
func addedTaints(in incoming, d decision, restored []corev1.Taint) (added []corev1.Taint) {
	for _, more := range [][]corev1.Taint{restored, d.taints} {
		added = append(added, policy.FreeOf(more, slices.Concat(in.taints, added))...)
	}
	if d.move == closeGate && !d.gate.Holds(in.taints) {
		added = append(added, policy.FreeOf([]corev1.Taint{d.gate.Taint()}, slices.Concat(in.taints, added))...)
	}
	return added
}
