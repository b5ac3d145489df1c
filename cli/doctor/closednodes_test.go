package doctor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/verify"
)

// closes has Nodes of this cluster seen, as the examination does.
func (s *Installation) closes(quarantined bool, nodes ...*corev1.Node) {
	for _, node := range nodes {
		s.Nodes.Value.AddClosed(node, ClosingCriteria{Gate: s.Gate(), Keys: s.VerificationKeys(), Profiles: s.Profiles(), Quarantined: quarantined}, now)
	}
}

// unverifiedNode returns a Node of the shipped profile that has its taint.
func unverifiedNode(name string, age time.Duration, progress verify.Progress) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{"kubernetes.io/os": "linux"}, CreationTimestamp: metav1.Time{Time: now.Add(-age)},
			Annotations: map[string]string{verify.Annotation: progress.String()},
		},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: verify.Taint, Effect: corev1.TaintEffectNoSchedule}}},
	}
}

func TestFindingsOfClosedNodes(t *testing.T) {
	const closed = "closed-nodes: error: : "
	stuckIn := func(s *Installation) verify.Progress {
		profile := s.Profiles().All()[0]
		return verify.Progress{Hash: profile.Hash, Attempts: profile.MaxAttempts, Last: &verify.Last{Result: verify.VerdictFailed, Time: now.Add(-time.Minute)}}
	}
	requireFindings(t, map[string]breakage{
		"the only Node is stuck, and its deadline has not passed": {
			func(s *Installation) {
				s.Nodes.Value.All = 1
				s.closes(false, unverifiedNode("worker-1", time.Minute, stuckIn(s)))
			},
			[]string{closed + "1 of 1 Node takes no new workloads, and is stuck or has waited for too long: worker-1 (stuck: its attempts keep failing)"},
		},
		"one in ten is closed": {
			func(s *Installation) {
				for i := range 10 {
					s.closes(false, gated(fmt.Sprintf("worker-%d", i), time.Hour))
				}
			},
			[]string{closed + "10 of 100 Nodes take no workloads, and are stuck or have waited for too long: worker-0 (behind the gate for 60m), ..."},
		},
		"fewer are closed": {
			func(s *Installation) {
				s.closes(false, gated("worker-1", time.Hour))
				s.closes(true, gated("worker-2", time.Hour))
			},
			[]string{"closed-nodes: warning: : 2 of 100 Nodes take no workloads, and are stuck or have waited for too long: " +
				"worker-1 (behind the gate for 60m), worker-2 (its record waits for a decision)"},
		},
		"a Node waits past the deadline of its profile": {
			func(s *Installation) { s.closes(false, unverifiedNode("worker-1", time.Hour, verify.Progress{})) },
			[]string{"closed-nodes: warning: : 1 of 100 Nodes takes no new workloads, and is stuck or has waited for too long: worker-1 (not verified for 60m)"},
		},
		"Nodes wait within their time": {
			func(s *Installation) {
				s.closes(true, gated("worker-1", time.Minute))
				s.closes(false, gated("worker-2", time.Minute), unverifiedNode("worker-3", time.Minute, verify.Progress{}), &corev1.Node{})
			}, nil,
		},
		"a Node without the gate waits for no decision about its record": { // check quarantine has it
			func(s *Installation) {
				open := gated("worker-1", time.Hour)
				open.Spec.Taints = nil
				s.closes(true, open)
			}, nil,
		},
		"why a Node waits is not known without the records": {
			func(s *Installation) {
				s.Nodes.Value.NotKept = NotKnown[[]NotKept](Unknown{Reason: "jane may not list configmaps", Remedy: newRemedy("Ask for the right.")})
				s.closes(false, gated("worker-1", time.Hour))
			},
			[]string{
				"closed-nodes: warning: : 1 of 100 Nodes takes no new workloads, and is stuck or has waited for too long: worker-1 (behind the gate for 60m)",
				"closed-nodes: unknown: : jane may not list configmaps", "not-kept: unknown: : jane may not list configmaps",
			},
		},
		"attempts of other checks do not count": {
			func(s *Installation) {
				progress := stuckIn(s)
				progress.Hash = "other"
				s.closes(false, unverifiedNode("worker-1", time.Minute, progress))
			}, nil,
		},
	})
}

