package record

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Format is the version of the JSON that Encode writes. Decode also reads the next version, because a change of the format takes two
// releases. So a rollback of one release never makes records unreadable.
const Format = 1

// MaxBytes is the largest record that is read or written. A Node with 500 labels of the longest kind is below it. Beyond it a
// ConfigMap (1 MiB) or the Node (1.5 MiB in etcd) would soon be refused.
const MaxBytes = 512 << 10

// ErrTooLarge says that a record cannot be stored for its size.
var ErrTooLarge = errors.New("too large")

// fields are the members of the record or of notShown that this version does not know. They are written back as they were read. Those of
// other objects within are lost, so a later version adds none there.
type fields map[string]json.RawMessage

// document is the JSON of a record.
type document struct {
	Version             int                  `json:"version"`
	Cluster             string               `json:"cluster,omitempty"`
	Node                string               `json:"node"`
	UID                 types.UID            `json:"uid,omitempty"`
	NodeResourceVersion string               `json:"nodeResourceVersion,omitempty"`
	Labels              map[string]string    `json:"labels,omitempty"`
	Taints              []corev1.Taint       `json:"taints,omitempty"`
	Annotations         map[string]string    `json:"annotations,omitempty"`
	NotShown            json.RawMessage      `json:"notShown,omitempty"`
	Inherited           map[string]string    `json:"inherited,omitempty"` // versions of the entries that are not of nodeResourceVersion
	Removed             map[string]string    `json:"removed,omitempty"`
	Former              []formerObject       `json:"former,omitempty"` // objects before this one, oldest first
	ForgottenUntil      string               `json:"forgottenUntil,omitempty"`
	Machine             Machine              `json:"machine,omitzero"`
	MachineSince        string               `json:"machineSince,omitempty"`
	Followed            string               `json:"followed,omitempty"`
	Owners              []owning             `json:"owners,omitempty"`
	Derived             map[string]RuleLabel `json:"derived,omitempty"`
	Marks               map[string]Mark      `json:"marks,omitempty"`
	DeletedAt           time.Time            `json:"deletedAt,omitzero"`
	History             json.RawMessage      `json:"history,omitempty"`
}

type formerObject struct {
	UID                 types.UID `json:"uid"`
	NodeResourceVersion string    `json:"nodeResourceVersion"`
}

