//go:build oldcore

package capture

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// taints reads taints as kubectl taint writes them.
func taints(written ...string) (read []corev1.Taint) {
	for _, text := range written {
		name, effect, _ := strings.Cut(text, ":")
		key, value, _ := strings.Cut(name, "=")
		read = append(read, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)})
	}
	return read
}

// ruled lists the taints that a record says are our rules'.
func ruled(written ...string) func(*store.Record) {
	return func(r *store.Record) { r.RuleTaints = taints(written...) }
}

// claimed lists the taints of which a record notes that a stamp says that rules put them on.
func claimed(written ...string) func(*store.Record) {
	return func(r *store.Record) { r.RuleClaims = taints(written...) }
}

// former lists the taints that a record says were taken off or changed.
func former(written ...string) func(*store.Record) {
	return func(r *store.Record) { r.FormerTaints = taints(written...) }
}

// tainted has the Node show taints beside what it shows already.
func tainted(written ...string) func(*Node) {
	return func(n *Node) { n.Taints = append(n.Taints, taints(written...)...) }
}

// stampedTaints is a stamp that lists the items as restored or brought, and taints as put on by rules.
func stampedTaints(restored, brought labels, byRules ...string) func(*Node) {
	return func(n *Node) {
		n.Stamp, n.Stamped, n.Registered = policy.NewStamp(nil, nil).Given(restored), true, true
		n.Stamp.Brought, n.Stamp.RuleTaints = brought, policy.Items(nil, taints(byRules...))
	}
}

