package verify_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/verify"
)

// withTwo has the profile ask a network check and one of the machine.
func withTwo(profile *verify.Profile) {
	profile.Checks = append(profile.Checks, verify.Check{Name: "smi", Container: &verify.Container{Image: "x"}})
}

// asked returns what is known where so many Nodes can be asked, and these control Pods exist.
func asked(able int, pods ...*verify.Pod) verify.Control {
	known := verify.Control{Able: able}
	for i, pod := range pods {
		known.Pods = append(known.Pods, verify.ControlPod{Pod: *pod, Node: fmt.Sprint("verified-", i+1)})
	}
	return known
}

func TestAFailureIsSharedWhereAVerifiedNodeFailsTheSameCheck(t *testing.T) {
	now := born.Add(20 * time.Second)
	control := func(change func(*verify.Pod)) *verify.Pod {
		pod := &verify.Pod{Name: "control-1", UID: "c1", Created: now.Add(-5 * time.Second), Phase: corev1.PodPending}
		change(pod)
		return pod
	}
	endedAt := func(instant time.Time, code int, message string) func(*verify.Pod) {
		return func(pod *verify.Pod) {
			ended(corev1.PodFailed, code, message)(pod)
			pod.Containers[0].Finished = instant
		}
	}
	for name, test := range map[string]struct {
		profile func(*verify.Profile)
		pod     func(*verify.Pod) // nil: its check failed
		node    func(*verify.Node)
		control verify.Control
		want    verify.Operation
		verdict verify.Verdict
		requeue time.Time
	}{
		"no verified Node": {want: verify.DoRecord, verdict: verify.VerdictFailed},
		"no control yet":   {control: verify.Control{Able: 1}, want: verify.DoControl, requeue: now.Add(time.Second)},
		"control runs":     {control: asked(1, control(func(*verify.Pod) {})), want: verify.DoWait, requeue: now.Add(-5*time.Second + 2*time.Minute)},
		"control runs, and its Node is verified no more": {control: asked(0, control(func(*verify.Pod) {})), want: verify.DoWait, requeue: now.Add(-5*time.Second + 2*time.Minute)},
		"control fails": {control: asked(1, control(endedAt(now, 1, refuses))), want: verify.DoRecord, verdict: verify.VerdictShared},
		"control fails, and its Node is verified no more": {control: asked(0, control(endedAt(now, 1, refuses))), want: verify.DoRecord, verdict: verify.VerdictShared},
		"control passes":                              {control: asked(1, control(endedAt(now, 0, passes))), want: verify.DoRecord, verdict: verify.VerdictFailed},
		"control is cut off":                          {control: asked(1, control(endedAt(now, 137, ""))), want: verify.DoRecord, verdict: verify.VerdictFailed},
		"control is garbage":                          {control: asked(1, control(endedAt(now, 0, "x"))), want: verify.DoRecord, verdict: verify.VerdictFailed},
		"one of two is asked, and passes":             {control: asked(2, control(endedAt(now, 0, passes))), want: verify.DoControl, requeue: now.Add(time.Second)},
		"one of two is asked, and runs":               {control: asked(2, control(func(*verify.Pod) {})), want: verify.DoControl, requeue: now.Add(time.Second)},
		"one of two is asked, and fails":              {control: asked(2, control(endedAt(now, 1, refuses))), want: verify.DoRecord, verdict: verify.VerdictShared},
		"of two one passes, and one runs":             {control: asked(9, control(endedAt(now, 0, passes)), control(func(*verify.Pod) {})), want: verify.DoWait, requeue: now.Add(-5*time.Second + 2*time.Minute)},
		"of two one runs, and one fails":              {control: asked(9, control(func(*verify.Pod) {}), control(endedAt(now, 1, refuses))), want: verify.DoRecord, verdict: verify.VerdictShared},
		"of two one passes, and one fails":            {control: asked(9, control(endedAt(now, 0, passes)), control(endedAt(now, 1, refuses))), want: verify.DoRecord, verdict: verify.VerdictShared},
		"two pass":                                    {control: asked(9, control(endedAt(now, 0, passes)), control(endedAt(now, 0, passes))), want: verify.DoRecord, verdict: verify.VerdictFailed},
		"of two one passes, and the other is cut off": {control: asked(9, control(endedAt(now, 0, passes)), control(endedAt(now, 137, ""))), want: verify.DoRecord, verdict: verify.VerdictFailed},
		"a result of before": {control: asked(1, control(func(pod *verify.Pod) {
			pod.Created = now.Add(-2 * time.Minute)
			endedAt(now.Add(-time.Minute), 1, refuses)(pod)
		})), want: verify.DoControl, requeue: now.Add(time.Second)},
		"a result of the last minute": {control: asked(1, control(func(pod *verify.Pod) {
			pod.Created = now.Add(-2 * time.Minute)
			endedAt(now.Add(-59*time.Second), 1, refuses)(pod)
		})), want: verify.DoRecord, verdict: verify.VerdictShared},
		"a result of a time to come": {control: asked(1, control(func(pod *verify.Pod) { pod.Created = now.Add(-time.Hour); endedAt(now.Add(time.Hour), 1, refuses)(pod) })), want: verify.DoControl, requeue: now.Add(time.Second)},
		"a check of the machine fails, too": {
			profile: withTwo, control: verify.Control{Able: 1}, want: verify.DoRecord, verdict: verify.VerdictFailed,
			pod: func(pod *verify.Pod) {
				ended(corev1.PodFailed, 1, refuses)(pod)
				pod.Containers = append(pod.Containers, verify.ContainerState{Name: "smi", Ended: true, ExitCode: 1})
			},
		},
		"a check of the machine passes": {
			profile: withTwo, control: asked(1, control(endedAt(now, 1, refuses))), want: verify.DoRecord, verdict: verify.VerdictShared,
			pod: func(pod *verify.Pod) {
				ended(corev1.PodFailed, 1, refuses)(pod)
				pod.Containers = append(pod.Containers, verify.ContainerState{Name: "smi", Ended: true})
			},
		},
		"another check fails on the verified Node": {
			profile: func(profile *verify.Profile) {
				profile.Checks = append(profile.Checks, verify.Check{Name: "api", API: &verify.API{}})
			},
			pod:     ended(corev1.PodFailed, 1, `{"results":[{"check":"dns","outcome":"passed","required":true,"millis":1},{"check":"api","outcome":"failed","required":true,"reason":"Timeout","millis":1}]}`),
			control: asked(1, control(endedAt(now, 1, `{"results":[{"check":"dns","outcome":"failed","required":true,"reason":"Timeout","millis":1},{"check":"api","outcome":"passed","required":true,"millis":1}]}`))),
			want:    verify.DoRecord, verdict: verify.VerdictFailed,
		},
		"inconclusive":  {pod: ended(corev1.PodFailed, 137, ""), control: verify.Control{Able: 1}, want: verify.DoRecord, verdict: verify.VerdictInconclusive},
		"not Ready now": {node: func(node *verify.Node) { node.Ready = false }, control: verify.Control{Able: 1}, want: verify.DoDelete},
		"control never comes": {
			pod: func(pod *verify.Pod) {
				ended(corev1.PodFailed, 1, refuses)(pod)
				pod.Created = now.Add(-3 * 160 * time.Second)
			},
			control: verify.Control{Able: 1}, want: verify.DoRecord, verdict: verify.VerdictFailed,
		},
		"control that never ends, of a Pod that waited long": {
			pod: func(pod *verify.Pod) {
				ended(corev1.PodFailed, 1, refuses)(pod)
				pod.Created = now.Add(-3 * 160 * time.Second)
			},
			control: asked(1, control(func(*verify.Pod) {})), want: verify.DoRecord, verdict: verify.VerdictFailed,
		},
		"released while it waits": {
			profile: func(profile *verify.Profile) { profile.OnTimeout, profile.Deadline = verify.Release, "1m" },
			node:    func(node *verify.Node) { node.Created = born.Add(-time.Hour) }, control: verify.Control{Able: 1}, want: verify.DoFree,
		},
	} {
		t.Run(name, func(t *testing.T) {
			profiles, node := planProfile(t, test.profile), readyNode()
			if test.node != nil {
				test.node(node)
			}
			if test.pod == nil {
				test.pod = ended(corev1.PodFailed, 1, refuses)
			}
			pod := workerPod(node, profiles, test.pod)
			action := verify.Plan(verify.Observed{Node: node, Pods: []verify.Pod{pod}, Worker: ownOf(pod), Control: test.control}, profiles, verify.Cluster{}, now)
			require.Equal(t, test.want, action.Operation, action.Diagnosis.String())
			if !test.requeue.IsZero() {
				assert.Equal(t, test.requeue, action.Requeue)
				assert.Equal(t, verify.StateChecking, action.State)
			}
			if test.want != verify.DoRecord {
				return
			}
			assert.Equal(t, test.verdict, action.Progress.Last.Result)
			report := action.Report(node)
			if test.verdict != verify.VerdictShared {
				assert.Equal(t, 1, action.Progress.Attempts)
				assert.Zero(t, action.Progress.Shared)
				return
			}
			assert.Zero(t, action.Progress.Attempts)
			assert.Equal(t, 1, action.Progress.Shared)
			assert.Equal(t, verify.ReasonShared, report.Reason)
			assert.Equal(t, "dns", report.Check)
			assert.Contains(t, report.Message, "fails it, too")
			assert.NotEqual(t, pod.Name, verify.PodPrefix+verify.AttemptOf(node.UID, action.Progress), "the next attempt is another one")
		})
	}
}

