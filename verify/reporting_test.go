package verify_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/verify"
)

func onlyReports(p *verify.Profile) { p.Mode, p.Interval = verify.ModeReport, "1h" }

// openNode is Ready, and its profile only reports.
func openNode() *verify.Node {
	node := readyNode()
	node.Taints = nil
	return node
}

// checked returns the annotation of an open Node after its last attempt.
func checked(profiles verify.Profiles, t time.Time, result verify.Verdict, attempts int) string {
	return verify.Progress{
		Round: 1, Attempts: attempts, BootID: "b1", Hash: profiles.All()[0].Hash, Reports: true, Last: &verify.Last{Result: result, Check: "dns", Message: "no answer", Time: t},
	}.String()
}

// failedBefore returns the annotation after failed attempts, of which the first was an hour ago.
func failedBefore(profiles verify.Profiles, attempts int) string {
	progress := verify.ParseProgress(checked(profiles, born.Add(-time.Minute), verify.VerdictFailed, attempts))
	progress.Failed, progress.FailingSince = attempts, born.Add(-time.Hour)
	return progress.String()
}

// says is a condition that says what the annotation of the Node says.
func says(node *verify.Node, status corev1.ConditionStatus) {
	last := verify.ParseProgress(node.Annotation).Last
	node.Verified = verify.Projection{Status: status, Reason: string(last.Diagnosis().Cause), Message: last.Diagnosis().Sentence(node.Name)}
	node.ShownAt = last.Time.Truncate(time.Second)
}

func TestAProfileThatOnlyReportsHasNoTaintAndADefaultForEvery(t *testing.T) {
	profiles, errs := compile(read(t, "profiles: [{name: a, mode: report, checks: [{name: api, api: {}}]}]"))
	require.Empty(t, errs)
	assert.Empty(t, profiles.Taints())
	assert.Equal(t, time.Hour, profiles.All()[0].Interval)
	assert.Zero(t, profiles.All()[0].Taint)
	assert.Empty(t, profiles.All()[0].Profile.Taint)
	enforced, errs := compile(read(t, "profiles: [{name: a, checks: [{name: api, api: {}}]}]"))
	require.Empty(t, errs)
	assert.Equal(t, verify.ModeEnforce, enforced.All()[0].Mode)
	assert.Zero(t, enforced.All()[0].Interval)
	assert.Equal(t, enforced.All()[0].Hash, profiles.All()[0].Hash, "the mode changes nothing of what is asked")
}

