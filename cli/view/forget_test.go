package view

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/record/history"
)

func TestForgettingOf(t *testing.T) {
	both := set{"a": "1", "t:NoSchedule": "x"}
	tests := map[string]struct {
		state NodeState
		keys  []string
		whole bool
		items []string
		why   string // part of the error
	}{
		"all of a deleted Node":                {state(nil, recorded(both, goneSince(1))), nil, true, []string{"a", "t:NoSchedule"}, ""},
		"some of it":                           {state(nil, recorded(both, goneSince(1))), []string{"t:NoSchedule", "t:NoSchedule"}, false, []string{"t:NoSchedule"}, ""},
		"both sides of a deleted Node":         {state(nil, recorded(both, quarantining(set{"b": "2"}))), nil, true, []string{"a", "t:NoSchedule"}, ""},
		"some where an operator has to decide": {state(nil, recorded(both, quarantining(set{"b": "2"}))), []string{"a"}, false, nil, "no operator has decided yet"},
		"all where an operator has to decide":  {state(live(both), recorded(both, quarantining(set{"b": "2"}))), nil, false, nil, "no operator has decided yet"},
		"no record":                            {state(live(both), nil), nil, false, nil, "there is no record"},
		"a record that cannot be read":         {NodeState{Name: "n1", Unreadable: errors.New("?")}, nil, true, nil, ""},
		"some of it, which nobody can read":    {NodeState{Name: "n1", Unreadable: errors.New("?")}, []string{"a"}, false, nil, "as a whole only"},
		"what a live Node shows":               {state(live(both), recorded(both)), nil, false, nil, "kubectl label node n1 a-\n  kubectl taint node n1 t:NoSchedule-"},
		"what it shows, and what it does not":  {state(live(set{"a": "2"}), recorded(both)), nil, false, []string{"t:NoSchedule"}, "nodekeep forget n1 t:NoSchedule"},
		"what it does not show":                {state(live(set{"a": "2"}), recorded(both)), []string{"t:NoSchedule"}, false, []string{"t:NoSchedule"}, ""},
		"all, of which it shows nothing":       {state(live(nil), recorded(set{"a": "1", "t:NoSchedule": "x", "w": "1"}, notShown("w"))), nil, false, []string{"a", "w", "t:NoSchedule"}, ""},
		"what it shows with another value":     {state(live(set{"w": "2"}), recorded(set{"w": "1"}, notShown("w"))), []string{"w"}, false, []string{"w"}, ""},
		"what a client has removed":            {state(nil, recorded(both, func(r *record.Record) { *r = record.Forget(*r, []string{"a"}) })), []string{"a"}, false, nil, "it is not recorded"},
		"a taint by the key of a label":        {state(nil, recorded(both)), []string{"t"}, false, nil, "the taint is called t:NoSchedule"},
		"what is only on the Node":             {state(live(set{"b": ""}), recorded(both)), []string{"b"}, false, nil, "it is only on the Node"},
		"several errors at once":               {state(nil, recorded(both)), []string{"x", "y"}, false, nil, "x: it is not recorded\n  y: it is not recorded"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := ForgettingOf(tt.state, tt.keys)
			assert.Equal(t, tt.whole, f.Whole)
			assert.Equal(t, tt.items, f.Items)
			if tt.why == "" {
				assert.NoError(t, f.Err())
			} else {
				assert.ErrorContains(t, f.Err(), tt.why)
			}
		})
	}
}

func TestForgettingLeavesTheRestOfTheRecordAndSaysInTheHistoryWhoForgot(t *testing.T) {
	r := *recorded(set{"a": "1", "b": "2", "t:NoSchedule": "x"}, goneSince(time.Hour))
	left := ForgettingOf(state(nil, &r), []string{"t:NoSchedule", "a"}).Record(r, now)
	assert.Equal(t, set{"b": "2"}, left.Items())
	changes := history.Of(left)
	require.Len(t, changes, 1)
	assert.Equal(t, "nodekeep-forget", changes[0].Actor)
	assert.Len(t, changes[0].Items, 2)
	assert.Len(t, r.Items(), 3, "the record that was read is left as it is")
}
