package capture

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

const keepsAnnotations = `annotations: ["a.io/*"]`

func TestThePatchWritesAnnotationsAndTheStamp(t *testing.T) {
	p := loadPolicy(t, keepsAnnotations)
	n := node("a", "10", labels{}, annotated("a.io/stale", "old"), annotated("a.io/gone", "x"))
	change := plan.Plan{Edits: slices.Concat(plan.SetItems(plan.CauseRecord, labels{"@a.io/x": "1", "label": "1"}), plan.SetItems(plan.CauseCorrection, labels{"@a.io/stale": "new"}), plan.RemoveItems(plan.CauseCorrection, "@a.io/gone"))}
	body := patchOf(t, observe.FromNodeWithAnnotations(n, p.Annotations()), change)
	assert.JSONEq(t, `{"metadata":{"uid":"a","resourceVersion":"10","labels":{"label":"1"},"annotations":{"a.io/x":"1","a.io/stale":"new","a.io/gone":null,
		"nodekeep.dev/restored":"{\"given\":{\"@a.io/stale\":{\"value\":\"new\",\"since\":\"10\"},\"@a.io/x\":{\"value\":\"1\",\"since\":\"10\"},\"label\":{\"value\":\"1\",\"since\":\"10\"}}}"}}}`, body)

	change.ByClient = true
	body = patchOf(t, observe.FromNodeWithAnnotations(n, p.Annotations()), change)
	assert.JSONEq(t, `{"metadata":{"uid":"a","resourceVersion":"10","labels":{"label":"1"},"annotations":{"a.io/x":"1","a.io/stale":"new","a.io/gone":null}}}`, body, "a rollback")
}

func TestAnnotationsLeaveRoomForTheStamp(t *testing.T) {
	p := loadPolicy(t, keepsAnnotations)
	size := 256<<10 - 8200
	n := node("a", "10", labels{}, annotated("big", strings.Repeat("x", size)))
	body := patchOf(t, observe.FromNodeWithAnnotations(n, p.Annotations()), plan.Plan{Edits: plan.SetItems(plan.CauseRecord, labels{"@a.io/x": strings.Repeat("y", 8100)})})
	assert.NotContains(t, body, policy.StampAnnotation, "a stamp as well would be too much for the API server")
}

func TestAnnotationsOfLivingNodesAreReadOnceWhenThePolicyKeepsThem(t *testing.T) {
	c := newCluster(t, "", node("a", "10", labels{"k": "v"}, annotated("a.io/x", "1")))
	leader, standby := c.leader(), c.replica()
	leader.looks()
	require.Empty(t, record.SplitAnnotations(c.record().Items()))
	leader.reads, standby.reads = nil, nil

	c.policy = loadPolicy(t, keepsAnnotations)
	for _, r := range []*replica{leader, standby} {
		r.EnqueueAll()
		r.looks()
	}
	assert.Equal(t, labels{"a.io/x": "1"}, record.SplitAnnotations(c.record().Items()))
	assert.Contains(t, leader.reads, "get n1")
	assert.NotContains(t, standby.reads, "get n1", "only the leader reads")
	leader.reads = nil
	leader.EnqueueAll()
	leader.looks()
	assert.NotContains(t, leader.reads, "get n1", "it is read once")

	c.edit(func(n *corev1.Node) { n.Annotations["a.io/x"] = "2" })
	leader.looks()
	assert.Equal(t, labels{"a.io/x": "2"}, record.SplitAnnotations(c.record().Items()))

	c.policy = loadPolicy(t, "")
	leader.EnqueueAll()
	leader.looks()
	c.edit(func(n *corev1.Node) { delete(n.Annotations, "a.io/x") })
	leader.looks()
	assert.Equal(t, labels{"a.io/x": "2"}, record.SplitAnnotations(c.record().Items()), "a policy erases nothing")
}

func TestAHeartbeatInAnAnnotationThatIsNotKeptWritesNothing(t *testing.T) {
	c := newCluster(t, keepsAnnotations, node("a", "10", labels{"k": "v"}, annotated("a.io/x", "1"), annotated("other.io/heartbeat", "1")))
	leader := c.leader()
	leader.looks()
	leader.writes = nil
	for _, beat := range []string{"2", "3", "4"} {
		c.edit(func(n *corev1.Node) { n.Annotations["other.io/heartbeat"] = beat })
		assert.Zero(t, leader.queue.Len())
		leader.looks()
	}
	assert.Empty(t, leader.wrote())
}

func TestCaptureRestoresAndCorrectsAnnotations(t *testing.T) {
	p := loadPolicy(t, keepsAnnotations)
	decide := func(r *record.Record, n *corev1.Node) Action {
		return Decide(store.Entry{Record: *r}, true, observe.FromNodeWithAnnotations(n, p.Annotations()), NodePresent, plan.Inputs{Policy: p, GuardInForce: true, Now: now})
	}
	long := strings.Repeat("x", 5000)
	r := remembered("a", 5, labels{"@a.io/x": long, "@b.io/x": "not kept"})
	assert.Equal(t, labels{"@a.io/x": long}, decide(r, node("b", "10", labels{}, gated)).WithCause(plan.CauseRecord).Values())

	stale := stamped(record.Stamp{}.Merge(map[string]string{"@a.io/x": "stale"}, record.Record{}, 0))
	restored := decide(r, node("b", "10", labels{}, annotated("a.io/x", "stale"), stale))
	assert.Equal(t, labels{"@a.io/x": long}, restored.WithCause(plan.CauseCorrection).Values())

	quarantined := *r
	quarantined.Quarantined = remembered("a", 5, labels{"@a.io/y": "1"})
	assert.Empty(t, decide(&quarantined, node("b", "10", labels{}, gated)).WithCause(plan.CauseRecord).Values())
}
