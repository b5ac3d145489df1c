package nodestate_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/cli/nodestate"
	"nodekeep.dev/nodekeep/cli/nodestate/statetest"
	"nodekeep.dev/nodekeep/record/history"
)

func TestARollbackSetsChangesAndRemovesAndLeavesAloneWhatIsOfOthers(t *testing.T) {
	prev := *statetest.Recorded(set{"set": "1", "change": "1"})
	next := *statetest.Recorded(set{"change": "2", "remove": "1", "ignored": "1"})
	r := history.Append(prev, next, func(string, history.Values) history.Cause {
		return history.Cause{Actor: "alice", Time: metav1.NewTime(now)}
	})
	inputs := statetest.Under(statetest.Load(t, "labels: {ignore: [ignored]}"))
	rollback, err := nodestate.RollbackTo(statetest.State(statetest.Live(next.Items()), &r), 0, inputs)
	require.NoError(t, err)
	text, two := "1", "2"
	assert.Equal(t, []nodestate.RollbackStep{
		{Kind: "label", Item: "change", Action: nodestate.Replace, From: &two, To: &text},
		{Kind: "label", Item: "ignored", Action: nodestate.LeftAlone, From: &text, Reason: "labels.ignore has ignored"},
		{Kind: "label", Item: "remove", Action: nodestate.Remove, From: &text},
		{Kind: "label", Item: "set", Action: nodestate.Set, To: &text},
	}, rollback.Steps)
	changed, leftAlone := rollback.Count()
	assert.Equal(t, []int{3, 1}, []int{changed, leftAlone})
	change := rollback.Change()
	assert.Equal(t, []any{set{"set": "1", "change": "1"}, []string{"remove"}, true}, []any{change.Values(), change.Removed(), change.ByClient})
}
