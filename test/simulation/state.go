package main

import "nodekeep.dev/nodekeep/test/simulation/oracle"

// The ground truth: what happened to the Node objects of one name, in the order in which it happened. Neither this file nor the
// oracle shares code with the rule.

// maxKeys is how many labels and taints a scenario has at most.
const maxKeys = 2

// Values. Clients set one and two; a kubelet, and a rule for taints, set own.
const (
	noValue      = oracle.NoValue
	kubeletValue = oracle.Value(3)
)

// state is one state of a Node object. Its version is its index in the log and one.
type state struct {
	object  int8 // 1, 2, ... in the order of registration
	machine int8
	side    int8 // the machine that this counts for: its own, until an operator gives another one its record
	deleted bool // this is what the API server deleted
	items   [maxKeys]oracle.Item
	edited  [maxKeys]bool // a client, or another admission policy, decided on this item by this change
	bare    bool          // a client removed the annotation by this change
	void    bool          // an operator's decision about a machine made earlier edits meaningless

	read [2]any // what the product reads of it, see observation; it is the same each time
}

// about returns the log as far as it is about one key of one machine.
func about(log []*state, side int8, k int) []oracle.State {
	all := make([]oracle.State, len(log))
	for i, s := range log {
		if all[i].Object = int(s.object); s.side != side {
			continue
		}
		all[i] = oracle.State{Object: int(s.object), Edited: s.edited[k], Bare: s.bare, Void: s.void, Item: s.items[k]}
	}
	return all
}
