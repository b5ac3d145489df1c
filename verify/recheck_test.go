package verify_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/verify"
)

// opened returns an open Node that has passed, with the label, as the plan has it opened.
func opened(t *testing.T, profiles verify.Profiles, instant time.Time) *verify.Node {
	t.Helper()
	node := readyNode()
	pod := workerPod(node, profiles, ended(corev1.PodSucceeded, 0, passes))
	action := verify.Plan(verify.Observed{Node: node, Pods: []verify.Pod{pod}, Worker: ownOf(pod)}, profiles, modelCluster, instant)
	require.Equal(t, verify.DoOpen, action.Operation)
	opens(node, action)
	node.Labels[profiles.Label] = "true"
	return node
}

// opens does what an action writes that removes the taint.
func opens(node *verify.Node, action verify.Action) {
	node.Taints, node.Annotation = nil, action.Progress.String()
	node.Verified, _ = verify.Diagnosis{Cause: verify.CauseChecksPassed}.Shown(node, false)
}

// closes does what [verify.DoRecheck] writes.
func closes(node *verify.Node, profiles verify.Profiles, action verify.Action) {
	node.Taints, node.Annotation = append(node.Taints, action.Hold), action.Progress.String()
	delete(node.Labels, profiles.Label)
}

// planOpen plans for an open Node; without room, as a process that knows of no other Node.
func planOpen(node *verify.Node, profiles verify.Profiles, room *verify.Room, t time.Time) verify.Action {
	return verify.Plan(verify.Observed{Node: node, Room: room}, profiles, modelCluster, t)
}

// requestOf returns what is noted of an annotation with this value.
func requestOf(value string) string {
	return verify.NodeOf(&corev1.Node{ObjectMeta: annotated(value)}).Request
}

