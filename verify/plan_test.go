package verify_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"nodekeep.dev/nodekeep/verify"
)

var born = time.Unix(1_700_000_000, 0)

// planProfile returns a profile with one DNS check, changed as the test needs it.
func planProfile(t *testing.T, change func(*verify.Profile)) verify.Profiles {
	t.Helper()
	profile := verify.Profile{
		Name: "gpu", NodeSelector: "gpu=yes", Checks: []verify.Check{{Name: "dns", DNS: &verify.DNS{Names: []string{"kubernetes.default.svc"}}}},
		Attempts: verify.Attempts{Max: new(3), Backoff: "10s", MaxBackoff: "1m"},
	}
	if change != nil {
		change(&profile)
	}
	profiles, errs := verify.Compile(verify.Settings{Profiles: []verify.Profile{profile}}, nil)
	require.Empty(t, errs)
	return profiles
}

// readyNode has the taint, is Ready and waits for nothing.
func readyNode() *verify.Node {
	return &verify.Node{
		Name: "n1", UID: "u1", Created: born, Labels: map[string]string{"gpu": "yes"}, Ready: true, BootID: "b1",
		Taints: []corev1.Taint{{Key: verify.Taint, Effect: corev1.TaintEffectNoSchedule}},
	}
}

// workerPod returns the Pod of the Node's current attempt.
func workerPod(node *verify.Node, profiles verify.Profiles, change func(*verify.Pod)) verify.Pod {
	profile, _ := profiles.Match(node.Labels)
	progress := verify.ParseProgress(node.Annotation)
	progress.Hash, progress.BootID = profile.Hash, node.BootID
	pod := verify.Pod{Name: verify.PodPrefix + verify.AttemptOf(node.UID, progress), UID: "p1", NodeUID: node.UID, Created: born.Add(time.Second), Phase: corev1.PodPending}
	if change != nil {
		change(&pod)
	}
	return pod
}

// ownOf has a Pod be the one that the process created for the attempt that its name shows.
func ownOf(pod verify.Pod) verify.OwnPod {
	return verify.OwnPod{UID: pod.UID, Attempt: strings.TrimPrefix(pod.Name, verify.PodPrefix)}
}

func ended(phase corev1.PodPhase, code int, message string) func(*verify.Pod) {
	return func(pod *verify.Pod) {
		pod.Phase = phase
		pod.Containers = []verify.ContainerState{{Name: verify.Worker, Started: born.Add(2 * time.Second), Ended: true, ExitCode: code, Reason: "Completed", Message: message}}
	}
}

// progressed returns the annotation after so many attempts that did not pass, the last one now.
func progressed(profiles verify.Profiles, attempts int, t time.Time) string {
	return verify.Progress{
		Attempts: attempts, BootID: "b1", Hash: profiles.All()[0].Hash, Last: &verify.Last{Result: verify.VerdictFailed, Check: "dns", Message: "no answer", Time: t},
	}.String()
}

// onlyWarm is a profile that only waits for the condition Warm.
func onlyWarm(p *verify.Profile) {
	p.Checks, p.Wait.Conditions = nil, map[string]verify.ConditionStatus{"Warm": "True"}
}

func everyDaemonSet(p *verify.Profile) { p.Wait.DaemonSets = []string{"kube-system/*"} }

func autoDaemonSets(p *verify.Profile) { p.Wait.DaemonSets = []string{"auto"} }

func warmed(n *verify.Node) {
	n.Conditions = map[string]corev1.ConditionStatus{"Warm": corev1.ConditionTrue}
}

