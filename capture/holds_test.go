package capture

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"nodekeep.dev/nodekeep/capture/pace"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/policy"
)

func numbered(i int) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprintf("n%d", i), UID: types.UID(fmt.Sprint(i)), ResourceVersion: "50", Labels: labels{"k": "v"},
	}}
}

func TestAStandbyActsOnWhatWasDueForAWhileWithoutALeader(t *testing.T) {
	for name, c := range map[string]struct {
		arrange func(w *cluster)
		done    func(w *cluster) bool
	}{
		"a first record": {
			func(w *cluster) { w.register(node("a", "10", labels{"k": "v"})) },
			func(w *cluster) bool { return len(w.NodeNames()) == 1 },
		},
		"a Node that waits behind the gate": {
			func(w *cluster) {
				w.holds(remembered("a", 10, labels{"k": "v", worker: ""}))
				w.register(node("b", "20", nil, gated))
			},
			func(w *cluster) bool { return assert.ObjectsAreEqual(labels{"k": "v", worker: ""}, w.shows()) },
		},
		"a deletion": {
			func(w *cluster) {
				w.holds(remembered("a", 10, labels{"k": "v"}))
				w.register(node("a", "10", labels{"k": "v"}))
				w.delete()
			},
			func(w *cluster) bool { return len(w.NodeNames()) == 1 && !w.record().DeletedAt.IsZero() },
		},
		"a record whose Node does not exist": {
			func(w *cluster) { w.holds(remembered("a", 10, labels{"k": "v"})) },
			func(w *cluster) bool { return !w.record().DeletedAt.IsZero() },
		},
		"a taint that a rule wants": {
			func(w *cluster) {
				w.policy = loadPolicy(w.t, followDedicated)
				w.holds(remembered("a", 10, labels{"dedicated": "ci"}))
				w.register(node("a", "10", labels{"dedicated": "ci"}))
			},
			func(w *cluster) bool { return w.shows()["dedicated:NoSchedule"] == "ci" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t, "")
			r := w.replica()
			c.arrange(w)
			for _, name := range w.NodeNames() {
				r.Enqueue(name)
			}
			require.Empty(t, r.works())
			w.passes(pace.StandbyDelay - time.Nanosecond)
			r.looks()
			assert.Empty(t, r.wrote(), "the leader has time to act")
			w.passes(time.Nanosecond)
			r.looks()
			assert.NotEmpty(t, r.wrote())
			assert.True(t, c.done(w))
			assert.Empty(t, r.due(), "nothing is left to do")
		})
	}
}

func TestAStandbyWritesNothingWhileTheLeaderIsBusy(t *testing.T) {
	const nodes, perSecond = 1_000, 50
	w := newCluster(t, "")
	for i := range nodes {
		w.register(numbered(i))
	}
	standby := whileALeaderWorks(t, w, nodes, perSecond)
	assert.Len(t, w.NodeNames(), nodes)
	assert.Empty(t, standby.wrote())
	assert.Empty(t, standby.due())
}

// whileALeaderWorks has a leader work on so many Nodes, some each second, and returns a standby that looks on meanwhile.
func whileALeaderWorks(t *testing.T, w *cluster, nodes, perSecond int) (standby *replica) {
	leader, standby := w.replica(), w.replica()
	require.Empty(t, standby.works())
	leader.leading.Store(true)
	leader.enqueueAll()
	for range nodes / perSecond {
		for range perSecond {
			name, _ := leader.queue.Get()
			require.NoError(t, leader.reconcileOne(t.Context(), name))
			leader.queue.Done(name)
		}
		w.passes(time.Second)
		require.Empty(t, standby.works())
		standby.looks()
	}
	return standby
}

func TestAStandbyTakesOverFromALeaderThatStopsAndStopsWhenAnotherOneStarts(t *testing.T) {
	const nodes = 100
	w := newCluster(t, "")
	for i := range nodes {
		w.register(numbered(i))
	}
	leader, standby := w.leader(), w.replica()
	require.Empty(t, standby.works())
	work := func(r *replica, times int) {
		for range times {
			name, _ := r.queue.Get()
			require.NoError(t, r.reconcileOne(t.Context(), name))
			r.queue.Done(name)
		}
	}
	for range 10 {
		work(leader, 1)
		w.passes(time.Second)
		standby.looks()
	}
	require.Empty(t, standby.wrote())
	leader.deaf = true // it is killed

	w.passes(pace.StandbyDelay - time.Nanosecond)
	standby.looks()
	assert.Empty(t, standby.wrote())
	w.passes(time.Nanosecond)
	late := standby.standby.TakeOverdue(w.now())
	assert.Len(t, late, nodes-10)
	for _, name := range late {
		standby.Enqueue(name)
	}
	work(standby, 30)
	assert.Len(t, standby.wrote(), 30)

	next := w.leader()
	for len(next.wrote()) == 0 {
		work(next, 1)
	}
	require.Empty(t, standby.works())
	assert.Empty(t, standby.wrote(), "another replica makes progress")
	assert.Less(t, len(w.NodeNames()), nodes)
	w.passes(pace.StandbyDelay)
	standby.looks()
	assert.Len(t, w.NodeNames(), nodes, "and when that one stops, too, the rest is done")
}

