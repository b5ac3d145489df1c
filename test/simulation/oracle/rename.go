package oracle

import "fmt"

// Renaming is one state of a Node while a label key is renamed.
type Renaming struct {
	Object   int
	Old, New string // the value under each key; empty: the Node lacks it
	Edited   Key    // the key that an operator set or removed by this change
	Seen     bool   // capture has worked on this state, or on a later one of this object
	Before   bool   // and that was before any capture followed phase new
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
func last(log []Renaming) (at int, touched bool) {
	at = -1
	for i, s := range log {
		if s.Edited != NoKey {
			at = i
		}
		touched = touched || s.Edited == NewKey
	}
	return at, touched
}

// Gap reports what is wrong with the last state of a log, which nodekeep wrote.
func Gap(log []Renaming) string {
	after := log[len(log)-1]
	before := log[len(log)-2]
	if before.Object != after.Object || before.Old == "" && before.New == "" || after.Old != "" || after.New != "" {
		return ""
	}
	if at, _ := last(log); at >= 0 && log[at].edit() == "" {
		return "" // an operator removed the label
	}
	return "capture wrote a state that lacks both keys"
}

// Returned describes a fault of a Node that registers while the webhook has the newest record. All captures follow phase new and have nothing to do.
func Returned(log []Renaming) string {
	at, touched := last(log)
	if at < 0 || touched || !log[at].Before || log[at].Old == "" {
		return ""
	}
	if node := log[len(log)-1]; node.New != log[at].Old || node.Old != "" {
		return fmt.Sprintf("the Node returns with old=%q, new=%q and must have new=%q only", node.Old, node.New, log[at].Old)
	}
	return ""
}

// Renamed describes a fault of a Node when captures, which all follow the same phase, have nothing to do. If the last edit cannot be known, known is
// false. Then no capture observed that state of its object or a later one.
func Renamed(log []Renaming, ended bool) (wrong string, known bool) {
	node := log[len(log)-1]
	must := func(holds bool, what string) string {
		if holds {
			return ""
		}
		return fmt.Sprintf("the Node has old=%q, new=%q: %s", node.Old, node.New, what)
	}
	at, touched := last(log)
	if at < 0 {
		return must(node.Old == "" && node.New == "", "nobody set either key"), true
	}
	edit := log[at]
	value := edit.edit()
	switch {
	case !edit.Seen:
		return "", false
	case edit.Edited == NewKey && value != "":
		return must(node.New == value, "an operator set the new key last, to "+value), true
	case edit.Edited == NewKey:
		return must(ended || node.Old == node.New, "the new key must follow the old one again"), true
	case value == "":
		return must(ended || touched || node.Old == "" && node.New == "", "an operator removed the old key last"), true
	case !touched && !ended:
		return must(node.Old == value && node.New == value, "both keys must have "+value), true
	case !touched && edit.Before:
		return must(node.Old == "" && node.New == value, "only the new key must be left, with "+value), true
	default: // a conflict stays as it is
		return must(node.Old == value || node.New == value, "an operator set the old key last, to "+value), true
	}
}
