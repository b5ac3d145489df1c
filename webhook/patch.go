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
	var operations []jsonpatch.Operation
	labels, cordon := map[string]string{}, false
	for _, edit := range d.Edits {
		switch {
		case edit.Deferred:
		case edit.Removed && record.IsLabel(edit.Item):
			operations = append(operations, jsonpatch.NewOperation("remove", "/metadata/labels/"+escape(edit.Item), nil))
		case edit.Removed:
		case edit.Item == policy.Cordon:
			cordon = true
		case record.IsLabel(edit.Item):
			labels[edit.Item] = edit.Value
		}
	}
	operations = append(operations, mapOperations("/metadata/labels", in.labels, labels)...)
	operations = append(operations, annotationOperations(in, d)...)
	operations = append(operations, d.owners.operations()...)
	taints := taintOperations(in, d)
	operations = append(operations, taints...)
	switch {
	case !cordon:
	case in.hasSpec || len(taints) > 0: // these made the spec
		operations = append(operations, jsonpatch.NewOperation("add", "/spec/unschedulable", true))
	default:
		operations = append(operations, jsonpatch.NewOperation("add", "/spec", map[string]any{"unschedulable": true}))
	}
	return operations
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

// ownPrefix is that of nodekeep's annotations.
const ownPrefix = "nodekeep.dev/"

// annotationOperations write the restored annotations and our own. They remove all others of ours that came with the object. These are a
// kubelet's claim, or about an object that is deleted.
func annotationOperations(in incoming, d decision) []jsonpatch.Operation {
	add := record.SplitAnnotations(d.restored)
	if add == nil {
		add = map[string]string{}
	}
	var operations []jsonpatch.Operation
	for _, key := range slices.Sorted(maps.Keys(in.annotations)) {
		if d.annotations[key] == "" && strings.HasPrefix(key, ownPrefix) {
			operations = append(operations, jsonpatch.NewOperation("remove", "/metadata/annotations/"+escape(key), nil))
		}
	}
	for key, value := range d.annotations {
		if value != "" && in.annotations[key] != value {
			add[key] = value
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
