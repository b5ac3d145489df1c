package view

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// ImportAction is what becomes of a record of a file.
type ImportAction string

// The actions, in the order in which they are shown.
const (
	ImportCreate     ImportAction = "create"
	ImportChange     ImportAction = "change"
	ImportGive       ImportAction = "give"
	ImportSame       ImportAction = "same"
	ImportNewer      ImportAction = "newer here"
	ImportLive       ImportAction = "live"
	ImportUndecided  ImportAction = "undecided"
	ImportUnreadable ImportAction = "unreadable"
	ImportRefused    ImportAction = "refused" // which only shows when it is tried
)

// ImportOptions say what may be overwritten.
type ImportOptions struct {
	Overwrite bool // records that are newer here, and what live Nodes show
	Apply     bool // live Nodes may be changed
}

// Import is what becomes of one record.
type Import struct {
	Node   string       `json:"node"`
	Action ImportAction `json:"action"`
	Labels int          `json:"labels"` // that the file remembers
	Taints int          `json:"taints"`
	// Gets are the items that a live Node gets or would get.
	Gets []string `json:"gets,omitempty"`

	Write *store.Record     `json:"-"` // nil: none
	Give  map[string]string `json:"-"` // to a live Node
	Set   map[string]string `json:"-"` // on a live Node that shows another value
}

// ImportOf decides about one record of a file. Without a Node of the name, the record is put here, unless one is here that
// says something else. A Node that lives is newer than any file: it gets what it lacks, and only where that is wanted.
func ImportOf(file store.Record, s Sight, w World, options ImportOptions) Import {
	file = portable(file)
	labels, taints := policy.Split(file.Remembered())
	i := Import{Node: file.Node, Labels: len(labels), Taints: len(taints)}
	switch {
	case s.Unreadable != nil:
		i.Action = ImportUnreadable
	case s.Record != nil && sameContent(file, *s.Record) && (s.Node == nil || file.Quarantined != nil || showsAll(s.Node, file.Items)):
		i.Action = ImportSame
	case s.Record != nil && s.Record.Quarantined != nil:
		i.Action = ImportUndecided
	case s.Node != nil:
		i.toLive(file, s, w, options)
	case s.Record == nil:
		i.Action = ImportCreate
		file.DeletedAt = gone(w)
		i.Write = &file
	case continues(file, *s.Record):
		i.Action = ImportChange
		file.DeletedAt = gone(w)
		next := capture.Continuing(*s.Record, file)
		i.Write = &next
	case options.Overwrite:
		i.Action = ImportChange
		file.DeletedAt = gone(w)
		next := capture.Replacing(*s.Record, file, by(ImportActor, w.Now))
		i.Write = &next
	default:
		i.Action = ImportNewer
	}
	return i
}

// ImportActor is who the history says has imported something, and the manager of the labels that live Nodes got.
const ImportActor = "nodekeep-import"

// continues reports whether the file's record is a later state of the one here: by its history it held just that before.
func continues(file, here store.Record) bool {
	last := 0
	if n := len(here.History); n > 0 {
		last = here.History[n-1].Number
	}
	back, err := file.RollBack(last)
	if err != nil || len(back) == 0 {
		return false
	}
	before := file.Remembered()
	for item, value := range back {
		if value == nil {
			delete(before, item)
		} else {
			before[item] = *value
		}
	}
	return maps.Equal(before, here.Remembered())
}

// gone is the time from which on a record is kept whose Node is not there: from its import on, however old the file is.
func gone(w World) *metav1.Time {
	now := metav1.NewTime(w.Now.UTC()).Rfc3339Copy()
	return &now
}

// portable is what of a record means something in another cluster. Which object it was of, and how new that was, does not; nor do
// notes about taints on that object. What a person has decided about it is carried out.
func portable(r store.Record) store.Record {
	if decided, is := capture.Decided(r); is {
		r = decided
	}
	r = capture.WithoutObject(r)
	r.DeletedAt = nil
	if r.Quarantined != nil {
		old := portable(*r.Quarantined)
		r.Quarantined, r.Accepted = &old, ""
	}
	return r
}

