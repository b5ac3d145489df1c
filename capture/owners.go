package capture

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
)

// ownedFields is the part of a managedFields entry that names labels and annotations ("f:" precedes each field's name; see
// FieldsV1 in k8s.io/apimachinery/pkg/apis/meta/v1).
type ownedFields struct {
	Metadata struct {
		Labels      map[string]jsontext.Value `json:"f:labels"`
		Annotations map[string]jsontext.Value `json:"f:annotations"`
	} `json:"f:metadata"`
}

// ancientChanges is the manager that the API server makes of the oldest entries when there are too many of them; ours may
// be among them.
const ancientChanges = "ancient-changes"

// owners is what managedFields tell of a Node.
type owners struct {
	labels map[string][]string // for each label its managers, sorted
	stamp  stampWriter
}

// stampWriter is who wrote the stamp.
type stampWriter int

// The writers. A client chooses the name that its change is booked under, so "capture" is a claim.
const (
	byWebhook stampWriter = iota // what a webhook adds has no owner
	byCapture
	byOthers
)

// ownedFieldsOf reads managedFields. An entry that cannot be read owns nothing, so what it owned counts as a person's:
// rather remembered than lost.
func ownedFieldsOf(entries []metav1.ManagedFieldsEntry) (found owners) {
	for _, entry := range entries {
		var owned ownedFields
		if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &owned) != nil {
			continue
		}
		if _, wrote := owned.Metadata.Annotations["f:"+policy.StampAnnotation]; wrote {
			found.stamp = max(found.stamp, writerOf(entry.Manager))
		}
		if entry.Manager == fieldManager {
			continue // what we gave back is nobody's until somebody changes it, just as what admission restored
		}
		for field := range owned.Metadata.Labels {
			key, isField := strings.CutPrefix(field, "f:")
			if !isField || slices.Contains(found.labels[key], entry.Manager) {
				continue
			}
			if found.labels == nil {
				found.labels = map[string][]string{}
			}
			found.labels[key] = append(found.labels[key], entry.Manager)
		}
	}
	for _, managers := range found.labels {
		slices.Sort(managers)
	}
	return found
}

func writerOf(manager string) stampWriter {
	if manager == fieldManager || manager == ancientChanges {
		return byCapture
	}
	return byOthers
}