func TestAnOpenNodeOfAProfileThatReportsIsCheckedAgainAndAgain(t *testing.T) {
	profiles := planProfile(t, onlyReports)
	now := born.Add(10 * time.Hour)
	for name, test := range map[string]struct {
		node    func(*verify.Node)
		seen    func(*verify.Observed)
		want    verify.Operation
		requeue time.Duration // from now
		state   verify.State
		cause   verify.Cause
	}{
		"at once when it was never checked": {want: verify.DoStart},
		"not while it is not Ready":         {node: func(n *verify.Node) { n.Ready = false }, want: verify.DoWait, cause: verify.CauseCheckDue},
		"not behind the gate":               {node: func(n *verify.Node) { n.Taints = []corev1.Taint{{Key: gate}} }, want: verify.DoWait, cause: verify.CauseCheckDue},
		"every hour after it passed": {node: func(n *verify.Node) {
			n.Annotation = checked(profiles, now.Add(-10*time.Minute), verify.VerdictPassed, 0)
			says(n, corev1.ConditionTrue)
		}, want: verify.DoWait, requeue: 50 * time.Minute, cause: verify.CauseChecksPassed},
		"once the hour is over": {node: func(n *verify.Node) {
			n.Annotation = checked(profiles, now.Add(-time.Hour), verify.VerdictPassed, 0)
			says(n, corev1.ConditionTrue)
		}, want: verify.DoStart},
		"sooner after it failed": {node: func(n *verify.Node) {
			n.Annotation = checked(profiles, now, verify.VerdictFailed, 1)
			says(n, corev1.ConditionFalse)
		}, want: verify.DoWait, requeue: 10 * time.Second, state: verify.StateFailing, cause: verify.CauseChecksFailed},
		"each maxBackoff when it fails on": {node: func(n *verify.Node) {
			n.Annotation = checked(profiles, now, verify.VerdictFailed, 9)
			says(n, corev1.ConditionFalse)
		}, want: verify.DoWait, requeue: time.Minute, state: verify.StateFailing, cause: verify.CauseChecksFailed},
		"at once after a reboot": {node: func(n *verify.Node) {
			n.Annotation = checked(profiles, now, verify.VerdictPassed, 0)
			says(n, corev1.ConditionTrue)
			n.BootID = "b2"
		}, want: verify.DoStart},
		"at once when the checks have changed": {node: func(n *verify.Node) {
			n.Annotation = verify.Progress{BootID: "b1", Hash: "other", Reports: true, Last: &verify.Last{Result: verify.VerdictPassed, Time: now}}.String()
			says(n, corev1.ConditionTrue)
		}, want: verify.DoStart},
		"a time ahead counts, up to a pause": {node: func(n *verify.Node) {
			n.Annotation = checked(profiles, now.Add(time.Hour), verify.VerdictPassed, 0)
			says(n, corev1.ConditionTrue)
		}, want: verify.DoWait, requeue: 2 * time.Hour, cause: verify.CauseChecksPassed},
		"a time further ahead counts as none": {node: func(n *verify.Node) {
			n.Annotation = checked(profiles, now.Add(2*time.Hour), verify.VerdictPassed, 0)
			says(n, corev1.ConditionTrue)
		}, want: verify.DoStart},
		"an annotation that is removed is not":       {seen: func(o *verify.Observed) { o.Started = now.Add(-time.Second) }, want: verify.DoWait, requeue: 9 * time.Second, cause: verify.CauseCheckDue},
		"the condition is written when it is behind": {node: func(n *verify.Node) { n.Annotation = checked(profiles, now, verify.VerdictPassed, 0) }, want: verify.DoShow, requeue: time.Hour, cause: verify.CauseChecksPassed},
		"its heartbeat, too": {node: func(n *verify.Node) {
			n.Annotation = checked(profiles, now, verify.VerdictPassed, 0)
			says(n, corev1.ConditionTrue)
			n.ShownAt = now.Add(-time.Hour)
		},
			want: verify.DoShow, requeue: time.Hour, cause: verify.CauseChecksPassed},
		"a condition from before stays until the first check has ended": {node: func(n *verify.Node) {
			n.Ready, n.Verified = false, verify.Projection{Status: corev1.ConditionTrue, Reason: "ChecksPassed"}
		}, want: verify.DoWait, cause: verify.CauseCheckDue},
		"a Node that is deleted is left alone": {node: func(n *verify.Node) { n.Deleting = true }, want: verify.DoNothing},
	} {
		t.Run(name, func(t *testing.T) {
			node := openNode()
			if test.node != nil {
				test.node(node)
			}
			seen := verify.Observed{Node: node}
			if test.seen != nil {
				test.seen(&seen)
			}
			action := verify.Plan(seen, profiles, modelCluster, now)
			assert.Equal(t, test.want, action.Operation, action.Diagnosis.String())
			if test.cause != "" {
				assert.Equal(t, test.cause, action.Diagnosis.Cause)
			}
			if test.requeue == 0 {
				assert.Zero(t, action.Requeue)
			} else {
				assert.Equal(t, test.requeue, action.Requeue.Sub(now))
			}
			if test.state != "" {
				assert.Equal(t, test.state, action.State)
			}
			if test.want == verify.DoStart {
				assert.Equal(t, verify.TurnReport, action.Turn())
			}
		})
	}
}

