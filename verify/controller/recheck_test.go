package controller

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/verify"
)

// verifiedNodes returns Nodes n0, n1, ... that were opened, and take Pods.
func (b *bed) verifiedNodes(count int) (names []string) {
	b.t.Helper()
	for i := range count {
		name := fmt.Sprint("n", i)
		b.register(name, passes)
		b.change(name, func(node *corev1.Node) { node.Spec.Taints = node.Spec.Taints[:1] })
		names = append(names, name)
	}
	_, stop := b.process()
	defer stop()
	for _, name := range names {
		b.waitFor(name+" must be opened", func() bool { return b.progress(name).Round == 1 })
	}
	b.change("old", func(node *corev1.Node) { node.Spec.Unschedulable = true }) // it takes no Pods
	return names
}

// closedMost returns how many Nodes were closed at one time, at most, and the fewest that were open, until the test ends.
func (b *bed) closedMost(names []string) (maximum, fewest *atomic.Int64) {
	maximum, fewest = &atomic.Int64{}, &atomic.Int64{}
	fewest.Store(int64(len(names)))
	done := make(chan struct{})
	b.t.Cleanup(func() { close(done) })
	go func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			list, err := b.client.Tracker().List(corev1.SchemeGroupVersion.WithResource("nodes"), corev1.SchemeGroupVersion.WithKind("Node"), "")
			if err != nil {
				panic(err)
			}
			closed := int64(0)
			for _, node := range list.(*corev1.NodeList).Items { // of one moment
				if slices.Contains(names, node.Name) {
					closed += int64(len(node.Spec.Taints))
				}
			}
			maximum.Store(max(maximum.Load(), closed))
			fewest.Store(min(fewest.Load(), int64(len(names))-closed))
		}
	}()
	return maximum, fewest
}

func unlabel(node *corev1.Node) { delete(node.Labels, verify.Label) }

func TestNodesWhoseLabelWasRemovedAreCheckedAgainFewAtATimeAlsoAfterARestart(t *testing.T) {
	b := newBed(t)
	names := b.verifiedNodes(25)
	for _, name := range names { // no process runs
		b.change(name, unlabel)
	}
	maximum, _ := b.closedMost(names)
	for i := range 4 { // processes are killed in between
		_, stop := b.process()
		b.waitFor("another Node must be closed", func() bool { return b.rounds(names) >= len(names)+5*(i+1) })
		stop()
		b.pass(time.Minute)
	}
	_, stop := b.process()
	defer stop()
	b.waitFor("all must be checked again", func() bool {
		b.pass(time.Second)
		return b.rounds(names) == 2*len(names)
	})
	for _, name := range names {
		b.waitFor("it must be open", func() bool { return b.node(name).Labels[verify.Label] == "true" && len(b.node(name).Spec.Taints) == 0 })
		assert.Equal(t, 2, b.progress(name).Round, name)
	}
	assert.LessOrEqual(t, maximum.Load(), int64(2), "one in ten of 26 Nodes")
	waits := 0
	for range len(b.events.Events) {
		if strings.Contains(<-b.events.Events, RecheckWaits) {
			waits++
		}
	}
	assert.Positive(t, waits)
	assert.LessOrEqual(t, waits, 5, "once for each process")
}

// rounds returns how often all Nodes together were opened.
func (b *bed) rounds(names []string) (rounds int) {
	for _, name := range names {
		rounds += b.progress(name).Round
	}
	return rounds
}

func TestTheLastNodeThatTakesPodsStaysOpen(t *testing.T) {
	b := newBed(t)
	names := b.verifiedNodes(2)
	b.change("n1", func(node *corev1.Node) { node.Spec.Unschedulable = true })
	b.change("n0", unlabel)
	_, stop := b.process()
	defer stop()
	b.waitFor("it must say why", func() bool {
		select {
		case event := <-b.events.Events:
			return strings.Contains(event, RecheckWaits) && strings.Contains(event, "the last Node that takes Pods")
		default:
			return false
		}
	})
	assert.Empty(t, b.node("n0").Spec.Taints)
	_, fewest := b.closedMost(names)
	b.change("n1", func(node *corev1.Node) { node.Spec.Unschedulable = false })
	b.waitFor("it must be checked again", func() bool { return b.progress("n0").Round == 2 })
	assert.EqualValues(t, 1, fewest.Load())
}

