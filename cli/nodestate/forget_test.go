package nodestate_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/cli/nodestate"
	"nodekeep.dev/nodekeep/cli/nodestate/statetest"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/record/history"
)

func TestForgettingOf(t *testing.T) {
	combined := set{"a": "1", "t:NoSchedule": "x"}
	tests := map[string]struct {
		state  nodestate.State
		keys   []string
		whole  bool
		items  []string
		reason string // part of the error
	}{
		"all of a deleted Node":                {statetest.State(nil, statetest.Recorded(combined, statetest.GoneSince(1))), nil, true, []string{"a", "t:NoSchedule"}, ""},
		"some of it":                           {statetest.State(nil, statetest.Recorded(combined, statetest.GoneSince(1))), []string{"t:NoSchedule", "t:NoSchedule"}, false, []string{"t:NoSchedule"}, ""},
		"both sides of a deleted Node":         {statetest.State(nil, statetest.Recorded(combined, statetest.Quarantining(set{"b": "2"}))), nil, true, []string{"a", "t:NoSchedule"}, ""},
		"some where an operator has to decide": {statetest.State(nil, statetest.Recorded(combined, statetest.Quarantining(set{"b": "2"}))), []string{"a"}, false, nil, "no operator has decided yet"},
		"all where an operator has to decide":  {statetest.State(statetest.Live(combined), statetest.Recorded(combined, statetest.Quarantining(set{"b": "2"}))), nil, false, nil, "no operator has decided yet"},
		"no record":                            {statetest.State(statetest.Live(combined), nil), nil, false, nil, "there is no record"},
		"a record that cannot be read":         {nodestate.State{Name: "n1", Unreadable: errors.New("?")}, nil, true, nil, ""},
		"some of it, which nobody can read":    {nodestate.State{Name: "n1", Unreadable: errors.New("?")}, []string{"a"}, false, nil, "as a whole only"},
		"what a live Node shows":               {statetest.State(statetest.Live(combined), statetest.Recorded(combined)), nil, false, nil, "kubectl label node n1 a-\n  kubectl taint node n1 t:NoSchedule-"},
		"what it shows, and what it does not":  {statetest.State(statetest.Live(set{"a": "2"}), statetest.Recorded(combined)), nil, false, []string{"t:NoSchedule"}, "nodekeep forget n1 t:NoSchedule"},
		"what it does not show":                {statetest.State(statetest.Live(set{"a": "2"}), statetest.Recorded(combined)), []string{"t:NoSchedule"}, false, []string{"t:NoSchedule"}, ""},
		"all, of which it shows nothing":       {statetest.State(statetest.Live(nil), statetest.Recorded(set{"a": "1", "t:NoSchedule": "x", "w": "1"}, statetest.NotShown("w"))), nil, false, []string{"a", "w", "t:NoSchedule"}, ""},
		"what it shows with another value":     {statetest.State(statetest.Live(set{"w": "2"}), statetest.Recorded(set{"w": "1"}, statetest.NotShown("w"))), []string{"w"}, false, []string{"w"}, ""},
		"what a client has removed":            {statetest.State(nil, statetest.Recorded(combined, func(r *record.Record) { *r = record.Forget(*r, []string{"a"}) })), []string{"a"}, false, nil, "it is not recorded"},
		"a taint by the key of a label":        {statetest.State(nil, statetest.Recorded(combined)), []string{"t"}, false, nil, "the taint is called t:NoSchedule"},
		"what is only on the Node":             {statetest.State(statetest.Live(set{"b": ""}), statetest.Recorded(combined)), []string{"b"}, false, nil, "it is only on the Node"},
		"several errors at once":               {statetest.State(nil, statetest.Recorded(combined)), []string{"x", "y"}, false, nil, "x: it is not recorded\n  y: it is not recorded"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := nodestate.PlanForget(tt.state, tt.keys)
			assert.Equal(t, tt.whole, f.Whole)
			assert.Equal(t, tt.items, f.Items)
			if tt.reason == "" {
				assert.NoError(t, f.Err())
			} else {
				assert.ErrorContains(t, f.Err(), tt.reason)
			}
		})
	}
}

func TestForgettingLeavesTheRestOfTheRecordAndSaysInTheHistoryWhoForgot(t *testing.T) {
	r := *statetest.Recorded(set{"a": "1", "b": "2", "t:NoSchedule": "x"}, statetest.GoneSince(time.Hour))
	left := nodestate.PlanForget(statetest.State(nil, &r), []string{"t:NoSchedule", "a"}).Remaining(r, now)
	assert.Equal(t, set{"b": "2"}, left.Items())
	changes := history.Changes(left)
	require.Len(t, changes, 1)
	assert.Equal(t, "nodekeep-forget", changes[0].Actor)
	assert.Len(t, changes[0].Items, 2)
	assert.Len(t, r.Items(), 3, "the record that was read is left as it is")
}
