package view

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

func TestAnnotationsAreItemsOfTheirOwn(t *testing.T) {
	long := strings.Repeat("x", 8000)
	r := record.New("n1", record.Object{UID: "a", Version: 5}, map[string]string{"k": "1", "t:NoSchedule": "", "@a.io/x": long})
	state := NodeState{Name: "n1", Record: &r}
	assert.Equal(t, []string{"k", "t:NoSchedule", "@a.io/x"}, sortedItems(r.Items()))
	summary := SummaryOf(state, plan.Circumstances{Policy: policy.Default()})
	assert.Equal(t, []int{1, 1, 1}, []int{summary.Labels, summary.Taints, summary.Annotations})
	assert.Equal(t, "node/n1 unchanged: 1 label, 1 taint, 1 annotation", Remembered(state, nil))
	assert.Equal(t, long[:80]+"... (8000 bytes)", shown(&long), "a table shows the start of it")
	assert.Equal(t, "annotation", kindOf("@a.io/x"))

	f := ForgettingOf(NodeState{Name: "n1", Record: &r}, []string{"@a.io/x"})
	assert.Equal(t, []string{"@a.io/x"}, f.Items)
}
