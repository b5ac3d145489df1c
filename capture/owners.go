package capture

import (
	"encoding/json"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ownedLabels is the part of a managedFields entry that names labels ("f:" precedes each field's name; see
// FieldsV1 in k8s.io/apimachinery/pkg/apis/meta/v1).
type ownedLabels struct {
	Metadata struct {
		Labels map[string]json.RawMessage `json:"f:labels"`
	} `json:"f:metadata"`
}

// labelOwners tells for each label which managers own it, sorted. An entry that cannot be read owns nothing, so what it
// owned counts as a person's: rather remembered than lost.
func labelOwners(entries []metav1.ManagedFieldsEntry) map[string][]string {
	var owners map[string][]string
	for _, entry := range entries {
		if entry.Manager == fieldManager {
			continue // what we gave back is nobody's until somebody changes it, just as what admission restored
		}
		var owned ownedLabels
		if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &owned) != nil {
			continue
		}
		for field := range owned.Metadata.Labels {
			key, isField := strings.CutPrefix(field, "f:")
			if !isField || slices.Contains(owners[key], entry.Manager) {
				continue
			}
			if owners == nil {
				owners = map[string][]string{}
			}
			owners[key] = append(owners[key], entry.Manager)
		}
	}
	for _, managers := range owners {
		slices.Sort(managers)
	}
	return owners
}
