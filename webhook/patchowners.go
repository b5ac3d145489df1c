package webhook

import (
	"slices"
	"strconv"

	"gomodules.xyz/jsonpatch/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

// owners are managedFields before and after restored labels and annotations have their owners again. They are nil if none of them has one.
type owners struct{ old, updated []metav1.ManagedFieldsEntry }

// ownersAfter gives restored items their owners again. What admission adds has none otherwise. Managed fields that cannot be read stay as
// they are.
func (d decision) ownersAfter(in incoming, k known, p policy.Policy) owners {
	given := map[string]record.Owners{}
	for key := range d.restored {
		e, _ := k.record.Entry(key)
		if lasting := observe.RestorableOwners(e.Owners, p); lasting != "" {
			given[key] = lasting
		}
	}
	if len(given) == 0 {
		return owners{}
	}
	var old []metav1.ManagedFieldsEntry
	if len(in.managedFields) > 0 && unmarshal(in.managedFields, &old) != nil {
		return owners{}
	}
	stamp := metav1.NewTime(k.now) // unless the API server's own time is known
	for _, entry := range old {
		if entry.Time != nil {
			stamp = *entry.Time
		}
	}
	updated, err := observe.RestoreOwners(old, given, stamp)
	if err != nil || len(updated) < len(old) {
		return owners{}
	}
	return owners{old: old, updated: updated}
}

// bytes returns how much longer managedFields get, about.
func (o owners) bytes() int {
	const names = 160 // of JSON, and the time, in addition to a manager and its fields
	size := 0
	for i, entry := range o.updated {
		if i >= len(o.old) {
			size += names + len(entry.Manager)
		}
		size += len(entry.FieldsV1.GetRawBytes())
	}
	for _, entry := range o.old {
		size -= len(entry.FieldsV1.GetRawBytes())
	}
	return size
}

// operations change the list of managedFields piece by piece.
func (o owners) operations() (operations []jsonpatch.Operation) {
	const path = "/metadata/managedFields"
	if o.old == nil && o.updated != nil {
		return []jsonpatch.Operation{jsonpatch.NewOperation("add", path, o.updated)}
	}
	for i, prev := range o.old {
		if entry := o.updated[i]; !slices.Equal(entry.FieldsV1.GetRawBytes(), prev.FieldsV1.GetRawBytes()) {
			operations = append(operations, jsonpatch.NewOperation("replace", path+"/"+strconv.Itoa(i)+"/fieldsV1", entry.FieldsV1))
		}
	}
	for _, added := range o.updated[len(o.old):] {
		operations = append(operations, jsonpatch.NewOperation("add", path+"/-", added))
	}
	return operations
}