func TestPlan(t *testing.T) {
	now := born.Add(5 * time.Second)
	withTaint := func(key string) func(*verify.Node) {
		return func(node *verify.Node) {
			node.Taints = append(node.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
		}
	}
	for name, test := range map[string]struct {
		profile func(*verify.Profile)
		node    func(*verify.Node)
		pod     func(*verify.Pod) // nil: there is none
		seen    func(*verify.Observed)
		delay   time.Duration // since the Node was created; 5 s where it is 0
		want    verify.Operation
		reason  string // a part of it
		state   verify.State
		requeue time.Duration // since the Node was created
	}{
		"a Ready Node with the taint gets a worker Pod":            {want: verify.DoStart, reason: "attempt 1", state: verify.StateWaiting},
		"a Node that is not Ready waits":                           {node: func(n *verify.Node) { n.Ready = false }, want: verify.DoWait, reason: "not Ready"},
		"a Node behind the gate waits":                             {node: withTaint(gate), want: verify.DoWait, reason: gate},
		"a Node that Karpenter has not registered waits":           {node: withTaint("karpenter.sh/unregistered"), want: verify.DoWait, reason: "karpenter"},
		"a Node that its cloud provider has not initialized waits": {node: withTaint("node.cloudprovider.kubernetes.io/uninitialized"), want: verify.DoWait, reason: "cloudprovider"},
		"a Node whose CNI agent is not ready waits":                {node: withTaint("node.cilium.io/agent-not-ready"), want: verify.DoWait, reason: "cilium"},
		"a Node with the taint not-ready waits":                    {node: withTaint("node.kubernetes.io/not-ready"), want: verify.DoWait, reason: "not-ready"},
		"a label and an annotation that say verified do not replace the check": {node: func(n *verify.Node) {
			n.Labels[verify.Label] = "true"
			n.Annotation = `{"round":1,"last":{"result":"passed"}}`
		}, want: verify.DoStart},
		"a Node without the taint is left alone":                             {node: func(n *verify.Node) { n.Taints = nil }, want: verify.DoNothing, state: verify.StateOpen},
		"a Pod on a Node without the taint is deleted":                       {node: func(n *verify.Node) { n.Taints = nil }, pod: ended(corev1.PodSucceeded, 0, passes), want: verify.DoDelete, state: verify.StateOpen},
		"the taint counts with any value and effect":                         {node: func(n *verify.Node) { n.Taints[0].Value, n.Taints[0].Effect = "x", corev1.TaintEffectNoExecute }, want: verify.DoStart},
		"a Node that no profile selects any more loses the taint":            {node: func(n *verify.Node) { n.Labels = nil }, want: verify.DoFree, reason: "no profile"},
		"before labels are restored nothing says that no profile selects it": {node: func(n *verify.Node) { n.Labels = nil; withTaint(gate)(n) }, want: verify.DoWait, reason: gate},
		"a condition that the profile waits for": {profile: func(p *verify.Profile) {
			p.Wait.Conditions = map[string]verify.ConditionStatus{"KernelDeadlock": "False"}
		}, want: verify.DoWait, reason: "KernelDeadlock"},
		"a condition of the wrong status": {profile: func(p *verify.Profile) {
			p.Wait.Conditions = map[string]verify.ConditionStatus{"KernelDeadlock": "False"}
		}, node: func(n *verify.Node) {
			n.Conditions = map[string]corev1.ConditionStatus{"KernelDeadlock": corev1.ConditionTrue}
		}, want: verify.DoWait, reason: "KernelDeadlock"},
		"a DaemonSet that the profile waits for": {profile: func(p *verify.Profile) { p.Wait.DaemonSets = []string{"kube-system/cilium"} }, want: verify.DoWait, reason: "kube-system/cilium"},
		"a DaemonSet whose Pod is Ready": {profile: func(p *verify.Profile) { p.Wait.DaemonSets = []string{"kube-system/cilium"} },
			seen: func(o *verify.Observed) { o.DaemonSets = map[string]bool{"kube-system/cilium": true} }, want: verify.DoStart},
		"a namespace whose DaemonSets were not looked up": {profile: everyDaemonSet, want: verify.DoWait, reason: "kube-system/*"},
		"a DaemonSet of the namespace whose Pod is not Ready": {profile: everyDaemonSet, want: verify.DoWait, reason: "DaemonSet kube-system/cni is",
			seen: func(o *verify.Observed) {
				o.DaemonSets = map[string]bool{"kube-system/*": true, "kube-system/a": true, "kube-system/cni": false, "kube-system2/b": false}
			}},
		"each DaemonSet of the namespace is Ready": {profile: everyDaemonSet, want: verify.DoStart,
			seen: func(o *verify.Observed) {
				o.DaemonSets = map[string]bool{"kube-system/*": true, "kube-system/cni": true, "kube-system2/b": false}
			}},
		"no DaemonSet of the namespace has a Pod on the Node": {profile: everyDaemonSet, want: verify.DoStart,
			seen: func(o *verify.Observed) { o.DaemonSets = map[string]bool{"kube-system/*": true} }},
		"all DaemonSets, and they were not looked up": {profile: autoDaemonSets, want: verify.DoWait, reason: "auto"},
		"one of all DaemonSets whose Pod is not Ready": {profile: autoDaemonSets, want: verify.DoWait, reason: "DaemonSet storage/csi is",
			seen: func(o *verify.Observed) {
				o.DaemonSets = map[string]bool{"auto": true, "kube-system/cni": true, "storage/csi": false}
			}},
		"all DaemonSets are Ready": {profile: autoDaemonSets, want: verify.DoStart,
			seen: func(o *verify.Observed) {
				o.DaemonSets = map[string]bool{"auto": true, "kube-system/cni": true, "storage/csi": true}
			}},
		"all DaemonSets are Ready, but one that is named has no Pod on the Node": {
			profile: func(p *verify.Profile) { p.Wait.DaemonSets = []string{"auto", "gpu/driver"} }, want: verify.DoWait, reason: "gpu/driver",
			seen: func(o *verify.Observed) { o.DaemonSets = map[string]bool{"auto": true, "kube-system/cni": true} }},
		"no DaemonSet at all has a Pod on the Node": {profile: autoDaemonSets, want: verify.DoStart,
			seen: func(o *verify.Observed) { o.DaemonSets = map[string]bool{"auto": true} }},
		"devices that are not allocatable yet": {profile: func(p *verify.Profile) { p.Wait.Allocatable = map[string]verify.Quantity{"nvidia.com/gpu": "1"} }, want: verify.DoWait, reason: "nvidia.com/gpu"},
		"devices that are allocatable": {profile: func(p *verify.Profile) { p.Wait.Allocatable = map[string]verify.Quantity{"nvidia.com/gpu": "1"} },
			node: func(n *verify.Node) { n.Allocatable = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("2")} }, want: verify.DoStart},

		"without checks, the Node opens when what is waited for holds": {profile: onlyWarm, node: warmed, want: verify.DoOpen, reason: "holds"},
		"without checks, the Node waits for what does not hold":        {profile: onlyWarm, want: verify.DoWait, reason: "no condition Warm", state: verify.StateWaiting},
		"without checks, the Node must be Ready":                       {profile: onlyWarm, node: func(n *verify.Node) { warmed(n); n.Ready = false }, want: verify.DoWait, reason: "not Ready"},
		"without checks, the Node is not opened behind the gate":       {profile: onlyWarm, node: func(n *verify.Node) { warmed(n); withTaint(gate)(n) }, want: verify.DoWait, reason: gate},
		"without checks, a Node is released at the deadline": {profile: func(p *verify.Profile) { onlyWarm(p); p.OnTimeout, p.Deadline = verify.Release, "1m" }, delay: time.Minute,
			want: verify.DoFree, reason: "was not verified within 1m"},
		"without checks, a worker Pod from before is deleted": {profile: onlyWarm, node: warmed, pod: func(p *verify.Pod) { p.Name = "check-other" }, want: verify.DoDelete},
		"without checks, a taint that another client adds each time is removed after pauses": {profile: onlyWarm, node: func(n *verify.Node) {
			warmed(n)
			n.Annotation = verify.Progress{Round: 4, Returns: 4, Last: &verify.Last{Result: verify.VerdictPassed, Time: born.Add(4 * time.Second)}}.String()
		}, want: verify.DoWait, reason: "adds the taint again", requeue: 14 * time.Second},

		"a worker Pod that has not started is waited for":       {pod: func(*verify.Pod) {}, want: verify.DoWait, state: verify.StateChecking, requeue: 121 * time.Second},
		"a Pod that passed opens the Node":                      {pod: ended(corev1.PodSucceeded, 0, passes), want: verify.DoOpen},
		"a Pod that passed opens a Node that is not Ready":      {pod: ended(corev1.PodSucceeded, 0, passes), node: func(n *verify.Node) { n.Ready = false }, want: verify.DoOpen},
		"a check that said no is recorded":                      {pod: ended(corev1.PodFailed, 1, refuses), want: verify.DoRecord},
		"a check that said no on a NotReady Node is not":        {pod: ended(corev1.PodFailed, 1, refuses), node: func(n *verify.Node) { n.Ready = false }, want: verify.DoDelete, reason: "does not count"},
		"garbage is recorded":                                   {pod: ended(corev1.PodSucceeded, 0, "garbage"), want: verify.DoRecord, reason: "not a report"},
		"a passing report with an exit code is recorded":        {pod: ended(corev1.PodFailed, 2, passes), want: verify.DoRecord, reason: "exit code 2"},
		"a report about other checks is recorded":               {pod: ended(corev1.PodSucceeded, 0, `{"results":[]}`), want: verify.DoRecord, reason: "missing"},
		"a worker that skipped a check is recorded":             {pod: ended(corev1.PodSucceeded, 0, strings.Replace(passes, `"passed"`, `"skipped","reason":"ColdStart"`, 1)), want: verify.DoRecord},
		"a Pod that does not start in time is recorded":         {pod: func(*verify.Pod) {}, delay: 122 * time.Second, want: verify.DoRecord, reason: "did not start: container nodekeep-check"},
		"a Pod of another Node object is deleted":               {pod: func(p *verify.Pod) { ended(corev1.PodSucceeded, 0, passes)(p); p.NodeUID = "u0" }, want: verify.DoDelete},
		"a Pod of another attempt is deleted":                   {pod: func(p *verify.Pod) { ended(corev1.PodSucceeded, 0, passes)(p); p.Name = "check-other" }, want: verify.DoDelete},
		"a Pod that passed and is being deleted does not count": {pod: func(p *verify.Pod) { ended(corev1.PodSucceeded, 0, passes)(p); p.Deleted = now }, want: verify.DoWait, requeue: 15 * time.Second},
		"a Pod that stays although it was deleted is removed":   {pod: func(p *verify.Pod) { p.Deleted = now.Add(-10 * time.Second) }, want: verify.DoDelete},
		"a Pod that another client created is deleted":          {pod: ended(corev1.PodSucceeded, 0, passes), seen: func(o *verify.Observed) { o.Worker.UID = "p0" }, want: verify.DoDelete, reason: "did not create"},
		"a Pod of the process before is deleted":                {pod: ended(corev1.PodSucceeded, 0, passes), seen: func(o *verify.Observed) { o.Worker = verify.OwnPod{} }, want: verify.DoDelete, reason: "did not create"},
		"a failure that another client forges is not recorded":  {pod: ended(corev1.PodFailed, 1, refuses), seen: func(o *verify.Observed) { o.Worker.UID = "p0" }, want: verify.DoDelete, reason: "did not create"},
		"a Pod of a Node that is deleted is deleted":            {node: func(n *verify.Node) { n.Deleting = true }, pod: ended(corev1.PodSucceeded, 0, passes), want: verify.DoDelete},

		"at the deadline the Node stays tainted":      {delay: time.Hour, want: verify.DoStart},
		"with onTimeout release it is released":       {profile: func(p *verify.Profile) { p.OnTimeout = verify.Release }, delay: time.Hour, want: verify.DoFree, reason: "14m0s"},
		"it is released also while a worker Pod runs": {profile: func(p *verify.Profile) { p.OnTimeout, p.StartTimeout = verify.Release, "1h" }, pod: func(*verify.Pod) {}, delay: 15 * time.Minute, want: verify.DoFree},
		"a Pod that passed goes before the release":   {profile: func(p *verify.Profile) { p.OnTimeout = verify.Release }, pod: ended(corev1.PodSucceeded, 0, passes), delay: time.Hour, want: verify.DoOpen},
		"a Node that waits is looked at at its deadline": {profile: func(p *verify.Profile) { p.OnTimeout = verify.Release }, node: func(n *verify.Node) {
			n.Ready = false
			n.Verified, _ = verify.Diagnosis{Cause: verify.CauseNotReady}.Shown(n, false)
		}, seen: func(o *verify.Observed) {
			o.Waits = verify.Waits{Cause: verify.CauseNotReady, Start: born.Add(-time.Hour)}
		}, want: verify.DoWait, requeue: 14 * time.Minute},
		"a taint that was added again long after the creation has a deadline of its own": {profile: func(p *verify.Profile) { p.OnTimeout = verify.Release },
			seen: func(o *verify.Observed) { o.Held = born.Add(59 * time.Minute) }, delay: time.Hour, want: verify.DoStart},
	} {
		t.Run(name, func(t *testing.T) {
			profiles, node := planProfile(t, test.profile), readyNode()
			pod := workerPod(node, profiles, test.pod)
			if test.node != nil {
				test.node(node)
			}
			observed := verify.Observed{Node: node}
			if test.pod != nil {
				observed.Pods, observed.Worker = []verify.Pod{pod}, ownOf(pod)
			}
			if test.seen != nil {
				test.seen(&observed)
			}
			instant := now
			if test.delay != 0 {
				instant = born.Add(test.delay)
			}
			action := verify.Plan(observed, profiles, modelCluster, instant)
			assert.Equal(t, test.want, action.Operation, action.Diagnosis.String())
			assert.Contains(t, action.Diagnosis.Sentence("NODE"), test.reason)
			if test.state != "" {
				assert.Equal(t, test.state, action.State)
			}
			if test.requeue != 0 {
				assert.Equal(t, test.requeue, action.Requeue.Sub(born))
			}
			assert.Equal(t, action, verify.Plan(observed, profiles, modelCluster, instant), "the plan is a function of what it is given")
		})
	}
}

