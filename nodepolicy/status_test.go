package nodepolicy

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/api/v1alpha1"
)

func TestTheConditionsSayWhatHoldsOfAGeneration(t *testing.T) {
	pods := []string{"capture-1", "webhook-1", "webhook-2"}
	all := map[string]int64{"capture-1": 3, "webhook-1": 3, "webhook-2": 3}
	good := situation{generation: 3, counted: true, nodes: 10, running: pods}
	for name, c := range map[string]struct {
		change    func(s *situation)
		readBy    map[string]int64
		condition string
		status    metav1.ConditionStatus
		reason    string
		says      string
	}{
		"it can be used":                        {nil, all, v1alpha1.Accepted, "True", "Usable", "can use"},
		"it cannot be used":                     {func(s *situation) { s.trouble = errors.New("spec.labels.keep[0]: a b") }, all, v1alpha1.Accepted, "False", "Unusable", "spec.labels.keep[0]: a b"},
		"what cannot be used is not in force":   {func(s *situation) { s.trouble = errors.New("bad") }, all, v1alpha1.InForce, "False", "Unusable", "last good policy"},
		"every replica follows":                 {nil, all, v1alpha1.InForce, "True", "EveryReplicaFollows", "All 3 replicas"},
		"one is behind":                         {nil, map[string]int64{"capture-1": 3, "webhook-1": 2, "webhook-2": 3}, v1alpha1.InForce, "False", "ReplicasBehind", "1 of 3 replicas do not follow this generation: webhook-1."},
		"one is ahead of what was judged":       {nil, map[string]int64{"capture-1": 3, "webhook-1": 4, "webhook-2": 3}, v1alpha1.InForce, "False", "ReplicasBehind", "webhook-1"},
		"none has said what it follows":         {nil, nil, v1alpha1.InForce, "False", "ReplicasBehind", "3 of 3"},
		"many are behind":                       {func(s *situation) { s.running = []string{"e", "d", "c", "b", "a"} }, nil, v1alpha1.InForce, "False", "ReplicasBehind", "5 of 5 replicas do not follow this generation: a, b, c and 2 more."},
		"Pods that do not run do not count":     {func(s *situation) { s.running = pods[:2] }, map[string]int64{"capture-1": 3, "webhook-1": 3, "webhook-2": 1}, v1alpha1.InForce, "True", "EveryReplicaFollows", "All 2"},
		"Pods cannot be listed":                 {func(s *situation) { s.running, s.unknown = nil, errors.New("forbidden") }, all, v1alpha1.InForce, "Unknown", "ReplicasUnknown", "forbidden"},
		"no Pod runs":                           {func(s *situation) { s.running = nil }, all, v1alpha1.InForce, "Unknown", "ReplicasUnknown", "No Pod"},
		"nothing waits":                         {nil, all, v1alpha1.Held, "False", "NothingWaits", "No rule"},
		"rules wait":                            {func(s *situation) { s.held = &v1alpha1.HeldRules{Rules: "0123456789ab", Nodes: 4} }, all, v1alpha1.Held, "True", "AwaitsAcceptance", "on 4 of 10 Nodes"},
		"it names how to accept":                {func(s *situation) { s.held = &v1alpha1.HeldRules{Rules: "0123456789ab", Nodes: 4} }, all, v1alpha1.Held, "True", "AwaitsAcceptance", "spec.accept: 0123456789ab"},
		"a migration waits":                     {func(s *situation) { s.held, s.finishes = &v1alpha1.HeldRules{Rules: "0123456789ab", Nodes: 4}, "a=b" }, all, v1alpha1.Held, "True", "AwaitsAcceptance", "nodekeep accept migration a=b"},
		"it is not counted yet what waits":      {func(s *situation) { s.counted = false }, all, v1alpha1.Held, "Unknown", "NotCountedYet", "not known yet"},
		"nothing is governed":                   {nil, all, v1alpha1.GovernanceEnforced, "False", "NothingGoverned", "no label"},
		"what is governed is enforced":          {func(s *situation) { s.governs = true }, all, v1alpha1.GovernanceEnforced, "True", "PoliciesInForce", "goes by"},
		"the API server reads what is unusable": {func(s *situation) { s.governs, s.trouble = true, errors.New("bad") }, all, v1alpha1.GovernanceEnforced, "Unknown", "Unusable", "as it is"},
		"an admission policy is missing":        {func(s *situation) { s.governs, s.ungoverned = true, errors.New("it does not exist") }, all, v1alpha1.GovernanceEnforced, "False", "PoliciesDiffer", "it does not exist"},
		"admission policies cannot be read":     {func(s *situation) { s.governs, s.ungoverned, s.unread = true, errors.New("forbidden"), true }, all, v1alpha1.GovernanceEnforced, "Unknown", "PoliciesUnknown", "forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			s := good
			if c.change != nil {
				c.change(&s)
			}
			status := statusOf(v1alpha1.NodePolicyStatus{ReadBy: c.readBy}, s, metav1.Now())
			condition := apimeta.FindStatusCondition(status.Conditions, c.condition)
			require.NotNil(t, condition)
			assert.Equal(t, c.status, condition.Status)
			assert.Equal(t, c.reason, condition.Reason)
			assert.Contains(t, condition.Message, c.says)
			assert.EqualValues(t, 3, condition.ObservedGeneration)
			assert.Len(t, status.Conditions, 4)
		})
	}
}

