package view

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/cli/nodestate/statetest"
	"nodekeep.dev/nodekeep/record"
)

func TestPruning(t *testing.T) {
	const day = 24 * time.Hour
	p := &ForgetOldPlan{Retention: 30 * day, Now: now}
	for name, r := range map[string]*record.Record{
		"live":      statetest.Recorded(set{"a": "1"}),
		"recent":    statetest.Recorded(set{"a": "1"}, statetest.GoneSince(29*day)),
		"old":       statetest.Recorded(set{"a": "1", "t:NoSchedule": ""}, statetest.GoneSince(31*day)),
		"older":     statetest.Recorded(set{"a": "1"}, statetest.GoneSince(32*day)),
		"as old":    statetest.Recorded(nil, statetest.GoneSince(32*day)),
		"empty":     statetest.Recorded(nil, statetest.GoneSince(time.Hour)),
		"undecided": statetest.Recorded(set{"a": "1"}, statetest.GoneSince(99*day), statetest.Quarantining(set{"b": ""})),
		"ahead":     statetest.Recorded(set{"a": "1"}, statetest.GoneSince(-day)),
	} {
		r.Node = name
		p.Add(*r)
	}
	p.SortAndLimit(0)
	assert.Equal(t, []string{"as old", "older", "old", "empty"}, names(p))
	assert.Equal(t, "8 records, 7 of deleted Nodes, 4 to be removed; 1 stay until an operator decides between two machines (nodekeep accept record); "+
		"1 stay although their Nodes were deleted at a time in the future: the clock here is slow, or another was fast", p.Summary())
	short, omitted := Document{Tables: []*metav1.Table{p.Table()}}.First(3)
	assert.Len(t, short.Tables[0].Rows, 3)
	assert.Equal(t, 1, omitted)
	assert.Equal(t, []any{"old", "31d", 1, 1}, p.Table().Rows[2].Cells)
	p.SortAndLimit(2)
	assert.Equal(t, []string{"as old", "older"}, names(p))
}

func names(p *ForgetOldPlan) (names []string) {
	for _, due := range p.Due {
		names = append(names, due.Node)
	}
	return names
}