func TestASharedFailureIsTriedAgainAfterAMinuteAndShown(t *testing.T) {
	for maxBackoff, want := range map[string]time.Duration{"5m": time.Minute, "30s": 30 * time.Second} {
		profiles, node := planProfile(t, func(profile *verify.Profile) { profile.Attempts.MaxBackoff = maxBackoff }), readyNode()
		node.Annotation = verify.Progress{
			Attempts: 1, Shared: 7, BootID: "b1", Hash: profiles.All()[0].Hash, Last: &verify.Last{Result: verify.VerdictShared, Reason: verify.ReasonShared, Check: "dns", Message: "no answer", Time: born},
		}.String()
		action := verify.Plan(verify.Observed{Node: node}, profiles, verify.Cluster{}, born)
		assert.Equal(t, verify.DoShow, action.Operation)
		assert.Equal(t, verify.Projection{Status: corev1.ConditionFalse, Reason: verify.ReasonShared, Message: "a check fails on verified Nodes, too: dns: no answer; correct what the check asks for; such attempts do not count"}, action.Show)
		assert.Equal(t, verify.StateRetrying, action.State)
		assert.Equal(t, want, action.Requeue.Sub(born))
		assert.Equal(t, verify.DoStart, verify.Plan(verify.Observed{Node: node}, profiles, verify.Cluster{}, born.Add(want)).Operation)
	}
}

