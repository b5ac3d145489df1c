package record

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// MaxObjects is how many objects of one name a record knows. A process that is further behind loses what it observes.
const MaxObjects = 8

// Version is a resourceVersion as a number. Kubernetes orders them since 1.35; 0 is none, older than any.
type Version uint64

// ParseVersion reads a resourceVersion. It refuses all that a Kubernetes API server does not give out; that is version 0.
func ParseVersion(text string) (Version, error) {
	number, err := strconv.ParseUint(text, 10, 64)
	if err == nil && strconv.FormatUint(number, 10) != text {
		err = strconv.ErrSyntax
	}
	if err != nil {
		return 0, err
	}
	return Version(number), nil
}

// String returns the resourceVersion as Kubernetes writes it.
func (v Version) String() string { return strconv.FormatUint(uint64(v), 10) }

// Record is what nodekeep knows of the Nodes of one name. The zero value is empty.
type Record struct {
	Node    string
	Cluster string // UID of the namespace kube-system; versions of one cluster mean nothing in another

	Entries []Entry  // sorted by key, one for each
	Seen    []Object // the newest objects of the name, oldest first
	// Floor is the version of the newest object that Seen no longer holds. Older observations come too late to count.
	Floor Version
	// DeletedAt is when the newest object was observed to be deleted; zero while it is there.
	DeletedAt time.Time

	Machine Machine
	// MachineSince is the version of the state in which the newest object began to claim this machine. It is zero if that object has claimed no other
	// machine before.
	MachineSince Version
	// Followed is the Node whose record this one began with, because its machine registered under this name; see [Follow].
	Followed string
	// RuleLabels are the labels that rules set last on the newest object, by key.
	RuleLabels map[string]RuleLabel
	// Marks are items of the newest object that its end has brought, by key.
	Marks map[string]Mark
	// History is not read here. It is kept as it was stored.
	History json.RawMessage
	// HistoryOmitted says that the record has a history which was not read with it. Such a record cannot be stored.
	HistoryOmitted bool
	// Dropped is what was stored in addition to the entries and no Node can have: a client edited the record. It is lost with the next write.
	Dropped Dropped
	// Quarantined is the record of the machine that had the name before, see [Isolate]. For a record that followed another one, it has the
	// entries that wait for an operator. It is nil if nothing is quarantined.
	Quarantined *Record
	// Earlier are the records of machines that had the name before, the last one at the end. Nothing of them is restored unless that machine
	// registers again; see [SetAside].
	Earlier []Record

	format          int // version of the JSON that it was read from; 0: the current one
	unknown         fields
	unknownNotShown fields
}

// Omitted reports whether the record, or one that it keeps of another machine, was read without its history. Such a record cannot be stored.
func (r Record) Omitted() bool {
	return r.HistoryOmitted || r.Quarantined != nil && r.Quarantined.Omitted() || slices.ContainsFunc(r.Earlier, Record.Omitted)
}

// Entry is the recorded state of one key.
type Entry struct {
	Key     string
	Value   string // empty if Removed
	Removed bool   // a client removed it
	Version Version
	// NotShown says that the newest object did not show the value when last observed. Nothing is decided by it.
	NotShown bool
	// Owners are the managers of the value. They are restored with it. Empty: not known, or it is a taint or a removal.
	Owners Owners
}

// Dropped counts labels, taints and annotations.
type Dropped struct{ Labels, Taints, Annotations int }

// Object is a Node object and the newest version of it that was merged. Without a UID, it stands for an object that was
// never observed. A later one has a value of it, see [Merge].
type Object struct {
	UID     types.UID
	Version Version
}

// New returns a record that remembers items which were all observed on one object.
func New(node string, object Object, items map[string]string) Record {
	r := Record{Node: node}
	if object != (Object{}) {
		r.Seen = []Object{object}
	}
	for _, key := range slices.Sorted(maps.Keys(items)) {
		r.Entries = append(r.Entries, Entry{Key: key, Value: items[key], Version: object.Version})
	}
	return r
}

// Entry returns the entry of a key.
func (r Record) Entry(key string) (entry Entry, ok bool) {
	i, ok := r.find(key)
	if !ok {
		return Entry{}, false
	}
	return r.Entries[i], true
}

func (r Record) find(key string) (i int, ok bool) {
	return slices.BinarySearchFunc(r.Entries, key, func(e Entry, key string) int { return cmp.Compare(e.Key, key) })
}

// Items returns each remembered key with its value. The map is the caller's own.
func (r Record) Items() map[string]string {
	items := make(map[string]string, len(r.Entries))
	for _, e := range r.Entries {
		if !e.Removed {
			items[e.Key] = e.Value
		}
	}
	return items
}

// Newest returns the newest object of the name; zero if none is known.
func (r Record) Newest() Object {
	if len(r.Seen) == 0 {
		return Object{}
	}
	return r.Seen[len(r.Seen)-1]
}

// Ahead reports whether the record holds an observation newer than this one, of the same or a later object. Then o does not show the
// current state of the Node.
func (r Record) Ahead(o Observation) bool { return r.Newest().Version > o.Version }

// Empty reports whether the record holds nothing worth keeping: only which objects were observed, when, and which keys were removed.
func (r Record) Empty() bool {
	r.Entries = slices.DeleteFunc(slices.Clone(r.Entries), func(e Entry) bool { return e.Removed })
	return len(r.Earlier) == 0 && r.Blank()
}

