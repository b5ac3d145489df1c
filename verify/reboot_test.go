package verify_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"nodekeep.dev/nodekeep/verify"
)

func onReboot(profile *verify.Profile) { profile.Reverify = verify.OnReboot }

// heldForReboot returns an open Node that became not Ready and got the taint because of it.
func heldForReboot(t *testing.T, profiles verify.Profiles) *verify.Node {
	t.Helper()
	node := readyNode()
	node.Taints, node.Ready, node.ReadySince = nil, false, born.Add(time.Minute)
	action := verify.Plan(verify.Observed{Node: node}, profiles, verify.Cluster{}, born)
	require.Equal(t, verify.DoHold, action.Operation)
	require.Empty(t, validation.IsValidLabelValue(action.Hold.Value), "the value of a taint")
	node.Taints = []corev1.Taint{action.Hold}
	return node
}

func TestANodeThatIsNotReadyIsCheckedAgainOnlyIfItReboots(t *testing.T) {
	profiles := planProfile(t, onReboot)
	for name, test := range map[string]struct {
		change func(*verify.Node)
		outage bool
		want   verify.Operation
	}{
		"it is still not Ready":                     {change: func(*verify.Node) {}, want: verify.DoWait},
		"its kubelet was restarted":                 {change: func(node *verify.Node) { node.Ready = true }, want: verify.DoUnhold},
		"it rebooted":                               {change: func(node *verify.Node) { node.Ready, node.BootID = true, "b2" }, want: verify.DoStart},
		"it rebooted and is not Ready yet":          {change: func(node *verify.Node) { node.BootID = "b2" }, want: verify.DoWait},
		"many are away":                             {change: func(*verify.Node) {}, outage: true, want: verify.DoUnhold},
		"many are away, and it rebooted":            {change: func(node *verify.Node) { node.Ready, node.BootID = true, "b2" }, outage: true, want: verify.DoUnhold},
		"an operator adds a taint of the same key":  {change: func(node *verify.Node) { node.Ready = true; node.Taints = append(node.Taints, readyNode().Taints...) }, want: verify.DoStart},
		"the taint is of another Node of this name": {change: func(node *verify.Node) { node.Ready, node.UID = true, "u2" }, want: verify.DoStart},
		"another Node object, while many are away":  {change: func(node *verify.Node) { node.Ready, node.UID = true, "u2" }, outage: true, want: verify.DoStart},
	} {
		t.Run(name, func(t *testing.T) {
			node := heldForReboot(t, profiles)
			test.change(node)
			var cluster verify.Cluster
			if test.outage {
				cluster.OutageUntil = born.Add(time.Hour)
			}
			action := verify.Plan(verify.Observed{Node: node}, profiles, cluster, born.Add(time.Minute))
			assert.Equal(t, test.want, action.Operation, action.Diagnosis.String())
		})
	}
}

func TestARebootThatIsOverAtOnceIsSeenByTheBootThatWasChecked(t *testing.T) {
	profiles := planProfile(t, onReboot)
	node := readyNode()
	node.Taints = nil
	node.Annotation = verify.Progress{Round: 1, BootID: "b0", OnReboot: true}.String()
	action := verify.Plan(verify.Observed{Node: node}, profiles, verify.Cluster{}, born)
	require.Equal(t, verify.DoHold, action.Operation)
	node.Taints = []corev1.Taint{action.Hold}
	assert.Equal(t, verify.DoStart, verify.Plan(verify.Observed{Node: node}, profiles, verify.Cluster{}, born).Operation, "the mark is of the boot before")

	node.Taints, node.Annotation = nil, verify.Progress{Round: 1, BootID: "b0"}.String()
	assert.Equal(t, verify.DoNothing, verify.Plan(verify.Observed{Node: node}, profiles, verify.Cluster{}, born).Operation, "verified before the profile asked for it: nothing is known of reboots")
}

func TestWhoIsNotWatchedForReboots(t *testing.T) {
	profiles := planProfile(t, onReboot)
	for name, change := range map[string]func(*verify.Node){
		"a Node that no profile selects":        func(node *verify.Node) { node.Labels = nil },
		"a Node whose bootID is not known":      func(node *verify.Node) { node.BootID = "" },
		"a Node that has never been Ready":      func(node *verify.Node) { node.ReadySince = born },
		"a Node that is Ready":                  func(node *verify.Node) { node.Ready = true },
		"a Node that other components complete": func(node *verify.Node) { node.Taints = []corev1.Taint{{Key: gate}} },
	} {
		node := readyNode()
		node.Taints, node.Ready, node.ReadySince = nil, false, born.Add(time.Minute)
		change(node)
		assert.Equal(t, verify.DoNothing, verify.Plan(verify.Observed{Node: node}, profiles, modelCluster, born).Operation, name)
	}
	node := readyNode()
	node.Taints, node.Ready, node.ReadySince = nil, false, born.Add(time.Minute)
	assert.Equal(t, verify.DoNothing, verify.Plan(verify.Observed{Node: node}, planProfile(t, nil), modelCluster, born).Operation, "a profile without reverify")
}

// Else many new Nodes that no profile closes would be taken for a power cut, and no Node would be checked again.
func TestANodeThatHasNeverBeenReadyIsNoOutage(t *testing.T) {
	profiles := planProfile(t, onReboot)
	later := born.Add(time.Minute)
	for name, test := range map[string]struct {
		change         func(*verify.Node)
		counts, absent bool
	}{
		"it registers":                            {change: func(n *verify.Node) { n.Ready, n.ReadySince = false, born }},
		"it registers by a clock that is ahead":   {change: func(n *verify.Node) { n.Ready, n.ReadySince = false, born.Add(5*time.Second) }},
		"it has no condition yet":                 {change: func(n *verify.Node) { n.Ready = false }},
		"it waits to be verified":                 {change: func(n *verify.Node) { n.Taints = readyNode().Taints }},
		"it is Ready":                             {change: func(n *verify.Node) { n.ReadySince = later }, counts: true},
		"it is no longer Ready":                   {change: func(n *verify.Node) { n.Ready, n.ReadySince = false, later }, counts: true, absent: true},
		"it is no longer Ready soon after it was": {change: func(n *verify.Node) { n.Ready, n.ReadySince, n.Annotation = false, born, `{"round":1}` }, counts: true, absent: true},
	} {
		t.Run(name, func(t *testing.T) {
			node := readyNode()
			node.Taints = nil
			test.change(node)
			counts, absent := profiles.Absent(node)
			assert.Equal(t, [2]bool{test.counts, test.absent}, [2]bool{counts, absent})
		})
	}
}

func TestAnOutageIsMoreThanATenthOfTheNodesAndLastsBeyondIt(t *testing.T) {
	var o verify.Outage
	assert.False(t, o.Change(50, 5, born))
	assert.False(t, o.End(born).After(born), "five of 50")
	assert.True(t, o.Change(0, 1, born), "six of 50")
	assert.False(t, o.Change(0, 9, born), "it began before")
	o.Change(0, -15, born)
	assert.True(t, o.End(born.Add(time.Minute)).After(born.Add(time.Minute)), "those that return later are of the same outage")
	assert.False(t, o.End(born.Add(time.Hour)).After(born.Add(time.Hour)))

	var small verify.Outage
	small.Change(3, 1, born)
	assert.False(t, small.End(born).After(born), "one Node of three may reboot")
	small.Change(0, 1, born)
	assert.True(t, small.End(born).After(born), "two of three are an outage")
}
