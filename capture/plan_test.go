//go:build oldcore

package capture

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

const worker = "node-role.kubernetes.io/worker"

var (
	now     = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	nowTime = &metav1.Time{Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	earlier = &metav1.Time{Time: now.Add(-time.Hour).Truncate(time.Second)}
)

type labels = map[string]string

// node is a Node of the name n1 that shows these labels and taints, with modifiers.
func node(uid types.UID, version string, own labels, modify ...func(*Node)) *Node {
	n := &Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: uid, ResourceVersion: version}}
	n.Items, n.Taints = policy.Split(own)
	for _, m := range modify {
		m(n)
	}
	n.Items = policy.Items(n.Items, n.Taints)
	return n
}

func gated(n *Node) { n.Taints = append(n.Taints, policy.DefaultGate.Taint()) }
func deleting(n *Node) {
	n.DeletionTimestamp = earlier
}

func stamped(restored, pending []string) func(*Node) {
	return func(n *Node) { n.Stamp, n.Stamped = policy.NewStamp(restored, pending), true }
}

// owned says who owns the label k.
func owned(managers ...string) func(*Node) {
	return func(n *Node) { n.Owners = map[string][]string{"k": managers} }
}

func refused(keys ...string) func(*Node) {
	return func(n *Node) {
		n.Refused = map[string]bool{}
		for _, key := range keys {
			n.Refused[key] = true
		}
	}
}

// remembered is a record of n1 with modifiers.
func remembered(uid types.UID, version string, own labels, modify ...func(*store.Record)) *store.Record {
	r := &store.Record{Version: store.Version, Node: "n1", UID: uid, NodeResourceVersion: version, Items: own}
	for _, m := range modify {
		m(r)
	}
	return r
}

// guarded was observed while the guard policies were in force.
func guarded(n *Node) { n.Guarded = true }

func machine(systemUUID string) func(*Node) {
	return func(n *Node) { n.Machine.SystemUUID = systemUUID }
}

func ofMachine(systemUUID string) func(*store.Record) {
	return func(r *store.Record) { r.Machine.SystemUUID = systemUUID }
}

// later is what objects showed that were never whole, and what was taken off them.
func later(own labels, off ...string) func(*store.Record) {
	return func(r *store.Record) {
		r.Later = map[string]*string{}
		for key, value := range own {
			r.Later[key] = &value
		}
		for _, key := range off {
			r.Later[key] = nil
		}
	}
}

// laterAt is the same with the moment of the sight.
func laterAt(version string, own labels, off ...string) func(*store.Record) {
	return func(r *store.Record) {
		before, versions := r.Later, r.LaterVersions
		later(own, off...)(r)
		r.LaterVersions = map[string]string{}
		for key := range r.Later {
			r.LaterVersions[key] = version
		}
		maps.Copy(r.Later, before)
		maps.Copy(r.LaterVersions, versions)
	}
}

func early(r *store.Record) { r.Early = true }

func setAside(old *store.Record) func(*store.Record) {
	return func(r *store.Record) { r.Quarantined = old }
}

func accepted(side store.Side) func(*store.Record) {
	return func(r *store.Record) { r.Accepted = side }
}

func withheld(own labels) func(*store.Record) {
	return func(r *store.Record) { r.Withheld.Items = own }
}
func goneSince(at *metav1.Time) func(*store.Record) {
	return func(r *store.Record) { r.DeletedAt = at }
}

func loadPolicy(t *testing.T, labelsSection string) policy.Policy {
	t.Helper()
	p, err := policy.Load([]byte("apiVersion: nodekeep.dev/v1alpha1\nkind: Policy\nlabels: "+strings.Replace(labelsSection, "QUARANTINE", "\nmachine: {onMismatch: quarantine}", 1)), policy.DefaultGate)
	assert.NoError(t, err)
	return p
}