func TestPlanOfTaints(t *testing.T) {
	const (
		oke      = `{rules: [{selector: dedicated, taint: "dedicated={value}:NoSchedule"}]}`
		byRole   = `{rules: [{selector: node-role.kubernetes.io/ci, taint: "ci:NoExecute"}]}`
		register = `{register: [{taint: "example.com/unverified=true:NoSchedule"}, {taint: "gpu/unverified:NoExecute", nodeSelector: {matchLabels: {gpu: "yes"}}}]}`
		repair   = "maintenance:NoExecute"
	)
	given := func(items labels) *policy.Stamp {
		stamp := policy.Stamp{}.Given(items)
		return &stamp
	}
	for name, c := range map[string]struct {
		policy string // its taints section
		prev   *store.Record
		seen   *Node
		event  Event
		want   Plan
	}{
		// Kept taints, as labels are.
		"no record, a taint of people's: remember it": {
			seen: node("a", "10", labels{repair: "disk", "node.kubernetes.io/not-ready:NoSchedule": "", "ToBeDeletedByClusterAutoscaler:NoSchedule": "1"}),
			want: Plan{Step: Create, Write: remembered("a", "10", labels{repair: "disk"})},
		},
		"no record, nothing but the gate and what others own: lift": {
			seen: node("a", "10", labels{"node.kubernetes.io/not-ready:NoSchedule": ""}, gated),
			want: Plan{Step: Lift, LiftGate: true},
		},
		"same object, a taint was taken off: forget it": {
			prev: remembered("a", "10", labels{"k": "v", repair: "disk"}),
			seen: node("a", "11", labels{"k": "v"}),
			want: Plan{Step: Update, Write: remembered("a", "11", labels{"k": "v"}, former("maintenance=disk:NoExecute"))},
		},
		"same object, a taint is back as it was: a former one no more": {
			prev: remembered("a", "10", labels{"k": "v"}, former("other:NoSchedule", "maintenance=disk:NoExecute")),
			seen: node("a", "11", labels{"k": "v", repair: "disk"}),
			want: Plan{Step: Update, Write: remembered("a", "11", labels{"k": "v", repair: "disk"}, former("other:NoSchedule"))},
		},
		"same object, a taint has another value: remember that": {
			prev: remembered("a", "10", labels{repair: "disk"}),
			seen: node("a", "11", labels{repair: "memory"}),
			want: Plan{Step: Update, Write: remembered("a", "11", labels{repair: "memory"}, former("maintenance=disk:NoExecute"))},
		},
		"new object, behind the gate, lacks a taint: give it and lift": {
			prev: remembered("a", "10", labels{"k": "v", repair: "disk"}),
			seen: node("b", "20", labels{"k": "v"}, gated),
			want: Plan{Step: Complete, Give: labels{repair: "disk"}, Stamp: given(labels{repair: "disk"}), LiftGate: true},
		},
		"new object that brought another value: that counts, the other one is withheld": {
			prev: remembered("a", "10", labels{repair: "disk"}),
			seen: node("b", "20", labels{repair: "memory"}, stampedTaints(nil, nil)),
			want: Plan{Step: Adopt, Write: remembered("b", "20", labels{repair: "memory"}, withheld(labels{repair: "disk"}))},
		},
		"new object, guard policies in force, that was given the taint and lacks it now: taken off, forget it": {
			prev: remembered("a", "10", labels{"k": "v", repair: "disk"}),
			seen: node("b", "20", labels{"k": "v"}, guarded, stampedTaints(labels{repair: "disk"}, nil)),
			want: Plan{Step: Adopt, Write: remembered("b", "20", labels{"k": "v"}, former("maintenance=disk:NoExecute"))},
		},
		"new object, guard policies in force, that brought the taint and lacks it now: taken off, forget it": {
			prev: remembered("a", "10", labels{"k": "v", repair: "disk"}),
			seen: node("b", "20", labels{"k": "v"}, guarded, stampedTaints(nil, labels{repair: "disk"})),
			want: Plan{Step: Adopt, Write: remembered("b", "20", labels{"k": "v"}, former("maintenance=disk:NoExecute"))},
		},
		"new object whose stamp claims the taint, no guard policies: a kubelet could claim that, give it": {
			prev: remembered("a", "10", labels{"k": "v", repair: "disk"}),
			seen: node("b", "20", labels{"k": "v"}, stampedTaints(labels{repair: "disk"}, nil)),
			want: Plan{Step: Complete, Give: labels{repair: "disk"}, Stamp: given(labels{repair: "disk"})},
		},
		"new object that was given the taint and has another value now: edited, the stored one is forgotten": {
			prev: remembered("a", "10", labels{repair: "disk"}),
			seen: node("b", "20", labels{repair: "memory"}, guarded, stampedTaints(labels{repair: "disk"}, nil)),
			want: Plan{Step: Adopt, Write: remembered("b", "20", labels{repair: "memory"}, former("maintenance=disk:NoExecute"))},
		},
		"new object that was given a taint from a stale record: take it back": {
			prev: remembered("a", "10", labels{"k": "v"}, former("maintenance=disk:NoExecute")),
			seen: node("b", "20", labels{"k": "v", repair: "disk"}, stampedTaints(labels{repair: "disk"}, nil)),
			want: Plan{Step: Complete, TakeBack: []string{repair}, Stamp: given(nil)},
		},
		"new object that was given another value of a taint from a stale record: put it right": {
			prev: remembered("a", "10", labels{repair: "disk"}, former("maintenance=memory:NoExecute")),
			seen: node("b", "20", labels{repair: "memory"}, stampedTaints(labels{repair: "memory"}, nil)),
			want: Plan{Step: Complete, PutRight: labels{repair: "disk"}},
		},
		"new object whose stamp claims to have been given a taint that was never remembered: a person's, it stays": {
			prev: remembered("a", "10", labels{"k": "v"}, former("maintenance=memory:NoExecute")),
			seen: node("b", "20", labels{"k": "v", repair: "disk"}, stampedTaints(labels{repair: "disk"}, nil)),
			want: Plan{Step: Adopt, Write: remembered("b", "20", labels{"k": "v", repair: "disk"}, former("maintenance=memory:NoExecute"))},
		},
		"gated, and its stamp is booked under our name: a kubelet can do that, registered all the same": {
			policy: register,
			seen:   node("a", "10", nil, gated, stampedTaints(nil, nil), func(n *Node) { n.Registered = false }),
			want:   Plan{Step: Complete, Register: taints("example.com/unverified=true:NoSchedule"), Stamp: given(nil), LiftGate: true},
		},
		"new object that brought a taint which a stale record had too: its own, remember it": {
			prev: remembered("a", "10", labels{"k": "v"}),
			seen: node("b", "20", labels{"k": "v", repair: "disk"}, stampedTaints(nil, labels{repair: "disk"})),
			want: Plan{Step: Adopt, Write: remembered("b", "20", labels{"k": "v", repair: "disk"})},
		},
		"another policy keeps the taint no more: withheld, not forgotten": {
			policy: `{ignore: [maintenance]}`,
			prev:   remembered("a", "10", labels{"k": "v", repair: "disk"}),
			seen:   node("a", "11", labels{"k": "v", repair: "disk"}),
			want:   Plan{Step: Update, Write: remembered("a", "11", labels{"k": "v"}, withheld(labels{repair: "disk"}))},
		},
		"new object, about to go, whose stamp claims a taint that nobody remembers: it is somebody's": {
			prev: remembered("a", "10", labels{"k": "v", worker: ""}),
			seen: node("b", "20", labels{"k": "v", repair: "disk"}, gated, deleting, stampedTaints(labels{repair: "disk"}, nil)),
			want: Plan{Step: Merge, Write: remembered("a", "10", labels{"k": "v", worker: ""}, laterAt("20", labels{repair: "disk"}))},
		},
		"new object, about to go, whose stamp claims another value of a taint than is remembered: it is somebody's": {
			prev: remembered("a", "10", labels{repair: "disk", worker: ""}),
			seen: node("b", "20", labels{repair: "fan"}, gated, deleting, stampedTaints(labels{repair: "fan"}, nil)),
			want: Plan{Step: Merge, Write: remembered("a", "10", labels{repair: "disk", worker: ""}, laterAt("20", labels{repair: "fan"}), withheld(labels{repair: "disk"}))},
		},
		"new object, ended before it was whole: its taint is added": {
			prev:  remembered("a", "10", labels{"k": "v"}),
			seen:  node("b", "20", labels{repair: "disk"}, deleting),
			event: Present,
			want:  Plan{Step: Merge, Write: remembered("a", "10", labels{"k": "v"}, laterAt("20", labels{repair: "disk"}))},
		},

		// Rules.
		"a label that a rule selects: written down first": {
			policy: oke,
			prev:   remembered("a", "10", labels{"k": "v"}),
			seen:   node("a", "11", labels{"k": "v", "dedicated": "ci"}),
			want:   Plan{Step: Update, Write: remembered("a", "11", labels{"k": "v", "dedicated": "ci"}, ruled("dedicated=ci:NoSchedule"))},
		},
		"a label that a rule selects, written down: put the taint on": {
			policy: oke,
			prev:   remembered("a", "11", labels{"dedicated": "ci"}, ruled("dedicated=ci:NoSchedule")),
			seen:   node("a", "11", labels{"dedicated": "ci"}),
			want:   Plan{Step: FollowRules, Put: taints("dedicated=ci:NoSchedule"), RuleTaints: taints("dedicated=ci:NoSchedule")},
		},
		"the taint is on: nothing, and it is not remembered as people's": {
			policy: oke,
			prev:   remembered("a", "11", labels{"dedicated": "ci"}, ruled("dedicated=ci:NoSchedule")),
			seen:   node("a", "12", labels{"dedicated": "ci"}, tainted("dedicated=ci:NoSchedule")),
			want:   Plan{Step: Nothing},
		},
		"the label has another value: both taints are written down": {
			policy: oke,
			prev:   remembered("a", "11", labels{"dedicated": "ci"}, ruled("dedicated=ci:NoSchedule")),
			seen:   node("a", "13", labels{"dedicated": "gpu"}, tainted("dedicated=ci:NoSchedule")),
			want:   Plan{Step: Update, Write: remembered("a", "13", labels{"dedicated": "gpu"}, ruled("dedicated=ci:NoSchedule", "dedicated=gpu:NoSchedule"))},
		},
		"both are written down: the one replaces the other": {
			policy: oke,
			prev:   remembered("a", "13", labels{"dedicated": "gpu"}, ruled("dedicated=ci:NoSchedule", "dedicated=gpu:NoSchedule")),
			seen:   node("a", "13", labels{"dedicated": "gpu"}, tainted("dedicated=ci:NoSchedule")),
			want: Plan{
				Step: FollowRules, Put: taints("dedicated=gpu:NoSchedule"), Take: taints("dedicated=ci:NoSchedule"),
				RuleTaints: taints("dedicated=gpu:NoSchedule"),
			},
		},
		"the one has replaced the other: what is gone is struck out": {
			policy: oke,
			prev:   remembered("a", "13", labels{"dedicated": "gpu"}, ruled("dedicated=ci:NoSchedule", "dedicated=gpu:NoSchedule")),
			seen:   node("a", "14", labels{"dedicated": "gpu"}, tainted("dedicated=gpu:NoSchedule")),
			want:   Plan{Step: Update, Write: remembered("a", "14", labels{"dedicated": "gpu"}, ruled("dedicated=gpu:NoSchedule"))},
		},
		"the very state that was recorded: nothing is struck out, what was written down may be on its way": {
			prev: remembered("a", "13", labels{"dedicated": "gpu"}, ruled("dedicated=gpu:NoSchedule")),
			seen: node("a", "13", labels{"dedicated": "gpu"}),
			want: Plan{Step: Nothing},
		},
		"being deleted: nothing is struck out, it may be on its way": {
			policy: oke,
			prev:   remembered("a", "13", labels{"dedicated": "gpu"}, ruled("dedicated=gpu:NoSchedule")),
			seen:   node("a", "14", labels{"k": "v"}, deleting),
			want:   Plan{Step: Update, Write: remembered("a", "14", labels{"k": "v"}, ruled("dedicated=gpu:NoSchedule"))},
		},
		"the label is gone and the record says so: the taint goes": {
			policy: oke,
			prev:   remembered("a", "13", labels{"k": "v"}, ruled("dedicated=ci:NoSchedule")),
			seen:   node("a", "13", labels{"k": "v"}, tainted("dedicated=ci:NoSchedule")),
			want:   Plan{Step: FollowRules, Take: taints("dedicated=ci:NoSchedule")},
		},
		"the rule is gone from the policy: its taint goes": {
			prev: remembered("a", "13", labels{"dedicated": "ci"}, ruled("dedicated=ci:NoSchedule")),
			seen: node("a", "13", labels{"dedicated": "ci"}, tainted("dedicated=ci:NoSchedule")),
			want: Plan{Step: FollowRules, Take: taints("dedicated=ci:NoSchedule")},
		},
		"somebody took the taint off although the label is there: written down for this state of the Node first": {
			policy: oke,
			prev:   remembered("a", "13", labels{"dedicated": "ci"}, ruled("dedicated=ci:NoSchedule")),
			seen:   node("a", "14", labels{"dedicated": "ci"}),
			want:   Plan{Step: Update, Write: remembered("a", "14", labels{"dedicated": "ci"}, ruled("dedicated=ci:NoSchedule"))},
		},
		"written down for this state: it is put on again": {
			policy: oke,
			prev:   remembered("a", "14", labels{"dedicated": "ci"}, ruled("dedicated=ci:NoSchedule")),
			seen:   node("a", "14", labels{"dedicated": "ci"}),
			want:   Plan{Step: FollowRules, Put: taints("dedicated=ci:NoSchedule"), RuleTaints: taints("dedicated=ci:NoSchedule")},
		},
		"a taint of a person's has the key and effect: told of, remembered as the person's": {
			policy: oke,
			prev:   remembered("a", "11", labels{"dedicated": "ci"}),
			seen:   node("a", "12", labels{"dedicated": "ci"}, tainted("dedicated=mine:NoSchedule")),
			want:   Plan{Step: Update, Write: remembered("a", "12", labels{"dedicated": "ci", "dedicated:NoSchedule": "mine"})},
		},
		"it is remembered: nothing but to tell": {
			policy: oke,
			prev:   remembered("a", "12", labels{"dedicated": "ci", "dedicated:NoSchedule": "mine"}),
			seen:   node("a", "12", labels{"dedicated": "ci"}, tainted("dedicated=mine:NoSchedule")),
			want:   Plan{Step: Nothing, Foreign: taints("dedicated=ci:NoSchedule")},
		},
		"a person's taint is just what the rule wants: never adopted": {
			policy: oke,
			prev:   remembered("a", "12", labels{"dedicated": "ci", "dedicated:NoSchedule": "ci"}),
			seen:   node("a", "12", labels{"dedicated": "ci"}, tainted("dedicated=ci:NoSchedule")),
			want:   Plan{Step: Nothing, Foreign: taints("dedicated=ci:NoSchedule")},
		},
		"a person's taint stays when the label goes": {
			policy: oke,
			prev:   remembered("a", "12", labels{"k": "v", "dedicated:NoSchedule": "ci"}),
			seen:   node("a", "13", labels{"k": "v"}, tainted("dedicated=ci:NoSchedule")),
			want:   Plan{Step: Nothing},
		},
		"somebody gave our taint another value: it is theirs now": {
			policy: oke,
			prev:   remembered("a", "12", labels{"dedicated": "ci"}, ruled("dedicated=ci:NoSchedule")),
			seen:   node("a", "13", labels{"dedicated": "ci"}, tainted("dedicated=mine:NoSchedule")),
			want:   Plan{Step: Update, Write: remembered("a", "13", labels{"dedicated": "ci", "dedicated:NoSchedule": "mine"})},
		},
		"no label to remember, but a rule's taint: a record, to say that it is ours": {
			policy: `{rules: [{selector: "kubernetes.io/os=windows", taint: "os=windows:NoSchedule"}]}`,
			seen:   node("a", "10", labels{"kubernetes.io/os": "windows"}),
			want:   Plan{Step: Create, Write: remembered("a", "10", nil, ruled("os=windows:NoSchedule"))},
		},
		"being deleted: the rules do nothing any more": {
			policy: oke,
			prev:   remembered("a", "10", labels{"dedicated": "ci"}),
			seen:   node("a", "10", labels{"dedicated": "ci"}, deleting),
			want:   Plan{Step: Nothing},
		},
		"gone, as far as the watch has seen it: nothing is struck out": {
			policy: oke,
			prev:   remembered("a", "10", labels{"dedicated": "ci"}, ruled("dedicated=ci:NoSchedule")),
			seen:   node("a", "11", labels{"k": "v"}), event: Deleted,
			want: Plan{Step: MarkGone, Write: remembered("a", "11", labels{"k": "v"}, ruled("dedicated=ci:NoSchedule"), goneSince(nowTime))},
		},
		"gone: what was never put on is not written down": {
			policy: oke,
			prev:   remembered("a", "10", labels{"k": "v"}),
			seen:   node("a", "11", labels{"k": "v", "dedicated": "ci"}), event: Deleted,
			want: Plan{Step: MarkGone, Write: remembered("a", "11", labels{"k": "v", "dedicated": "ci"}, goneSince(nowTime))},
		},

		// Rules and objects that are new.
		"new object, admission put the taint on: ours": {
			policy: oke,
			prev:   remembered("a", "10", labels{"dedicated": "ci"}, ruled("dedicated=ci:NoSchedule")),
			seen:   node("b", "20", labels{"dedicated": "ci"}, stampedTaints(labels{"dedicated": "ci"}, nil, "dedicated=ci:NoSchedule"), tainted("dedicated=ci:NoSchedule")),
			want:   Plan{Step: Adopt, Write: remembered("b", "20", labels{"dedicated": "ci"}, ruled("dedicated=ci:NoSchedule"))},
		},
		"new object, admission put the taint on, the label was taken off since: ours, to be taken off next": {
			policy: oke,
			prev:   remembered("a", "10", labels{"k": "v", "dedicated": "ci"}),
			seen:   node("b", "20", labels{"k": "v"}, stampedTaints(labels{"k": "v", "dedicated": "ci"}, nil, "dedicated=ci:NoSchedule"), tainted("dedicated=ci:NoSchedule")),
			want:   Plan{Step: Adopt, Write: remembered("b", "20", labels{"k": "v"}, ruled("dedicated=ci:NoSchedule"))},
		},
		"new object that brought the taint itself: the kubelet's, remembered": {
			policy: oke,
			prev:   remembered("a", "10", labels{"dedicated": "ci"}, ruled("dedicated=ci:NoSchedule")),
			seen:   node("b", "20", labels{"dedicated": "ci"}, stampedTaints(labels{"dedicated": "ci"}, nil), tainted("dedicated=ci:NoSchedule")),
			want:   Plan{Step: Adopt, Write: remembered("b", "20", labels{"dedicated": "ci", "dedicated:NoSchedule": "ci"})},
		},
		"new object whose stamp claims a person's taint for a rule: it stays the person's": {
			policy: oke,
			prev:   remembered("a", "10", labels{"dedicated:NoSchedule": "ci"}),
			seen:   node("b", "20", labels{}, stampedTaints(nil, nil, "dedicated=ci:NoSchedule"), tainted("dedicated=ci:NoSchedule")),
			want:   Plan{Step: Adopt, Write: remembered("b", "20", labels{"dedicated:NoSchedule": "ci"})},
		},
		"new object whose stamp claims a taint that no rule makes: not ours, and remembered, but the claim is noted": {
			policy: oke,
			prev:   remembered("a", "10", labels{"k": "v"}),
			seen:   node("b", "20", labels{"k": "v"}, stampedTaints(nil, nil, "quarantine=x:NoExecute"), tainted("quarantine=x:NoExecute")),
			want:   Plan{Step: Adopt, Write: remembered("b", "20", labels{"k": "v", "quarantine:NoExecute": "x"}, claimed("quarantine=x:NoExecute"))},
		},
		"a claimed taint stays when no rule makes it still": {
			policy: oke,
			prev:   remembered("b", "20", labels{"k": "v", "quarantine:NoExecute": "x"}, claimed("quarantine=x:NoExecute")),
			seen:   node("b", "21", labels{"k": "v"}, tainted("quarantine=x:NoExecute")),
			want:   Plan{Step: Nothing},
		},
		"a claimed taint that a rule makes, now that it is known: ours, and nobody else's": {
			policy: oke,
			prev:   remembered("b", "20", labels{"dedicated": "ci", "dedicated:NoSchedule": "ci"}, claimed("dedicated=ci:NoSchedule")),
			seen:   node("b", "20", labels{"dedicated": "ci"}, tainted("dedicated=ci:NoSchedule")),
			want:   Plan{Step: Update, Write: remembered("b", "20", labels{"dedicated": "ci"}, ruled("dedicated=ci:NoSchedule"), former("dedicated=ci:NoSchedule"))},
		},
		"a claimed taint that was restored on the next object, and its rule is known there: ours": {
			policy: oke,
			prev:   remembered("a", "20", labels{"k": "v", "dedicated:NoSchedule": "ci"}, claimed("dedicated=ci:NoSchedule")),
			seen:   node("b", "30", labels{"k": "v"}, stampedTaints(labels{"dedicated:NoSchedule": "ci"}, nil), tainted("dedicated=ci:NoSchedule")),
			want:   Plan{Step: Adopt, Write: remembered("b", "30", labels{"k": "v"}, ruled("dedicated=ci:NoSchedule"), former("dedicated=ci:NoSchedule"))},
		},
		"somebody took a claimed taint off: it is forgotten with the claim": {
			policy: oke,
			prev:   remembered("b", "20", labels{"k": "v", "quarantine:NoExecute": "x"}, claimed("quarantine=x:NoExecute")),
			seen:   node("b", "21", labels{"k": "v"}),
			want:   Plan{Step: Update, Write: remembered("b", "21", labels{"k": "v"}, former("quarantine=x:NoExecute"))},
		},
		"no record, admission put the taint on: ours": {
			policy: oke,
			seen:   node("a", "10", labels{"dedicated": "ci"}, stampedTaints(nil, nil, "dedicated=ci:NoSchedule"), tainted("dedicated=ci:NoSchedule")),
			want:   Plan{Step: Create, Write: remembered("a", "10", labels{"dedicated": "ci"}, ruled("dedicated=ci:NoSchedule"))},
		},
		"new object, no webhook, behind the gate: labels first, and the gate stays for the rule's taint": {
			policy: oke,
			prev:   remembered("a", "10", labels{"dedicated": "ci"}),
			seen:   node("b", "20", labels{}, gated),
			want:   Plan{Step: Complete, Give: labels{"dedicated": "ci"}, Stamp: given(labels{"dedicated": "ci"})},
		},
		"and then it is adopted, with the taint written down": {
			policy: oke,
			prev:   remembered("a", "10", labels{"dedicated": "ci"}),
			seen:   node("b", "21", labels{"dedicated": "ci"}, gated, stampedTaints(labels{"dedicated": "ci"}, nil)),
			want:   Plan{Step: Adopt, Write: remembered("b", "21", labels{"dedicated": "ci"}, ruled("dedicated=ci:NoSchedule"))},
		},
		"and then the taint comes on as the gate goes": {
			policy: oke,
			prev:   remembered("b", "21", labels{"dedicated": "ci"}, ruled("dedicated=ci:NoSchedule")),
			seen:   node("b", "21", labels{"dedicated": "ci"}, gated, stampedTaints(labels{"dedicated": "ci"}, nil)),
			want:   Plan{Step: Complete, Put: taints("dedicated=ci:NoSchedule"), RuleTaints: taints("dedicated=ci:NoSchedule"), LiftGate: true},
		},
		"new object, no webhook, not gated, whole: adopted, with the taint written down": {
			policy: oke,
			prev:   remembered("a", "10", labels{"dedicated": "ci"}, ruled("dedicated=ci:NoSchedule")),
			seen:   node("b", "20", labels{"dedicated": "ci"}),
			want:   Plan{Step: Adopt, Write: remembered("b", "20", labels{"dedicated": "ci"}, ruled("dedicated=ci:NoSchedule"))},
		},
		"a label restored from a stale record goes, and the rule's taint with it": {
			policy: oke,
			prev:   remembered("a", "10", labels{"k": "v"}),
			seen:   node("b", "20", labels{"k": "v", "dedicated": "ci"}, stampedTaints(labels{"k": "v", "dedicated": "ci"}, nil, "dedicated=ci:NoSchedule"), tainted("dedicated=ci:NoSchedule")),
			want: func() Plan {
				stamp := policy.NewStamp([]string{"k"}, nil)
				stamp.RuleTaints = labels{"dedicated:NoSchedule": "ci"}
				return Plan{Step: Complete, TakeBack: []string{"dedicated"}, Take: taints("dedicated=ci:NoSchedule"), Stamp: &stamp}
			}(),
		},
		"a protected label that is given back brings its rule's taint on before the gate goes": {
			policy: byRole,
			prev:   remembered("b", "20", labels{"node-role.kubernetes.io/ci": ""}, ruled("ci:NoExecute")),
			seen:   node("b", "20", labels{"node-role.kubernetes.io/ci": ""}, gated),
			want:   Plan{Step: Complete, Put: taints("ci:NoExecute"), RuleTaints: taints("ci:NoExecute"), LiftGate: true},
		},
		"the API server refuses a label: the gate stays, and the rules hold all the same": {
			policy: oke,
			prev:   remembered("b", "20", labels{"dedicated": "ci"}, ruled("dedicated=ci:NoSchedule"), withheld(labels{"k": "v"})),
			seen:   node("b", "20", labels{"dedicated": "ci"}, gated, refused("k")),
			want:   Plan{Step: Complete, Put: taints("dedicated=ci:NoSchedule"), RuleTaints: taints("dedicated=ci:NoSchedule")},
		},
		"another machine's record: no rule is followed before a person has decided": {
			policy: oke,
			prev:   remembered("b", "20", labels{"dedicated": "ci"}, setAside(remembered("a", "10", labels{"k": "v"}))),
			seen:   node("b", "20", labels{"dedicated": "ci"}),
			want:   Plan{Step: Nothing},
		},

		// Registration taints.
		"gated and not stamped, nothing to give: registered, stamped and lifted in one": {
			policy: register,
			seen:   node("a", "10", nil, gated),
			want:   Plan{Step: Complete, Register: taints("example.com/unverified=true:NoSchedule"), Stamp: given(nil), LiftGate: true},
		},
		"gated and not stamped, a given label selects: both": {
			policy: register,
			prev:   remembered("a", "10", labels{"gpu": "yes"}),
			seen:   node("b", "20", nil, gated),
			want: Plan{
				Step: Complete, Give: labels{"gpu": "yes"}, Stamp: given(labels{"gpu": "yes"}), LiftGate: true,
				Register: taints("example.com/unverified=true:NoSchedule", "gpu/unverified:NoExecute"),
			},
		},
		"gated and stamped: admission has put it on, and whoever took it off had a reason": {
			policy: register,
			seen:   node("a", "10", nil, gated, stampedTaints(nil, nil)),
			want:   Plan{Step: Lift, LiftGate: true},
		},
		"not gated: an old Node, left alone": {
			policy: register,
			prev:   remembered("a", "10", labels{"k": "v"}),
			seen:   node("a", "11", labels{"k": "v"}),
			want:   Plan{Step: Nothing},
		},
		"a registration taint is not remembered": {
			policy: register,
			seen:   node("a", "10", labels{"k": "v"}, tainted("example.com/unverified=false:NoSchedule")),
			want:   Plan{Step: Create, Write: remembered("a", "10", labels{"k": "v"})},
		},
		"the Node has a taint of that key and effect: its own counts": {
			policy: register,
			seen:   node("a", "10", nil, gated, tainted("example.com/unverified=mine:NoSchedule")),
			want:   Plan{Step: Lift, LiftGate: true},
		},
		"no room for a stamp: registered as the gate goes, so once all the same": {
			policy: register,
			seen:   node("a", "10", nil, gated, func(n *Node) { n.AnnotationBytes = 1 << 20 }),
			want:   Plan{Step: Complete, Register: taints("example.com/unverified=true:NoSchedule"), LiftGate: true},
		},
		"no room for a stamp and the gate stays: not yet": {
			policy: register,
			prev:   remembered("b", "20", nil, withheld(labels{"k": "v"})),
			seen:   node("b", "20", nil, gated, refused("k"), func(n *Node) { n.AnnotationBytes = 1 << 20 }),
			want:   Plan{Step: Nothing},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := policyOfTaints(t, c.policy)
			got := plan(c.prev, c.seen, c.event, p, now)
			assertPlan(t, c.want, got)
			if got.changesNode() {
				body, err := patchFor(c.seen, got, p.Gate())
				require.NoError(t, err)
				assertUnique(t, body)
			}
		})
	}
}