func TestAnAnnotationHasANodeCheckedAgainAndIsLeftAlone(t *testing.T) {
	b := newBed(t)
	b.verifiedNodes(3)
	_, stop := b.process()
	defer stop()
	for i, value := range []string{"first", "second"} {
		b.change("n0", func(node *corev1.Node) { node.Annotations[verify.RequestAnnotation] = value })
		b.waitFor("it must be checked again", func() bool { return b.progress("n0").Round == i+2 && b.node("n0").Labels[verify.Label] == "true" })
		require.Equal(t, value, b.node("n0").Annotations[verify.RequestAnnotation])
	}
	b.say("n0", refuses)
	b.change("n0", func(node *corev1.Node) { node.Annotations[verify.RequestAnnotation] = "third" })
	b.waitFor("it must be stuck", func() bool { return b.progress("n0").Attempts >= 2 })
	b.say("n0", silent)
	b.change("n0", func(node *corev1.Node) { node.Annotations[verify.RequestAnnotation] = "fourth" })
	b.waitFor("its attempts must begin anew", func() bool { return b.progress("n0").Attempts == 0 })
	b.say("n0", passes)
	b.pass(time.Hour)
	b.waitFor("it must open", func() bool { return b.progress("n0").Round == 4 })
	for _, name := range []string{"n1", "n2"} {
		assert.Equal(t, 1, b.progress(name).Round)
	}
}

func TestAnOperatorHasAStuckNodeCheckedWithoutAPause(t *testing.T) {
	b := newBed(t)
	b.register("n1", refuses)
	_, stop := b.process()
	defer stop()
	b.waitFor("it must be stuck", func() bool {
		b.pass(time.Second)
		return b.progress("n1").Stuck(b.profiles.All()[0])
	})
	b.waitFor("it must have no worker Pod", func() bool { return len(b.podList()) == 0 })
	started := b.wroteTimes("create pods")
	b.pass(askedPause)
	b.say("n1", silent)
	b.change("n1", func(node *corev1.Node) {
		node.Annotations[verify.Annotation] = verify.ParseProgress(node.Annotations[verify.Annotation]).RestartClosed(b.now()).String()
	})
	b.waitFor("an attempt must start although no time passes", func() bool { return b.wroteTimes("create pods") == started+1 })
	assert.Zero(t, b.progress("n1").Attempts)
	b.say("n1", passes)
	b.change("n1", func(node *corev1.Node) { // the worker Pod of before is replaced
		node.Annotations[verify.Annotation] = verify.ParseProgress(node.Annotations[verify.Annotation]).RestartClosed(b.now().Add(time.Second)).String()
	})
	b.waitFor("another attempt must open it", func() bool {
		b.pass(time.Second)
		return isOpen(b.node("n1"))
	})
	assert.Zero(t, b.progress("n1").Asked)
}

// askedPause is longer than the pause between two worker Pods that operators ask for.
const askedPause = 3 * time.Second

func TestAProcessThatIsKilledAfterAnyWriteOfACheckThatWasAskedForLosesNothing(t *testing.T) {
	for name, ask := range map[string]func(*corev1.Node){
		"label":      unlabel,
		"annotation": func(node *corev1.Node) { node.Annotations[verify.RequestAnnotation] = "now" },
	} {
		t.Run(name, func(t *testing.T) {
			prepare := func() *bed {
				b := newBed(t)
				b.verifiedNodes(2)
				b.change("n0", ask)
				b.mu.Lock()
				defer b.mu.Unlock()
				b.writes = nil
				return b
			}
			decided := func(b *bed) bool {
				node := b.node("n0")
				return b.progress("n0").Round == 2 && node.Labels[verify.Label] == "true" && len(node.Spec.Taints) == 0 && len(b.podList()) == 0
			}
			killed := killedAfterEachWrite(prepare, decided, decided, func(b *bed, killAt int) {
				assert.Equal(t, 1, b.progress("n1").Round, "killed after write %d: %s", killAt, b.writes)
			})
			assert.GreaterOrEqual(t, killed, 3, "closed, Pod, opened, deletion")
		})
	}
}

func TestARequestIsServedOnceThoughAnAdmissionPolicyDropsTheNoteOfIt(t *testing.T) {
	b := newBed(t)
	b.strips = true
	b.register("n1", passes)
	asks := func(value string) {
		b.change("n1", func(node *corev1.Node) { node.Annotations = map[string]string{verify.RequestAnnotation: value} })
	}
	asks("before it is open")
	c, stop := b.process()
	defer stop()
	open := func() bool { return isOpen(b.node("n1")) }
	b.waitFor("the request must not keep the Node closed", open)
	for _, value := range []string{"a", "b"} {
		index := b.wroteTimes("create pods")
		asks(value)
		b.waitFor("the Node must be checked", func() bool { return b.wroteTimes("create pods") == index+1 })
		b.waitFor("the Node must be open again", open)
		for range 20 {
			b.pass(time.Minute)
			c.queue.Add("n1")
			time.Sleep(5 * time.Millisecond)
		}
		assert.True(t, open(), "the request was served")
		assert.Equal(t, index+1, b.wroteTimes("create pods"))
	}
}
