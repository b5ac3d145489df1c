//go:build oldcore

package capture

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/store"
)

func TestDue(t *testing.T) {
	const day = 24 * time.Hour
	something := labels{"a": "1"}
	tests := map[string]struct {
		record    *store.Record
		retention time.Duration
		want      bool
	}{
		"its Node lives":                              {remembered("1", "5", something), day, false},
		"its Node lives, and it holds nothing":        {remembered("1", "5", nil), day, false},
		"its Node has just gone":                      {remembered("1", "5", something, goneAt(now)), day, false},
		"its Node went a moment less than that ago":   {remembered("1", "5", something, goneAt(now.Add(-day+time.Second))), day, false},
		"its Node went longer ago":                    {remembered("1", "5", something, goneAt(now.Add(-day-time.Second))), day, true},
		"its Node went by a clock that was far ahead": {remembered("1", "5", something, goneAt(now.Add(1000*day))), day, false},
		"it is kept for ever":                         {remembered("1", "5", something, goneAt(now.Add(-1000*day))), 0, false},
		"only something withheld": {remembered("1", "5", nil, goneAt(now.Add(-time.Hour)), func(r *store.Record) {
			r.Withheld.Items = something
		}), day, false},
		"only a former taint": {remembered("1", "5", nil, goneAt(now.Add(-time.Hour)), func(r *store.Record) {
			r.FormerTaints = []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}}
		}), day, false},
		"an earlier object's end is still to come":             {remembered("1", "5", nil, goneAt(now.Add(-time.Hour)), func(r *store.Record) { r.Early = true }), day, false},
		"it holds nothing":                                     {remembered("1", "5", nil, goneAt(now.Add(-unheard-time.Second))), day, true},
		"it holds nothing, and records are kept for ever":      {remembered("1", "5", nil, goneAt(now.Add(-unheard-time.Second))), 0, true},
		"it holds nothing, and not everybody may have heard":   {remembered("1", "5", nil, goneAt(now.Add(-unheard+time.Second))), day, false},
		"it holds nothing, and its Node went in the future":    {remembered("1", "5", nil, goneAt(now.Add(time.Hour))), day, false},
		"a person is to decide":                                {remembered("1", "5", something, goneAt(now.Add(-2*day)), quarantining), day, false},
		"a person is to decide, and one side has nothing":      {remembered("1", "5", nil, goneAt(now.Add(-2*day)), quarantining), day, false},
		"a person has decided, and it is not carried out yet":  {remembered("1", "5", something, goneAt(now.Add(-2*day)), quarantining, accepting), day, false},
		"the policy keeps records for longer than there are":   {remembered("1", "5", something, goneAt(now.Add(-2*day))), 100 * 365 * day, false},
		"the beginning of time, as a broken clock would write": {remembered("1", "5", something, goneAt(time.Unix(0, 0))), day, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want, Due(*tt.record, tt.retention, now))
		})
	}
}

func quarantining(r *store.Record) {
	r.Quarantined = &store.Record{Node: r.Node, Items: labels{"b": "2"}}
}
func accepting(r *store.Record) { r.Accepted = store.OldMachine }

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
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, atMost(c.fraction, c.records)) })
	}
}
