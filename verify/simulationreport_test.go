package verify_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/verify"
)

// reportedNode is an open Node, what is true of it, and what the process remembers.
type reportedNode struct {
	verify.Node
	broken      bool          // its checks fail, and those of other Nodes do not
	brokenSince time.Time     // or since when all fail
	workers     []*verify.Pod // also those of processes before
	worker      verify.OwnPod
	started     time.Time
	starts      int
}

// reportModel is a cluster whose only profile reports.
type reportModel struct {
	t        *testing.T
	rng      *rand.Rand
	profiles verify.Profiles
	now      time.Time
	nodes    []*reportedNode
	controls []verify.ControlPod
	fault    bool // the checks fail on every Node
	serial   int
	totals   map[string]int
}

func (m *reportModel) chance(item int) bool { return m.rng.IntN(item) == 0 }

// fails reports what the checks of a Node say now.
func (m *reportModel) fails(node *reportedNode) bool { return node.broken || m.fault }

// ends is a Pod that ended with what its Node's checks say.
func (m *reportModel) ends(pod *verify.Pod, fails bool) {
	pod.Phase = corev1.PodSucceeded
	worker := verify.ContainerState{Name: verify.Worker, Started: pod.Created.Add(time.Second), Ended: true, Finished: m.now, Message: passes}
	if fails {
		pod.Phase, worker.ExitCode, worker.Message = corev1.PodFailed, 1, refuses
	}
	pod.Containers = []verify.ContainerState{worker}
}

// able returns the Nodes that can answer for others. One that is itself being checked cannot.
func (m *reportModel) able() []*reportedNode {
	return slices.DeleteFunc(slices.Clone(m.nodes), func(node *reportedNode) bool { return !m.profiles.Controls(&node.Node) || len(node.workers) > 0 })
}

func (m *reportModel) control() verify.Control {
	control := verify.Control{Able: len(m.able()), Pods: slices.DeleteFunc(slices.Clone(m.controls), func(pod verify.ControlPod) bool {
		return slices.ContainsFunc(m.nodes, func(node *reportedNode) bool { return node.Name == pod.Node && len(node.workers) > 0 })
	})}
	for _, node := range m.nodes {
		if t := m.profiles.PassedAt(&node.Node); t.After(control.Passed) && !t.After(m.now) {
			control.Passed = t
		}
	}
	return control
}

func (m *reportModel) pod() verify.Pod {
	m.serial++
	return verify.Pod{Name: fmt.Sprint("pod-", m.serial), UID: fmt.Sprint("pod-", m.serial), Created: m.now, Phase: corev1.PodPending}
}

// work plans for one Node, and does what the plan says. Nothing of it may close the Node, or take it for open before.
func (m *reportModel) work(node *reportedNode) {
	seen := verify.Observed{Node: &node.Node, Worker: node.worker, Started: node.started, Control: m.control()}
	for _, worker := range node.workers {
		seen.Pods = append(seen.Pods, *worker)
	}
	action := verify.Plan(seen, m.profiles, modelCluster, m.now)
	m.totals[string(action.Operation)]++
	switch action.Operation {
	case verify.DoWait:
	case verify.DoStart:
		require.True(m.t, node.Ready, "only a Node that is Ready is checked")
		require.Empty(m.t, slices.DeleteFunc(slices.Clone(node.workers), func(pod *verify.Pod) bool { return pod.UID != node.worker.UID }), "of this process")
		pod := m.pod()
		pod.NodeUID = node.UID
		node.workers, node.worker, node.started = append(node.workers, &pod), verify.OwnPod{UID: pod.UID, Attempt: action.Attempt}, m.now
		node.starts++
	case verify.DoDelete:
		node.workers = slices.DeleteFunc(node.workers, func(pod *verify.Pod) bool { return pod.UID == action.Pod.UID })
	case verify.DoControl:
		if able := m.able(); len(able) > 0 {
			target, pod := able[m.rng.IntN(len(able))], m.pod()
			m.ends(&pod, m.fails(target))
			m.controls = append(m.controls, verify.ControlPod{Pod: pod, Node: target.Name})
		}
	case verify.DoRecord, verify.DoReport:
		node.Annotation = action.Progress.String()
	case verify.DoShow:
		if action.Show.Status == corev1.ConditionFalse && node.Verified.Status != corev1.ConditionFalse {
			m.totals["False"]++
			assert.False(m.t, node.brokenSince.IsZero(), "a Node is False whose checks did not fail")
		}
		node.Verified, node.ShownAt = action.Show, m.now
	default:
		require.Fail(m.t, "an open Node of a profile that reports must stay as it is", action.Operation)
	}
}