func TestAttemptsPace(t *testing.T) {
	profiles := planProfile(t, nil)
	profile := profiles.All()[0]
	for attempts, want := range map[int]time.Duration{1: 10 * time.Second, 2: 20 * time.Second, 3: time.Minute, 4: time.Minute, 1_000_000: time.Minute} {
		assert.Equal(t, want, verify.Backoff(profile, attempts), "after %d attempts", attempts)
	}
	instant := born.Add(time.Minute)
	for attempts, state := range map[int]verify.State{0: verify.StateWaiting, 2: verify.StateRetrying, 3: verify.StateStuck, 1000: verify.StateStuck} {
		node := readyNode()
		node.Annotation = progressed(profiles, attempts, instant)
		node.Verified = shownOf(node)
		if attempts == 0 {
			node.Verified = verify.Projection{}
		}
		seen := verify.Observed{Node: node}
		action := verify.Plan(seen, profiles, modelCluster, instant)
		assert.Equal(t, state, action.State)
		if attempts == 0 {
			assert.Equal(t, verify.DoStart, action.Operation)
			continue
		}
		assert.Equal(t, verify.DoWait, action.Operation)
		assert.Equal(t, verify.Backoff(profile, attempts), action.Requeue.Sub(instant))
		action = verify.Plan(seen, profiles, modelCluster, action.Requeue)
		assert.Equal(t, verify.DoStart, action.Operation, "a stuck Node is tried on")
		assert.False(t, action.First, "it comes after those that were not tried yet")
	}
}