// A label that flaps, or a Node that comes and goes, must not keep a standby waiting for a leader that has ended.
func TestAClientThatUndoesItsOwnEditIsNoProgressOfALeader(t *testing.T) {
	w := newCluster(t, "", numbered(7), remembered("a", 10, labels{"k": "v"}), node("a", "10", labels{"k": "v"}))
	standby := w.replica()
	for range 30 {
		require.Empty(t, standby.works())
		w.label("k", "w")
		require.Empty(t, standby.works())
		w.label("k", "v")
		w.edit(func(n *corev1.Node) { n.ManagedFields = nil })
		w.passes(pace.StandbyDelay / 30)
		standby.looks()
	}
	assert.Contains(t, w.NodeNames(), "n7")
}

func TestAStandbyThatHasTakenOverActsAtOnceForAWhile(t *testing.T) {
	takenOver := func() (w *cluster, standby *replica) {
		w = newCluster(t, "")
		standby = w.replica()
		w.register(numbered(1))
		require.Empty(t, standby.works())
		w.passes(pace.StandbyDelay)
		standby.looks()
		require.Len(t, w.NodeNames(), 1)
		return w, standby
	}
	t.Run("what is due next", func(t *testing.T) {
		w, standby := takenOver()
		w.passes(pace.ActingPeriod - 1)
		w.register(numbered(2))
		require.Empty(t, standby.works())
		assert.Len(t, w.NodeNames(), 2)
		w.passes(1)
		w.register(numbered(3))
		require.Empty(t, standby.works())
		assert.Len(t, w.NodeNames(), 2, "a leader has had the time to come")
		w.passes(pace.StandbyDelay)
		standby.looks()
		assert.Len(t, w.NodeNames(), 3)
	})
	t.Run("unless another replica writes a record first", func(t *testing.T) {
		w, standby := takenOver()
		w.register(numbered(2))
		standby.meanwhile("put n2", func() { w.leads() })
		require.Empty(t, standby.works())
		standby.wrote()
		w.register(numbered(3))
		require.Empty(t, standby.works())
		assert.Empty(t, standby.wrote())
	})
}

func TestWhatAStandbyCanDoNothingAboutKeepsItNotBusy(t *testing.T) {
	w := newCluster(t, "", remembered("a", 10, labels{"k": "v"}))
	r := w.replica()
	r.deaf = true
	w.register(node("a", "10", labels{"k": "v"})) // its watch has not brought the Node
	require.Empty(t, r.works())
	w.passes(pace.StandbyDelay)
	for range 1000 {
		r.looks()
		w.passes(time.Millisecond)
	}
	assert.LessOrEqual(t, len(r.reads), 1)
	assert.Empty(t, r.wrote())
	assert.Empty(t, r.due())

	r.deaf = false
	w.passes(pace.ActingPeriod)
	w.label("k", "w")
	require.Empty(t, r.works())
	assert.NotEmpty(t, r.due())
	w.Tamper("n1", []byte("no JSON"))
	r.reconciles()
	assert.Empty(t, r.due())
}

func TestABrakeCountsWhatTheLeaderSets(t *testing.T) {
	w := newCluster(t, followDedicated, node("a", "10", labels{"dedicated": "ci"}))
	leader, standby := w.leader(), w.replica()
	step := func() {
		require.Empty(t, standby.works()) // it observes what is due
		w.passes(pace.FirstPause)
		leader.reconciles()
		require.Empty(t, standby.works()) // and what the leader made of it
	}
	step()
	for range pace.FreeFlaps + 1 {
		w.untaint("dedicated")
		step()
		require.Contains(t, w.shows(), "dedicated:NoSchedule")
	}
	leader.deaf = true // it is killed
	w.untaint("dedicated")
	require.Empty(t, standby.works())
	for range 2 { // it takes over, and leads later
		uid := types.UID("a")
		wait, _ := standby.fights.Wait(uid, plan.TaintEdits(plan.CauseDerivedTaint, false, taints("dedicated=ci:NoSchedule")...)[0].DesiredItem, w.now())
		assert.Positive(t, wait, "the fight goes on")
		standby.Lead()
	}
	require.Empty(t, standby.works())
	assert.NotContains(t, w.shows(), "dedicated:NoSchedule")
	w.passes(pace.StandbyDelay)
	standby.reconciles()
	assert.Contains(t, w.shows(), "dedicated:NoSchedule")
}

