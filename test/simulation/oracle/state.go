package oracle

// Value is that of a label or taint; which text it stands for is the caller's.
type Value = int8

// NoValue is the value of a key that is not there.
const NoValue Value = 0

// Owner is who set an item, as far as the API server shows.
type Owner int8

// The owners.
const (
	NoOwner Owner = iota // a taint, or a label that no field manager but nodekeep owns
	Client               // a client
	Kubelet              // only components that set it again by themselves, or an annotation claims it for one
)

// NoState is where a value is from that a client wrote into a record.
const NoState = -1

// Item is one key in one state of a Node object.
type Item struct {
	Value   Value
	Owner   Owner
	Given   Value // the stamp lists that nodekeep set this value
	From    int   // as recorded of the state before that index; [NoState]: by a record without versions; 0: not known
	Start   int   // in its PATCH on the state before that index; 0: in the CREATE
	Brought Value // the stamp lists that the Node had this value in its CREATE
	Rule    Value // the annotation lists this value as derived from a label
	Claimed bool  // an annotation claims a protected label for another component
	Forged  bool  // the kubelet has forged the evidence about this key on this object
}

// State is one state of a Node object, as far as it is about one key.
type State struct {
	Object int  // 1, 2, ... in the order of registration
	Edited bool // a client, or another admission policy, decided on the key by this change
	Bare   bool // a client removed the annotation by this change
	Void   bool // an operator's decision about a machine made earlier edits meaningless
	Item
}

// Listed returns what the stamp shows that the object had, and since when.
func (i Item) Listed() (value Value, start int) {
	if i.Given != NoValue {
		return i.Given, i.Start
	}
	return i.Brought, 0
}

// ListedAs reports whether the stamp says the same of two states of an item.
func (i Item) ListedAs(o Item) bool {
	return i.Given == o.Given && i.Start == o.Start && i.Brought == o.Brought
}

// stamped reports whether the item is as nodekeep gave it, from a record of the states between two indexes.
func (i Item) stamped(from, end int) bool {
	return i.Owner == NoOwner && i.Value != NoValue && i.Value == i.Given && from < i.From && i.From <= end
}

// Derived reports whether the item is a taint that nodekeep derived from a label.
func (i Item) Derived() bool { return i.Value != NoValue && i.Rule == i.Value }

// Restored reports whether the item is as nodekeep set it, or a taint as the Node brought it. If a client set it so, it set it back.
func (i Item) Restored(taint bool) bool {
	listed := i.Given
	if taint {
		listed, _ = i.Listed()
	}
	return i.Owner == NoOwner && i.Value != NoValue && i.Value == listed
}

// Decision reports whether the item shows a decision of a client or of another admission policy, as far as known.
func (i Item) Decision(taint bool) bool {
	untouched := i.Owner == NoOwner && (i.Value == i.Given || taint && i.Value == i.Brought)
	return i.Value != NoValue && i.Owner != Kubelet && !untouched && !i.Derived()
}