func TestAnAnnotationOfAKubeletOnlyPacesItsNode(t *testing.T) {
	profiles := planProfile(t, func(p *verify.Profile) { p.OnTimeout = verify.Release })
	longest := profiles.All()[0].MaxBackoff
	for name, annotation := range map[string]string{
		"a time far in the future":   `{"attempts":1,"bootID":"b1","hash":"` + profiles.All()[0].Hash + `","last":{"time":"2999-01-01T00:00:00Z"}}`,
		"a year that no clock has":   `{"attempts":1,"last":{"time":"999999-01-01T00:00:00Z"}}`,
		"numbers below zero":         `{"round":-1,"attempts":-5}`,
		"numbers that are too large": `{"round":9223372036854775807,"attempts":9223372036854775807}`,
		"no JSON":                    `{{{`,
		"64 KiB":                     `{"last":{"message":"` + strings.Repeat("x", 64<<10) + `"}}`,
		"it passed":                  `{"round":3,"last":{"result":"passed"}}`,
		"it was released":            `{"round":3,"last":{"result":"released"}}`,
		"control characters":         `{"last":{"result":"failed","message":"a\u001b[31m\nb"},"attempts":2}`,
	} {
		t.Run(name, func(t *testing.T) {
			node := readyNode()
			node.Annotation = annotation
			action := verify.Plan(verify.Observed{Node: node}, profiles, modelCluster, born.Add(time.Minute))
			assert.Contains(t, []verify.Operation{verify.DoStart, verify.DoWait, verify.DoShow}, action.Operation)
			if action.Operation == verify.DoWait {
				assert.LessOrEqual(t, action.Requeue.Sub(born.Add(time.Minute)), longest)
			}
			assert.NotContains(t, action.Progress.String(), "\\u001b")
			assert.Less(t, len(action.Progress.String()), 2048)
		})
	}
}