// happens has one of many things happen to the cluster, the process, or a Node.
func (m *reportModel) happens() {
	node := m.nodes[m.rng.IntN(len(m.nodes))]
	switch m.rng.IntN(8) {
	case 0:
		node.broken = m.chance(3)
	case 1:
		m.fault = m.chance(4)
	case 2:
		node.Ready = !m.chance(3)
	case 3:
		node.BootID = fmt.Sprint("b", m.rng.IntN(3))
	case 4: // the process is restarted
		m.controls = nil
		for _, item := range m.nodes {
			item.worker, item.started = verify.OwnPod{}, time.Time{}
		}
	case 5: // a kubelet writes a time
		progress := verify.ParseProgress(node.Annotation)
		if progress.Last != nil {
			progress.Last.Time = m.now.Add(time.Duration(m.rng.IntN(60)) * time.Minute)
			node.Annotation = progress.String()
		}
	case 6: // or deletes what is known
		node.Annotation = ""
	case 7:
		node.workers = nil
	}
}

// step lets some seconds pass.
func (m *reportModel) step() {
	m.now = m.now.Add(5 * time.Second)
	m.controls = verify.Control{Pods: m.controls}.Current(m.profiles.All()[0], m.now)
	for _, node := range m.nodes {
		switch {
		case m.fails(node) && node.brokenSince.IsZero():
			node.brokenSince = m.now
		case !m.fails(node):
			node.brokenSince = time.Time{}
		}
		for _, worker := range node.workers {
			if !worker.Ended() && m.chance(2) {
				m.ends(worker, m.fails(node))
			}
		}
	}
	for _, i := range m.rng.Perm(len(m.nodes)) {
		for range 3 {
			m.work(m.nodes[i])
		}
	}
}

func TestSimulationOfNodesThatAreOnlyReported(t *testing.T) {
	totals := map[string]int{}
	for seed := range uint64(8) {
		m := &reportModel{t: t, rng: rand.New(rand.NewPCG(seed, 1)), now: born, totals: totals, profiles: planProfile(t, func(p *verify.Profile) { p.Mode, p.Interval = verify.ModeReport, "10m" })}
		for i := range 6 {
			m.nodes = append(m.nodes, &reportedNode{Node: *openNode()})
			m.nodes[i].Name, m.nodes[i].UID = fmt.Sprint("n", i), fmt.Sprint("u", i)
		}
		for range 400 {
			if m.chance(20) {
				m.happens()
			}
			m.step()
		}
		m.fault = false
		for _, node := range m.nodes {
			node.broken, node.Ready = node.Name == "n0", true
			node.starts = 0
		}
		const hours = 1 // a time ahead that a kubelet wrote counts for a pause at most
		for range hours * 60 * 12 {
			m.step()
		}
		for _, node := range m.nodes {
			want := corev1.ConditionTrue
			if node.broken {
				want = corev1.ConditionFalse
			}
			require.Equal(t, want, node.Verified.Status, "seed %d: %s: %v", seed, node.Name, node.Verified)
			require.Less(t, m.now.Sub(node.ShownAt), 12*time.Minute, "seed %d: %s must be current", seed, node.Name)
			require.LessOrEqual(t, node.starts, hours*60+20, "seed %d: %s", seed, node.Name)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	for _, subject := range []string{"start", "delete", "control", "record", "report", "show", "False"} {
		assert.Positive(t, totals[subject], subject)
	}
	t.Log(totals)
}