func TestAnOpenNodeIsCheckedAgainIfItsLabelWasRemovedOrAnAnnotationAsks(t *testing.T) {
	roomy := &verify.Room{Selected: 3, Takers: 3, Takes: true}
	unlabel := func(n *verify.Node, p verify.Profiles) { delete(n.Labels, p.Label) }
	ask := func(n *verify.Node, _ verify.Profiles) { n.Request = requestOf("2026-01-01") }
	changeProgress := func(change func(*verify.Progress)) func(*verify.Node, verify.Profiles) {
		return func(n *verify.Node, p verify.Profiles) {
			delete(n.Labels, p.Label)
			progress := verify.ParseProgress(n.Annotation)
			change(&progress)
			n.Annotation = progress.String()
		}
	}
	for name, test := range map[string]struct {
		change func(*verify.Node, verify.Profiles)
		room   *verify.Room
		outage bool
		want   verify.Operation
		reason string
		braked bool
	}{
		"it has its label":           {change: func(*verify.Node, verify.Profiles) {}, room: roomy, want: verify.DoNothing},
		"its label was removed":      {change: unlabel, room: roomy, want: verify.DoRecheck, reason: "the label nodekeep.dev/verified was removed"},
		"its label has another word": {change: func(n *verify.Node, p verify.Profiles) { n.Labels[p.Label] = "no" }, room: roomy, want: verify.DoRecheck},
		"an annotation asks":         {change: ask, room: roomy, want: verify.DoRecheck, reason: "the annotation nodekeep.dev/check-request asks"},
		"an annotation without a value asks": {change: func(n *verify.Node, _ verify.Profiles) { n.Request = requestOf("") },
			room: roomy, want: verify.DoRecheck},
		"an annotation asks a Node that was never checked": {change: func(n *verify.Node, p verify.Profiles) {
			unlabel(n, p)
			ask(n, p)
			n.Annotation = ""
		}, room: roomy, want: verify.DoRecheck},
		"a Node that was never checked has no label":     {change: func(n *verify.Node, p verify.Profiles) { unlabel(n, p); n.Annotation = "" }, room: roomy, want: verify.DoNothing},
		"it got another label than the policy names now": {change: changeProgress(func(p *verify.Progress) { p.Label = "example.com/old" }), room: roomy, want: verify.DoNothing},
		"which label it got is not known":                {change: changeProgress(func(p *verify.Progress) { p.Label = "" }), room: roomy, want: verify.DoNothing},
		"an operator released it": {change: changeProgress(func(p *verify.Progress) { *p = p.ReleasedBy("released", born) }),
			room: roomy, want: verify.DoNothing},
		"it was closed, and another client removed the taint": {change: changeProgress(func(p *verify.Progress) { *p = p.AfterOpen() }), room: roomy, want: verify.DoNothing},
		"no profile selects it":                               {change: func(n *verify.Node, p verify.Profiles) { unlabel(n, p); ask(n, p); delete(n.Labels, "gpu") }, room: roomy, want: verify.DoNothing},
		"another component completes it": {change: func(n *verify.Node, p verify.Profiles) {
			unlabel(n, p)
			n.Taints = []corev1.Taint{{Key: gate}}
		}, room: roomy, want: verify.DoNothing},
		"it is not Ready":                                   {change: func(n *verify.Node, p verify.Profiles) { unlabel(n, p); n.Ready = false }, room: roomy, want: verify.DoWait, reason: "was removed, and the Node is not Ready"},
		"many Nodes are not Ready":                          {change: unlabel, room: roomy, outage: true, want: verify.DoWait, reason: "too many Nodes are not Ready"},
		"nothing is known of other Nodes":                   {change: unlabel, want: verify.DoWait, reason: "one in ten"},
		"it is the last Node that takes Pods":               {change: unlabel, room: &verify.Room{Selected: 3, Takers: 1, Takes: true}, want: verify.DoWait, reason: "the last Node that takes Pods", braked: true},
		"an annotation asks the last Node that takes Pods":  {change: ask, room: &verify.Room{Selected: 1, Takers: 1, Takes: true}, want: verify.DoWait, reason: "the last Node", braked: true},
		"another Node is the last one that takes Pods":      {change: unlabel, room: &verify.Room{Selected: 3, Takers: 1}, want: verify.DoRecheck},
		"one of few Nodes is closed already":                {change: unlabel, room: &verify.Room{Selected: 19, Closed: 1, Takers: 18, Takes: true}, want: verify.DoWait, reason: "one in ten", braked: true},
		"one of twenty Nodes is closed already":             {change: unlabel, room: &verify.Room{Selected: 20, Closed: 1, Takers: 19, Takes: true}, want: verify.DoRecheck},
		"two of twenty Nodes are closed already":            {change: unlabel, room: &verify.Room{Selected: 20, Closed: 2, Takers: 18, Takes: true}, want: verify.DoWait, reason: "one in ten", braked: true},
		"an annotation asks while others are closed for it": {change: ask, room: &verify.Room{Selected: 20, Closed: 2, Takers: 18, Takes: true}, want: verify.DoWait, reason: "asks for a check; as many", braked: true},
	} {
		t.Run(name, func(t *testing.T) {
			profiles := planProfile(t, nil)
			instant := born.Add(5 * time.Second)
			node := opened(t, profiles, instant)
			test.change(node, profiles)
			diagnosis := verify.Diagnosis{Cause: verify.CauseNotVerified}
			if last := verify.ParseProgress(node.Annotation).Last; last != nil {
				diagnosis = last.Diagnosis()
			}
			node.Verified, _ = diagnosis.Shown(node, false)
			cluster := modelCluster
			if test.outage {
				cluster.OutageUntil = instant.Add(time.Hour)
			}
			action := verify.Plan(verify.Observed{Node: node, Room: test.room}, profiles, cluster, instant.Add(time.Second))
			assert.Equal(t, test.want, action.Operation, action.Diagnosis.String())
			assert.Contains(t, action.Diagnosis.String(), test.reason)
			assert.Equal(t, test.braked, action.Braked)
			assert.Equal(t, verify.StateOpen, action.State)
			if test.want != verify.DoRecheck {
				assert.Empty(t, action.Hold)
				return
			}
			assert.Equal(t, corev1.Taint{Key: verify.Taint, Value: "recheck", Effect: corev1.TaintEffectNoSchedule}, action.Hold)
			closes(node, profiles, action)
			assert.True(t, profiles.Rechecked(node.Taints))
			assert.False(t, profiles.MayRemove(node))
			reread := verify.Plan(verify.Observed{Node: node}, profiles, modelCluster, instant.Add(2*time.Second)) // by another process
			assert.Equal(t, verify.DoStart, reread.Operation, reread.Diagnosis.String())
			assert.Equal(t, node.Request, reread.Progress.Request, "the request is noted")

			node.Taints = nil // another client removes the taint: nothing closes the Node again
			assert.NotEqual(t, verify.DoRecheck, planOpen(node, profiles, roomy, instant.Add(3*time.Second)).Operation)
		})
	}
}

