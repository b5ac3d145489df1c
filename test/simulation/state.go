package main

// The ground truth: what happened to the Node objects of one name, in the order in which it happened. Neither this file nor the
// oracle shares code with the rule.

// maxKeys is how many labels and taints a scenario has at most.
const maxKeys = 2

// Values. Clients set one and two; a kubelet, and a rule for taints, set own.
const (
	none = int8(0)
	own  = int8(3)
)

// owner says who set an item, as far as the API server tells.
type owner int8

const (
	nobody  owner = iota // a taint, or a label without a field manager: nodekeep or another admission policy
	client               // a client
	kubelet              // the kubelet alone
)

// item is one label or taint on the Node.
type item struct {
	value   int8 // none: the Node does not show it
	owner   owner
	given   int8 // the stamp lists that nodekeep set this value
	since   int8 // on which version
	brought int8 // the stamp lists that the Node had this value in its CREATE
	rule    int8 // the annotation lists this value as derived from a label
}

// state is one state of a Node object. Its version is its index in the log and one.
type state struct {
	object  int8 // 1, 2, ... in the order of registration
	machine int8
	deleted bool // this is what the API server deleted
	items   [maxKeys]item
	edited  [maxKeys]bool // a client, or another admission policy, decided on this item by this change
	bare    bool          // a client removed the annotation by this change
	void    bool          // an operator's decision about a machine made earlier edits meaningless

	read [2]any // what the product reads of it, see observation; it is the same each time
}

// listed is what the stamp says that the object had, and since when.
func (i item) listed() (value, since int8) {
	if i.given != none {
		return i.given, i.since
	}
	return i.brought, 0
}

// listedAs reports whether the stamp says the same of two states of an item.
func (i item) listedAs(other item) bool {
	return i.given == other.given && i.since == other.since && i.brought == other.brought
}

// derived reports whether the item is a taint that nodekeep derived from a label.
func (i item) derived() bool { return i.value != none && i.rule == i.value }

// decision reports whether the item shows a decision of a client or of another admission policy, by all that can be known.
func (i item) decision(taint bool) bool {
	untouched := i.owner == nobody && (i.value == i.given || taint && i.value == i.brought)
	return i.value != none && i.owner != kubelet && !untouched && !i.derived()
}