func TestWhatCameOfTheChecksOfAnOpenNodeIsRecordedAndNothingElseChanges(t *testing.T) {
	passedOn := func(name string) verify.ControlPod {
		control := verify.ControlPod{Node: name}
		ended(corev1.PodSucceeded, 0, passes)(&control.Pod)
		control.UID, control.Created = "control-"+name, born.Add(3*time.Second)
		return control
	}
	failedOn := func(name string) verify.ControlPod {
		control := passedOn(name)
		ended(corev1.PodFailed, 1, refuses)(&control.Pod)
		return control
	}
	for name, test := range map[string]struct {
		pod     func(*verify.Pod)
		control verify.Control
		prev    corev1.ConditionStatus
		failed  int // attempts before
		want    verify.Operation
		result  verify.Verdict
		status  corev1.ConditionStatus
		cause   verify.Cause
		requeue time.Duration // of the next check
	}{
		"passed":                                         {pod: ended(corev1.PodSucceeded, 0, passes), want: verify.DoReport, result: verify.VerdictPassed, status: corev1.ConditionTrue, cause: verify.CauseChecksPassed, requeue: time.Hour},
		"failed, and verified Nodes pass":                {failed: 1, pod: ended(corev1.PodFailed, 1, refuses), control: verify.Control{Able: 2, Pods: []verify.ControlPod{passedOn("a"), passedOn("b")}}, prev: corev1.ConditionTrue, want: verify.DoRecord, result: verify.VerdictFailed, status: corev1.ConditionFalse, cause: verify.CauseChecksFailed, requeue: 20 * time.Second},
		"failed once, and verified Nodes pass":           {pod: ended(corev1.PodFailed, 1, refuses), control: verify.Control{Able: 2, Pods: []verify.ControlPod{passedOn("a"), passedOn("b")}}, prev: corev1.ConditionTrue, want: verify.DoRecord, result: verify.VerdictFailed, status: corev1.ConditionTrue, cause: verify.CauseUnconfirmed, requeue: 10 * time.Second},
		"failed, and verified Nodes, too":                {pod: ended(corev1.PodFailed, 1, refuses), control: verify.Control{Able: 2, Pods: []verify.ControlPod{failedOn("a")}}, prev: corev1.ConditionTrue, want: verify.DoRecord, result: verify.VerdictShared, status: corev1.ConditionTrue, cause: verify.CauseShared, requeue: time.Minute},
		"the same, after a failure":                      {pod: ended(corev1.PodFailed, 1, refuses), control: verify.Control{Able: 2, Pods: []verify.ControlPod{failedOn("a")}}, prev: corev1.ConditionFalse, want: verify.DoRecord, result: verify.VerdictShared, status: corev1.ConditionUnknown, cause: verify.CauseShared, requeue: time.Minute},
		"the same, on a Node that is new":                {pod: ended(corev1.PodFailed, 1, refuses), control: verify.Control{Able: 2, Pods: []verify.ControlPod{failedOn("a")}}, want: verify.DoRecord, result: verify.VerdictShared, status: corev1.ConditionUnknown, cause: verify.CauseShared, requeue: time.Minute},
		"failed, and no Node is verified":                {pod: ended(corev1.PodFailed, 1, refuses), prev: corev1.ConditionTrue, want: verify.DoRecord, result: verify.VerdictFailed, status: corev1.ConditionTrue, cause: verify.CauseUnconfirmed, requeue: 10 * time.Second},
		"failed, and verified Nodes are yet to be asked": {pod: ended(corev1.PodFailed, 1, refuses), control: verify.Control{Able: 2}, want: verify.DoControl},
		"nothing that can be used":                       {pod: ended(corev1.PodSucceeded, 0, "garbage"), prev: corev1.ConditionTrue, want: verify.DoRecord, result: verify.VerdictInconclusive, status: corev1.ConditionTrue, cause: verify.CauseBadReport, requeue: 10 * time.Second},
		"not yet":                                        {pod: func(*verify.Pod) {}, want: verify.DoWait},
		"of another Node object":                         {pod: func(p *verify.Pod) { ended(corev1.PodSucceeded, 0, passes)(p); p.NodeUID = "u0" }, want: verify.DoDelete},
	} {
		t.Run(name, func(t *testing.T) {
			profiles, node := planProfile(t, onlyReports), openNode()
			if test.prev != "" {
				node.Verified = verify.Projection{Status: test.prev, Reason: "x"}
			}
			if test.failed > 0 {
				node.Annotation = failedBefore(profiles, test.failed)
			}
			pod, now := workerPod(node, profiles, test.pod), born.Add(5*time.Second)
			action := verify.Plan(verify.Observed{Node: node, Pods: []verify.Pod{pod}, Worker: ownOf(pod), Control: test.control}, profiles, modelCluster, now)
			require.Equal(t, test.want, action.Operation, action.Diagnosis.String())
			if test.result == "" {
				return
			}
			assert.Equal(t, test.result, action.Progress.Last.Result)
			node.Annotation = action.Progress.String()
			next := verify.Plan(verify.Observed{Node: node, Pods: []verify.Pod{pod}, Worker: ownOf(pod)}, profiles, modelCluster, now)
			assert.Equal(t, verify.DoDelete, next.Operation, "it is judged once")
			shown := verify.Plan(verify.Observed{Node: node}, profiles, modelCluster, now)
			require.Equal(t, verify.DoShow, shown.Operation)
			assert.Equal(t, test.status, shown.Show.Status)
			assert.Equal(t, string(test.cause), shown.Show.Reason)
			assert.Equal(t, test.requeue, shown.Requeue.Sub(now))
			node.Verified, node.ShownAt = shown.Show, now
			assert.Equal(t, verify.DoWait, verify.Plan(verify.Observed{Node: node}, profiles, modelCluster, now).Operation, "it is written once")
		})
	}
}