func policyOfTaints(t *testing.T, section string) policy.Policy {
	t.Helper()
	if section == "" {
		section = "{}"
	}
	p, err := policy.Load([]byte("apiVersion: nodekeep.dev/v1alpha1\nkind: Policy\ntaints: "+section), policy.DefaultGate)
	require.NoError(t, err)
	return p
}

// assertUnique checks that a patch cannot make the Node invalid.
func assertUnique(t *testing.T, body []byte) {
	t.Helper()
	var patch nodePatch
	require.NoError(t, json.Unmarshal(body, &patch))
	if patch.Spec == nil {
		return
	}
	seen := map[string]bool{}
	for _, taint := range patch.Spec.Taints {
		assert.False(t, seen[policy.TaintItem(taint)], "twice: %s", body)
		seen[policy.TaintItem(taint)] = true
	}
}

func TestAPatchOfTaintsLeavesTheOthersAsTheyAre(t *testing.T) {
	added := metav1.Now().Rfc3339Copy()
	seen := node("a", "10", nil, gated, tainted("mine=1:NoExecute", "ours=1:NoSchedule", "stale:NoSchedule", "wrong=1:NoSchedule"))
	seen.Taints[1].TimeAdded = &added
	body, err := patchFor(seen, Plan{
		LiftGate: true, Take: taints("ours=1:NoSchedule"), TakeBack: []string{"stale:NoSchedule", "label"},
		PutRight: labels{"wrong:NoSchedule": "2", "other": "x"}, Give: labels{"maintenance:NoExecute": "disk", "k": "v"},
		Put: taints("ours=2:NoSchedule", "mine=2:NoExecute"), RuleTaints: taints("ours=2:NoSchedule"), Register: taints("check:NoSchedule"),
	}, policy.DefaultGate)
	require.NoError(t, err)
	when, err := json.Marshal(added)
	require.NoError(t, err)
	assert.JSONEq(t, `{
		"metadata": {"uid": "a", "resourceVersion": "10", "labels": {"k": "v", "label": null, "other": "x"}, "annotations": {"nodekeep.dev/taints": "ours=2:NoSchedule"}},
		"spec": {"taints": [
			{"key": "mine", "value": "1", "effect": "NoExecute", "timeAdded": `+string(when)+`},
			{"key": "wrong", "value": "2", "effect": "NoSchedule"},
			{"key": "maintenance", "value": "disk", "effect": "NoExecute"},
			{"key": "ours", "value": "2", "effect": "NoSchedule"},
			{"key": "check", "effect": "NoSchedule"}
		]}}`, string(body))
}

func TestAStampThatSomebodyElseOwnsIsNone(t *testing.T) {
	object := func(manager string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: "n1", Annotations: labels{policy.StampAnnotation: `{"restored":["k"],"pending":[]}`},
			ManagedFields: []metav1.ManagedFieldsEntry{
				{Manager: manager, FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{".":{},"f:` + policy.StampAnnotation + `":{}}}}`)},
			},
		}}
	}
	for manager, stamped := range map[string]bool{"kubelet": false, "kubectl-annotate": false, fieldManager: true, ancientChanges: true} {
		n := nodeOf(object(manager))
		assert.Equal(t, stamped, n.Stamped, manager)
		assert.Equal(t, stamped, n.Stamp.Lists("k"), manager)
	}
}
