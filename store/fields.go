package store

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// MarshalJSON writes the fields of a record, those of later versions last.
func (r Record) MarshalJSON() ([]byte, error) {
	type plain Record // without this method
	return marshalWith(plain(r), r.unknown)
}

// UnmarshalJSON reads the fields of a record by their exact names and keeps those that it does not know.
func (r *Record) UnmarshalJSON(data []byte) (err error) {
	*r = Record{}
	r.unknown, err = unmarshalInto(data, map[string]any{
		"version": &r.Version, "node": &r.Node, "uid": &r.UID, "nodeResourceVersion": &r.NodeResourceVersion,
		"labels": &r.Items, "later": &r.Later, "withheld": &r.Withheld, "early": &r.Early, "machine": &r.Machine, "deletedAt": &r.DeletedAt,
	})
	return err
}

// MarshalJSON writes the fields, those of later versions last.
func (w Withheld) MarshalJSON() ([]byte, error) {
	type plain Withheld // without this method
	return marshalWith(plain(w), w.unknown)
}

// UnmarshalJSON reads the fields by their exact names and keeps those that it does not know.
func (w *Withheld) UnmarshalJSON(data []byte) (err error) {
	*w = Withheld{}
	w.unknown, err = unmarshalInto(data, map[string]any{"labels": &w.Items})
	return err
}

func marshalWith(fields any, unknown map[string]json.RawMessage) ([]byte, error) {
	object, err := json.Marshal(fields)
	if err != nil || len(unknown) == 0 {
		return object, err
	}
	object = object[:len(object)-1]
	for _, name := range slices.Sorted(maps.Keys(unknown)) {
		quoted, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		if len(object) > 1 {
			object = append(object, ',')
		}
		object = append(append(append(object, quoted...), ':'), unknown[name]...)
	}
	return append(object, '}'), nil
}

func unmarshalInto(data []byte, known map[string]any) (unknown map[string]json.RawMessage, err error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	for name, into := range known {
		if raw, present := fields[name]; present {
			if err := json.Unmarshal(raw, into); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			delete(fields, name)
		}
	}
	if len(fields) == 0 {
		return nil, nil
	}
	return fields, nil
}