// Every row of the table in the design, section 5, and the rules under it.
func TestPlan(t *testing.T) {
	const keepAll = `{}`
	stamp := func(restored, pending []string) *policy.Stamp {
		s := policy.NewStamp(restored, pending)
		return &s
	}
	for name, c := range map[string]struct {
		policy string
		prev   *store.Record
		seen   *Node
		event  Event
		want   Plan
	}{
		"no record, live: create it": {
			seen: node("a", "10", labels{"k": "v", "kubernetes.io/hostname": "n1"}),
			want: Plan{Step: Create, Write: remembered("a", "10", labels{"k": "v"})},
		},
		"no record, live and gated: create it first, the gate waits": {
			seen: node("a", "10", labels{"k": "v"}, gated),
			want: Plan{Step: Create, Write: remembered("a", "10", labels{"k": "v"})},
		},
		"no record, nothing to keep: no record is made": {
			seen: node("a", "10", labels{"kubernetes.io/hostname": "n1"}),
			want: Plan{Step: Nothing},
		},
		"no record, nothing to keep, gated: lift": {
			seen: node("a", "10", nil, gated),
			want: Plan{Step: Lift, LiftGate: true},
		},
		"no record, nothing to keep, gated and about to go: nothing": {
			seen: node("a", "10", nil, gated, deleting),
			want: Plan{Step: Nothing},
		},
		"no record, and the object went: its labels are remembered all the same": {
			seen:  node("a", "10", labels{"k": "v"}),
			event: Deleted,
			want:  Plan{Step: Create, Write: remembered("a", "10", labels{"k": "v"}, goneSince(nowTime))},
		},
		"no record, labels that only the kubelet owns: not ours to remember": {
			seen: node("a", "10", labels{"k": "v"}, owned("kubelet")),
			want: Plan{Step: Nothing},
		},
		"no record, a label that kubelet and a person own: remembered": {
			seen: node("a", "10", labels{"k": "v"}, owned("kubectl-label", "kubelet")),
			want: Plan{Step: Create, Write: remembered("a", "10", labels{"k": "v"})},
		},

		"same object, a heartbeat: nothing": {
			prev: remembered("a", "10", labels{"k": "v"}),
			seen: node("a", "11", labels{"k": "v"}),
			want: Plan{Step: Nothing},
		},
		"same object, seen late: nothing": {
			prev: remembered("a", "10", labels{"k": "v"}),
			seen: node("a", "9", labels{"k": "old"}),
			want: Plan{Step: Nothing},
		},
		"same object, seen late at a shorter version: nothing": {
			prev: remembered("a", "1000", labels{"k": "v"}),
			seen: node("a", "999", labels{}),
			want: Plan{Step: Nothing},
		},
		"same object, the very state that was recorded: nothing": {
			prev: remembered("a", "10", labels{"k": "v"}),
			seen: node("a", "10", labels{"k": "v"}),
			want: Plan{Step: Nothing},
		},
		"same object, the very state that was recorded, still gated: lift": {
			prev: remembered("a", "10", labels{"k": "v"}),
			seen: node("a", "10", labels{"k": "v"}, gated),
			want: Plan{Step: Lift, LiftGate: true},
		},
		"same object, label changed, added and removed: the Node is right": {
			prev: remembered("a", "10", labels{"changed": "1", "removed": "1", "same": "1"}),
			seen: node("a", "11", labels{"changed": "2", "added": "1", "same": "1"}),
			want: Plan{Step: Update, Write: remembered("a", "11", labels{"changed": "2", "added": "1", "same": "1"})},
		},
		"same object, every label removed: remembered as that": {
			prev: remembered("a", "10", labels{"k": "v"}),
			seen: node("a", "11", nil),
			want: Plan{Step: Update, Write: remembered("a", "11", labels{})},
		},
		"same object, a withheld label is shown again: it is withheld no more": {
			prev: remembered("a", "10", labels{"k": "v"}, withheld(labels{worker: "", "other": "x"})),
			seen: node("a", "11", labels{"k": "v", worker: ""}),
			want: Plan{Step: Update, Write: remembered("a", "11", labels{"k": "v", worker: ""}, withheld(labels{"other": "x"}))},
		},
		"same object, a value that lost to the Node's own stays withheld while nobody touches the key": {
			prev: remembered("a", "10", labels{"k": "node"}, withheld(labels{"k": "stored"})),
			seen: node("a", "11", labels{"k": "node"}),
			want: Plan{Step: Nothing},
		},
		"same object, a value that lost leaves when the key is changed": {
			prev: remembered("a", "10", labels{"k": "node"}, withheld(labels{"k": "stored"})),
			seen: node("a", "11", labels{"k": "person"}),
			want: Plan{Step: Update, Write: remembered("a", "11", labels{"k": "person"})},
		},
		"same object, a value that lost leaves when the key is removed": {
			prev: remembered("a", "10", labels{"k": "node"}, withheld(labels{"k": "stored"})),
			seen: node("a", "11", nil),
			want: Plan{Step: Update, Write: remembered("a", "11", labels{})},
		},
		"same object, the policy keeps a key no more: withheld, not forgotten": {
			policy: `{keep: [other]}`,
			prev:   remembered("a", "10", labels{"k": "v"}),
			seen:   node("a", "11", labels{"k": "v"}),
			want:   Plan{Step: Update, Write: remembered("a", "11", labels{}, withheld(labels{"k": "v"}))},
		},
		"same object, the very state that was recorded, and the policy keeps a key no more: withheld": {
			policy: `{keep: [other]}`,
			prev:   remembered("a", "10", labels{"k": "v"}),
			seen:   node("a", "10", labels{"k": "v"}),
			want:   Plan{Step: Update, Write: remembered("a", "10", labels{}, withheld(labels{"k": "v"}))},
		},
		"new object without room for a stamp: given without one": {
			prev: remembered("a", "10", labels{"k": "v"}),
			seen: node("b", "20", nil, func(n *Node) { n.AnnotationBytes = 256 << 10 }),
			want: Plan{Step: Complete, Give: labels{"k": "v"}},
		},
		"same object, the policy keeps a key again: back from withheld": {
			prev: remembered("a", "10", labels{}, withheld(labels{"k": "v"})),
			seen: node("a", "11", labels{"k": "v"}),
			want: Plan{Step: Update, Write: remembered("a", "11", labels{"k": "v"})},
		},
		"same object, marked gone by mistake: it lives": {
			prev: remembered("a", "10", labels{"k": "v"}, goneSince(earlier)),
			seen: node("a", "11", labels{"k": "v"}),
			want: Plan{Step: Update, Write: remembered("a", "11", labels{"k": "v"})},
		},
		"same object, gated, something was refused on it: the gate stays": {
			prev: remembered("a", "10", labels{"k": "v"}, withheld(labels{worker: ""})),
			seen: node("a", "11", labels{"k": "v"}, gated, refused(worker)),
			want: Plan{Step: Nothing},
		},
		"same object, gated, something refused before a restart: asked again": {
			prev: remembered("a", "10", labels{"k": "v"}, withheld(labels{worker: ""})),
			seen: node("a", "11", labels{"k": "v"}, gated, stamped([]string{"k"}, []string{worker})),
			want: Plan{Step: Complete, Give: labels{worker: ""}, Stamp: stamp([]string{"k", worker}, nil), LiftGate: true},
		},
		"same object, gated, refused, and the policy says never now: lift": {
			policy: `{protected: never}`,
			prev:   remembered("a", "10", labels{"k": "v"}, withheld(labels{worker: ""})),
			seen:   node("a", "11", labels{"k": "v"}, gated, refused(worker)),
			want:   Plan{Step: Lift, LiftGate: true},
		},
		"same object, gated and about to go: nothing": {
			prev: remembered("a", "10", labels{"k": "v"}),
			seen: node("a", "11", labels{"k": "v"}, gated, deleting),
			want: Plan{Step: Nothing},
		},
		"same object, went: the last state counts": {
			prev:  remembered("a", "10", labels{"k": "v"}),
			seen:  node("a", "12", labels{"k": "last"}),
			event: Deleted,
			want:  Plan{Step: MarkGone, Write: remembered("a", "12", labels{"k": "last"}, goneSince(nowTime))},
		},
		"same object, went, and the tombstone is older than the record: only marked": {
			prev:  remembered("a", "10", labels{"k": "new"}),
			seen:  node("a", "8", labels{"k": "old"}),
			event: Deleted,
			want:  Plan{Step: MarkGone, Write: remembered("a", "10", labels{"k": "new"}, goneSince(nowTime))},
		},
		"same object, went, told twice: nothing the second time": {
			prev:  remembered("a", "12", labels{"k": "v"}, goneSince(earlier)),
			seen:  node("a", "12", labels{"k": "v"}),
			event: Deleted,
			want:  Plan{Step: Nothing},
		},

		"new object that has all: adopt it": {
			prev: remembered("a", "10", labels{"k": "v"}, goneSince(earlier)),
			seen: node("b", "20", labels{"k": "v"}, stamped([]string{"k"}, nil)),
			want: Plan{Step: Adopt, Write: remembered("b", "20", labels{"k": "v"})},
		},
		"new object that has all and the gate: adopt first": {
			prev: remembered("a", "10", labels{"k": "v"}, goneSince(earlier)),
			seen: node("b", "20", labels{"k": "v"}, gated),
			want: Plan{Step: Adopt, Write: remembered("b", "20", labels{"k": "v"})},
		},
		"new object, webhook was down: give everything and stamp it": {
			prev: remembered("a", "10", labels{"k": "v", worker: ""}, goneSince(earlier)),
			seen: node("b", "20", labels{"own": "x"}, gated),
			want: Plan{Step: Complete, Give: labels{"k": "v", worker: ""}, Stamp: stamp([]string{"k", worker}, nil), LiftGate: true},
		},
		"new object, webhook was down, no gate: give": {
			prev: remembered("a", "10", labels{"k": "v"}),
			seen: node("b", "20", nil),
			want: Plan{Step: Complete, Give: labels{"k": "v"}, Stamp: stamp([]string{"k"}, nil)},
		},
		"new object, protected labels were left by the webhook: give them and lift": {
			prev: remembered("a", "10", labels{"k": "v", worker: ""}),
			seen: node("b", "20", labels{"k": "v"}, gated, stamped([]string{"k"}, []string{worker})),
			want: Plan{Step: Complete, Give: labels{worker: ""}, Stamp: stamp([]string{"k", worker}, nil), LiftGate: true},
		},
		"new object, a restored label was taken off while capture was down: a removal": {
			prev: remembered("a", "10", labels{"k": "v", "other": "x"}),
			seen: node("b", "21", labels{"other": "x"}, stamped([]string{"k", "other"}, nil)),
			want: Plan{Step: Adopt, Write: remembered("b", "21", labels{"other": "x"})},
		},
		"new object, a protected label is claimed to have been there: a kubelet could write that, give it": {
			prev: remembered("a", "10", labels{worker: ""}),
			seen: node("b", "21", nil, stamped([]string{worker}, nil)),
			want: Plan{Step: Complete, Give: labels{worker: ""}, Stamp: stamp([]string{worker}, nil)},
		},
		"new object, a restored label was changed by a person while capture was down: the person is right": {
			prev: remembered("a", "10", labels{"k": "v"}),
			seen: node("b", "21", labels{"k": "person"}, stamped([]string{"k"}, nil), owned("kubectl-label")),
			want: Plan{Step: Adopt, Write: remembered("b", "21", labels{"k": "person"})},
		},
		"new object brought another value: it stays, and the stored one is withheld": {
			prev: remembered("a", "10", labels{"k": "stored"}),
			seen: node("b", "20", labels{"k": "node"}, owned("some-client")),
			want: Plan{Step: Adopt, Write: remembered("b", "20", labels{"k": "node"}, withheld(labels{"k": "stored"}))},
		},
		"new object brought another value by its kubelet: not ours to remember, the stored one is withheld": {
			prev: remembered("a", "10", labels{"k": "stored"}),
			seen: node("b", "20", labels{"k": "node"}, owned("kubelet"), stamped([]string{"k"}, nil)),
			want: Plan{Step: Adopt, Write: remembered("b", "20", labels{}, withheld(labels{"k": "stored"}))},
		},
		"new object lacks a withheld label that the policy gives today: give": {
			prev: remembered("a", "10", labels{}, withheld(labels{worker: ""})),
			seen: node("b", "20", nil, gated),
			want: Plan{Step: Complete, Give: labels{worker: ""}, Stamp: stamp([]string{worker}, nil), LiftGate: true},
		},
		"new object, policy says never: adopt, withheld": {
			policy: `{protected: never}`,
			prev:   remembered("a", "10", labels{"k": "v", worker: ""}),
			seen:   node("b", "20", labels{"k": "v"}),
			want:   Plan{Step: Adopt, Write: remembered("b", "20", labels{"k": "v"}, withheld(labels{worker: ""}))},
		},
		"new object, the policy keeps a key no more: adopt, withheld": {
			policy: `{ignore: [k]}`,
			prev:   remembered("a", "10", labels{"k": "v"}),
			seen:   node("b", "20", nil),
			want:   Plan{Step: Adopt, Write: remembered("b", "20", labels{}, withheld(labels{"k": "v"}))},
		},
		"new object, an invalid label on the record is never given": {
			prev: remembered("a", "10", labels{"bad key": "v", "k": "not valid!", "good": "v"}),
			seen: node("b", "20", labels{"good": "v"}),
			want: Plan{Step: Adopt, Write: remembered("b", "20", labels{"good": "v"}, withheld(labels{"bad key": "v", "k": "not valid!"}))},
		},
		"new object, one label is refused: give the rest, the gate stays": {
			prev: remembered("a", "10", labels{"k": "v", worker: ""}),
			seen: node("b", "20", nil, gated, refused(worker)),
			want: Plan{Step: Complete, Give: labels{"k": "v"}, Stamp: stamp([]string{"k"}, nil)},
		},
		"new object, all that is left is refused: adopt, withheld": {
			prev: remembered("a", "10", labels{"k": "v", worker: ""}),
			seen: node("b", "21", labels{"k": "v"}, gated, refused(worker), stamped([]string{"k"}, []string{worker})),
			want: Plan{Step: Adopt, Write: remembered("b", "21", labels{"k": "v"}, withheld(labels{worker: ""}))},
		},
		"new object, restored from a record that was stale: taken back and put right": {
			prev: remembered("a", "11", labels{"k": "new"}),
			seen: node("b", "20", labels{"k": "old", "removed": "x"}, stamped([]string{"k", "removed"}, nil)),
			want: Plan{Step: Complete, Give: labels{}, PutRight: labels{"k": "new"}, TakeBack: []string{"removed"}, Stamp: stamp([]string{"k"}, nil)},
		},
		"new object, a stale label is owned by somebody: it is theirs": {
			prev: remembered("a", "11", labels{}),
			seen: node("b", "20", labels{"k": "x"}, stamped([]string{"k"}, nil), owned("kubectl-label")),
			want: Plan{Step: Adopt, Write: remembered("b", "20", labels{"k": "x"})},
		},
		"new object, about to go: additions are merged, nothing is given": {
			prev: remembered("a", "10", labels{"k": "v", "kept": "1"}),
			seen: node("b", "20", labels{"k": "new", "added": "1"}, gated, deleting, owned("kubectl-label"), stamped([]string{"k"}, nil)),
			want: Plan{Step: Merge, Write: remembered("a", "10", labels{"k": "v", "kept": "1"}, laterAt("20", labels{"k": "new", "added": "1"}))},
		},
		"new object, about to go, shows nothing new: nothing": {
			prev: remembered("a", "10", labels{"k": "v"}),
			seen: node("b", "20", nil, gated, deleting),
			want: Plan{Step: Nothing},
		},
		"new object, went before it was adopted, had all: as adopted, gone": {
			prev:  remembered("a", "10", labels{"k": "v"}, goneSince(earlier)),
			seen:  node("b", "20", labels{"k": "v"}),
			event: Deleted,
			want:  Plan{Step: MarkGone, Write: remembered("b", "20", labels{"k": "v"}, goneSince(nowTime))},
		},
		"new object, went before it got everything: nothing is lost": {
			prev:  remembered("a", "10", labels{"k": "v", worker: ""}, goneSince(earlier)),
			seen:  node("b", "20", labels{"k": "v", "added": "1"}),
			event: Deleted,
			want:  Plan{Step: MarkGone, Write: remembered("a", "10", labels{"k": "v", worker: ""}, laterAt("20", labels{"added": "1"}), goneSince(nowTime))},
		},
		"new object, went with a restored label taken off: the removal is remembered": {
			prev:  remembered("a", "10", labels{"k": "v", worker: ""}, goneSince(earlier)),
			seen:  node("b", "20", nil, stamped([]string{"k"}, []string{worker})),
			event: Deleted,
			want:  Plan{Step: MarkGone, Write: remembered("a", "10", labels{"k": "v", worker: ""}, laterAt("20", nil, "k"), goneSince(nowTime))},
		},
		"new object, went with a label from a stale record: the record is right": {
			prev:  remembered("a", "11", labels{"k": "new"}, goneSince(earlier)),
			seen:  node("b", "20", labels{"k": "old", "removed": "x"}, stamped([]string{"k", "removed"}, nil)),
			event: Deleted,
			want:  Plan{Step: Nothing}, // marked as gone before
		},
		"the end of the recorded object comes after a look at the deletion of a later one: it counts, and so does that": {
			prev:  remembered("a", "10", labels{"k": "v", worker: ""}, later(labels{"later": "1", "k": "w"})),
			seen:  node("a", "15", labels{"k": "v", "edited": "1"}),
			event: Deleted,
			want:  Plan{Step: MarkGone, Write: remembered("a", "15", labels{"k": "v", "edited": "1"}, later(labels{"later": "1", "k": "w"}), goneSince(nowTime))},
		},
		"and so does the end of an older one where nothing was remembered before that look": {
			prev:  remembered("b", "20", labels{"k": "later"}, early),
			seen:  node("a", "15", labels{"k": "v", "edited": "1"}),
			event: Deleted,
			want:  Plan{Step: Merge, Write: remembered("b", "20", labels{"k": "later"}, early, withheld(labels{"edited": "1"}))},
		},
		"but an older sight of an object that lives no more does not": {
			prev: remembered("b", "20", labels{"k": "later"}, early),
			seen: node("a", "15", labels{"edited": "1"}),
			want: Plan{Step: Nothing},
		},
		"the object of such a record changes: as ever": {
			prev: remembered("b", "20", labels{"k": "v"}, early),
			seen: node("b", "21", labels{"k": "w"}),
			want: Plan{Step: Update, Write: remembered("b", "21", labels{"k": "w"})},
		},
		"the object of such a record loses a label before it goes: noted, an older one's end does not bring it back": {
			prev: remembered("b", "20", labels{"k": "v", "off": "1"}, early),
			seen: node("b", "21", labels{"k": "v"}, deleting),
			want: Plan{Step: Update, Write: remembered("b", "21", labels{"k": "v"}, early, laterAt("21", nil, "off"))},
		},
		"and such an end comes": {
			prev:  remembered("b", "21", labels{"k": "v"}, early, laterAt("21", nil, "off")),
			seen:  node("a", "15", labels{"off": "1", "edited": "1"}),
			event: Deleted,
			want:  Plan{Step: Merge, Write: remembered("b", "21", labels{"k": "v"}, early, laterAt("21", nil, "off"), withheld(labels{"edited": "1"}))},
		},
		"and then its own": {
			prev:  remembered("b", "21", labels{"k": "v"}, early, laterAt("21", nil, "off"), withheld(labels{"edited": "1"})),
			seen:  node("b", "22", labels{"k": "v"}),
			event: Deleted,
			want:  Plan{Step: MarkGone, Write: remembered("b", "22", labels{"k": "v"}, withheld(labels{"edited": "1"}), goneSince(nowTime))},
		},

		"new object, went, and its end comes after a look at the deletion of the one after it: what that showed counts": {
			prev:  remembered("a", "10", labels{"k": "v", "kept": "1"}, laterAt("30", labels{"k": "last", "same": "1"}, "off")),
			seen:  node("b", "20", labels{"k": "w", "off": "1", "same": "2", "added": "1"}),
			event: Deleted,
			want: Plan{Step: Merge, Write: remembered("a", "10", labels{"k": "v", "kept": "1"},
				laterAt("30", labels{"k": "last", "same": "1"}, "off"), laterAt("20", labels{"added": "1"}))},
		},
		"and where that one only had what it was given, this one counts": {
			prev:  remembered("a", "10", labels{"k": "v"}, laterAt("15", labels{"k": "w", "team": "x"})),
			seen:  node("b", "20", labels{"k": "last"}, stamped([]string{"team"}, nil)),
			event: Deleted,
			want:  Plan{Step: MarkGone, Write: remembered("b", "20", labels{"k": "last"}, withheld(labels{"k": "w"}), goneSince(nowTime))},
		},
		"new object, about to go, has but what it was given: nothing": {
			prev: remembered("a", "10", labels{"k": "v"}, laterAt("15", labels{"team": "x"})),
			seen: node("b", "20", labels{"k": "v", "team": "x"}, deleting, stamped([]string{"k", "team"}, nil)),
			want: Plan{Step: Nothing},
		},
		"new object, about to go, shows what was withheld and given: it is withheld still": {
			prev: remembered("a", "10", nil, withheld(labels{"k": "v"})),
			seen: node("b", "20", labels{"k": "v"}, deleting, stamped([]string{"k"}, nil)),
			want: Plan{Step: Nothing},
		},
		"new object, given something without a stamp: that says nothing either, and the late end of the recorded one counts": {
			prev:  remembered("a", "10", labels{"k": "v", worker: ""}, laterAt("30", labels{"added": "1"})),
			seen:  node("a", "15", labels{"k": "w", worker: ""}),
			event: Deleted,
			want:  Plan{Step: MarkGone, Write: remembered("a", "15", labels{"k": "w", worker: ""}, laterAt("30", labels{"added": "1"}), goneSince(nowTime))},
		},
		"new object, seen before the look at its deletion: nothing, there is more to come": {
			prev: remembered("a", "10", labels{"k": "v"}, laterAt("21", labels{"k": "last"})),
			seen: node("b", "20", labels{"k": "w"}),
			want: Plan{Step: Nothing},
		},
		"new object, seen as it was at that look, and it was not deleted: adopted": {
			prev: remembered("a", "10", labels{"k": "v"}, laterAt("21", labels{"k": "last"})),
			seen: node("b", "21", labels{"k": "last"}),
			want: Plan{Step: Adopt, Write: remembered("b", "21", labels{"k": "last"}, withheld(nil))},
		},
		"an older object of that name went, told late: nothing": {
			prev:  remembered("b", "20", labels{"k": "v"}),
			seen:  node("a", "15", labels{"k": "old"}),
			event: Deleted,
			want:  Plan{Step: Nothing},
		},
		"an older object of that name, seen late as if it lived: nothing": {
			prev: remembered("b", "20", labels{"k": "v"}),
			seen: node("a", "15", labels{"k": "old"}, gated),
			want: Plan{Step: Nothing},
		},

		"new object, guard policies in force: its stamp proves a removal of a protected label": {
			prev: remembered("a", "10", labels{"k": "v", worker: ""}),
			seen: node("b", "21", labels{"k": "v"}, stamped([]string{"k", worker}, nil), guarded),
			want: Plan{Step: Adopt, Write: remembered("b", "21", labels{"k": "v"})},
		},
		"new object behind the gate, guard policies in force: its stamp proves a removal of a protected label": {
			prev: remembered("a", "10", labels{"k": "v", worker: ""}),
			seen: node("b", "21", labels{"k": "v"}, stamped([]string{"k", worker}, nil), guarded, gated),
			want: Plan{Step: Adopt, Write: remembered("b", "21", labels{"k": "v"})},
		},
		"new object, no guard policies: its stamp may be the kubelet's": {
			prev: remembered("a", "10", labels{worker: ""}),
			seen: node("b", "21", nil, stamped([]string{worker}, nil), gated),
			want: Plan{Step: Complete, Give: labels{worker: ""}, Stamp: stamp([]string{worker}, nil), LiftGate: true},
		},

		"first sight of a machine": {
			seen: node("a", "10", labels{"k": "v"}, machine("m1")),
			want: Plan{Step: Create, Write: remembered("a", "10", labels{"k": "v"}, ofMachine("m1"))},
		},
		"same object, the machine becomes known later": {
			prev: remembered("a", "10", labels{"k": "v"}),
			seen: node("a", "11", labels{"k": "v"}, machine("m1")),
			want: Plan{Step: Update, Write: remembered("a", "11", labels{"k": "v"}, ofMachine("m1"))},
		},
		"new object of another machine, the policy restores: the name counts": {
			prev: remembered("a", "10", labels{"k": "v"}, ofMachine("m1")),
			seen: node("b", "20", labels{"k": "v"}, machine("m2")),
			want: Plan{Step: Adopt, Write: remembered("b", "20", labels{"k": "v"}, ofMachine("m2"))},
		},
		"new object of another machine, with an isolation label on record: withheld, and the record stays the old machine's": {
			policy: `{keep: ["*", node-restriction.kubernetes.io/*]}`,
			prev:   remembered("a", "10", labels{"node-restriction.kubernetes.io/tier": "gold"}, ofMachine("m1")),
			seen:   node("b", "20", nil, machine("m2"), gated),
			want:   Plan{Step: Adopt, Write: remembered("b", "20", labels{}, ofMachine("m1"), withheld(labels{"node-restriction.kubernetes.io/tier": "gold"}))},
		},
		"and when the other machine comes a second time: withheld still": {
			policy: `{keep: ["*", node-restriction.kubernetes.io/*]}`,
			prev:   remembered("b", "20", labels{}, ofMachine("m1"), withheld(labels{"node-restriction.kubernetes.io/tier": "gold"})),
			seen:   node("c", "30", nil, machine("m2")),
			want:   Plan{Step: Adopt, Write: remembered("c", "30", labels{}, ofMachine("m1"), withheld(labels{"node-restriction.kubernetes.io/tier": "gold"}))},
		},
		"the old machine comes back: it gets its isolation label": {
			policy: `{keep: ["*", node-restriction.kubernetes.io/*]}`,
			prev:   remembered("b", "20", labels{}, ofMachine("m1"), withheld(labels{"node-restriction.kubernetes.io/tier": "gold"})),
			seen:   node("c", "30", nil, machine("m1"), gated),
			want:   Plan{Step: Complete, Give: labels{"node-restriction.kubernetes.io/tier": "gold"}, Stamp: stamp([]string{"node-restriction.kubernetes.io/tier"}, nil), LiftGate: true},
		},
		"new object of another machine, the policy quarantines: set aside, nothing given, the gate stays": {
			policy: "{}QUARANTINE",
			prev:   remembered("a", "10", labels{"k": "v"}, ofMachine("m1")),
			seen:   node("b", "20", labels{"own": "x"}, machine("m2"), gated),
			want: Plan{Step: Isolate, Write: remembered("b", "20", labels{"own": "x"}, ofMachine("m2"),
				setAside(remembered("a", "10", labels{"k": "v"}, ofMachine("m1"))))},
		},
		"quarantined, the very state: nothing, the gate stays": {
			policy: "{}QUARANTINE",
			prev:   remembered("b", "20", labels{"own": "x"}, ofMachine("m2"), setAside(remembered("a", "10", labels{"k": "v"}))),
			seen:   node("b", "20", labels{"own": "x"}, machine("m2"), gated),
			want:   Plan{Step: Nothing},
		},
		"quarantined, edits are recorded": {
			policy: "{}QUARANTINE",
			prev:   remembered("b", "20", labels{"own": "x"}, ofMachine("m2"), setAside(remembered("a", "10", labels{"k": "v"}))),
			seen:   node("b", "21", labels{"own": "y"}, machine("m2"), gated),
			want:   Plan{Step: Update, Write: remembered("b", "21", labels{"own": "y"}, ofMachine("m2"), setAside(remembered("a", "10", labels{"k": "v"})))},
		},
		"quarantined, and a new object: nothing is given, nothing is lost": {
			policy: "{}QUARANTINE",
			prev:   remembered("b", "20", labels{"own": "x"}, ofMachine("m2"), setAside(remembered("a", "10", labels{"k": "v"}))),
			seen:   node("c", "30", labels{"more": "1"}, machine("m2"), gated),
			want:   Plan{Step: Update, Write: remembered("b", "20", labels{"own": "x"}, laterAt("30", labels{"more": "1"}), ofMachine("m2"), setAside(remembered("a", "10", labels{"k": "v"})))},
		},
		"quarantined, and the Node went: marked": {
			policy: "{}QUARANTINE",
			prev:   remembered("b", "20", labels{"own": "x"}, ofMachine("m2"), setAside(remembered("a", "10", labels{"k": "v"}))),
			seen:   node("b", "21", labels{"own": "x"}, machine("m2")),
			event:  Deleted,
			want:   Plan{Step: MarkGone, Write: remembered("b", "21", labels{"own": "x"}, ofMachine("m2"), goneSince(nowTime), setAside(remembered("a", "10", labels{"k": "v"})))},
		},
		"quarantined, a person accepts the new machine: the old side goes": {
			policy: "{}QUARANTINE",
			prev:   remembered("b", "20", labels{"own": "x"}, ofMachine("m2"), setAside(remembered("a", "10", labels{"k": "v"})), accepted(store.NewMachine)),
			seen:   node("b", "20", labels{"own": "x"}, machine("m2"), gated),
			want:   Plan{Step: Accept, Write: remembered("b", "20", labels{"own": "x"}, ofMachine("m2"))},
		},
		"quarantined, a person accepts the old side: it is this machine's now": {
			policy: "{}QUARANTINE",
			prev:   remembered("b", "20", labels{"own": "x"}, ofMachine("m2"), setAside(remembered("a", "10", labels{"k": "v"}, ofMachine("m1"))), accepted(store.OldMachine)),
			seen:   node("b", "20", labels{"own": "x"}, machine("m2"), gated),
			want:   Plan{Step: Accept, Write: remembered("a", "10", labels{"k": "v"}, ofMachine("m2"))},
		},
		"quarantined, accepted as something unheard of: nothing": {
			policy: "{}QUARANTINE",
			prev:   remembered("b", "20", labels{"own": "x"}, ofMachine("m2"), setAside(remembered("a", "10", labels{"k": "v"})), accepted("both")),
			seen:   node("b", "20", labels{"own": "x"}, machine("m2"), gated),
			want:   Plan{Step: Nothing},
		},
		"quarantined and accepted while there is no such Node": {
			policy: "{}QUARANTINE",
			prev:   remembered("b", "20", labels{"own": "x"}, ofMachine("m2"), goneSince(earlier), setAside(remembered("a", "10", labels{"k": "v"}, ofMachine("m1"))), accepted(store.OldMachine)),
			seen:   node("", "", nil),
			event:  Absent,
			want:   Plan{Step: Accept, Write: remembered("a", "10", labels{"k": "v"}, ofMachine("m2"), goneSince(earlier))},
		},

		"the API server says that there is no such Node: marked gone, nothing else changes": {
			prev:  remembered("a", "10", labels{"k": "v"}, withheld(labels{"w": "x"})),
			seen:  node("", "", nil),
			event: Absent,
			want:  Plan{Step: MarkGone, Write: remembered("a", "10", labels{"k": "v"}, withheld(labels{"w": "x"}), goneSince(nowTime))},
		},
		"no such Node, known before: nothing": {
			prev:  remembered("a", "10", labels{"k": "v"}, goneSince(earlier)),
			seen:  node("", "", nil),
			event: Absent,
			want:  Plan{Step: Nothing},
		},
		"no such Node and no record: nothing": {
			seen:  node("", "", nil),
			event: Absent,
			want:  Plan{Step: Nothing},
		},
	} {
		t.Run(name, func(t *testing.T) {
			section := c.policy
			if section == "" {
				section = keepAll
			}
			got := plan(c.prev, c.seen, c.event, loadPolicy(t, section), now)
			assertPlan(t, c.want, got)
		})
	}
}

