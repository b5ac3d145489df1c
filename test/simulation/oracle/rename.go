package oracle

import "fmt"

// Renaming is one state of a Node while a label key is renamed.
type Renaming struct {
	Object   int
	Old, New string // the value under each key; empty: the Node lacks it
	Edited   Key    // the key that an operator set or removed by this change
	Seen     bool   // capture has worked on this state, or on a later one of this object
	Early    bool   // and that was before any capture followed phase new
	Exactly  bool   // capture has worked on this very state
	Listed   bool   // the annotation lists the new key as one that nodekeep has set, or removed
}

// Key is one of the two keys of a migration.
type Key int8

// The keys.
const (
	NoKey Key = iota
	OldKey
	NewKey
)

func (r Renaming) edit() string {
	if r.Edited == OldKey {
		return r.Old
	}
	return r.New
}

// last returns the last edit by an operator; touched shows that one was about the new key.
func last(log []Renaming) (pos int, touched bool) {
	pos = -1
	for i, s := range log {
		if s.Edited != NoKey {
			pos = i
		}
		touched = touched || s.Edited == NewKey
	}
	return pos, touched
}

// Gap reports what is wrong with the last state of a log, which nodekeep wrote.
func Gap(log []Renaming) string {
	next := log[len(log)-1]
	prev := log[len(log)-2]
	if prev.Object != next.Object || prev.Old == "" && prev.New == "" || next.Old != "" || next.New != "" {
		return ""
	}
	if i, _ := last(log); i >= 0 && log[i].edit() == "" {
		return "" // an operator removed the label
	}
	return "capture wrote a state that lacks both keys"
}

// Returned describes a fault of a Node that registers while the webhook has the newest record. All captures follow phase new and have nothing to do.
func Returned(log []Renaming) string {
	i, touched := last(log)
	if i < 0 || touched || !log[i].Early || log[i].Old == "" {
		return ""
	}
	if node := log[len(log)-1]; node.New != log[i].Old || node.Old != "" {
		return fmt.Sprintf("the Node returns with old=%q, new=%q and must have new=%q only", node.Old, node.New, log[i].Old)
	}
	return ""
}

// Renamed describes a fault of a Node when captures, which all follow the same phase, have nothing to do. If the last edit cannot be known, known is
// false. Then no capture observed that state of its object or a later one.
func Renamed(log []Renaming, ended bool) (wrong string, known bool) {
	node := log[len(log)-1]
	require := func(holds bool, rule string) string {
		if holds {
			return ""
		}
		return fmt.Sprintf("the Node has old=%q, new=%q: %s", node.Old, node.New, rule)
	}
	i, touched := last(log)
	if i < 0 {
		return require(node.Old == "" && node.New == "", "nobody set either key"), true
	}
	edit := log[i]
	value := edit.edit()
	switch {
	case !edit.Seen:
		return "", false
	case edit.Edited == NewKey && value != "":
		return require(node.New == value, "an operator set the new key last, to "+value), true
	case edit.Edited == NewKey:
		return require(ended || node.Old == node.New, "the new key must follow the old one again"), true
	case value == "":
		return require(ended || touched || node.Old == "" && node.New == "", "an operator removed the old key last"), true
	case !touched && !ended:
		return require(node.Old == value && node.New == value, "both keys must have "+value), true
	case !touched && edit.Early:
		return require(node.Old == "" && node.New == value, "only the new key must be left, with "+value), true
	default: // a conflict stays as it is
		return require(node.Old == value || node.New == value, "an operator set the old key last, to "+value), true
	}
}
