package observe

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"nodekeep.dev/nodekeep/record"
)

// RestoreOwners returns a list of managedFields in which labels and annotations have their owners again. Nodekeep owns none of them then, and one
// without owners has none. Added entries are of that time. The API server keeps such a list from an admission webhook. It also keeps it from
// a PATCH that does not change these values; see k8s.io/apimachinery/pkg/util/managedfields.
func RestoreOwners(entries []metav1.ManagedFieldsEntry, owners map[string]record.Owners, stamp metav1.Time) ([]metav1.ManagedFieldsEntry, error) {
	owned := map[record.Manager]*fieldpath.Set{}
	for key, managers := range owners {
		field := fieldOf(key)
		for _, m := range managers.Managers() {
			if owned[m] == nil {
				owned[m] = fieldpath.NewSet()
			}
			owned[m].Insert(field)
		}
	}
	updated := make([]metav1.ManagedFieldsEntry, 0, len(entries)+len(owned))
	for _, entry := range entries {
		m := record.Manager{Name: entry.Manager, Operation: string(entry.Operation), Subresource: entry.Subresource}
		gained, gains := owned[m]
		if gains = gains && entry.APIVersion == coreVersion; !gains && m.Name != FieldManager {
			updated = append(updated, entry)
			continue
		}
		fields := fieldpath.NewSet()
		if err := fields.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes())); err != nil {
			return nil, fmt.Errorf("read managedFields of manager %q: %w", m.Name, err)
		}
		if m.Name == FieldManager {
			fields = fields.Difference(fieldsOf(owners))
		}
		if gains {
			fields = fields.Union(gained)
			delete(owned, m)
		}
		if fields.Empty() {
			continue
		}
		if err := write(&entry, fields); err != nil {
			return nil, err
		}
		updated = append(updated, entry)
	}
	for _, m := range slices.SortedFunc(maps.Keys(owned), func(a, b record.Manager) int { return bytes.Compare([]byte(a.String()), []byte(b.String())) }) {
		entry := metav1.ManagedFieldsEntry{
			Manager: m.Name, Operation: metav1.ManagedFieldsOperationType(m.Operation), Subresource: m.Subresource,
			APIVersion: coreVersion, Time: &stamp, FieldsType: "FieldsV1",
		}
		if err := write(&entry, owned[m]); err != nil {
			return nil, err
		}
		updated = append(updated, entry)
	}
	return updated, nil
}

// coreVersion is the API version of a Node.
const coreVersion = "v1"

func fieldsOf(owners map[string]record.Owners) *fieldpath.Set {
	fields := fieldpath.NewSet()
	for key := range owners {
		fields.Insert(fieldOf(key))
	}
	return fields
}

// fieldOf returns where a label or an annotation stands in a Node.
func fieldOf(key string) fieldpath.Path {
	in, name := "labels", key
	if annotation, ok := record.Annotation(key); ok {
		in, name = "annotations", annotation
	}
	return fieldpath.Path{{FieldName: new("metadata")}, {FieldName: &in}, {FieldName: &name}}
}

func write(entry *metav1.ManagedFieldsEntry, fields *fieldpath.Set) error {
	raw, err := fields.ToJSON()
	if err != nil {
		return fmt.Errorf("write managedFields of manager %q: %w", entry.Manager, err)
	}
	entry.FieldsV1 = metav1.NewFieldsV1(string(raw))
	return nil
}