// Blank reports whether the record holds nothing of the machine that has the name, no removal either.
func (r Record) Blank() bool {
	return r.Quarantined == nil && len(r.Entries)+len(r.RuleLabels)+len(r.unknown)+len(r.unknownNotShown) == 0
}

// Preloaded reports whether the record was written ahead for a Node that was never observed. Such a record has only the values that rules
// derive for that Node.
func (r Record) Preloaded() bool {
	return len(r.Seen)+len(r.Entries)+len(r.Earlier) == 0 && r.Floor == 0 && r.Followed == "" && r.Quarantined == nil && len(r.RuleLabels) > 0
}

// Observed returns the newest version of an object that was merged; 0 if none was.
func (r Record) Observed(uid types.UID) Version {
	for _, object := range r.Seen {
		if object.UID == uid && uid != "" {
			return object.Version
		}
	}
	return 0
}

// Lost reports whether the record lacks observations that another one of the same name had. An older one was put in its place, or a client
// wrote it.
func (r Record) Lost(prev Record) bool {
	newest := r.Newest()
	return len(prev.Seen) > 0 && newest.Version < prev.Newest().Version && (len(r.Seen) == 0 || prev.Observed(newest.UID) > 0)
}

// DecidedOn returns the object on which an entry was decided; empty if it is no longer known. The lives of objects do not overlap. So it is the
// first object whose newest version is not older than the entry. Below the floor that object is forgotten, and the next object must not be
// taken for it.
func (r Record) DecidedOn(e Entry) types.UID {
	if e.Version <= r.Floor {
		return ""
	}
	for _, object := range r.Seen {
		if object.Version >= e.Version {
			return object.UID
		}
	}
	return ""
}

// see notes that a version of an object is observed.
func (r *Record) see(uid types.UID, version Version) {
	if version > r.Observed(uid) {
		r.note(Object{UID: uid, Version: version}, func(object Object) bool { return object.UID == uid })
	}
}

// presume notes a version that decided something, and that no process observed for this record. A Node has a value of that version. The object
// is not known. Without this note, the next one would be taken for it.
func (r *Record) presume(version Version) {
	if version > r.Floor && !r.presumes(version) {
		r.note(Object{Version: version}, func(Object) bool { return false })
	}
}

// presumes reports whether something was decided at a version which no process observed for this record.
func (r Record) presumes(version Version) bool {
	return slices.Contains(r.Seen, Object{Version: version})
}

// identify returns the record once it is known which object was there at versions that it presumes. The object is observed at this version, or it
// was observed before them and is there still.
func (r Record) identify(uid types.UID, version Version) Record {
	known, end := r.Observed(uid), Version(0)
	seen := slices.DeleteFunc(slices.Clone(r.Seen), func(object Object) bool {
		p := object.Version
		matches := object.UID == "" && (p == version || 0 < known && known < p && p < version)
		if matches {
			end = p
		}
		return matches
	})
	if len(seen) < len(r.Seen) {
		r.Seen = seen
		r.see(uid, end)
	}
	return r
}

// note puts an object in the place of others. Beyond MaxObjects the oldest is forgotten, with the removals up to it.
func (r *Record) note(object Object, replaces func(Object) bool) {
	seen := append(slices.DeleteFunc(slices.Clone(r.Seen), replaces), object)
	slices.SortFunc(seen, func(a, b Object) int { return cmp.Compare(a.Version, b.Version) })
	r.Seen = seen
	if len(seen) > MaxObjects {
		r.Seen = seen[1:]
		r.forget(seen[0].Version)
	}
}

// forget raises the floor. A removal below it proves nothing any more.
func (r *Record) forget(floor Version) {
	r.Floor = floor
	r.Entries = slices.DeleteFunc(slices.Clone(r.Entries), func(e Entry) bool { return e.Removed && e.Version <= floor })
}

// AnyVersion is the newest version for [Record.Rebase] where it is not known which versions the API server has given out.
const AnyVersion Version = math.MaxUint64

// Rebase returns the record for use in the cluster of that UID. Its API server has given out versions up to newest. A record of another cluster
// keeps its values but loses all UIDs and versions; versionsDropped is then true. The same holds for a record of a state that a restored backup has
// undone.
//
// An empty cluster is one whose UID is not known; no record is of another one then.
func (r Record) Rebase(cluster string, newest Version) (rebased Record, versionsDropped bool) {
	versionsDropped = cluster != "" && r.Cluster != "" && r.Cluster != cluster || r.Newest().Version > newest
	if versionsDropped {
		r = r.withoutVersions()
	}
	if cluster != "" {
		r.Cluster = cluster
	}
	return r, versionsDropped
}

func (r Record) withoutVersions() Record {
	entries := make([]Entry, 0, len(r.Entries))
	for _, e := range r.Entries {
		if !e.Removed {
			e.Version = 0
			entries = append(entries, e)
		}
	}
	r.Entries, r.Seen, r.Floor, r.MachineSince, r.Marks = entries, nil, 0, 0, nil
	if r.Quarantined != nil {
		earlier := r.Quarantined.withoutVersions()
		earlier.Cluster = ""
		r.Quarantined = &earlier
	}
	r.Earlier = slices.Clone(r.Earlier)
	for i, earlier := range r.Earlier {
		r.Earlier[i] = earlier.withoutVersions()
		r.Earlier[i].Cluster = ""
	}
	return r
}