func TestAChangeOfTheLabelsKeyAndBackClosesNoNode(t *testing.T) {
	prev := planProfile(t, nil)
	now, errs := verify.Compile(verify.Settings{Label: "example.com/checked", Profiles: []verify.Profile{prev.All()[0].Profile}}, nil)
	require.Empty(t, errs)
	room := &verify.Room{Selected: 100, Takers: 100, Takes: true}
	node := opened(t, prev, born.Add(5*time.Second))
	assert.Equal(t, verify.DoNothing, planOpen(node, now, room, born.Add(time.Minute)).Operation)
	assert.Equal(t, verify.DoNothing, planOpen(node, prev, room, born.Add(time.Minute)).Operation, "the policy is changed back")
	node = opened(t, now, born.Add(5*time.Second))
	assert.Equal(t, verify.DoNothing, planOpen(node, prev, room, born.Add(time.Minute)).Operation)
	delete(node.Labels, "example.com/checked")
	assert.Equal(t, verify.DoNothing, planOpen(node, prev, room, born.Add(time.Minute)).Operation)
	assert.Equal(t, verify.DoRecheck, planOpen(node, now, room, born.Add(time.Minute)).Operation)
}

func TestAControllerThatStripsTheLabelEachTimeIsMetWithPausesInWhichTheNodeIsOpen(t *testing.T) {
	profiles, instant := planProfile(t, nil), born.Add(5*time.Second)
	room := &verify.Room{Selected: 3, Takers: 3, Takes: true}
	node := opened(t, profiles, instant)
	var open []time.Duration
	for range 12 {
		delete(node.Labels, profiles.Label)
		begin := instant
		action := planOpen(node, profiles, room, instant)
		if action.Operation == verify.DoWait {
			assert.Contains(t, action.Diagnosis.String(), "times in a row soon after a check; nodekeep pauses")
			instant = action.Requeue
			action = planOpen(node, profiles, room, instant)
		}
		require.Equal(t, verify.DoRecheck, action.Operation, action.Diagnosis.String())
		open = append(open, instant.Sub(begin))
		closes(node, profiles, action)
		start := verify.Plan(verify.Observed{Node: node}, profiles, modelCluster, instant)
		require.Equal(t, verify.DoStart, start.Operation, start.Diagnosis.String())
		instant = instant.Add(3 * time.Second)
		pod := workerPod(node, profiles, ended(corev1.PodSucceeded, 0, passes))
		done := verify.Plan(verify.Observed{Node: node, Pods: []verify.Pod{pod}, Worker: ownOf(pod)}, profiles, modelCluster, instant)
		require.Equal(t, verify.DoOpen, done.Operation, done.Diagnosis.String())
		opens(node, done)
	}
	assert.Equal(t, []time.Duration{0, 0, 0, 0}, open[:verify.FreeReturns+1])
	assert.Equal(t, 10*time.Second, open[verify.FreeReturns+1])
	assert.Equal(t, 5*time.Minute, open[11])
}

func TestARequestOnAClosedNodeBeginsItsAttemptsAnew(t *testing.T) {
	profiles, instant := planProfile(t, nil), born.Add(time.Minute)
	node := readyNode()
	node.Annotation = progressed(profiles, 2, instant)
	node.Request = requestOf("now")
	action := verify.Plan(verify.Observed{Node: node}, profiles, modelCluster, instant)
	require.Equal(t, verify.DoNote, action.Operation, action.Diagnosis.String())
	assert.Zero(t, action.Progress.Attempts)
	assert.Zero(t, action.Progress.Round, "a Node that was never open may still be removed")
	node.Annotation = action.Progress.String()
	assert.Equal(t, verify.DoStart, verify.Plan(verify.Observed{Node: node}, profiles, modelCluster, instant).Operation, "without a pause")
	pauses := verify.Plan(verify.Observed{Node: node, Started: instant}, profiles, modelCluster, instant)
	assert.Equal(t, verify.DoWait, pauses.Operation, "many requests start no Pods one after the other")
	assert.Equal(t, instant.Add(10*time.Second), pauses.Requeue)

	node = readyNode()
	pod := workerPod(node, profiles, ended(corev1.PodSucceeded, 0, passes))
	node.Request = requestOf("now")
	seen := verify.Observed{Node: node, Pods: []verify.Pod{pod}, Worker: ownOf(pod)}
	action = verify.Plan(seen, profiles, modelCluster, instant)
	require.Equal(t, verify.DoNote, action.Operation, action.Diagnosis.String())
	node.Annotation = action.Progress.String()
	action = verify.Plan(seen, profiles, modelCluster, instant)
	assert.Equal(t, verify.DoDelete, action.Operation, "an attempt that was begun before does not answer the request")
}