func TestTheControlOfAProfileAsksItsNetworkChecks(t *testing.T) {
	profile := planProfile(t, func(profile *verify.Profile) {
		withTwo(profile)
		profile.Checks = append(profile.Checks, verify.Check{Name: "kubelet", Kubelet: &verify.Kubelet{}})
	}).All()[0]
	network := profile.Network()
	require.Len(t, network.Checks, 1)
	assert.Equal(t, "dns", network.Checks[0].Name)
	assert.Len(t, profile.Checks, 3)
	assert.Equal(t, profile.ControlKey(), network.ControlKey())
}

func TestAControlPodTakesATurnFromWorkerPodsAndNeverWaits(t *testing.T) {
	starts := verify.NewStarts(verify.Start{PerSecond: 1, InFlight: 1})
	starts.Exists("p1")
	starts.Control("control-1", born)
	assert.Equal(t, 2, starts.InFlight())
	starts.Created("control-1", "c1", born)
	starts.Gone("p1")
	starts.Want("n1", verify.TurnFirst)
	node, _ := starts.Next(born)
	assert.Empty(t, node, "the control Pod is in flight")
	starts.Gone("c1")
	node, delay := starts.Next(born)
	assert.Empty(t, node, "the control Pod has used the second")
	assert.Positive(t, delay)
}