func TestAStatusThatIsRightIsNotWritten(t *testing.T) {
	began := metav1.NewTime(time.Unix(1000, 0))
	s := situation{generation: 3, counted: true, nodes: 10, running: []string{"a"}}
	first := statusOf(v1alpha1.NodePolicyStatus{ReadBy: map[string]int64{"a": 3}}, s, began)
	later := metav1.NewTime(time.Unix(2000, 0))

	change, err := changeOf(first, statusOf(first, s, later))
	require.NoError(t, err)
	assert.Nil(t, change)

	s.held = &v1alpha1.HeldRules{Rules: "0123456789ab", Nodes: 4}
	held := statusOf(first, s, later)
	assert.Equal(t, began, apimeta.FindStatusCondition(held.Conditions, v1alpha1.Accepted).LastTransitionTime)
	assert.Equal(t, later, apimeta.FindStatusCondition(held.Conditions, v1alpha1.Held).LastTransitionTime)
	change, err = changeOf(first, held)
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{"held", "conditions"}, keys(change))

	change, err = changeOf(held, first)
	require.NoError(t, err)
	assert.Contains(t, change, "held")
	assert.Nil(t, change["held"], "null removes it")
}

func TestWhatIsInAStatusWithoutReasonIsDropped(t *testing.T) {
	prev := v1alpha1.NodePolicyStatus{
		ReadBy:     map[string]int64{"a": 3, "deleted": 3, "invented": 9},
		Conditions: []metav1.Condition{{Type: "Invented", Status: "True"}},
	}
	s := situation{generation: 3, counted: true, pods: []string{"a", "b"}, running: []string{"a", "b"}}
	next := statusOf(prev, s, metav1.Now())
	assert.Equal(t, map[string]int64{"a": 3}, next.ReadBy)
	assert.Nil(t, apimeta.FindStatusCondition(next.Conditions, "Invented"))
	change, err := changeOf(prev, next)
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"deleted": nil, "invented": nil}, change["readBy"], "what another replica writes meanwhile stays")

	for name, s := range map[string]situation{
		"Pods are not known":               {generation: 3, unknown: errors.New("forbidden")},
		"no Pod has the labels":            {generation: 3},
		"Pods that start or end are there": {generation: 3, pods: []string{"a", "deleted", "invented"}, running: []string{"a"}},
	} {
		assert.Equal(t, prev.ReadBy, statusOf(prev, s, metav1.Now()).ReadBy, name)
	}
}

func keys(item map[string]any) (all []string) {
	for key := range item {
		all = append(all, key)
	}
	return all
}