func TestAnOperatorHasAnAttemptStartedAtOnceWhateverTheStateOfAClosedNode(t *testing.T) {
	profiles, instant := planProfile(t, func(p *verify.Profile) { p.OnFailure = verify.RemoveNode }), born.Add(time.Minute)
	for name, test := range map[string]struct {
		annotation func() verify.Progress
		started    time.Duration // before the request
		state      verify.State  // before the request
		want       verify.Operation
		requeue    time.Duration // after the request
	}{
		"it is stuck":                          {annotation: func() verify.Progress { return verify.ParseProgress(progressed(profiles, 3, instant)) }, started: 5 * time.Second, state: verify.StateStuck, want: verify.DoStart},
		"it waits for its next attempt":        {annotation: func() verify.Progress { return verify.ParseProgress(progressed(profiles, 1, instant)) }, started: 5 * time.Second, state: verify.StateRetrying, want: verify.DoStart},
		"it was not tried yet":                 {annotation: func() verify.Progress { return verify.Progress{} }, started: time.Hour, state: verify.StateWaiting, want: verify.DoStart},
		"a worker Pod was started just before": {annotation: func() verify.Progress { return verify.ParseProgress(progressed(profiles, 3, instant)) }, started: time.Second, state: verify.StateStuck, want: verify.DoWait, requeue: time.Second},
		"another client adds the taint again each time": {annotation: func() verify.Progress {
			return verify.Progress{Round: 9, Returns: 9, Last: &verify.Last{Result: verify.VerdictPassed, Time: instant}}
		}, started: time.Hour, state: verify.StateWaiting, want: verify.DoStart},
	} {
		t.Run(name, func(t *testing.T) {
			node := readyNode()
			node.Annotation = test.annotation().String()
			seen := verify.Observed{Node: node, Started: instant.Add(-test.started)}
			prev := verify.Plan(seen, profiles, modelCluster, instant)
			assert.Equal(t, test.state, prev.State)

			node.Annotation = test.annotation().RestartClosed(instant).String()
			action := verify.Plan(seen, profiles, modelCluster, instant)
			require.Equal(t, test.want, action.Operation, action.Diagnosis.String())
			assert.Equal(t, verify.StateWaiting, action.State)
			assert.Zero(t, action.Progress.Attempts)
			assert.Equal(t, test.annotation().Round, action.Progress.Round, "a Node that was never open may still be removed")
			assert.Equal(t, test.annotation().Round == 0, profiles.MayRemove(node))
			if test.want == verify.DoWait {
				assert.Equal(t, instant.Add(test.requeue), action.Requeue)
				return
			}
			seen.Started, seen.Answers = instant, action.Progress.Asked
			reread := verify.Plan(seen, profiles, modelCluster, instant)
			assert.Equal(t, verify.DoWait, reread.Operation, "the request is answered once")
			assert.Equal(t, instant.Add(10*time.Second), reread.Requeue)
		})
	}
}

// A kubelet may write the annotation where guard policies are off.
func TestEverNewRequestsStartOneWorkerPodInABackoff(t *testing.T) {
	profiles, from := planProfile(t, nil), born.Add(time.Minute) // its backoff is 10s
	node := readyNode()
	seen := verify.Observed{Node: node, Started: from}
	var starts []time.Duration
	for instant := from; instant.Before(from.Add(35 * time.Second)); instant = instant.Add(time.Second) {
		node.Annotation = verify.Progress{}.RestartClosed(instant).String()
		action := verify.Plan(seen, profiles, modelCluster, instant)
		if action.Operation == verify.DoStart {
			starts = append(starts, instant.Sub(from))
			require.True(t, action.Progress.Unanswered(seen.Answers))
			seen.Started, seen.Hurried, seen.Answers = instant, instant, action.Progress.Asked
		}
	}
	assert.Equal(t, []time.Duration{2 * time.Second, 12 * time.Second, 22 * time.Second, 32 * time.Second}, starts)
}

