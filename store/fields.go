package store

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// recordFields is the JSON of a [Record].
type recordFields struct {
	Version             int                `json:"version"`
	Node                string             `json:"node"`
	UID                 types.UID          `json:"uid,omitempty"`
	NodeResourceVersion string             `json:"nodeResourceVersion,omitempty"`
	Labels              map[string]string  `json:"labels,omitempty"`
	Taints              []corev1.Taint     `json:"taints,omitempty"`
	Later               map[string]*string `json:"later,omitempty"`
	LaterVersions       map[string]string  `json:"laterVersions,omitempty"`
	Withheld            Withheld           `json:"withheld,omitzero"`
	RuleTaints          []corev1.Taint     `json:"ruleTaints,omitempty"`
	RuleClaims          []corev1.Taint     `json:"ruleClaims,omitempty"`
	FormerTaints        []corev1.Taint     `json:"formerTaints,omitempty"`
	Early               bool               `json:"early,omitempty"`
	Machine             Machine            `json:"machine,omitzero"`
	DeletedAt           *metav1.Time       `json:"deletedAt,omitempty"`
	History             []Change           `json:"history,omitempty"`
}

// MarshalJSON writes the fields of a record, those of later versions last.
func (r Record) MarshalJSON() ([]byte, error) {
	labels, taints := split(r.Items)
	return marshalWith(recordFields{
		Version: r.Version, Node: r.Node, UID: r.UID, NodeResourceVersion: r.NodeResourceVersion, Labels: labels, Taints: taints, Later: r.Later,
		LaterVersions: r.LaterVersions, Withheld: r.Withheld, RuleTaints: r.RuleTaints, RuleClaims: r.RuleClaims, FormerTaints: r.FormerTaints, Early: r.Early, Machine: r.Machine, DeletedAt: r.DeletedAt,
		History: r.History,
	}, r.unknown)
}

// UnmarshalJSON reads the fields of a record by their exact names and keeps those that it does not know.
func (r *Record) UnmarshalJSON(data []byte) error { return r.unmarshal(data, whole) }

// reading is how much is read of a history.
type reading func(r *Record, history json.RawMessage)

func whole(r *Record, history json.RawMessage) { r.History = historyOf(history) }

// inMemory is for caches: a history costs them no more than a look whether there is one.
func inMemory(r *Record, history json.RawMessage) {
	r.historyLeftOut = len(history) > 0 && string(history) != "null" && string(history) != "[]"
}

func (r *Record) unmarshal(data []byte, read reading) (err error) {
	*r = Record{}
	var labels map[string]string
	var taints []corev1.Taint
	var history json.RawMessage
	r.unknown, err = unmarshalInto(data, map[string]any{
		"version": &r.Version, "node": &r.Node, "uid": &r.UID, "nodeResourceVersion": &r.NodeResourceVersion,
		"labels": &labels, "taints": &taints, "later": &r.Later, "laterVersions": &r.LaterVersions,
		"withheld": &r.Withheld, "ruleTaints": &r.RuleTaints, "ruleClaims": &r.RuleClaims, "formerTaints": &r.FormerTaints,
		"early": &r.Early, "machine": &r.Machine, "deletedAt": &r.DeletedAt, "history": &history,
	})
	r.Items, r.RuleTaints, r.RuleClaims = join(labels, taints), sorted(r.RuleTaints), sorted(r.RuleClaims)
	for i := range r.FormerTaints {
		r.FormerTaints[i].TimeAdded = nil
	}
	read(r, history)
	return err
}

// withheldFields is the JSON of [Withheld].
type withheldFields struct {
	Labels map[string]string `json:"labels,omitempty"`
	Taints []corev1.Taint    `json:"taints,omitempty"`
}

// MarshalJSON writes the fields, those of later versions last.
func (w Withheld) MarshalJSON() ([]byte, error) {
	labels, taints := split(w.Items)
	return marshalWith(withheldFields{labels, taints}, w.unknown)
}

// UnmarshalJSON reads the fields by their exact names and keeps those that it does not know.
func (w *Withheld) UnmarshalJSON(data []byte) (err error) {
	*w = Withheld{}
	var labels map[string]string
	var taints []corev1.Taint
	w.unknown, err = unmarshalInto(data, map[string]any{"labels": &labels, "taints": &taints})
	w.Items = join(labels, taints)
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
