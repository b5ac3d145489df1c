package webhook

import (
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"gomodules.xyz/jsonpatch/v2"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

// patch turns a decision into JSON patch operations for the object as it came (RFC 6902), in a stable order. Every path that
// an operation needs exists in the object or is made by an operation before it.
func patch(in incoming, d decision) []jsonpatch.Operation {
	labels, restored := record.Split(d.restore.Add)
	operations := mapOperations("/metadata/labels", in.labels, labels)
	operations = append(operations, annotationOperations(in, d)...)
	return append(operations, taintOperations(in, d, restored)...)
}

// encode writes operations as a JSON patch.
func encode(operations []jsonpatch.Operation) ([]byte, error) {
	type operation struct {
		Operation string `json:"op"`
		Path      string `json:"path"`
		Value     any    `json:"value,omitzero"` // only "remove" has none
	}
	written := make([]operation, len(operations))
	for i, o := range operations {
		written[i] = operation{o.Operation, o.Path, o.Value}
	}
	return json.Marshal(written, json.Deterministic(true))
}

// annotationOperations write our annotations and take off what the object came with of them: a kubelet can write
// annotations.
func annotationOperations(in incoming, d decision) []jsonpatch.Operation {
	add := map[string]string{}
	var operations []jsonpatch.Operation
	for _, ours := range []struct{ key, value string }{{policy.StampAnnotation, d.stamp}, {policy.TaintsAnnotation, d.derived}} {
		came, is := in.annotations[ours.key]
		switch {
		case ours.value == "" && is:
			operations = append(operations, jsonpatch.NewOperation("remove", "/metadata/annotations/"+escape(ours.key), nil))
		case ours.value != "" && came != ours.value:
			add[ours.key] = ours.value
		}
	}
	return append(operations, mapOperations("/metadata/annotations", in.annotations, add)...)
}

// mapOperations add entries to a map of the object, which may not be there yet.
func mapOperations(path string, existing, add map[string]string) []jsonpatch.Operation {
	if len(add) == 0 {
		return nil
	}
	if existing == nil {
		return []jsonpatch.Operation{jsonpatch.NewOperation("add", path, add)}
	}
	operations := make([]jsonpatch.Operation, 0, len(add)+2)
	for _, key := range slices.Sorted(maps.Keys(add)) {
		operations = append(operations, jsonpatch.NewOperation("add", path+"/"+escape(key), add[key]))
	}
	return operations
}

// escape makes a key a JSON pointer token (RFC 6901).
func escape(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}
