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
type owners struct{ before, after []metav1.ManagedFieldsEntry }

// ownersAfter gives restored items their owners again. What admission adds has none otherwise. Managed fields that cannot be read stay as
// they are.
func (d decision) ownersAfter(in incoming, k known, p policy.Policy) owners {
	given := map[string]record.Owners{}
	for key := range d.restored {
		e, _ := k.record.Entry(key)
		if its := observe.Lasting(e.Owners, p); its != "" {
			given[key] = its
		}
	}
	if len(given) == 0 {
		return owners{}
	}
	var before []metav1.ManagedFieldsEntry
	if len(in.managedFields) > 0 && unmarshal(in.managedFields, &before) != nil {
		return owners{}
	}
	at := metav1.NewTime(k.now) // unless the API server's own time is known
	for _, entry := range before {
		if entry.Time != nil {
			at = *entry.Time
		}
	}
	after, err := observe.RestoreOwners(before, given, at)
	if err != nil || len(after) < len(before) {
		return owners{}
	}
	return owners{before: before, after: after}
}

// bytes returns how much longer managedFields get, about.
func (o owners) bytes() int {
	const names = 160 // of JSON, and the time, in addition to a manager and its fields
	size := 0
	for i, entry := range o.after {
		if i >= len(o.before) {
			size += names + len(entry.Manager)
		}
		size += len(entry.FieldsV1.GetRawBytes())
	}
	for _, entry := range o.before {
		size -= len(entry.FieldsV1.GetRawBytes())
	}
	return size
}

// operations change the list of managedFields piece by piece.
func (o owners) operations() (operations []jsonpatch.Operation) {
	const path = "/metadata/managedFields"
	if o.before == nil && o.after != nil {
		return []jsonpatch.Operation{jsonpatch.NewOperation("add", path, o.after)}
	}
	for i, was := range o.before {
		if is := o.after[i]; !slices.Equal(is.FieldsV1.GetRawBytes(), was.FieldsV1.GetRawBytes()) {
			operations = append(operations, jsonpatch.NewOperation("replace", path+"/"+strconv.Itoa(i)+"/fieldsV1", is.FieldsV1))
		}
	}
	for _, added := range o.after[len(o.before):] {
		operations = append(operations, jsonpatch.NewOperation("add", path+"/-", added))
	}
	return operations
}