// A check of the machine is asked on no other Node. If it were False on all Nodes at once, other tools would remove all of them.
func TestACheckOfTheMachineFailsANodeOnlyOnceAnotherNodeHasPassedItSince(t *testing.T) {
	profiles := planProfile(t, func(p *verify.Profile) {
		onlyReports(p)
		p.Checks = []verify.Check{{Name: "smi", Container: &verify.Container{Image: "smi"}}}
	})
	for name, test := range map[string]struct {
		passed time.Time
		failed int
		cause  verify.Cause
	}{
		"none has passed":                   {failed: 1, cause: verify.CauseUnconfirmed},
		"others have passed before":         {failed: 1, passed: born.Add(-time.Hour), cause: verify.CauseUnconfirmed},
		"others were asked before":          {failed: 1, passed: born.Add(-time.Hour + time.Minute), cause: verify.CauseUnconfirmed},
		"others have passed since then":     {failed: 1, passed: born.Add(2 * time.Second), cause: verify.CauseChecksFailed},
		"they have, and it has failed once": {passed: born.Add(2 * time.Second), cause: verify.CauseUnconfirmed},
	} {
		t.Run(name, func(t *testing.T) {
			node := openNode()
			if test.failed > 0 {
				node.Annotation = failedBefore(profiles, test.failed)
			}
			pod := workerPod(node, profiles, func(p *verify.Pod) {
				ended(corev1.PodFailed, 0, `{"results":[]}`)(p)
				p.Containers = append(p.Containers, verify.ContainerState{Name: "smi", Started: born.Add(2 * time.Second), Ended: true, ExitCode: 1})
			})
			seen := verify.Observed{Node: node, Pods: []verify.Pod{pod}, Worker: ownOf(pod), Control: verify.Control{Passed: test.passed}}
			action := verify.Plan(seen, profiles, modelCluster, born.Add(5*time.Second))
			require.Equal(t, verify.DoRecord, action.Operation, action.Diagnosis.String())
			assert.Equal(t, test.cause, action.Progress.Last.Diagnosis().Cause)
		})
	}
}