func TestABrakeDoesNotCountWhatNobodySet(t *testing.T) {
	w := newCluster(t, followDedicated, remembered("a", 10, labels{"dedicated": "ci"}), node("a", "10", labels{"dedicated": "ci"}))
	standby := w.replica()
	for range 2 * pace.FreeFlaps { // a client adds and removes the label of a rule, and nobody acts
		w.label("dedicated", "ci")
		require.Empty(t, standby.works())
		w.edit(func(n *corev1.Node) { delete(n.Labels, "dedicated") })
		require.Empty(t, standby.works())
	}
	wait, _ := standby.fights.Wait("a", plan.TaintEdits(plan.CauseDerivedTaint, false, taints("dedicated=ci:NoSchedule")...)[0].DesiredItem, w.now())
	assert.Zero(t, wait)
}

// convergence returns a cluster in which much is due, and what comes of it in the end.
func convergence(t *testing.T) *cluster {
	w := newCluster(t, followDedicated)
	w.holds(remembered("a", 10, labels{"k": "new", "dedicated": "ci", worker: "", "maintenance:NoExecute": "disk"}, removed(10, "old")))
	w.register(node("b", "20", labels{"k": "stale", "old": "x", "own": "1"}, given(labels{"k": "stale", "old": "x"}), owned("kubectl-label", "own"), gated))
	return w
}

func assertConverged(t *testing.T, w *cluster) {
	t.Helper()
	assert.Equal(t, labels{
		"k": "new", "dedicated": "ci", "dedicated:NoSchedule": "ci", worker: "", "maintenance:NoExecute": "disk", "own": "1",
	}, w.shows())
	assert.Equal(t, labels{"k": "new", "dedicated": "ci", worker: "", "maintenance:NoExecute": "disk", "own": "1"}, w.record().Items())
	assert.Equal(t, types.UID("b"), w.record().Newest().UID)
	assert.Equal(t, "dedicated=ci:NoSchedule", w.node().Annotations[policy.TaintsAnnotation])
}

func TestReplicasThatRunAtTheSameTimeConverge(t *testing.T) {
	for range 20 {
		w := convergence(t)
		replicas := []*replica{w.leader(), w.leader(), w.leader()}
		var done sync.WaitGroup
		for _, r := range replicas {
			done.Go(func() { assert.Empty(t, r.works()) })
		}
		done.Wait()
		for _, r := range replicas {
			require.Empty(t, r.works())
		}
		assertConverged(t, w)
	}
}

func TestARunningStandbyActsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t, "")
		r := w.replica(func(o *Options) {
			o.Client, o.Now = fake.NewClientset(numbered(1), numbered(2)), time.Now
			o.Metrics = NewMetrics(prometheus.NewRegistry())
		})
		ended := make(chan error, 1)
		go func() { ended <- r.Run(t.Context(), func() bool { return true }) }()
		time.Sleep(pace.StandbyDelay - time.Millisecond)
		synctest.Wait()
		assert.Empty(t, w.NodeNames())
		time.Sleep(2 * standbyInterval)
		synctest.Wait()
		assert.Len(t, w.NodeNames(), 2)
		r.queue.ShutDown()
	})
}

func TestOnlyTheLeaderReportsWhatEveryReplicaObserves(t *testing.T) {
	w := newCluster(t, followDedicated, remembered("a", 10, labels{"dedicated": "ci", "dedicated:NoSchedule": "mine"}))
	w.register(node("a", "10", labels{"dedicated": "ci"}, tainted("dedicated=mine:NoSchedule")))
	leader, standby := w.leader(), w.replica()
	for _, r := range []*replica{leader, standby} {
		r.enqueueAll()
		require.Empty(t, r.works())
	}
	assert.Equal(t, []string{ItemTaken}, leader.reported())
	assert.Empty(t, standby.reported())
}

func TestAReplicaThatStartsToLeadForgetsNoRefusedLabel(t *testing.T) {
	w := newCluster(t, "", remembered("a", 10, labels{"k": "v"}), node("b", "20", nil, gated))
	r := w.replica()
	r.refusals.NoteRefused("b", "k", w.now())
	r.Lead()
	require.Empty(t, r.works())
	assert.NotContains(t, w.shows(), "k")
	assert.Contains(t, w.shows(), "nodekeep.dev/restoring:NoSchedule")
}
