package nodestate_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/cli/nodestate"
	"nodekeep.dev/nodekeep/cli/nodestate/statetest"
	"nodekeep.dev/nodekeep/policy"
)

func TestANodeOfWhichNothingIsKeptIsNotUnrecorded(t *testing.T) {
	for name, c := range map[string]struct {
		state nodestate.State
		want  nodestate.Status
	}{
		"a Node of which nothing is kept":   {statetest.State(statetest.Live(nil), nil), nodestate.Present},
		"a Node of which something is kept": {statetest.State(statetest.Live(set{"a": "1"}), nil), nodestate.Unrecorded},
		"a Node with a record":              {statetest.State(statetest.Live(nil), statetest.Recorded(set{"a": "1"})), nodestate.Present},
		"neither a Node nor a record":       {nodestate.State{Name: "n1"}, nodestate.Forgotten},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, c.state.Status(statetest.Under(policy.Default())))
		})
	}
}