func TestATaintOfVerificationIsRemovedFromANodeWhoseProfileOnlyReports(t *testing.T) {
	profiles, node := planProfile(t, onlyReports), readyNode()
	action := verify.Plan(verify.Observed{Node: node}, profiles, modelCluster, born)
	assert.Equal(t, verify.DoFree, action.Operation)
	assert.Equal(t, verify.CauseReportsOnly, action.Diagnosis.Cause)
	node.Annotation, node.Taints = action.Progress.String(), nil
	assert.Equal(t, verify.DoStart, verify.Plan(verify.Observed{Node: node}, profiles, modelCluster, born).Operation, "then it is checked")
}

// A tool must not remove Nodes by checks that the policy has no more.
func TestWhatAProfileReportedCountsNoMoreOnceItDoesNotSelectTheNode(t *testing.T) {
	reports, node := planProfile(t, onlyReports), openNode()
	node.Annotation = checked(reports, born, verify.VerdictFailed, 3)
	says(node, corev1.ConditionFalse)
	for name, profiles := range map[string]verify.Profiles{"none does": {}, "it enforces": planProfile(t, nil)} {
		t.Run(name, func(t *testing.T) {
			node := *node
			action := verify.Plan(verify.Observed{Node: &node}, profiles, modelCluster, born)
			require.Equal(t, verify.DoForget, action.Operation)
			assert.False(t, profiles.Controls(&node))
			node.Annotation = action.Progress.String()
			action = verify.Plan(verify.Observed{Node: &node}, profiles, modelCluster, born)
			require.Equal(t, verify.DoShow, action.Operation)
			assert.Equal(t, corev1.ConditionUnknown, action.Show.Status)
			assert.Equal(t, string(verify.CauseNotVerified), action.Show.Reason)
		})
	}
}

// Other tools would act at once on a condition that a profile wrote which enforces, or that other checks have set.
func TestFalseOfOtherChecksOrOfAnotherBootIsShownNoMore(t *testing.T) {
	profiles := planProfile(t, onlyReports)
	for name, change := range map[string]func(*verify.Progress){
		"an enforcing profile wrote it": func(p *verify.Progress) { p.Reports = false },
		"of other checks":               func(p *verify.Progress) { p.Hash = "other" },
		"of an earlier boot":            func(p *verify.Progress) { p.BootID = "b0" },
		"a check was asked for":         func(p *verify.Progress) { *p = p.Restart() },
		"the annotation was removed":    func(p *verify.Progress) { *p = verify.Progress{} },
	} {
		t.Run(name, func(t *testing.T) {
			node := openNode()
			node.Annotation = failedBefore(profiles, 2)
			says(node, corev1.ConditionFalse)
			require.NotEqual(t, verify.DoShow, verify.Plan(verify.Observed{Node: node}, profiles, modelCluster, born).Operation, "it is of these checks")
			progress := verify.ParseProgress(node.Annotation)
			change(&progress)
			node.Annotation, node.Ready = progress.String(), false // so no check brings the next status
			action := verify.Plan(verify.Observed{Node: node}, profiles, modelCluster, born)
			require.Equal(t, verify.DoShow, action.Operation)
			assert.Equal(t, corev1.ConditionUnknown, action.Show.Status)
			node.Verified = action.Show
			assert.Equal(t, verify.DoWait, verify.Plan(verify.Observed{Node: node}, profiles, modelCluster, born).Operation, "it is written once")
		})
	}
}

func TestATaintWhoseKeyNoProfileHasIsNamed(t *testing.T) {
	profiles, node := planProfile(t, onlyReports), openNode()
	node.Taints = []corev1.Taint{{Key: "former", Effect: corev1.TaintEffectNoSchedule}}
	node.Annotation = verify.Progress{Attempts: 1, Taint: "former", Hash: "other", Last: &verify.Last{Result: verify.VerdictFailed}}.String()
	assert.Equal(t, verify.CauseKeyChanged, verify.Plan(verify.Observed{Node: node}, profiles, modelCluster, born).Diagnosis.Cause)
}

