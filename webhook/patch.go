package webhook

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/policy"
)

// patch turns a decision into JSON patch operations for the object as it came (RFC 6902), in a stable order. Every path that
// an operation needs exists in the object or is made by an operation before it.
func patch(in incoming, d decision) []jsonpatch.Operation {
	operations := labelOperations(in, d.restore.Add)
	operations = append(operations, stampOperations(in, d.stamp)...)
	switch d.move {
	case closeGate:
		operations = append(operations, closeOperations(in, d.gate)...)
	case liftGate:
		operations = append(operations, liftOperations(in, d.gate)...)
	case leaveGate:
	}
	return operations
}

func labelOperations(in incoming, add map[string]string) []jsonpatch.Operation {
	if len(add) == 0 {
		return nil
	}
	if in.labels == nil {
		return []jsonpatch.Operation{jsonpatch.NewOperation("add", "/metadata/labels", add)}
	}
	operations := make([]jsonpatch.Operation, 0, len(add)+2)
	for _, key := range slices.Sorted(maps.Keys(add)) {
		operations = append(operations, jsonpatch.NewOperation("add", "/metadata/labels/"+escape(key), add[key]))
	}
	return operations
}

// stampOperations overwrite whatever stamp the object came with: a kubelet can write annotations.
func stampOperations(in incoming, stamp string) []jsonpatch.Operation {
	path := "/metadata/annotations/" + escape(policy.StampAnnotation)
	came, stamped := in.annotations[policy.StampAnnotation]
	switch {
	case stamp == "" && stamped:
		return []jsonpatch.Operation{jsonpatch.NewOperation("remove", path, nil)}
	case stamp == "" || stamped && came == stamp:
		return nil
	case in.annotations == nil:
		return []jsonpatch.Operation{jsonpatch.NewOperation("add", "/metadata/annotations", map[string]string{policy.StampAnnotation: stamp})}
	default:
		return []jsonpatch.Operation{jsonpatch.NewOperation("add", path, stamp)}
	}
}

func closeOperations(in incoming, gate policy.Gate) []jsonpatch.Operation {
	taints := []corev1.Taint{gate.Taint()}
	switch {
	case gate.Holds(in.taints):
		return nil
	case !in.hasSpec:
		return []jsonpatch.Operation{jsonpatch.NewOperation("add", "/spec", map[string]any{"taints": taints})}
	case in.taints == nil:
		return []jsonpatch.Operation{jsonpatch.NewOperation("add", "/spec/taints", taints)}
	default:
		return []jsonpatch.Operation{jsonpatch.NewOperation("add", "/spec/taints/-", taints[0])}
	}
}

// liftOperations remove every copy of the gate, the last one first so that no index moves under another.
func liftOperations(in incoming, gate policy.Gate) []jsonpatch.Operation {
	if gate.On(in.taints) && len(gate.Without(in.taints)) == 0 {
		return []jsonpatch.Operation{jsonpatch.NewOperation("remove", "/spec/taints", nil)}
	}
	var operations []jsonpatch.Operation
	for i, taint := range slices.Backward(in.taints) {
		if gate.Is(taint) {
			operations = append(operations, jsonpatch.NewOperation("remove", "/spec/taints/"+strconv.Itoa(i), nil))
		}
	}
	return operations
}

// escape makes a key a JSON pointer token (RFC 6901).
func escape(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}
