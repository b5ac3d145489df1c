package record

import (
	"slices"
	"time"
)

// MaxEarlier is how many machines that had the name before a record keeps something of. Beyond it, what the first of them had is lost.
const MaxEarlier = 8

// SetAside is the record of a machine that has taken the name and begins with nothing. What the machine before had is kept next to it, and comes
// with that machine again; see [Returned]. Observations up to the floor count for the machine before.
func SetAside(r Record, machine Machine, floor Version, now time.Time) Record {
	return Record{Node: r.Node, Cluster: r.Cluster, Machine: machine, Floor: floor, Earlier: r.asEarlier(now)}
}

// Over is a first record that follows another name's. It takes the place of one that begins with nothing, see [SetAside].
func (r Record) Over(begun Record) Record {
	if r.Followed == "" && len(r.Entries) == 0 { // it follows none
		return begun
	}
	r.Cluster = begun.Cluster
	r.Earlier, r.Floor = begun.Earlier, max(r.Floor, begun.Floor)
	return r
}

// Returned is the record of a machine that has its name again, after another one had it. It is what that machine had then, and the other's is set aside.
// An earlier record does not count if its Node was deleted longer ago than retention; 0 is for ever. If found is false, there is none.
func Returned(r Record, machine Machine, floor Version, retention time.Duration, now time.Time) (own Record, found bool) {
	if r.Isolated() && machine.Compare(r.Quarantined.Machine) == SameMachine {
		own, r.Quarantined = *r.Quarantined, nil
	} else {
		at := slices.IndexFunc(r.Earlier, func(e Record) bool {
			return machine.Compare(e.Machine) == SameMachine && !e.expired(retention, now)
		})
		if at < 0 {
			return Record{}, false
		}
		own = r.Earlier[at]
		r.Earlier = slices.Delete(slices.Clone(r.Earlier), at, at+1)
	}
	own.Earlier = r.asEarlier(now)
	own.Seen, own.Floor, own.MachineSince, own.DeletedAt, own.Marks = nil, max(own.Floor, floor), 0, time.Time{}, nil
	return own, true
}

// EndQuarantine is the record once the policy lets another machine begin with nothing. The machine that has the name keeps its own, as after
// [AcceptNew]. What was quarantined is set aside.
func EndQuarantine(r Record, now time.Time) Record {
	if !r.Isolated() {
		return r
	}
	before := *r.Quarantined
	before.Earlier = r.Earlier
	r = AcceptNew(r)
	r.Earlier = before.asEarlier(now)
	return r
}

// asEarlier is what a record keeps of the machines before, once another one has the name. One that had nothing is not kept.
func (r Record) asEarlier(now time.Time) []Record {
	earlier := slices.Clone(r.Earlier)
	if r.Isolated() {
		before := *r.Quarantined
		r.Quarantined = nil
		earlier = before.with(earlier, now)
	}
	return r.with(earlier, now)
}

func (r Record) with(earlier []Record, now time.Time) []Record {
	r.Earlier = nil
	if r.Blank() {
		return earlier
	}
	if r.DeletedAt.IsZero() {
		r.DeletedAt = now
	}
	earlier = append(earlier, r)
	return earlier[max(0, len(earlier)-MaxEarlier):]
}

// Superseded reports whether a record is one that another of these keeps of a machine before, see [SetAside]. No Node of its name is that machine's.
func Superseded(r Record, records []Record) bool {
	return slices.ContainsFunc(records, func(of Record) bool {
		return of.Node == r.Node && slices.ContainsFunc(of.Earlier, func(e Record) bool { return e.Machine == r.Machine })
	})
}

func (r Record) expired(retention time.Duration, now time.Time) bool {
	return retention > 0 && now.Sub(r.DeletedAt) > retention
}

// late is the record after a late observation of an object that a machine before had.
func (r Record) late(o Observation) Record {
	for i, before := range r.Earlier {
		if before.Observed(o.UID) > 0 {
			r.Earlier = slices.Clone(r.Earlier)
			r.Earlier[i] = Merge(before, o)
		}
	}
	return r
}
