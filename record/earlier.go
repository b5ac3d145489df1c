package record

import (
	"cmp"
	"slices"
	"time"
)

// MaxEarlier is how many machines that had the name before a record keeps something of.
const MaxEarlier = 8

// EarlierRetention says what a record keeps of machines that had the name before.
type EarlierRetention struct {
	Retention time.Duration // how long ago the Node of one may have been deleted; 0: for ever
	Now       time.Time
	// Protected reports whether no kubelet may set an item. Of more machines than [MaxEarlier], those go first that had no such item. A kubelet may
	// register as many machines as it likes. Nil: all are alike.
	Protected func(item string) bool
}

func (k EarlierRetention) keeps(r Record) bool {
	return k.Retention <= 0 || r.DeletedAt.IsZero() || k.Now.Sub(r.DeletedAt) <= k.Retention
}

// rank returns in which order records give way: those first that have no protected item.
func (k EarlierRetention) rank(r Record) int {
	if k.Protected != nil && slices.ContainsFunc(r.Entries, func(e Entry) bool { return !e.Removed && k.Protected(e.Key) }) {
		return 1
	}
	return 0
}

// Flatten returns these records, and those that they keep of machines before.
func (k EarlierRetention) Flatten(records []Record) (all []Record) {
	for _, r := range records {
		r = r.Trimmed(k)
		all = append(all, r)
		for _, e := range r.Earlier {
			if e.DeletedAt.IsZero() { // no process has observed when
				e.DeletedAt = k.Now
			}
			all = append(all, e)
		}
	}
	return all
}

// Trimmed returns the record without what it does not keep any more of machines before.
func (r Record) Trimmed(k EarlierRetention) Record {
	if slices.ContainsFunc(r.Earlier, func(e Record) bool { return !k.keeps(e) }) {
		r.Earlier = slices.DeleteFunc(slices.Clone(r.Earlier), func(e Record) bool { return !k.keeps(e) })
	}
	return r
}

// SetAside returns the record of a machine that has taken the name and begins with nothing. What the machine before had is kept next to it, and comes
// with that machine again; see [Returned]. Observations up to the floor count for the machine before.
func SetAside(r Record, machine Machine, floor Version, k EarlierRetention) Record {
	return Record{Node: r.Node, Cluster: r.Cluster, Machine: machine, Floor: floor, Earlier: r.asEarlier(k)}
}

// InPlaceOf returns a first record that follows another name's. It takes the place of one that begins with nothing, see [SetAside].
func (r Record) InPlaceOf(begun Record) Record {
	if r.Followed == "" && len(r.Entries) == 0 { // it follows none
		return begun
	}
	r.Cluster = begun.Cluster
	r.Earlier, r.Floor = begun.Earlier, max(r.Floor, begun.Floor)
	return r
}

// Returned returns the record of a machine that has its name again, after another one had it. It is what that machine had then, and the other's is set aside.
// If found is false, there is none.
func Returned(r Record, machine Machine, floor Version, k EarlierRetention) (returned Record, found bool) {
	r = r.Trimmed(k)
	if r.WholeRecordQuarantined() && machine.Compare(r.Quarantined.Machine) == SameMachine {
		returned, r.Quarantined = *r.Quarantined, nil
	} else {
		i := slices.IndexFunc(r.Earlier, func(e Record) bool { return machine.Compare(e.Machine) == SameMachine })
		if i < 0 {
			return Record{}, false
		}
		returned = r.Earlier[i]
		r.Earlier = slices.Delete(slices.Clone(r.Earlier), i, i+1)
	}
	returned.Earlier, returned.Cluster = r.asEarlier(k), r.Cluster
	returned.Seen, returned.Floor, returned.MachineSince, returned.DeletedAt, returned.Marks = nil, max(returned.Floor, floor), 0, time.Time{}, nil
	return returned, true
}

// EndQuarantine returns the record once the policy lets another machine begin with nothing. The machine that has the name keeps its own, as after
// [AcceptNew]. What was quarantined is set aside.
func EndQuarantine(r Record, k EarlierRetention) Record {
	if !r.WholeRecordQuarantined() {
		return r
	}
	quarantined := *r.Quarantined
	quarantined.Earlier = r.Earlier
	r = AcceptNew(r)
	r.Earlier = quarantined.asEarlier(k)
	return r
}

// asEarlier returns what a record keeps of the machines before, once another one has the name. One that had nothing is not kept.
func (r Record) asEarlier(k EarlierRetention) []Record {
	earlier := slices.Clone(r.Trimmed(k).Earlier)
	if r.WholeRecordQuarantined() {
		quarantined := *r.Quarantined
		r.Quarantined = nil
		earlier = quarantined.prepend(earlier, k)
	}
	return r.prepend(earlier, k)
}

func (r Record) prepend(earlier []Record, k EarlierRetention) []Record {
	r.Earlier = nil
	if r.Blank() {
		return earlier
	}
	earlier = append(earlier, r)
	for i := range earlier {
		if earlier[i].DeletedAt.IsZero() {
			earlier[i].DeletedAt = k.Now
		}
	}
	slices.SortStableFunc(earlier, func(a, b Record) int { return cmp.Compare(k.rank(a), k.rank(b)) })
	return earlier[max(0, len(earlier)-MaxEarlier):]
}

// SetAsideByAnother reports whether a record is one that another of these keeps of a machine before, see [SetAside]. No Node of its name is that machine's.
func SetAsideByAnother(r Record, records []Record) bool {
	return slices.ContainsFunc(records, func(rec Record) bool {
		return rec.Node == r.Node && slices.ContainsFunc(rec.Earlier, func(e Record) bool { return e.Machine == r.Machine })
	})
}

// ofMachineBefore reports whether an object that the record does not know was on another machine, before the newest one.
func (o Observation) ofMachineBefore(r Record) bool {
	return o.Version < r.Newest().Version && r.Observed(o.UID) == 0 && o.Machine.Compare(r.Machine) == OtherMachine
}

// late returns the record after a late observation of an object that a machine before had. It counts for the record that knows the object, else for that of
// the machine. If there is none, it begins one, which gives way first.
func (r Record) late(o Observation) Record {
	count := func(rec Record) Record {
		o.Machine = Machine{} // it is decided for which
		next := Merge(rec, o)
		if next.DeletedAt.IsZero() { // another machine has the name
			next.DeletedAt = rec.DeletedAt
		}
		return next
	}
	knows := func(e Record) bool { return e.Observed(o.UID) > 0 }
	isOf := func(e Record) bool { return o.Machine.Compare(e.Machine) == SameMachine }
	unknown := r.Observed(o.UID) == 0
	if r.WholeRecordQuarantined() && unknown && (knows(*r.Quarantined) || o.Machine.Compare(r.Quarantined.Machine) != OtherMachine) {
		quarantined := count(*r.Quarantined)
		r.Quarantined = &quarantined
		return r
	}
	i := slices.IndexFunc(r.Earlier, knows)
	if i < 0 && unknown {
		i = slices.IndexFunc(r.Earlier, isOf)
	}
	switch {
	case i >= 0:
		r.Earlier = slices.Clone(r.Earlier)
		r.Earlier[i] = count(r.Earlier[i])
	case o.Version > r.Floor && len(r.Earlier) < MaxEarlier:
		first := count(Record{Node: r.Node, Cluster: r.Cluster, Machine: o.Machine})
		if o.Final || !first.Blank() { // what the last state lacks, an older one that is received later may show
			r.Earlier = slices.Insert(slices.Clone(r.Earlier), 0, first)
		}
	}
	return r
}