func TestTheRemedyOfClosedNodesNamesOnlyCommandsThatShowThem(t *testing.T) {
	unverified := unverifiedNode("worker-1", time.Hour, verify.Progress{})
	for name, test := range map[string]struct {
		quarantined bool
		nodes       []*corev1.Node
		want        []string
	}{
		"a Node is gated":                         {false, []*corev1.Node{gated("worker-2", time.Hour)}, []string{listGatedCommand}},
		"a record waits for a decision":           {true, []*corev1.Node{gated("worker-2", time.Hour)}, []string{listGatedCommand}},
		"a Node is not verified":                  {false, []*corev1.Node{unverified}, []string{listUnverifiedCommand}},
		"one is gated, another not verified":      {false, []*corev1.Node{unverified, gated("worker-2", time.Hour)}, []string{listGatedCommand, listUnverifiedCommand}},
		"several Nodes are closed for one reason": {false, []*corev1.Node{unverified, unverified}, []string{listUnverifiedCommand}},
	} {
		t.Run(name, func(t *testing.T) {
			seen := healthy(t)
			seen.closes(test.quarantined, test.nodes...)
			found := judgeClosedNodes(seen).findings
			require.Len(t, found, 1)
			assert.Equal(t, test.want, found[0].Commands)
		})
	}
}

// A Node that was open is closed to be checked again: it waits from then on, not from its creation.
func TestNodesThatAreCheckedAgainAreNoOutage(t *testing.T) {
	seen := healthy(t)
	seen.Nodes.Value.All = 10
	for i := range 10 {
		node := unverifiedNode(fmt.Sprintf("worker-%d", i), 90*24*time.Hour, verify.Progress{Round: 1})
		node.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager: "nodekeep-recheck", Operation: metav1.ManagedFieldsOperationUpdate, Time: &metav1.Time{Time: now.Add(-time.Minute)},
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:taints":{}}}`),
		}}
		seen.closes(false, node)
		seen.Nodes.Value.AddVerification(node, seen.VerificationKeys(), seen.Profiles(), now)
	}
	assert.Empty(t, found(t, seen))
	assert.Equal(t, "no Node is stuck, or has waited for too long to take workloads", resultOf(t, RunChecks(seen, nil), checkClosedNodes).Title)

	late := unverifiedNode("late", 90*24*time.Hour, verify.Progress{Round: 1})
	seen.closes(false, late)
	assert.Equal(t, 1, seen.Nodes.Value.ClosedTooLong.All, "when it was closed is not known")
}

func TestNodesThatWaitWhileVerificationIsOffAreClosed(t *testing.T) {
	seen := healthy(t)
	node := unverifiedNode("worker-1", 6*time.Minute, verify.Progress{})
	seen.Nodes.Value.AddClosed(node, ClosingCriteria{Gate: policy.DefaultGate, Keys: []string{verify.Taint}}, now)
	assert.Equal(t, []string{"worker-1 (not verified for 6m)"}, seen.Nodes.Value.ClosedTooLong.First)
}

func TestItemsThatCaptureStoppedCorrectingAreAFindingByShare(t *testing.T) {
	for nodes, severity := range map[int]string{100: "warning", 10: "error"} {
		seen := healthy(t)
		seen.Nodes.Value.All = nodes
		seen.Nodes.Value.ItemsPaused.Add("worker-1")
		got := found(t, seen)
		if assert.Len(t, got, 1) {
			assert.True(t, strings.HasPrefix(got[0], fmt.Sprintf("paused-items: %s: : within the last hour another client undid again and again what capture sets on 1 of %d Nodes", severity, nodes)), got[0])
		}
	}
}

// The Event of a fight is written when it begins, so Events show nothing of an older one that lasts.
func TestThatNothingIsPausedIsNotClaimedOfOlderFights(t *testing.T) {
	ok := resultOf(t, RunChecks(healthy(t), nil), checkPausedItems).Title
	assert.Contains(t, ok, "began within the last hour")
	assert.Contains(t, ok, "the metric nodekeep_capture_items_paused counts those that last")
}

func TestOnlyEventsOfTheLastHourShowWhatIsPaused(t *testing.T) {
	event := func(uid types.UID, change func(*corev1.Event)) corev1.Event {
		e := corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: "Node", UID: uid}}
		change(&e)
		return e
	}
	earlier := func(d time.Duration) time.Time { return now.Add(-d) }
	assert.Equal(t, map[types.UID]bool{"recent": true, "new": true, "goes on": true}, PausedOf([]corev1.Event{
		event("recent", func(e *corev1.Event) { e.LastTimestamp.Time = earlier(59 * time.Minute) }),
		event("old", func(e *corev1.Event) { e.LastTimestamp.Time = earlier(61 * time.Minute) }),
		event("new", func(e *corev1.Event) { e.EventTime.Time = earlier(time.Minute) }),
		event("goes on", func(e *corev1.Event) {
			e.EventTime.Time = earlier(2 * time.Hour)
			e.Series = &corev1.EventSeries{LastObservedTime: metav1.MicroTime{Time: earlier(time.Minute)}}
		}),
		event("never", func(*corev1.Event) {}),
	}, now))
}