func TestAnAnnotationThatIsRemovedDoesNotLetANodeStartAtOnceAgain(t *testing.T) {
	profiles, started := planProfile(t, nil), born.Add(time.Minute)
	action := verify.Plan(verify.Observed{Node: readyNode(), Started: started}, profiles, modelCluster, started.Add(time.Second))
	assert.Equal(t, verify.DoWait, action.Operation)
	assert.Equal(t, 10*time.Second, action.Requeue.Sub(started))
	action = verify.Plan(verify.Observed{Node: readyNode(), Started: started}, profiles, modelCluster, action.Requeue)
	assert.Equal(t, verify.DoStart, action.Operation)
	assert.False(t, action.First, "nor before Nodes that were not tried yet")
}

func TestATaintThatIsPutBackAgainAndAgainIsRemovedAfterGrowingPauses(t *testing.T) {
	pauses := []time.Duration{0, 0, 0, 0, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 5 * time.Minute, 5 * time.Minute}
	release := func(profile *verify.Profile) { profile.OnTimeout, profile.Deadline = verify.Release, "1m" }
	for name, row := range map[string]struct {
		change func(*verify.Profile)
		labels map[string]string
		next   verify.Operation // what comes after a pause
	}{
		"checks that pass":  {nil, map[string]string{"gpu": "yes"}, verify.DoStart},
		"no profile":        {nil, nil, verify.DoFree},
		"deadline, release": {release, map[string]string{"gpu": "yes"}, verify.DoFree},
	} {
		t.Run(name, func(t *testing.T) {
			profiles := planProfile(t, row.change)
			node, now := readyNode(), born.Add(time.Hour)
			node.Labels = row.labels
			remove := func() {
				t.Helper()
				seen := verify.Observed{Node: node}
				if row.next == verify.DoStart {
					pod := workerPod(node, profiles, ended(corev1.PodSucceeded, 0, passes))
					seen.Pods, seen.Worker = []verify.Pod{pod}, ownOf(pod)
				}
				action := verify.Plan(seen, profiles, verify.Cluster{}, now)
				require.Contains(t, []verify.Operation{verify.DoOpen, verify.DoFree}, action.Operation)
				node.Annotation = action.Progress.String() // and the taint stays, as another client wants it
			}
			remove()
			for returns, pause := range pauses {
				if pause > 0 {
					action := verify.Plan(verify.Observed{Node: node}, profiles, verify.Cluster{}, now.Add(pause-time.Second))
					require.Equal(t, verify.DoWait, action.Operation, "after %d returns", returns)
					assert.Contains(t, action.Diagnosis.Sentence("NODE"), "another client adds the taint again each time")
					assert.True(t, action.Requeue.Equal(now.Add(pause)), "again in %s, want %s", action.Requeue.Sub(now), pause)
				}
				now = now.Add(pause)
				require.Equal(t, row.next, verify.Plan(verify.Observed{Node: node}, profiles, verify.Cluster{}, now).Operation, "after %d returns", returns)
				remove()
				require.Equal(t, returns+1, verify.ParseProgress(node.Annotation).Returns)
			}
			now = now.Add(11 * time.Minute) // the taint was gone all the time, then an operator adds it
			require.Equal(t, row.next, verify.Plan(verify.Observed{Node: node}, profiles, verify.Cluster{}, now).Operation)
			remove()
			assert.Zero(t, verify.ParseProgress(node.Annotation).Returns, "the fight is over")
		})
	}
}