type notShown struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Taints      []corev1.Taint    `json:"taints,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// fewEntries are never most of a record: labels and taints are short, and annotations have a bound of their own.
const fewEntries = 100

// NearlyFull reports whether a record has four fifths of [MaxBytes] or more, and how many bytes. Its history does not count, since the oldest
// of it gives way.
func (r Record) NearlyFull() (bytes int, nearly bool) {
	if len(r.Entries) <= fewEntries {
		return 0, false
	}
	r.History, r.HistoryOmitted = nil, false
	data, err := encode(r)
	return len(data), err == nil && len(data) >= MaxBytes/5*4
}

// Encode returns the record as it is stored: indented JSON in a stable order. A quarantined record is stored next to it.
func Encode(r Record) ([]byte, error) {
	if r.HistoryOmitted {
		return nil, fmt.Errorf("encode record of node %q: its history was not read with it and would be lost; read the record live", r.Node)
	}
	data, err := encode(r)
	if err == nil && len(data) > MaxBytes {
		err = fmt.Errorf("%w: its %d bytes are more than the %d that a record may have; let the policy keep fewer labels", ErrTooLarge, len(data), MaxBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("encode record of node %q: %w", r.Node, err)
	}
	return data, nil
}

func encode(r Record) ([]byte, error) {
	newest := r.Newest()
	d := document{
		Version: cmp.Or(r.format, Format), Cluster: r.Cluster, Node: r.Node, UID: newest.UID, NodeResourceVersion: text(newest.Version), ForgottenUntil: text(r.Floor),
		Inherited: map[string]string{}, Removed: map[string]string{}, Machine: r.Machine, MachineSince: text(r.MachineSince), Followed: r.Followed, Derived: r.RuleLabels, Marks: r.Marks, DeletedAt: r.DeletedAt,
		History: r.History, Owners: ownings(r.Entries),
	}
	for _, object := range r.Seen[:max(len(r.Seen)-1, 0)] {
		d.Former = append(d.Former, formerObject{object.UID, text(object.Version)})
	}
	items, hidden := map[string]string{}, map[string]string{}
	for _, e := range r.Entries {
		if e.Removed {
			d.Removed[e.Key] = e.Version.String()
			continue
		}
		if e.Version != newest.Version {
			d.Inherited[e.Key] = e.Version.String()
		}
		if e.NotShown {
			hidden[e.Key] = e.Value
		} else {
			items[e.Key] = e.Value
		}
	}
	d.Labels, d.Taints = Split(items)
	d.Annotations = SplitAnnotations(items)
	var err error
	if len(hidden)+len(r.unknownNotShown) > 0 {
		var n notShown
		n.Labels, n.Taints = Split(hidden)
		n.Annotations = SplitAnnotations(hidden)
		if d.NotShown, err = marshal(n, r.unknownNotShown); err != nil {
			return nil, err
		}
	}
	flat, err := marshal(d, r.unknown)
	if err != nil {
		return nil, err
	}
	var indented bytes.Buffer
	err = json.Indent(&indented, flat, "", "  ")
	return indented.Bytes(), err
}

// text returns a version in JSON; none is left out.
func text(v Version) string {
	if v == 0 {
		return ""
	}
	return v.String()
}

// Decode reads a record. The error says why nothing may be taken from it. Single entries that nodekeep cannot have written are
// dropped, or lose their version if their value can be used.
func Decode(data []byte) (Record, error) {
	if len(data) == 0 {
		return Record{}, errors.New("it is empty")
	}
	if len(data) > MaxBytes {
		return Record{}, fmt.Errorf("its %d bytes are more than the %d that a record may have", len(data), MaxBytes)
	}
	var d document
	unknown, err := unmarshal(data, &d)
	if err != nil {
		return Record{}, err
	}
	if d.Version < 1 || d.Version > Format+1 {
		return Record{}, fmt.Errorf("its version is %d; this nodekeep reads 1 to %d", d.Version, Format+1)
	}
	if deleted := d.DeletedAt.UTC(); !d.DeletedAt.IsZero() && (deleted.Year() < 1 || deleted.Year() > 9999) {
		return Record{}, errors.New("deletedAt: it is out of range") // it could not be written back
	}
	maps.DeleteFunc(d.Derived, func(key string, label RuleLabel) bool { return !label.ValidFor(key) })
	maps.DeleteFunc(d.Marks, func(key string, mark Mark) bool { return !mark.ValidFor(key) })
	r := Record{Node: d.Node, Cluster: d.Cluster, Machine: d.Machine, Followed: d.Followed, RuleLabels: d.Derived, Marks: d.Marks, DeletedAt: d.DeletedAt.UTC(), unknown: unknown}
	if d.Version != Format {
		r.format = d.Version
	}
	if string(d.History) != "null" {
		r.History = d.History
	}
	r.Seen, r.Floor = d.objects()
	if version := number(d.MachineSince); version <= r.Newest().Version {
		r.MachineSince = version
	}
	var hidden notShown
	if len(d.NotShown) > 0 {
		if r.unknownNotShown, err = unmarshal(d.NotShown, &hidden); err != nil {
			return Record{}, fmt.Errorf("notShown: %w", err)
		}
	}
	r.Entries, r.Dropped = d.entries(r, hidden)
	return r, nil
}

// objects returns those that a record knows, oldest first. Only a sequence of versions that can have come to be is used.
func (d document) objects() (seen []Object, floor Version) {
	newest := Object{UID: d.UID, Version: number(d.NodeResourceVersion)}
	if newest.UID == "" || newest.Version == 0 {
		return nil, 0
	}
	if floor = number(d.ForgottenUntil); floor >= newest.Version {
		floor = 0
	}
	last := floor
	known := map[types.UID]bool{newest.UID: true}
	for _, former := range d.Former {
		object := Object{UID: former.UID, Version: number(former.NodeResourceVersion)}
		if object.Version > last && object.Version < newest.Version && !known[object.UID] {
			seen, last, known[object.UID] = append(seen, object), object.Version, object.UID != ""
		}
	}
	if len(seen) >= MaxObjects {
		cut := len(seen) - MaxObjects
		seen, floor = seen[cut+1:], seen[cut].Version
	}
	return append(seen, newest), floor
}

// entries returns what a record remembers. A value without a version that can be is older than every observation.
func (d document) entries(r Record, hidden notShown) (entries []Entry, dropped Dropped) {
	newest := r.Newest().Version
	taken := map[string]bool{}
	add := func(items map[string]string, notShown bool) {
		for key, value := range items {
			switch {
			case taken[key]:
				continue
			case Valid(key, value):
			case IsTaint(key):
				dropped.Taints++
				continue
			case IsAnnotation(key):
				dropped.Annotations++
				continue
			default:
				dropped.Labels++
				continue
			}
			version := newest
			if inherited, listed := d.Inherited[key]; listed {
				if version = number(inherited); version > newest {
					version = 0
				}
			}
			taken[key] = true
			entries = append(entries, Entry{Key: key, Value: value, Version: version, NotShown: notShown})
		}
	}
	add(joined(d.Labels, d.Taints, d.Annotations), false)
	add(joined(hidden.Labels, hidden.Taints, hidden.Annotations), true)
	for key, removed := range d.Removed {
		if version := number(removed); !taken[key] && Valid(key, "") && version > 0 && version <= newest {
			entries = append(entries, Entry{Key: key, Removed: true, Version: version})
		}
	}
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Key, b.Key) })
	assignOwners(entries, d.Owners)
	return entries, dropped
}

func joined(labels map[string]string, taints []corev1.Taint, annotations map[string]string) map[string]string {
	items := Join(labels, taints)
	JoinAnnotations(items, annotations)
	return items
}

// number returns the version that a text says; 0 for what is none.
func number(text string) Version {
	version, _ := ParseVersion(text)
	return version
}

// marshal writes a struct and, after its fields, those of later versions.
func marshal(known any, unknown fields) ([]byte, error) {
	object, err := json.Marshal(known)
	if err != nil || len(unknown) == 0 {
		return object, err
	}
	extra, err := json.Marshal(unknown)
	if len(object) == len("{}") {
		return extra, err
	}
	object[len(object)-1] = ','
	return append(object, extra[1:]...), err
}

// unmarshal reads the fields of a struct by their exact names and returns the others.
func unmarshal(data []byte, known any) (unknown fields, err error) {
	if err := json.Unmarshal(data, &unknown); err != nil {
		return nil, err
	}
	dest := reflect.ValueOf(known).Elem()
	for field, value := range dest.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if raw, present := unknown[name]; present {
			if err := json.Unmarshal(raw, value.Addr().Interface()); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			delete(unknown, name)
		}
	}
	if len(unknown) == 0 {
		return nil, nil
	}
	return unknown, nil
}
