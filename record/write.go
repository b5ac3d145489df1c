package record

import (
	"maps"
	"slices"
)

// Write reports whether it is worth a write that an observation turned one record into another. Heartbeats never are. complete says
// that the Node lacks nothing which the record would restore, and shows nothing stale.
func Write(before, after Record, o Observation, complete bool) bool {
	final := o.Final || !o.DeletedAt.IsZero()
	switch {
	case final && before.Observed(o.UID) < after.Observed(o.UID): // what comes after this state cannot be observed on this object
		return true
	case (before.Quarantined == nil) != (after.Quarantined == nil), changes(before, after, o):
		return true
	case !before.DeletedAt.Equal(after.DeletedAt) && (before.Newest().UID == after.Newest().UID || !after.DeletedAt.IsZero()):
		return true
	case !SameDerived(before.Derived, after.Derived), len(after.Marks) > 0 && !maps.Equal(before.Marks, after.Marks):
		return true
	case len(before.Marks) > 0 && len(after.Marks) == 0 && before.Newest().UID == after.Newest().UID: // the object stays
		return true
	case after.Quarantined != nil && before.Quarantined != nil && Write(*before.Quarantined, *after.Quarantined, o, complete):
		return true
	case !slices.EqualFunc(before.Earlier, after.Earlier, func(was, is Record) bool { return !Write(was, is, o, complete) }):
		return true
	case len(after.Entries) == 0 && len(before.Seen) == 0: // a first record that remembers nothing
		return false
	default:
		return complete && (before.Newest().UID != after.Newest().UID || before.Machine != after.Machine)
	}
}

// SameDerived reports whether rules say the same. It does not compare Brought and Since.
func SameDerived(before, after map[string]Derived) bool {
	return maps.EqualFunc(before, after, func(a, b Derived) bool {
		return a.Value == b.Value && a.Rule == b.Rule && a.Absent == b.Absent && a.Adopted == b.Adopted && a.Until.Equal(b.Until)
	})
}

// changes reports whether two records differ in more than the versions of their observations. They differ in a value, or in the object on
// which a value was decided. They also differ if a client changed a taint, or what a rule had left, after nodekeep set it. Without that
// difference, an item set back to the same value would not count as the client's.
func changes(before, after Record, o Observation) bool {
	if len(before.Entries) != len(after.Entries) {
		return true
	}
	for i, e := range after.Entries {
		was := before.Entries[i]
		if was.Key != e.Key || was.Value != e.Value || was.Removed != e.Removed || was.Owners != e.Owners || before.DecidedOn(was) != after.DecidedOn(e) {
			return true
		}
		if given, listed := o.listed(e.Key); listed && IsTaint(e.Key) && was.Version <= given.Since && given.Since < e.Version {
			return true
		}
		if since, ruled := o.byRule(e.Key); ruled && was.Version <= since && since < e.Version {
			return true
		}
	}
	return false
}

// Missing returns what the Node lacks of its record. The policy decides which of it is restored.
func Missing(r Record, o Observation) (missing map[string]string) {
	if r.Isolated() {
		return nil
	}
	for _, e := range r.Entries {
		_, present := o.Items[e.Key]
		_, listed := o.listed(e.Key)
		listed = listed && !o.Unproved[e.Key]
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
		if r.Isolated() || !o.untouched(key) || o.Unproved[key] {
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