func TestOtherChecksAndAnotherBootStartTheAttemptsAnew(t *testing.T) {
	profiles := planProfile(t, nil)
	rest := planProfile(t, func(p *verify.Profile) { p.Timeout = "31s" })
	node := readyNode()
	node.Annotation = progressed(profiles, 3, born)
	assert.Equal(t, verify.StateStuck, verify.Plan(verify.Observed{Node: node}, profiles, modelCluster, born).State)
	assert.Equal(t, verify.DoStart, verify.Plan(verify.Observed{Node: node}, rest, modelCluster, born).Operation)
	passed := workerPod(node, profiles, ended(corev1.PodSucceeded, 0, passes))
	assert.Equal(t, verify.DoDelete, verify.Plan(verify.Observed{Node: node, Pods: []verify.Pod{passed}, Worker: ownOf(passed)}, rest, modelCluster, born).Operation, "a Pod of the earlier checks does not count")
	node.BootID = "b2"
	assert.Equal(t, verify.DoStart, verify.Plan(verify.Observed{Node: node}, profiles, modelCluster, born).Operation)
}

func TestAtAColdStartChecksOfWhatCannotBeThereYetAreSkipped(t *testing.T) {
	profiles := planProfile(t, func(p *verify.Profile) {
		p.Checks = append(p.Checks,
			verify.Check{Name: "api", API: &verify.API{}},
			verify.Check{Name: "web", Service: &verify.Service{Name: "shop/web", Port: 80}},
			verify.Check{Name: "registry", TCP: new(verify.TCP("registry.example.com:443"))},
			verify.Check{Name: "gateway", TCP: new(verify.TCP("192.0.2.1:443"))},
			verify.Check{Name: "site", HTTP: &verify.HTTP{URL: "http://web.shop.svc:80/"}})
	})
	cold := verify.Observed{Node: readyNode(), Cold: true, Services: map[string]verify.Backing{"kube-system/kube-dns": {}, "shop/web": {}}}
	assert.Equal(t, []string{"dns", "web", "registry", "site"}, verify.Plan(cold, profiles, modelCluster, born).Skip)
	cold.Services["kube-system/kube-dns"] = verify.Backing{Ready: 1}
	assert.Equal(t, []string{"web", "site"}, verify.Plan(cold, profiles, modelCluster, born).Skip)
	cold.Cold = false
	assert.Empty(t, verify.Plan(cold, profiles, modelCluster, born).Skip)
	assert.Equal(t, []string{"default/kubernetes", "kube-system/kube-dns", "shop/web"}, profiles.All()[0].Services("kube-system/kube-dns"), "all that is asked or compared")

	short := planProfile(t, nil)
	node := readyNode()
	pod := workerPod(node, short, ended(corev1.PodSucceeded, 0, `{"results":[]}`))
	pod.Skipped = []string{"dns"}
	action := verify.Plan(verify.Observed{Node: node, Pods: []verify.Pod{pod}, Worker: ownOf(pod)}, short, modelCluster, born)
	require.Equal(t, verify.DoOpen, action.Operation)
	assert.Equal(t, []string{"dns"}, action.Progress.Last.Skipped, "what was skipped stays visible")
}

