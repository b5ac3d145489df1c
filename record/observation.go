package record

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Observation is one state of a Node object, as a process read it from the API server.
type Observation struct {
	UID     types.UID
	Version Version // resourceVersion
	Machine Machine // that it is on, if each machine of the name has what it had itself; else the zero one
	// Final says that this is the last state, or that the API server is about to delete the object.
	Final bool
	// DeletedAt is when the process observed that the object is deleted; zero while it is there.
	DeletedAt time.Time

	// Read are the keys of the taints that a client had read before it wrote the whole list. It is nil where it had read all. That the Node
	// lacks another taint is no removal.
	Read []string

	// Items is every label and taint on the Node, and each annotation that the policy keeps, by key. Those that nodekeep never handles are
	// left out.
	Items map[string]Item
	Stamp Stamp
	// RuleSince are the keys that are as rules want them. The Node lists them: a value that rules set, or an item that they removed. Each
	// has the version on which nodekeep made that change by a PATCH; 0: in the CREATE. A key is left out if the kubelet may have written
	// the list, or if another component sets the item.
	RuleSince map[string]Version
	// Unconfirmed are the keys whose stamp the kubelet may have written, while the guard policies are not in force. These are protected
	// labels, taints, and keys that the record does not know.
	Unconfirmed map[string]bool
}

// Item is a label, a taint or an annotation on a Node.
type Item struct {
	Value string
	Owner Owner
	// Owners are the managers that the Node shows of it, without nodekeep and those that set it again by themselves.
	Owners Owners
}

// Owner says whose decision an item is.
type Owner int

// The owners.
const (
	// NoOwner: no field manager or only nodekeep owns the label or annotation. A taint is Nobody's, too: its owner is never known. Unless
	// the stamp lists this value as set by nodekeep, a client or another admission policy set it.
	NoOwner Owner = iota
	// Client: a client owns the label or annotation.
	Client
	// OtherOwner: another component, such as the kubelet, sets it again by itself, or a rule has set it. A label that the policy does not select
	// is Other, too. Its presence on the Node counts; its value does not.
	OtherOwner
	// Rule: a taint that nodekeep derives from labels, or a label that an operator has handed over to a rule. It is never remembered. It
	// counts as if the client's item were absent.
	Rule
	// TooLarge: an annotation that a client set, whose value is too large for a record. A value that the record has from before is
	// no longer right.
	TooLarge
	// Absent: a label or taint that is not on the Node because a rule removes it. A value that the record has from before stays there.
	Absent
)

// shows returns the value of an item that can be a decision of a client.
func (o Observation) shows(key string) (value string, shown bool) {
	item, present := o.Items[key]
	if !present || item.Owner == Rule {
		return "", false
	}
	return item.Value, true
}

// listed returns what the stamp says that the object had, and since when. A PATCH that was made on this version or a later one cannot have
// been nodekeep's. Nor can the value be from such an entry: its version is of another cluster, which is none.
func (o Observation) listed(key string) (listed Given, ok bool) {
	if listed, ok = o.Stamp.Given[key]; ok {
		if listed.From >= o.Version {
			listed.From = 0
		}
		return listed, listed.Version < o.Version
	}
	listed.Value, ok = o.Stamp.Brought[key]
	return listed, ok
}

// follows reports whether nodekeep gave what the record of another Node had, though this record does not follow that one. Which of the two
// is newer says nothing.
func (o Observation) follows(r Record) bool {
	return o.Stamp.Followed != "" && o.Stamp.Followed != r.Followed
}

// unread reports whether the Node lacks a taint only because the client that wrote the list had not read it.
func (o Observation) unread(e Entry) bool {
	_, present := o.Items[e.Key]
	return o.Read != nil && IsTaint(e.Key) && !e.Removed && !present && !slices.Contains(o.Read, e.Key)
}

// byRule is since when a key is as rules want it, unless a client has changed it after that.
func (o Observation) byRule(key string) (version Version, ok bool) {
	version, ok = o.RuleSince[key]
	return version, ok && version < o.Version
}

// outlives reports whether an item that nodekeep gave the Node is from an entry that the record has lost. The record has none, or an older
// one. Of what is from a version up to unknown, that cannot be told.
func (o Observation) outlives(e Entry, known bool, unknown Version) bool {
	if _, given := o.Stamp.Given[e.Key]; !given {
		return false
	}
	listed, _ := o.listed(e.Key)
	if unknown > 0 && listed.From <= unknown {
		return false
	}
	return !known || !e.newerThan(listed) && (e.Version < listed.From || e.Value != o.Items[e.Key].Value)
}

// untouched reports whether an item is as nodekeep set it, with no owner but those that nodekeep restored. Nothing shows who set a taint. So a
// taint that the Node brought itself, with its value unchanged, is no client's decision either.
func (o Observation) untouched(key string) bool {
	item, present := o.Items[key]
	item.Value = StampValue(key, item.Value)
	listed, ok := o.listed(key)
	if _, set := o.Stamp.Given[key]; !set && !IsTaint(key) {
		return false
	}
	restored := (item.Owner == NoOwner || item.Owner == Client) && item.Owners.subsetOf(listed.Owners)
	return present && ok && restored && item.Value == listed.Value
}