// sameContent reports whether a record here remembers what the portable one does.
func sameContent(file, here store.Record) bool {
	if (file.Quarantined == nil) != (here.Quarantined == nil) || file.Quarantined != nil && !sameContent(*file.Quarantined, *here.Quarantined) {
		return false
	}
	return maps.Equal(file.Items, here.Shown()) && maps.Equal(file.Withheld.Items, here.Withheld.Items) && file.Machine == here.Machine
}

// showsAll reports whether the Node has all of these items, with these values.
func showsAll(node *corev1.Node, items map[string]string) bool {
	shown := policy.Items(node.Labels, node.Spec.Taints)
	for item, value := range items {
		if is, has := shown[item]; !has || is != value {
			return false
		}
	}
	return true
}

// toLive decides about a Node that is there.
func (i *Import) toLive(file store.Record, s Sight, w World, options ImportOptions) {
	shown, machine := policy.Items(s.Node.Labels, s.Node.Spec.Taints), machineOf(s.Node)
	if file.Quarantined != nil || w.Policy.Quarantines(machine, policy.Machine(file.Machine)) {
		i.Action = ImportUndecided
		return
	}
	remembered := file.Remembered()
	missing := w.Policy.Missing(policy.Kept{Items: shown, Machine: machine}, policy.Kept{Items: remembered, Machine: policy.Machine(file.Machine)}, policy.Live)
	i.Give = missing.Add
	if options.Overwrite {
		i.Set = map[string]string{}
		for item, why := range missing.Withheld {
			if why == policy.Conflict {
				i.Set[item] = remembered[item]
			}
		}
	}
	i.Write = withheldToo(i.leftOver(file, shown), s, w)
	i.Gets = slices.Concat(sortedItems(i.Give), sortedItems(i.Set))
	slices.SortFunc(i.Gets, compareItems)
	switch {
	case len(i.Gets) == 0 && i.Write == nil:
		i.Action = ImportSame
	case options.Apply:
		i.Action = ImportGive
	default:
		i.Action, i.Write = ImportLive, nil
	}
}

// leftOver is what the file remembers and the Node will not show: the policy does not give it today, or the Node has another
// value.
func (i *Import) leftOver(file store.Record, shown map[string]string) map[string]string {
	left := map[string]string{}
	for _, items := range []map[string]string{file.Withheld.Items, file.Items} {
		for item, value := range items {
			if after, is := i.after(shown, item); !is || after != value {
				left[item] = value
			}
		}
	}
	return left
}

// after is what the Node will show of an item.
func (i *Import) after(shown map[string]string, item string) (value string, is bool) {
	for _, items := range []map[string]string{i.Set, i.Give, shown} {
		if value, is = items[item]; is {
			return value, true
		}
	}
	return "", false
}

// withheldToo is the record of a live Node with more that is withheld; what it withholds itself stays. nil: nothing is new.
func withheldToo(left map[string]string, s Sight, w World) *store.Record {
	base := capture.Noted(s.Record, s.Node, w.Guarded, w.Policy, w.Now)
	switch {
	case base != nil:
	case s.Record != nil:
		base = s.Record
	default:
		base = &store.Record{Node: s.Name, UID: s.Node.UID, NodeResourceVersion: s.Node.ResourceVersion, Machine: store.Machine(machineOf(s.Node)), Early: true}
	}
	next := *base
	next.Withheld.Items = maps.Clone(left)
	maps.Copy(next.Withheld.Items, base.Withheld.Items)
	if maps.Equal(next.Withheld.Items, base.Withheld.Items) {
		return nil
	}
	next = capture.Replacing(*base, next, by(ImportActor, w.Now))
	return &next
}