func TestJudgeContainerChecks(t *testing.T) {
	profiles := planProfile(t, func(p *verify.Profile) {
		optional := false
		p.Checks = append(p.Checks, verify.Check{Name: "smi", Container: &verify.Container{Image: "smi"}},
			verify.Check{Name: "extra", Required: &optional, Container: &verify.Container{Image: "extra"}})
	})
	started := born.Add(2 * time.Second)
	container := func(name string, code int) verify.ContainerState {
		return verify.ContainerState{Name: name, Started: started, Ended: true, ExitCode: code}
	}
	worker := container(verify.Worker, 0)
	worker.Message = passes
	for name, test := range map[string]struct {
		phase      corev1.PodPhase
		reason     string
		containers []verify.ContainerState
		delay      time.Duration
		want       verify.Verdict
		check      string
	}{
		"all exit with 0":                              {phase: corev1.PodSucceeded, containers: []verify.ContainerState{worker, container("smi", 0), container("extra", 0)}, want: verify.VerdictPassed},
		"a required one does not":                      {phase: corev1.PodFailed, containers: []verify.ContainerState{worker, container("smi", 9), container("extra", 0)}, want: verify.VerdictFailed, check: "smi"},
		"an optional one does not":                     {phase: corev1.PodFailed, containers: []verify.ContainerState{worker, container("smi", 0), container("extra", 1)}, want: verify.VerdictPassed},
		"one still runs":                               {phase: corev1.PodRunning, containers: []verify.ContainerState{worker, {Name: "smi", Started: started}, container("extra", 0)}, want: verify.VerdictRunning},
		"one runs on beyond the timeout":               {phase: corev1.PodRunning, containers: []verify.ContainerState{worker, {Name: "smi", Started: started}, container("extra", 0)}, delay: time.Minute, want: verify.VerdictFailed, check: "smi"},
		"one does not start":                           {phase: corev1.PodPending, containers: []verify.ContainerState{worker, {Name: "smi", Reason: "ErrImagePull"}, container("extra", 0)}, delay: 3 * time.Minute, want: verify.VerdictInconclusive},
		"a sidecar of others never ends":               {phase: corev1.PodRunning, containers: []verify.ContainerState{worker, container("smi", 0), container("extra", 0), {Name: "proxy", Started: started}}, want: verify.VerdictPassed},
		"evicted while one runs":                       {phase: corev1.PodFailed, reason: "Evicted", containers: []verify.ContainerState{worker, {Name: "smi", Started: started}, container("extra", 0)}, want: verify.VerdictInconclusive, check: "smi"},
		"evicted, and one was killed":                  {phase: corev1.PodFailed, reason: "Evicted", containers: []verify.ContainerState{worker, container("smi", 137), container("extra", 0)}, want: verify.VerdictInconclusive, check: "smi"},
		"the Pod ended and says nothing of containers": {phase: corev1.PodSucceeded, want: verify.VerdictInconclusive},
		"out of memory":                                {phase: corev1.PodFailed, containers: []verify.ContainerState{{Name: verify.Worker, Started: started, Ended: true, ExitCode: 137, Reason: "OOMKilled"}}, want: verify.VerdictInconclusive},
	} {
		t.Run(name, func(t *testing.T) {
			pod := verify.Pod{Created: born, Phase: test.phase, Reason: test.reason, Containers: test.containers}
			judged := verify.Judge(pod, profiles.All()[0], started.Add(test.delay))
			assert.Equal(t, test.want, judged.Verdict, judged.Message)
			assert.Equal(t, test.check, judged.Check)
		})
	}
}