// assertPlan compares plans; an empty map is as good as none. The history of the record has tests of its own.
func assertPlan(t *testing.T, want, got Plan) {
	t.Helper()
	assert.Equal(t, want.Step, got.Step, "step")
	assert.Equal(t, orEmpty(want.Give), orEmpty(got.Give), "give")
	assert.Equal(t, orEmpty(want.PutRight), orEmpty(got.PutRight), "put right")
	assert.ElementsMatch(t, want.TakeBack, got.TakeBack, "take back")
	assert.Equal(t, want.Put, got.Put, "put on by rules")
	assert.Equal(t, want.Take, got.Take, "taken off by rules")
	assert.Equal(t, want.Register, got.Register, "registration taints")
	assert.Equal(t, policy.Shown(want.RuleTaints), policy.Shown(got.RuleTaints), "rule taints after")
	assert.Equal(t, want.Foreign, got.Foreign, "foreign")
	assert.Equal(t, want.LiftGate, got.LiftGate, "lift gate")
	assert.Equal(t, written(want.Stamp), written(got.Stamp), "stamp")
	if want.Write == nil || got.Write == nil {
		assert.Equal(t, want.Write, got.Write, "record")
		return
	}
	wantJSON, err := store.Encode(*want.Write)
	assert.NoError(t, err) //nolint:testifylint // shown together with the comparison
	without := *got.Write
	without.History = nil
	gotJSON, err := store.Encode(without)
	assert.NoError(t, err) //nolint:testifylint // shown together with the comparison
	assert.JSONEq(t, string(wantJSON), string(gotJSON), "record")
	assert.Equal(t, want.Write.Accepted, got.Write.Accepted, "accepted side")
	if want.Write.Quarantined == nil || got.Write.Quarantined == nil {
		assert.Equal(t, want.Write.Quarantined, got.Write.Quarantined, "quarantined side")
		return
	}
	assertPlan(t, Plan{Write: want.Write.Quarantined}, Plan{Write: got.Write.Quarantined})
}