func TestAnOpenNodeThatPassedCanBeAskedByOthers(t *testing.T) {
	profiles, node := planProfile(t, onlyReports), openNode()
	assert.False(t, profiles.Controls(node))
	node.Annotation = checked(profiles, born, verify.VerdictPassed, 0)
	assert.True(t, profiles.Controls(node))
	assert.Equal(t, born.UTC(), profiles.PassedAt(node).UTC())
}

func TestPassesAreNotTakenForATaintThatReturns(t *testing.T) {
	profiles, node, now := planProfile(t, func(p *verify.Profile) { p.Mode, p.Interval = verify.ModeReport, "1m" }), openNode(), born
	for range 10 {
		pod := workerPod(node, profiles, ended(corev1.PodSucceeded, 0, passes))
		action := verify.Plan(verify.Observed{Node: node, Pods: []verify.Pod{pod}, Worker: ownOf(pod)}, profiles, modelCluster, now)
		require.Equal(t, verify.DoReport, action.Operation)
		node.Annotation = action.Progress.String()
		now = now.Add(time.Minute)
	}
	assert.Zero(t, verify.ParseProgress(node.Annotation).Returns)
	assert.Equal(t, 10, verify.ParseProgress(node.Annotation).Round)
}

func TestANodeIsCheckedNowOnRequest(t *testing.T) {
	profiles, node := planProfile(t, onlyReports), openNode()
	node.Annotation = checked(profiles, born, verify.VerdictPassed, 0)
	says(node, corev1.ConditionTrue)
	require.Equal(t, verify.DoWait, verify.Plan(verify.Observed{Node: node}, profiles, modelCluster, born).Operation)
	node.Annotation = verify.ParseProgress(node.Annotation).Restart().String()
	assert.Equal(t, verify.DoStart, verify.Plan(verify.Observed{Node: node}, profiles, modelCluster, born).Operation)
}

func TestNodesThatTakeWorkloadsAreCheckedAfterAllThatDoNot(t *testing.T) {
	starts := verify.NewStarts(verify.Start{PerSecond: 100, InFlight: 100})
	starts.Want("open", verify.TurnReport)
	starts.Want("retry", verify.TurnRetry)
	starts.Want("new", verify.TurnFirst)
	var order []string
	for range 3 {
		node, _ := starts.Next(born)
		order = append(order, node)
	}
	assert.Equal(t, []string{"new", "retry", "open"}, order)
}

func TestWhenAnOpenNodeIsLookedAt(t *testing.T) {
	profiles := planProfile(t, func(p *verify.Profile) { onlyReports(p); p.Wait.DaemonSets = []string{"kube-system/cni"} })
	now := born.Add(time.Minute)
	node := openNode()
	assert.Equal(t, verify.Look{Time: now, Waits: true, Turn: verify.TurnReport}, profiles.LookAt(node, gate, now), "DaemonSets are looked up once it is the Node's turn")
	node.Annotation = checked(profiles, born, verify.VerdictFailed, 3)
	assert.Equal(t, verify.Look{Time: now, Turn: verify.TurnAgain, Fails: true}, profiles.LookAt(node, gate, now), "its condition must be written")
	says(node, corev1.ConditionFalse)
	node.Annotation = checked(profiles, now, verify.VerdictFailed, 3)
	node.ShownAt = now
	look := profiles.LookAt(node, gate, now)
	assert.Equal(t, now.Add(time.Minute).UTC(), look.Time.UTC())
	assert.True(t, look.Waits)
	assert.Equal(t, verify.TurnAgain, look.Turn, "a Node that fails does not wait for all that pass")
	node.Ready = false
	look = profiles.LookAt(node, gate, now.Add(time.Hour))
	assert.True(t, look.Time.IsZero())
	node.Ready = true
	node.Annotation = checked(profiles, born, verify.VerdictPassed, 0)
	says(node, corev1.ConditionTrue)
	node.Annotation = verify.ParseProgress(node.Annotation).Restart().String()
	assert.Equal(t, verify.Look{Time: now, Waits: true, Turn: verify.TurnAgain}, profiles.LookAt(node, gate, now), "asked for")
}
