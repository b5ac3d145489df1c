package capture

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/observe"
)

// watched observes Nodes by a clock that the test turns.
type watched struct {
	*observations
	clock  time.Time
	lifted []time.Duration
}

func watch() *watched {
	w := &watched{clock: now}
	w.observations = newObservations(
		gate.Present,
		func(delay time.Duration) { w.lifted = append(w.lifted, delay) },
		func() time.Time { return w.clock },
	)
	return w
}

func (w *watched) passes(d time.Duration) { w.clock = w.clock.Add(d) }

// standsAs checks the counts: Nodes, current ones, gated ones.
func (w *watched) standsAs(t *testing.T, want ...int) {
	t.Helper()
	live, current, gated := w.counts()
	assert.Equal(t, want, []int{live, current, gated})
}

// dealsWith does what a worker does with a name.
func (w *watched) dealsWith(name string, dealt bool) {
	w.start(name)
	w.finish(name, dealt, resyncInputs{})
}

func sight(name string, uid types.UID, labels map[string]string, taints ...corev1.Taint) *observe.CompactNode {
	return observe.CompactNodeOf(&observe.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid}, Items: labels, Taints: taints})
}

func TestANodeIsCurrentOnceItsLastObservationIsReconciled(t *testing.T) {
	w := watch()
	w.observeLive(sight("n", "1", nil))
	w.observeLive(sight("other", "2", nil))
	w.standsAs(t, 2, 0, 0)
	w.dealsWith("n", true)
	w.standsAs(t, 2, 1, 0)
	w.observeLive(sight("n", "1", nil))
	w.standsAs(t, 2, 1, 0) // a heartbeat
	w.observeLive(sight("n", "1", map[string]string{"a": "1"}))
	w.standsAs(t, 2, 0, 0)
	w.dealsWith("n", false)
	w.standsAs(t, 2, 0, 0)
	w.start("n")
	w.observeLive(sight("n", "1", map[string]string{"a": "2"}))
	w.finish("n", true, resyncInputs{})
	w.standsAs(t, 2, 0, 0) // it changed while the worker was at it
	w.dealsWith("n", true)
	w.standsAs(t, 2, 1, 0)
	w.dealsWith("n", false)
	w.standsAs(t, 2, 0, 0) // the record changed under it
	w.dealsWith("n", true)
	w.start("n")
	w.noteUnreadable("n")
	w.finish("n", true, resyncInputs{})
	w.standsAs(t, 2, 0, 0) // nothing can be done about its record
	w.dealsWith("n", true)
	w.standsAs(t, 2, 1, 0)
	w.observeDeleted(sight("n", "1", nil))
	w.standsAs(t, 1, 0, 0)
	w.forgetDeleted("n", "1")
	w.dealsWith("n", true)
	w.dealsWith("unknown", false)
	w.noteUnreadable("unknown")
	w.standsAs(t, 1, 0, 0)
}

func TestLagIsMeasuredOnceFromTheFirstChangeThatWaitsToTheFirstRecordThatIsStored(t *testing.T) {
	w := watch()
	measures := func(want time.Duration) {
		t.Helper()
		lag, first := w.noteWrite("n")
		assert.True(t, first)
		assert.Equal(t, want, lag)
		_, retry := w.noteWrite("n")
		assert.False(t, retry, "it was measured")
	}
	_, unknown := w.noteWrite("n")
	assert.False(t, unknown)
	w.observeLive(sight("n", "1", nil))
	w.passes(time.Second)
	w.observeLive(sight("n", "1", map[string]string{"a": "1"}))
	w.start("n")
	w.passes(time.Second)
	measures(2 * time.Second)
	w.observeLive(sight("n", "1", map[string]string{"a": "2"})) // while the worker is at it
	w.passes(time.Minute)
	w.finish("n", true, resyncInputs{})

	w.start("n")
	w.finish("n", false, resyncInputs{}) // the write failed
	w.passes(time.Second)
	w.start("n")
	measures(61 * time.Second)
	w.finish("n", false, resyncInputs{}) // what came after the write failed
	w.start("n")
	_, repeat := w.noteWrite("n")
	assert.False(t, repeat, "nothing was received since")
	w.finish("n", true, resyncInputs{})
	w.start("n")
	_, idle := w.noteWrite("n")
	assert.False(t, idle, "no change waited for it")

	w.observeDeleted(sight("n", "1", nil))
	w.passes(time.Second)
	w.start("n")
	measures(time.Second)
}

func TestTheGateIsTimedFromItsFirstObservationUntilItsRemoval(t *testing.T) {
	w := watch()
	behind := gate.Taint()
	w.observeLive(sight("n", "1", nil, behind))
	w.standsAs(t, 1, 0, 1)
	w.passes(time.Second)
	w.observeLive(sight("n", "1", map[string]string{"a": "1"}, behind))
	assert.Equal(t, time.Second, w.longestGated())
	w.passes(time.Second)
	w.observeLive(sight("n", "1", map[string]string{"a": "1"}))
	assert.Equal(t, []time.Duration{2 * time.Second}, w.lifted)
	w.standsAs(t, 1, 0, 0)
	assert.Zero(t, w.longestGated())

	w.observeLive(sight("n", "1", nil, behind)) // added again by an operator
	w.passes(time.Second)
	w.observeLive(sight("n", "2", nil, behind)) // deleted and created again while the watch was down
	assert.Zero(t, w.longestGated())
	w.observeLive(sight("n", "3", nil))
	w.observeLive(sight("n", "3", nil, behind))
	w.observeDeleted(sight("n", "3", nil))
	w.standsAs(t, 0, 0, 0)
	assert.Len(t, w.lifted, 1, "the gate of a Node that goes is not lifted")
}

func TestANodeThatWasGatedBeforeCaptureStartedIsTimedFromItsCreation(t *testing.T) {
	for name, c := range map[string]struct {
		created time.Duration
		longest time.Duration
	}{
		"an hour ago":                         {-time.Hour, time.Hour},
		"just now, by a clock of one second":  {-time.Second, 0},
		"in an hour, by a clock that is fast": {time.Hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := watch()
			w.observeLive(observe.CompactNodeOf(&observe.Node{
				ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "1", CreationTimestamp: metav1.NewTime(w.clock.Add(c.created))}, Taints: []corev1.Taint{gate.Taint()},
			}))
			assert.Equal(t, c.longest, w.longestGated())
		})
	}
}
