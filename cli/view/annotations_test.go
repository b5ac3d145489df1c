package view

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/cli/nodestate"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

func TestAnnotationsAreItemsOfTheirOwn(t *testing.T) {
	r := record.New("n1", record.Object{UID: "a", Version: 5}, map[string]string{"k": "1", "t:NoSchedule": "", "@a.io/x": "1"})
	state := nodestate.State{Name: "n1", Record: &r}
	summary := SummaryOf(state, plan.Inputs{Policy: policy.Default()})
	assert.Equal(t, []int{1, 1, 1}, []int{summary.Labels, summary.Taints, summary.Annotations})

	f := nodestate.PlanForget(nodestate.State{Name: "n1", Record: &r}, []string{"@a.io/x"})
	assert.Equal(t, []string{"@a.io/x"}, f.Items)
}
