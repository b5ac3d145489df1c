package record

import (
	"maps"
	"slices"
)

// Mark is an item by which a client has marked the newest object while that was being taken away. It is no entry of the record, because the
// next object of the name must not inherit it. The record keeps it until the object goes, or stays after all. A later write of the list
// of taints hides whose a taint is.
type Mark struct {
	Value string `json:"value"`
	By    string `json:"by"` // the manager by metadata.managedFields
}

// MaxMarks is how many marks a record keeps.
const MaxMarks = 64

// ValidFor reports whether a client can have set the item.
func (m Mark) ValidFor(key string) bool {
	return Manager{Name: m.By, Operation: "Update"}.valid() && !IsAnnotation(key) && Valid(key, m.Value)
}

// fewMarks returns the marks that a record keeps of those that a Node shows.
func fewMarks(shown map[string]Mark) (kept map[string]Mark) {
	for _, key := range slices.Sorted(maps.Keys(shown)) {
		if len(kept) < MaxMarks && shown[key].ValidFor(key) {
			if kept == nil {
				kept = map[string]Mark{}
			}
			kept[key] = shown[key]
		}
	}
	return kept
}

// WithMarks returns the record with the marks that the newest object shows.
func (r Record) WithMarks(shown map[string]Mark) Record {
	r.Marks = fewMarks(shown)
	return r
}

// MarksOf returns the marks of that object; nil if it is not the newest.
func (r Record) MarksOf(object Object) map[string]Mark {
	if r.Newest().UID != object.UID || object.UID == "" {
		return nil
	}
	return r.Marks
}
