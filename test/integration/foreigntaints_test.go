package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/harness"
)

func aTaintOfSomebodyElseIsLeftAlone(t *testing.T) {
	theirs := map[string]string{ // by Node
		"foreign-taint-1": "dedicated=theirs:NoSchedule",
		"foreign-taint-2": "dedicated=ci:NoSchedule", // the very taint that the rule wants
	}
	// Every step is made on each of the Nodes; none may be written by us after it.
	perNode := func(step func(name string)) {
		for name := range theirs {
			step(name)
		}
	}
	remembered := func(name string, labels ...string) {
		want := map[string]string{"dedicated:NoSchedule": harness.TaintOf(theirs[name]).Value}
		for _, key := range labels {
			want[key] = "ci"
		}
		node := nodekeep.Node(t, name)
		nodekeep.WaitRecorded(t, node, want)
		assert.NotContains(t, node.Annotations, policy.TaintsAnnotation, "%s: it is not nodekeep's", name)
	}
	reported := func(name string, times int) {
		harness.Eventually(t, func() bool { return eventsOf(t, "default", name, "ItemTaken") == times }, 3*settles, 20*time.Millisecond, name)
	}
	untouched := func() {
		prev := map[string]*corev1.Node{}
		perNode(func(name string) { prev[name] = nodekeep.Node(t, name) })
		captureHasSeenAll(t)
		perNode(func(name string) {
			unwritten(t, prev[name])
			assert.Equal(t, []string{theirs[name]}, harness.TaintsOf(prev[name]))
			assert.NotContains(t, prev[name].Annotations, policy.TaintsAnnotation, "%s: not shown as ours", name)
		})
	}

	perNode(func(name string) {
		nodekeep.Register(t, name)
		nodekeep.Taint(t, name, theirs[name])
		remembered(name)
		nodekeep.Label(t, name, map[string]any{"dedicated": "ci"})
		remembered(name, "dedicated")
		reported(name, 1)
	})
	untouched()
	perNode(func(name string) { reported(name, 1) })

	perNode(func(name string) { // the same on the next Node object, where admission restores it
		nodekeep.DeleteNode(t, name)
		assert.Equal(t, []string{theirs[name]}, harness.TaintsOf(nodekeep.Register(t, name)))
		remembered(name, "dedicated")
		reported(name, 2) // one Event for each object
	})
	perNode(func(name string) {
		nodekeep.Label(t, name, map[string]any{"dedicated": nil})
		remembered(name)
	})
	untouched()

	perNode(func(name string) { // once it is removed, the rule has its way
		nodekeep.Label(t, name, map[string]any{"dedicated": "ci"})
		remembered(name, "dedicated")
		nodekeep.Untaint(t, name, theirs[name])
		comesToCarry(t, name, "dedicated=ci:NoSchedule")
		nodekeep.Label(t, name, map[string]any{"dedicated": nil})
		comesToCarry(t, name)
	})
}

func noLieOfAKubeletChangesATaint(t *testing.T) {
	require.NoError(t, nodekeep.WithoutGuards(t.Context(), func() { liesOfKubeletsAreInVain(t) }))
}

func liesOfKubeletsAreInVain(t *testing.T) {
	t.Helper()
	const admins = "maintenance=disk:NoExecute"
	type liar struct {
		name, manager string // which manager a change is booked under is the client's choice
		adopted       bool   // it lies when the record is of its Node object already, or before
	}
	var liars []liar
	for _, manager := range []string{"kubelet", "nodekeep"} {
		for _, adopted := range []bool{true, false} {
			liars = append(liars, liar{fmt.Sprintf("liar-%s-%t", manager, adopted), manager, adopted})
		}
	}
	registerAndLie := func(l liar, prev func()) {
		stamp := record.Stamp{
			Given:   map[string]record.Given{"dedicated": {Value: "ci"}, "maintenance:NoExecute": {Value: "disk"}}, // as if admission had restored it, from a stale record
			Brought: map[string]string{"example.com/known:NoSchedule": "1", "example.com/gone:NoSchedule": "1"},
		}
		lies := map[string]string{policy.StampAnnotation: stamp.String(), policy.TaintsAnnotation: admins + ",example.com/known=1:NoSchedule,dedicated=gpu:NoSchedule"}
		node := harness.Registration(l.name)
		node.Annotations = lies // in the CREATE too
		created, err := nodekeep.Kubelet(t, l.name).CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{FieldManager: l.manager})
		require.NoError(t, err)
		assert.Equal(t, "dedicated=ci:NoSchedule", created.Annotations[policy.TaintsAnnotation])
		assert.NotEqual(t, stamp.String(), created.Annotations[policy.StampAnnotation])
		nodekeep.Taint(t, l.name, admins)
		prev()
		_, err = nodekeep.Kubelet(t, l.name).CoreV1().Nodes().Patch(t.Context(), l.name, types.MergePatchType,
			harness.MustJSON(t, map[string]any{"metadata": map[string]any{"annotations": lies}}), metav1.PatchOptions{FieldManager: l.manager})
		require.NoError(t, err, "a kubelet may write annotations")
	}

	for _, l := range liars {
		node := nodekeep.Register(t, l.name)
		nodekeep.Taint(t, l.name, "example.com/known=1:NoSchedule")
		nodekeep.Label(t, l.name, map[string]any{"dedicated": "ci"})
		comesToCarry(t, l.name, "example.com/known=1:NoSchedule", "dedicated=ci:NoSchedule")
		nodekeep.WaitRecorded(t, node, map[string]string{"example.com/known:NoSchedule": "1", "dedicated": "ci"})
		nodekeep.DeleteNode(t, l.name)
	}
	want := map[string]string{"maintenance:NoExecute": "disk", "example.com/known:NoSchedule": "1", "dedicated": "ci"}
	for _, l := range liars {
		if l.adopted {
			registerAndLie(l, func() { nodekeep.WaitRecorded(t, nodekeep.Node(t, l.name), want) })
		}
	}
	nodekeep.WithoutCapture(t, func() {
		for _, l := range liars {
			if !l.adopted {
				registerAndLie(l, func() {})
			}
		}
	})
	for _, l := range liars {
		recordComes(t, l.name, func(r record.Record) bool { return r.Newest().UID == nodekeep.Node(t, l.name).UID })
	}
	captureHasSeenAll(t)
	for _, l := range liars {
		assert.Equal(t, []string{"dedicated=ci:NoSchedule", "example.com/known=1:NoSchedule", admins}, harness.TaintsOf(nodekeep.Node(t, l.name)), l.name)
		if l.adopted { // the rule's taint, which the kubelet dropped from the list, is left alone like a client's
			reported := nextEvent(t, "default", l.name, "ItemTaken")
			nodekeep.Label(t, l.name, map[string]any{"dedicated": "gpu"})
			reported()
			assert.Equal(t, []string{"dedicated=ci:NoSchedule", "example.com/known=1:NoSchedule", admins}, harness.TaintsOf(nodekeep.Node(t, l.name)), l.name)
		}
	}
}