// shownOf returns what the condition of a Node says of its last attempt.
func shownOf(node *verify.Node) verify.Projection {
	last := verify.ParseProgress(node.Annotation).Last
	if last == nil {
		return verify.Projection{}
	}
	show, _ := last.Diagnosis().Shown(node, true)
	return show
}

func TestProjection(t *testing.T) {
	profiles := planProfile(t, nil)
	show := func(node *verify.Node) verify.Projection {
		action := verify.Plan(verify.Observed{Node: node, Started: born}, profiles, modelCluster, born)
		if action.Operation != verify.DoShow {
			return verify.Projection{}
		}
		node.Verified = action.Show
		assert.NotEqual(t, verify.DoShow, verify.Plan(verify.Observed{Node: node, Started: born}, profiles, modelCluster, born).Operation, "shown once")
		return action.Show
	}
	node := readyNode()
	assert.Zero(t, show(node), "never True by default, and nothing before the first attempt")
	node.Annotation = progressed(profiles, 1, born)
	assert.Equal(t, verify.Projection{Status: corev1.ConditionFalse, Reason: "ChecksFailed", Message: "a required check failed: dns (Error): no answer; nodekeep tries again by itself; `nodekeep show n1 --verification` has the report"}, show(node))
	node.Taints, node.Annotation = nil, `{"round":1,"last":{"result":"passed"}}`
	assert.Equal(t, corev1.ConditionTrue, show(node).Status)
	node.Taints = readyNode().Taints
	assert.Equal(t, corev1.ConditionUnknown, show(node).Status, "the taint was added again")
	node.Taints, node.Annotation = nil, `{"round":2,"last":{"result":"released","message":"late"}}`
	assert.Equal(t, verify.Projection{Status: corev1.ConditionFalse, Reason: "Released", Message: "the Node was opened without passed checks: late; `nodekeep recheck n1` checks it"}, show(node))
}

func TestFirstAttemptsGoBeforeRetries(t *testing.T) {
	starts := verify.NewStarts(verify.Start{PerSecond: 1, InFlight: 2})
	starts.Want("retry", verify.TurnRetry)
	starts.Want("first", verify.TurnFirst)
	starts.Want("last", verify.TurnFirst)
	now := born
	node, _ := starts.Next(now)
	assert.Equal(t, "first", node)
	node, delay := starts.Next(now)
	assert.Empty(t, node)
	assert.Equal(t, time.Second, delay)
	assert.True(t, starts.Take("first", "pod-1"))
	assert.False(t, starts.Take("first", "pod-1"), "a turn is used once")
	starts.Created("pod-1", "uid-1", now)
	node, _ = starts.Next(now.Add(time.Second))
	assert.Equal(t, "last", node)
	assert.True(t, starts.Take("last", "pod-2"))
	node, _ = starts.Next(now.Add(time.Minute))
	assert.Empty(t, node, "two Pods exist")
	starts.Gone("uid-1")
	starts.Exists("other")
	node, _ = starts.Next(now.Add(time.Minute))
	assert.Empty(t, node, "a Pod of another process counts, too")
	starts.Gone("other")
	node, _ = starts.Next(now.Add(time.Minute))
	assert.Equal(t, "retry", node)
}
