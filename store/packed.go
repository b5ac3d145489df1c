package store

import (
	"reflect"
	"slices"
	"time"
	"unique"

	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/record/packing"
)

// packed is a record in little memory, for caches of 100,000 records. One string holds its own texts. Another string, shared with many
// records, holds the keys of its entries.
type packed struct {
	shape unique.Handle[string]
	text  string
	// rest is the record without what stands in the strings; nil where nothing is left.
	rest *record.Record
}

// How an entry differs from one that is shown and has the version of the newest object.
const (
	isRemoved = 1 << iota
	isNotShown
	isInherited // it has a version of its own
	isOwned     // its owners are known
)

// noTime is the zero time in seconds, which takes one byte so.
const noTime = -62135596800

// pack makes a record small and leaves its history out. Nothing of it is shared with the caller.
func pack(r record.Record) packed {
	r = withoutHistory(r)
	newest := r.Newest()
	shape, text := make(packing.Writer, 0, 512), make(packing.Writer, 0, 512)
	shape.Text(r.Cluster)
	shape.Flag(r.HistoryOmitted)
	shape.Number(uint64(r.Dropped.Labels))
	shape.Number(uint64(r.Dropped.Taints))
	shape.Number(uint64(r.Dropped.Annotations))
	shape.Number(uint64(len(r.Seen)))
	shape.Number(uint64(len(r.Entries)))
	for _, field := range []string{r.Node, r.Machine.ProviderID, r.Machine.SystemUUID, r.Machine.MachineID} {
		text.Text(field)
	}
	for _, object := range r.Seen {
		text.Text(string(object.UID))
		text.Number(uint64(object.Version))
	}
	text.Number(uint64(r.Floor))
	text.Number(uint64(r.DeletedAt.Unix() - noTime))
	text.Number(uint64(r.DeletedAt.Nanosecond()))
	for _, e := range r.Entries {
		mode := uint64(0)
		if e.Removed {
			mode |= isRemoved
		} else {
			text.Text(e.Value)
		}
		if e.NotShown {
			mode |= isNotShown
		}
		if e.Version != newest.Version {
			mode |= isInherited
			text.Number(uint64(e.Version))
		}
		if e.Owners != "" {
			mode |= isOwned
		}
		shape.Text(e.Key)
		shape.Number(mode)
		if e.Owners != "" {
			shape.Text(string(e.Owners))
		}
	}
	p := packed{shape: unique.Make(string(shape)), text: string(text)}
	r.Node, r.Cluster, r.Machine, r.Seen, r.Floor, r.DeletedAt, r.Entries, r.HistoryOmitted = "", "", record.Machine{}, nil, 0, time.Time{}, nil, false
	r.Dropped = record.Dropped{}
	if !reflect.ValueOf(r).IsZero() {
		p.rest = &r
	}
	return p
}

// record returns what was packed, without its history. Its entries are the caller's own.
func (p packed) record() record.Record {
	var r record.Record
	if p.rest != nil {
		r = *p.rest
	}
	shape, text := packing.Reader(p.shape.Value()), packing.Reader(p.text)
	r.Cluster, r.HistoryOmitted = shape.Text(), shape.Flag()
	r.Dropped = record.Dropped{Labels: int(shape.Number()), Taints: int(shape.Number()), Annotations: int(shape.Number())}
	objects, entries := shape.Number(), shape.Number()
	r.Node = text.Text()
	r.Machine = record.Machine{ProviderID: text.Text(), SystemUUID: text.Text(), MachineID: text.Text()}
	if objects > 0 {
		r.Seen = make([]record.Object, objects)
	}
	for i := range r.Seen {
		r.Seen[i] = record.Object{UID: types.UID(text.Text()), Version: record.Version(text.Number())}
	}
	r.Floor = record.Version(text.Number())
	r.DeletedAt = time.Unix(int64(text.Number())+noTime, int64(text.Number())).UTC()
	newest := r.Newest().Version
	if entries > 0 {
		r.Entries = make([]record.Entry, entries)
	}
	for i := range r.Entries {
		e := record.Entry{Key: shape.Text(), Version: newest}
		mode := shape.Number()
		if e.Removed = mode&isRemoved != 0; !e.Removed {
			e.Value = text.Text()
		}
		e.NotShown = mode&isNotShown != 0
		if mode&isInherited != 0 {
			e.Version = record.Version(text.Number())
		}
		if mode&isOwned != 0 {
			e.Owners = record.Owners(shape.Text())
		}
		r.Entries[i] = e
	}
	return r
}

// node returns the name in the record.
func (p packed) node() string {
	text := packing.Reader(p.text)
	return text.Text()
}

// machine returns that of the record.
func (p packed) machine() record.Machine {
	text := packing.Reader(p.text)
	_ = text.Text()
	return record.Machine{ProviderID: text.Text(), SystemUUID: text.Text(), MachineID: text.Text()}
}

// withoutHistory returns the record as caches hold it: a history would be most of the memory.
func withoutHistory(r record.Record) record.Record {
	r.HistoryOmitted = r.HistoryOmitted || len(r.History) > 0
	r.History = nil
	if r.Quarantined != nil {
		old := withoutHistory(*r.Quarantined)
		r.Quarantined = &old
	}
	r.Earlier = slices.Clone(r.Earlier)
	for i, prev := range r.Earlier {
		r.Earlier[i] = withoutHistory(prev)
	}
	r.Entries = slices.Clone(r.Entries)
	return r
}
