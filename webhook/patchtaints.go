package webhook

import (
	"slices"
	"strconv"

	"gomodules.xyz/jsonpatch/v2"
)

// taintOperations change the list of taints piece by piece. So taint fields that a later Kubernetes adds stay unchanged. Values are
// replaced first. Then copies of the gate and the taints that rules remove are removed, the last one first. So no index moves under another
// operation. New taints come last. No key and effect is ever added twice.
func taintOperations(in incoming, d decision) []jsonpatch.Operation {
	var operations []jsonpatch.Operation
	for i, taint := range in.taints {
		if value, replaced := d.ReplacementOf(taint); replaced {
			operations = append(operations, jsonpatch.NewOperation("add", "/spec/taints/"+strconv.Itoa(i)+"/value", value))
		}
	}
	added := d.AddedTaints(in.taints)
	if left := slices.DeleteFunc(slices.Clone(in.taints), d.RemovesTaint); len(left) < len(in.taints) {
		if len(added) == 0 && len(left) == 0 {
			return []jsonpatch.Operation{jsonpatch.NewOperation("remove", "/spec/taints", nil)}
		}
		for i, taint := range slices.Backward(in.taints) {
			if d.RemovesTaint(taint) {
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
