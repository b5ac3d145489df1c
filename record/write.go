package record

import (
	"maps"
	"slices"
)

// WorthWriting reports whether it is worth a write that an observation turned one record into another. Heartbeats never are. complete says
// that the Node lacks nothing which the record would restore, and shows nothing stale.
func WorthWriting(prev, next Record, o Observation, complete bool) bool {
	final := o.Final || !o.DeletedAt.IsZero()
	switch {
	case final && prev.Observed(o.UID) < next.Observed(o.UID): // what comes after this state cannot be observed on this object
		return true
	case (prev.Quarantined == nil) != (next.Quarantined == nil), changes(prev, next, o):
		return true
	case !prev.DeletedAt.Equal(next.DeletedAt) && (prev.Newest().UID == next.Newest().UID || !next.DeletedAt.IsZero()):
		return true
	case !SameRuleLabels(prev.RuleLabels, next.RuleLabels), len(next.Marks) > 0 && !maps.Equal(prev.Marks, next.Marks):
		return true
	case len(prev.Marks) > 0 && len(next.Marks) == 0 && prev.Newest().UID == next.Newest().UID: // the object stays
		return true
	case next.Quarantined != nil && prev.Quarantined != nil && WorthWriting(*prev.Quarantined, *next.Quarantined, o, complete):
		return true
	case !slices.EqualFunc(prev.Earlier, next.Earlier, func(old, current Record) bool { return !WorthWriting(old, current, o, complete) }):
		return true
	case len(next.Entries) == 0 && len(prev.Seen) == 0: // a first record that remembers nothing
		return false
	default:
		return complete && (prev.Newest().UID != next.Newest().UID || prev.Machine != next.Machine)
	}
}

// SameRuleLabels reports whether rules say the same. It does not compare RemovedAtCreate and Version.
func SameRuleLabels(prev, next map[string]RuleLabel) bool {
	return maps.EqualFunc(prev, next, func(a, b RuleLabel) bool {
		return a.Value == b.Value && a.Rule == b.Rule && a.Absent == b.Absent && a.Adopted == b.Adopted && a.End.Equal(b.End)
	})
}

// changes reports whether two records differ in more than the versions of their observations. They differ in a value, or in the object on
// which a value was decided. They also differ if a client changed a taint, or what a rule had left, after nodekeep set it. Without that
// difference, an item set back to the same value would not count as the client's.
func changes(prev, next Record, o Observation) bool {
	if len(prev.Entries) != len(next.Entries) {
		return true
	}
	for i, e := range next.Entries {
		old := prev.Entries[i]
		if old.Key != e.Key || old.Value != e.Value || old.Removed != e.Removed || old.Owners != e.Owners || prev.DecidedOn(old) != next.DecidedOn(e) {
			return true
		}
		if given, listed := o.listed(e.Key); listed && IsTaint(e.Key) && old.Version <= given.Version && given.Version < e.Version {
			return true
		}
		if version, ruled := o.byRule(e.Key); ruled && old.Version <= version && version < e.Version {
			return true
		}
	}
	return false
}

// Missing returns what the Node lacks of its record. The policy decides which of it is restored.
func Missing(r Record, o Observation) (missing map[string]string) {
	if r.WholeRecordQuarantined() {
		return nil
	}
	for _, e := range r.Entries {
		_, present := o.Items[e.Key]
		_, listed := o.listed(e.Key)
		listed = listed && !o.Unconfirmed[e.Key]
		lost := !listed && r.DecidedOn(e) != o.UID
		if !e.Removed && !present && (lost || o.unread(e)) {
			if missing == nil {
				missing = make(map[string]string, len(r.Entries))
			}
			missing[e.Key] = e.Value
		}
	}
	return missing
}

// Stale returns what nodekeep set on the Node, has not been changed since, and a client decided otherwise later. If the newer entry is
// a removal, the key is removed with its entry in the stamp. Otherwise it is set to the value. That the record does not know a key proves
// nothing. Records are lost, and older ones are put back. A value that the Node brought itself is never among them.
func Stale(r Record, o Observation) (correct map[string]string, remove []string) {
	for key := range o.Stamp.Given {
		if r.WholeRecordQuarantined() || !o.untouched(key) || o.Unconfirmed[key] {
			continue
		}
		given, _ := o.listed(key)
		if o.follows(r) {
			given.From = 0
		}
		switch e, known := r.Entry(key); {
		case !known || !e.newerThan(given):
		case e.Removed:
			remove = append(remove, key)
		case e.Value != o.Items[key].Value:
			if correct == nil {
				correct = map[string]string{}
			}
			correct[key] = e.Value
		}
	}
	slices.Sort(remove)
	return correct, remove
}

// newerThan reports whether the entry was decided later than the one that a value was given from. Only an operator's command decides that an
// entry becomes a removal at the version that it had.
func (e Entry) newerThan(given Given) bool {
	return e.Version > given.From || e.Removed && e.Version == given.From
}
