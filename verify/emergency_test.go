package verify_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/verify"
)

// twoProfiles returns a profile that closes the Nodes of a pool, and one after it that only reports on all Nodes.
func twoProfiles(t *testing.T) verify.Profiles {
	t.Helper()
	checks := []verify.Check{{Name: "dns", DNS: &verify.DNS{Names: []string{"kubernetes.default.svc"}}}}
	profiles, errs := verify.Compile(verify.Settings{Profiles: []verify.Profile{
		{Name: "gpu", NodeSelector: "gpu=yes", Checks: checks, OnFailure: verify.RemoveNode, Reverify: verify.OnReboot}, {Name: "others", Mode: verify.ModeReport, Checks: checks},
	}}, nil)
	require.Empty(t, errs)
	return profiles
}

func TestInAnEmergencyOnlyProfilesThatReportSelectNodes(t *testing.T) {
	profiles := twoProfiles(t)
	profile, ok := profiles.Match(map[string]string{"gpu": "yes"})
	assert.True(t, ok)
	assert.Equal(t, "gpu", profile.Name)
	profiles.Suspended = true
	profile, ok = profiles.Match(map[string]string{"gpu": "yes"})
	assert.False(t, ok, "nor does the next profile, which was not written for the Node")
	assert.Empty(t, profile.Name)
	profile, ok = profiles.Match(nil)
	assert.True(t, ok)
	assert.Equal(t, "others", profile.Name)
}

// Whatever a Node stands at, it is opened, and no Node is closed or removed.
func TestInAnEmergencyEachNodeIsOpenedAndNoneIsClosed(t *testing.T) {
	profiles := twoProfiles(t)
	failed := verify.Progress{
		Attempts: 9, Failed: 9, BootID: "b1", Hash: profiles.All()[0].Hash, Last: &verify.Last{Result: verify.VerdictFailed, Check: "dns", Time: born},
	}.String()
	passed := verify.Progress{Round: 1, BootID: "b1", OnReboot: true, Label: verify.Label, Last: &verify.Last{Result: verify.VerdictPassed, Time: born}}.String()
	for name, c := range map[string]struct {
		node             func(*verify.Node)
		operation, usual verify.Operation
	}{
		"it is new":                                  {func(*verify.Node) {}, verify.DoFree, verify.DoStart},
		"it is not Ready":                            {func(n *verify.Node) { n.Ready = false }, verify.DoFree, verify.DoShow},
		"it fails for good":                          {func(n *verify.Node) { n.Annotation = failed }, verify.DoFree, verify.DoStart},
		"it was checked again":                       {func(n *verify.Node) { n.Taints[0].Value, n.Annotation = "recheck", passed }, verify.DoFree, verify.DoStart},
		"it is open, and has rebooted":               {func(n *verify.Node) { n.Taints, n.BootID, n.Annotation = nil, "b2", passed }, verify.DoShow, verify.DoHold},
		"it is open, and not Ready":                  {func(n *verify.Node) { n.Taints, n.Ready, n.Annotation = nil, false, passed }, verify.DoShow, verify.DoHold},
		"it is open, and its label was removed":      {func(n *verify.Node) { n.Taints, n.Annotation = nil, passed }, verify.DoShow, verify.DoRecheck},
		"it is open, and a check of it is requested": {func(n *verify.Node) { n.Taints, n.Request = nil, "r" }, verify.DoNothing, verify.DoRecheck},
	} {
		t.Run(name, func(t *testing.T) {
			node := readyNode()
			node.Taints = []corev1.Taint{{Key: verify.Taint, Effect: corev1.TaintEffectNoSchedule}}
			c.node(node)
			seen := verify.Observed{Node: node, Room: &verify.Room{Selected: 100, Takers: 100}, Waits: verify.Waits{Cause: verify.CauseNotReady, Start: born}}
			instant := born.Add(time.Hour)
			assert.Equal(t, c.usual, verify.Plan(seen, profiles, modelCluster, instant).Operation, "without an emergency")
			stopped := profiles
			stopped.Suspended = true
			action := verify.Plan(seen, stopped, modelCluster, instant)
			assert.Equal(t, c.operation, action.Operation)
			if c.operation == verify.DoFree {
				assert.Equal(t, verify.CauseEmergency, action.Diagnosis.Cause)
				assert.Equal(t, verify.VerdictNotSelected, action.Progress.Last.Result)
			}
		})
	}
}

// A worker Pod on a machine that does not answer, the gate and pauses of before keep no Node closed.
func TestInAnEmergencyANodeIsFreedFirst(t *testing.T) {
	profiles := twoProfiles(t)
	profiles.Suspended = true
	instant := born.Add(time.Hour)
	passed := verify.Progress{Round: 9, Returns: 9, Last: &verify.Last{Result: verify.VerdictPassed, Time: instant}}
	cluster := modelCluster
	cluster.Gate = "nodekeep.dev/restoring"
	seen := func(change func(*verify.Observed)) verify.Observed {
		node := readyNode()
		node.Taints = []corev1.Taint{{Key: verify.Taint, Effect: corev1.TaintEffectNoSchedule}}
		seen := verify.Observed{Node: node}
		change(&seen)
		return seen
	}
	for name, change := range map[string]func(*verify.Observed){
		"its worker Pod runs":            func(o *verify.Observed) { o.Pods = []verify.Pod{{Name: "check-1"}} },
		"its worker Pod is not deleted":  func(o *verify.Observed) { o.Pods = []verify.Pod{{Name: "check-1", Deleted: instant}} },
		"its taint kept returning":       func(o *verify.Observed) { o.Node.Annotation = passed.String() },
		"the gate is on":                 func(o *verify.Observed) { o.Node.Taints = append(o.Node.Taints, corev1.Taint{Key: cluster.Gate}) },
		"a process of before made a Pod": func(o *verify.Observed) { o.Pods = []verify.Pod{{Name: "check-1", Created: instant}} },
	} {
		t.Run(name, func(t *testing.T) {
			action := verify.Plan(seen(change), profiles, cluster, instant)
			assert.Equal(t, verify.DoFree, action.Operation)
			assert.Equal(t, verify.CauseEmergency, action.Diagnosis.Cause)
		})
	}

	leftover := seen(func(o *verify.Observed) { o.Node.Taints, o.Pods = nil, []verify.Pod{{Name: "check-1"}} })
	assert.Equal(t, verify.DoDelete, verify.Plan(leftover, profiles, cluster, instant).Operation, "its worker Pod is deleted after that")

	node := seen(func(*verify.Observed) {})
	for range 2 * verify.FreeReturns { // a client adds the taint again at once
		action := verify.Plan(node, profiles, cluster, instant)
		if action.Operation != verify.DoFree {
			break
		}
		node.Node.Annotation = action.Progress.String()
	}
	action := verify.Plan(node, profiles, cluster, instant)
	assert.False(t, action.Acts(), "with pauses")
	assert.Equal(t, verify.DoFree, verify.Plan(node, profiles, cluster, instant.Add(time.Minute)).Operation)
}

func TestInAnEmergencyModeReportGoesOn(t *testing.T) {
	profiles, node := twoProfiles(t), readyNode()
	profiles.Suspended, node.Taints, node.Labels = true, nil, nil
	action := verify.Plan(verify.Observed{Node: node}, profiles, modelCluster, born.Add(time.Hour))
	assert.Equal(t, verify.DoStart, action.Operation)
	assert.Equal(t, "others", action.Profile.Name)
}
