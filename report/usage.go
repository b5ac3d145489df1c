package report

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"nodekeep.dev/nodekeep/selection"
)

// Usage is which labels of Nodes something selects on.
type Usage struct {
	Keys []UsedKey `json:"keys"` // those that are used first, the most Pods first
	// NotRead are kinds that the caller may not list. The keys that they select on are not known.
	NotRead []NotRead `json:"notRead,omitempty"`
	LeftOut int       `json:"leftOut,omitempty"` // keys
}

// UsedKey is one label.
type UsedKey struct {
	Key   string `json:"key"`
	Nodes int    `json:"nodes"` // that have it
	// Seen says that something selects on it. Otherwise it was not seen in use, which does not say that nothing uses it.
	Seen    bool           `json:"seenInUse"`
	Objects map[string]int `json:"objects,omitempty"` // how many of each kind select on it
	Fields  []string       `json:"how,omitempty"`     // the fields that do
	First   []string       `json:"first,omitempty"`   // the first of the objects; a Pod that something made is not among them
	Policy  []string       `json:"policy,omitempty"`  // fields of the policy that decide by it
	Named   []string       `json:"named,omitempty"`   // fields of the policy that only name it
}

// NotRead is a kind that could not be read.
type NotRead struct {
	Kind   string `json:"kind"`
	Reason string `json:"why"`
}

// UnreadKinds returns the kinds that could not be read.
func UnreadKinds(unread []NotRead) (kinds []string) {
	for _, kind := range unread {
		kinds = append(kinds, kind.Kind)
	}
	return kinds
}

// Uses counts what selects on labels.
type Uses struct {
	keys    map[string]*UsedKey
	notRead []NotRead
	leftOut int
}

// NewUses counts nothing yet.
func NewUses() *Uses { return &Uses{keys: map[string]*UsedKey{}} }

// entry returns a key; nil where there are too many. Of a key that no Node has, an object can have any number.
func (u *Uses) entry(key string) *UsedKey {
	used, known := u.keys[key]
	if !known {
		if len(u.keys) >= 5*maxGroups {
			u.leftOut++
			return nil
		}
		used = &UsedKey{Key: strings.Clone(key)}
		u.keys[used.Key] = used
	}
	return used
}

// See counts what one object selects on.
func (u *Uses) See(uses []selection.Use) {
	counted := "" // uses are sorted by key: an object counts once
	for _, use := range uses {
		used := u.entry(use.Key)
		if used == nil {
			continue
		}
		if !slices.Contains(used.Fields, string(use.Field)) {
			used.Fields = append(used.Fields, string(use.Field))
		}
		if counted == use.Key {
			continue
		}
		counted = use.Key
		if used.Objects == nil {
			used.Objects = map[string]int{}
		}
		used.Objects[use.Kind]++
		used.Seen = true
		if use.Controller == "" {
			addFirst(&used.First, use.String())
		}
	}
}

// SeePolicy counts a place in the policy.
func (u *Uses) SeePolicy(key, field string, selects bool) {
	used := u.entry(key)
	switch {
	case used == nil:
	case selects:
		used.Seen = true
		used.Policy = append(used.Policy, field)
	default:
		used.Named = append(used.Named, field)
	}
}

// NotRead notes a kind that could not be read.
func (u *Uses) NotRead(kind, reason string) { u.notRead = append(u.notRead, NotRead{kind, reason}) }

// Usage returns what was counted, with all labels that Nodes have, by key.
func (u *Uses) Usage(onNodes map[string]int) *Usage {
	for _, key := range slices.Sorted(maps.Keys(onNodes)) {
		if used := u.entry(key); used != nil {
			used.Nodes = onNodes[key]
		}
	}
	usage := &Usage{Keys: []UsedKey{}, NotRead: u.notRead, LeftOut: u.leftOut}
	for _, used := range u.keys {
		slices.Sort(used.Fields)
		usage.Keys = append(usage.Keys, *used)
	}
	seen := func(k UsedKey) int {
		if k.Seen {
			return 0
		}
		return 1
	}
	slices.SortFunc(usage.Keys, func(a, b UsedKey) int {
		return cmp.Or(cmp.Compare(seen(a), seen(b)), cmp.Compare(b.Objects["Pod"], a.Objects["Pod"]), cmp.Compare(b.workloads(), a.workloads()), cmp.Compare(a.Key, b.Key))
	})
	return usage
}

// workloads returns how many objects that are no Pods select on it.
func (k UsedKey) workloads() (n int) {
	for kind, objects := range k.Objects {
		if kind != "Pod" {
			n += objects
		}
	}
	return n
}

// seenWords say whether something uses a label.
func (k UsedKey) seenWords() string {
	switch {
	case !k.Seen:
		return "not seen in use"
	case k.Nodes == 0:
		return "in use, on no Node"
	default:
		return "in use"
	}
}

func (k UsedKey) byKind() (kinds []string) {
	for _, kind := range slices.Sorted(maps.Keys(k.Objects)) {
		if kind != "Pod" {
			kinds = append(kinds, kind+": "+itoa(k.Objects[kind]))
		}
	}
	return kinds
}

// notSeen is what "not seen in use" means.
const notSeen = "Not seen in use does not mean unused: custom resources and programs that read Nodes select by labels, too."

func (u Usage) tables() []Table {
	keys := Table{Name: "usage", Title: "Which labels are selected on", Note: notSeen,
		Columns: []Column{text("Key"), text("Use"), number("Nodes"), number("Pods"), text("Other objects"), text("Policy"), text("Such as")}}
	for _, k := range u.Keys {
		keys.add(k.Key, k.seenWords(), k.Nodes, k.Objects["Pod"], listIn(k.byKind()), listIn(k.Policy), listIn(k.First))
	}
	if len(u.NotRead) == 0 {
		return []Table{keys}
	}
	notRead := Table{Name: "notRead", Title: "Not read", Note: "What these select on is not known.", Columns: []Column{text("Kind"), text("Why")}}
	for _, kind := range u.NotRead {
		reason, _, _ := strings.Cut(kind.Reason, "\n")
		notRead.add(kind.Kind, reason)
	}
	return []Table{keys, notRead}
}
