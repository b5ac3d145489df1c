package gc

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/record"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

type labels = map[string]string

// remembered returns a record of n1 that holds these labels.
func remembered(items labels, modify ...func(*record.Record)) record.Record {
	r := record.Record{Node: "n1", Seen: []record.Object{{UID: "a", Version: 5}}}
	for key, value := range items {
		r.Entries = append(r.Entries, record.Entry{Key: key, Value: value, Version: 5})
	}
	for _, m := range modify {
		m(&r)
	}
	return r
}

func goneFor(d time.Duration) func(*record.Record) {
	return func(r *record.Record) { r.DeletedAt = now.Add(-d) }
}

func quarantining(r *record.Record) {
	old := remembered(labels{"b": "2"})
	r.Quarantined = &old
}

func TestDue(t *testing.T) {
	const day = 24 * time.Hour
	recorded := labels{"a": "1"}
	for name, c := range map[string]struct {
		record    record.Record
		retention time.Duration
		want      bool
	}{
		"its Node lives":                                   {remembered(recorded), day, false},
		"its Node lives, and it holds nothing":             {remembered(nil), day, false},
		"its Node was just deleted":                        {remembered(recorded, goneFor(0)), day, false},
		"its Node was deleted a moment less than that ago": {remembered(recorded, goneFor(day-time.Second)), day, false},
		"its Node was deleted longer ago":                  {remembered(recorded, goneFor(day+time.Second)), day, true},
		"its Node was deleted by a clock far ahead":        {remembered(recorded, goneFor(-1000*day)), day, false},
		"it is kept for ever":                              {remembered(recorded, goneFor(1000*day)), 0, false},
		"only something that its Node did not show": {remembered(recorded, goneFor(time.Hour), func(r *record.Record) {
			r.Entries[0].NotShown = true
		}), day, false},
		"only what clients removed": {remembered(nil, goneFor(time.Hour), func(r *record.Record) {
			r.Entries = []record.Entry{{Key: "a", Removed: true, Version: 5}}
		}), day, true},
		"it holds nothing": {remembered(nil, goneFor(emptyRetention+time.Second)), day, true},
		"it holds nothing, and records are kept for ever":         {remembered(nil, goneFor(emptyRetention+time.Second)), 0, true},
		"it holds nothing, and a webhook may not know that yet":   {remembered(nil, goneFor(emptyRetention-time.Second)), day, false},
		"it holds nothing, and its Node is deleted in the future": {remembered(nil, goneFor(-time.Hour)), day, false},
		"an operator is to decide":                                {remembered(recorded, goneFor(2*day), quarantining), day, false},
		"an operator is to decide, and one side has nothing":      {remembered(nil, goneFor(2*day), quarantining), day, false},
		"records are kept for longer than there are any":          {remembered(recorded, goneFor(2*day)), 100 * 365 * day, false},
		"deleted in 1970, as a broken clock would write":          {remembered(recorded, func(r *record.Record) { r.DeletedAt = time.Unix(0, 0) }), day, true},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, Due(c.record, c.retention, now)) })
	}
}

func TestTheOldestOfTheCandidatesComeFirst(t *testing.T) {
	all := []candidate{{"c", now}, {"b", now.Add(-time.Hour)}, {"d", now.Add(-2 * time.Hour)}, {"a", now}}
	assert.Equal(t, []candidate{{"d", now.Add(-2 * time.Hour)}, {"b", now.Add(-time.Hour)}, {"a", now}}, oldest(all, 3))
	assert.Len(t, oldest(all, 100), 4)
	assert.Empty(t, oldest(nil, 1))
	assert.Equal(t, "c", all[0].node, "the list is not changed")
}

func TestASweepIsBoundedByAFractionOfAllRecords(t *testing.T) {
	for name, c := range map[string]struct {
		fraction float64
		records  int
		want     int
	}{
		"a tenth":                   {.1, 1000, 100},
		"a tenth, rounded down":     {.1, 99, 9},
		"one of a few":              {.1, 9, 1},
		"one of one":                {.1, 1, 1},
		"none to be swept":          {.1, 0, 1},
		"a fraction of a hundredth": {.0001, 100_000, 10},
		"all":                       {1, 1234, 1234},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, MaxPerSweep(c.fraction, c.records)) })
	}
}