func TestARequestOfAnOperatorReplacesTheWorkerPodOfAnEarlierAttempt(t *testing.T) {
	profiles, instant := planProfile(t, nil), born.Add(5*time.Second)
	node := readyNode()
	node.Annotation = progressed(profiles, 1, born)
	pod := workerPod(node, profiles, ended(corev1.PodSucceeded, 0, passes))
	seen := verify.Observed{Node: node, Pods: []verify.Pod{pod}, Worker: ownOf(pod)}
	require.Equal(t, verify.DoOpen, verify.Plan(seen, profiles, modelCluster, instant).Operation)
	node.Annotation = verify.ParseProgress(node.Annotation).RestartClosed(instant).String()
	assert.Equal(t, verify.DoDelete, verify.Plan(seen, profiles, modelCluster, instant).Operation)
	pod = workerPod(node, profiles, ended(corev1.PodSucceeded, 0, passes))
	opens := verify.Plan(verify.Observed{Node: node, Pods: []verify.Pod{pod}, Worker: ownOf(pod)}, profiles.WithGeneration(4), modelCluster, instant)
	require.Equal(t, verify.DoOpen, opens.Operation)
	assert.Zero(t, opens.Progress.Asked, "the request ends with its round")
	assert.EqualValues(t, 4, opens.Progress.Generation, "the Node says by which policy it passed")
	assert.Zero(t, opens.Progress.ReleasedBy("by me", instant).Generation)
}

func TestARequestIsServedOnceAlsoIfItIsRemovedOrWrittenAgain(t *testing.T) {
	profiles, instant := planProfile(t, nil), born.Add(5*time.Second)
	room := &verify.Room{Selected: 3, Takers: 3, Takes: true}
	node := opened(t, profiles, instant)
	for i, value := range []string{"a", "b"} {
		node.Request = requestOf(value)
		action := planOpen(node, profiles, room, instant)
		require.Equal(t, verify.DoRecheck, action.Operation, "%s: %s", value, action.Diagnosis.String())
		closes(node, profiles, action)
		pod := workerPod(node, profiles, ended(corev1.PodSucceeded, 0, passes))
		done := verify.Plan(verify.Observed{Node: node, Pods: []verify.Pod{pod}, Worker: ownOf(pod)}, profiles, modelCluster, instant)
		require.Equal(t, verify.DoOpen, done.Operation, done.Diagnosis.String())
		opens(node, done)
		node.Labels[profiles.Label] = "true"
		assert.Equal(t, i+2, done.Progress.Round)
		for _, kept := range []string{requestOf(value), "", requestOf(value)} {
			node.Request = kept
			assert.Equal(t, verify.DoNothing, planOpen(node, profiles, room, instant).Operation)
		}
	}
}

// All labels are removed at once, from any number of Nodes: the Nodes that are closed at one time stay within the limit, and each is checked.
func TestAMassRemovalOfLabelsClosesOneInTenAtATime(t *testing.T) {
	for _, count := range []int{1, 2, 3, 10, 25, 60} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			profiles, instant := planProfile(t, nil), born.Add(5*time.Second)
			var nodes []*verify.Node
			for i := range count {
				node := opened(t, profiles, instant)
				node.Name, node.UID = fmt.Sprint("n", i), fmt.Sprint("u", i)
				delete(node.Labels, profiles.Label)
				nodes = append(nodes, node)
			}
			for range 3 * count {
				for _, node := range nodes {
					room := &verify.Room{Selected: count, Takes: len(node.Taints) == 0}
					for _, o := range nodes {
						if len(o.Taints) == 0 {
							room.Takers++
						} else {
							room.Closed++
						}
					}
					require.LessOrEqual(t, room.Closed, max(1, count/10))
					require.Positive(t, room.Takers, "a Node must take Pods")
					if action := verify.Plan(verify.Observed{Node: node, Room: room}, profiles, modelCluster, instant); action.Operation == verify.DoRecheck {
						closes(node, profiles, action)
					}
				}
				for _, node := range nodes { // one that is closed passes
					if len(node.Taints) > 0 {
						pod := workerPod(node, profiles, ended(corev1.PodSucceeded, 0, passes))
						opens(node, verify.Plan(verify.Observed{Node: node, Pods: []verify.Pod{pod}, Worker: ownOf(pod)}, profiles, modelCluster, instant))
						node.Labels[profiles.Label] = "true"
						break
					}
				}
			}
			for _, node := range nodes {
				if count == 1 {
					assert.NotContains(t, node.Labels, profiles.Label, "the only Node stays open")
					continue
				}
				assert.Equal(t, 2, verify.ParseProgress(node.Annotation).Round, node.Name)
			}
		})
	}
}

// annotated returns the metadata of a Node that asks for a check.
func annotated(value string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Annotations: map[string]string{verify.RequestAnnotation: value}}
}
