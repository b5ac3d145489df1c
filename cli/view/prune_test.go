package view

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/record"
)

func TestPruning(t *testing.T) {
	const day = 24 * time.Hour
	p := &Pruning{Retention: 30 * day, Now: now}
	for name, r := range map[string]*record.Record{
		"live":      recorded(set{"a": "1"}),
		"recent":    recorded(set{"a": "1"}, goneSince(29*day)),
		"old":       recorded(set{"a": "1", "t:NoSchedule": ""}, goneSince(31*day)),
		"older":     recorded(set{"a": "1"}, goneSince(32*day)),
		"as old":    recorded(nil, goneSince(32*day)),
		"empty":     recorded(nil, goneSince(time.Hour)),
		"undecided": recorded(set{"a": "1"}, goneSince(99*day), quarantining(set{"b": ""})),
		"ahead":     recorded(set{"a": "1"}, goneSince(-day)),
	} {
		r.Node = name
		p.Add(*r)
	}
	p.Oldest(0)
	assert.Equal(t, []string{"as old", "older", "old", "empty"}, names(p))
	assert.Equal(t, "8 records, 7 of deleted Nodes, 4 to be removed; 1 stay until an operator decides between two machines (nodekeep accept); "+
		"1 stay although their Nodes were deleted at a time in the future: the clock here is slow, or another was fast", p.Summary())
	assert.Len(t, p.Table(3).Rows, 3)
	assert.Equal(t, []any{"old", "31d", 1, 1}, p.Table(0).Rows[2].Cells)
	p.Oldest(2)
	assert.Equal(t, []string{"as old", "older"}, names(p))
}

func names(p *Pruning) (names []string) {
	for _, due := range p.Due {
		names = append(names, due.Node)
	}
	return names
}
