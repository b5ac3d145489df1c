//go:build oldcore

package capture

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

func TestAClockThatIsOffChangesNothingButWhatIsWrittenAsTheTimeOfADeletionOrAChange(t *testing.T) {
	for name, c := range map[string]struct {
		prev  *store.Record
		seen  *Node
		event Event
	}{
		"first seen":                         {nil, node("1", "5", labels{"a": "1"}), Present},
		"changed":                            {remembered("1", "5", labels{"a": "1"}), node("1", "6", labels{"a": "2"}), Present},
		"gone":                               {remembered("1", "5", labels{"a": "1"}), node("1", "6", labels{"a": "2"}), Deleted},
		"gone, by a clock that was ahead":    {remembered("1", "5", labels{"a": "1"}, goneAt(now.Add(time.Hour))), node("1", "6", labels{"a": "1"}), Deleted},
		"absent":                             {remembered("1", "5", labels{"a": "1"}), node("", "", nil), Absent},
		"back, after a clock that was ahead": {remembered("1", "5", labels{"a": "1"}, goneAt(now.Add(time.Hour))), node("2", "7", labels{"a": "1"}), Present},
		"back and bare":                      {remembered("1", "5", labels{"a": "1"}, goneAt(now.Add(-time.Hour))), node("2", "7", labels{}, gated), Present},
	} {
		t.Run(name, func(t *testing.T) {
			right := plan(c.prev, c.seen, c.event, policy.Default(), now)
			for _, off := range []time.Duration{time.Hour, -time.Hour} {
				skewed := plan(c.prev, c.seen, c.event, policy.Default(), now.Add(off))
				if right.Write != nil && right.Write.DeletedAt != nil {
					assert.NotNil(t, skewed.Write.DeletedAt)
					skewed.Write.DeletedAt = right.Write.DeletedAt
				}
				if right.Write != nil {
					assert.Len(t, skewed.Write.History, len(right.Write.History))
					for i := range skewed.Write.History {
						skewed.Write.History[i].Time = right.Write.History[i].Time
					}
				}
				assert.Equal(t, right, skewed)
			}
		})
	}
}

func goneAt(at time.Time) func(*store.Record) {
	return func(r *store.Record) { r.DeletedAt = timestamp(at) }
}