func written(stamp *policy.Stamp) string {
	if stamp == nil {
		return "none"
	}
	return stamp.String()
}

func orEmpty(m labels) labels {
	if m == nil {
		return labels{}
	}
	return m
}

func TestNodeOfKeepsOnlyWhatIsRead(t *testing.T) {
	object := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "n1", UID: "a", ResourceVersion: "7", Labels: labels{"k": "v", "mine": "x"},
			Annotations: labels{policy.StampAnnotation: `{"restored":["k"],"pending":[]}`, "big": "value"},
			ManagedFields: []metav1.ManagedFieldsEntry{
				{Manager: "kubelet", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{".":{},"f:k":{}}}}`)},
				{Manager: "kubectl-label", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:mine":{},"f:k":{}}}}`)},
				{Manager: "broken", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":`)},
				{Manager: "empty"},
			},
		},
		Spec:   corev1.NodeSpec{Taints: []corev1.Taint{policy.DefaultGate.Taint()}, ProviderID: "x"},
		Status: corev1.NodeStatus{Images: []corev1.ContainerImage{{Names: []string{"big"}}}},
	}
	n := nodeOf(object)
	assert.Equal(t, map[string][]string{"k": {"kubectl-label", "kubelet"}, "mine": {"kubectl-label"}}, n.Owners)
	assert.Nil(t, n.Annotations)
	assert.Nil(t, n.ManagedFields)
	assert.True(t, n.Stamped)
	assert.True(t, n.Stamp.Lists("k"))
	assert.True(t, policy.DefaultGate.On(n.Taints))
	again, err := slim(n)
	assert.NoError(t, err) //nolint:testifylint // compared on the next line
	assert.Same(t, n, again, "the informer may transform twice")
}
