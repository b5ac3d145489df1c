package history_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/store"
)

var day = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// changesOf is a history in a few words.
func changesOf(r store.Record) []string {
	told := []string{}
	for _, change := range r.History {
		items := []string{}
		for item, values := range change.Items {
			items = append(items, fmt.Sprintf("%s: %s -> %s", item, orNone(values.From), orNone(values.To)))
		}
		told = append(told, fmt.Sprintf("%d %s %q %v %d", change.Number, change.Time.UTC().Format(time.RFC3339), change.Actor, slices.Sorted(slices.Values(items)), change.Omitted))
	}
	return told
}

func orNone(value *string) string {
	if value == nil {
		return "none"
	}
	return fmt.Sprintf("%q", *value)
}

// by is a cause for every change, some minutes after day.
func by(actor string, minutes int) func(string, store.Values) store.Cause {
	return func(string, store.Values) store.Cause {
		return store.Cause{Actor: actor, Time: metav1.NewTime(day.Add(time.Duration(minutes) * time.Minute))}
	}
}

// holding is a record that remembers these items.
func holding(items map[string]string) store.Record { return store.Record{Node: "n1", Items: items} }

func TestFollowing(t *testing.T) {
	type items = map[string]string
	one := "1"
	for name, tt := range map[string]struct {
		before, after store.Record
		cause         func(string, store.Values) store.Cause
		want          []string
	}{
		"nothing changed":    {holding(items{"a": "1"}), holding(items{"a": "1"}), by("x", 0), []string{}},
		"a label came":       {holding(nil), holding(items{"a": ""}), by("x", 0), []string{`1 2026-05-01T12:00:00Z "x" [a: none -> ""] 0`}},
		"a label went":       {holding(items{"a": "1"}), holding(nil), by("", 0), []string{`1 2026-05-01T12:00:00Z "" [a: "1" -> none] 0`}},
		"a label changed":    {holding(items{"a": "1"}), holding(items{"a": "2"}), by("x", 0), []string{`1 2026-05-01T12:00:00Z "x" [a: "1" -> "2"] 0`}},
		"a label is as good": {holding(items{"a": ""}), holding(items{"a": ""}), by("x", 0), []string{}},
		"a taint changed, another did not": {
			holding(items{"a:NoExecute": "1", "b:NoExecute": "1"}), holding(items{"a:NoExecute": "2", "b:NoExecute": "1"}), by("x", 0),
			[]string{`1 2026-05-01T12:00:00Z "x" [a:NoExecute: "1" -> "2"] 0`},
		},
		"a label is withheld from now on: it is remembered still": {
			holding(items{"a": "1"}), store.Record{Node: "n1", Withheld: store.Withheld{Items: items{"a": "1"}}}, by("x", 0), []string{},
		},
		"a label was shown later: it counts": {
			holding(nil), store.Record{Node: "n1", Later: map[string]*string{"a": &one}}, by("x", 0), []string{`1 2026-05-01T12:00:00Z "x" [a: none -> "1"] 0`},
		},
		"several causes: in the order of time, then by name": {
			holding(items{"a": "1", "b": "1", "c": "1"}), holding(items{"a": "2", "b": "2", "d": "2"}),
			func(item string, _ store.Values) store.Cause {
				return map[string]store.Cause{"a": by("z", 3)("", store.Values{}), "b": by("y", 3)("", store.Values{}), "c": by("", 9)("", store.Values{}), "d": by("z", 3)("", store.Values{})}[item]
			},
			[]string{
				`1 2026-05-01T12:03:00Z "y" [b: "1" -> "2"] 0`, `2 2026-05-01T12:03:00Z "z" [a: "1" -> "2" d: none -> "2"] 0`,
				`3 2026-05-01T12:09:00Z "" [c: "1" -> none] 0`,
			},
		},
		"parts of a second and time zones make no difference": {
			holding(nil), holding(items{"a": "1", "b": "1"}),
			func(item string, _ store.Values) store.Cause {
				if item == "a" {
					return store.Cause{Actor: "x", Time: metav1.NewTime(day.Add(300 * time.Millisecond))}
				}
				return store.Cause{Actor: "x", Time: metav1.NewTime(day.In(time.FixedZone("CEST", 2*60*60)))}
			},
			[]string{`1 2026-05-01T12:00:00Z "x" [a: none -> "1" b: none -> "1"] 0`},
		},
		"an actor that cannot be one is not known": {
			holding(nil), holding(items{"a": "1"}), by(strings.Repeat("x", 129), 0), []string{`1 2026-05-01T12:00:00Z "" [a: none -> "1"] 0`},
		},
		"what no Node can have shown is not told": {
			holding(items{"a": strings.Repeat("x", 64), "no key": "1", "c:Effect": "", "d": "two words"}), holding(items{"a": "1"}), by("x", 0),
			[]string{`1 2026-05-01T12:00:00Z "x" [a: none -> "1"] 0`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want, changesOf(tt.after.Following(tt.before, tt.cause)))
			assert.Empty(t, tt.after.History, "a new record is made")
		})
	}
}

// edited is a record after n edits of one label, each by an actor that is named after it.
func edited(n int) store.Record {
	r := holding(map[string]string{"a": "0"})
	for i := range n {
		r = holding(map[string]string{"a": fmt.Sprint(i + 1)}).Following(r, by(fmt.Sprint("actor-", i+1), i))
	}
	return r
}

func TestAHistoryHoldsTheNewestChangesAndTheirNumbersStay(t *testing.T) {
	r := edited(store.Max)
	require.Len(t, r.History, store.Max)
	assert.Equal(t, 1, r.History[0].Number)
	r = edited(store.Max + 7)
	require.Len(t, r.History, store.Max)
	assert.Equal(t, 8, r.History[0].Number)
	assert.Equal(t, store.Max+7, r.History[store.Max-1].Number)

	before := r.History[:3:3]
	want := changesOf(store.Record{History: before})
	next := holding(map[string]string{"a": "new"}).Following(store.Record{Node: "n1", Items: r.Items, History: before}, by("x", 99))
	assert.Len(t, next.History, 4)
	assert.Equal(t, want, changesOf(store.Record{History: before}), "the one before is left as it is")
}

func TestAHistoryIsBoundedInItsSizeToo(t *testing.T) {
	many := func(n int, value string) map[string]string {
		items := map[string]string{}
		for i := range n {
			items[fmt.Sprintf("%s/%s%07d", strings.Repeat("d", 253), strings.Repeat("n", 56), i)] = value + strings.Repeat("v", 62)
		}
		return items
	}
	r := holding(many(40, "a"))
	for i := range 10 {
		r = holding(many(40, fmt.Sprint(i))).Following(r, by("x", i))
		data, err := store.Encode(store.Record{Node: "n1", History: r.History})
		require.NoError(t, err)
		assert.Less(t, len(data), 64<<10)
	}
	assert.Equal(t, 10, r.History[len(r.History)-1].Number)
	assert.Len(t, r.History, 2)

	huge := holding(many(500, "a")).Following(r, by("x", 10))
	assert.Equal(t, []string{`11 2026-05-01T12:10:00Z "x" [] 500`}, changesOf(huge), "that so many changed is told")
	next := holding(many(500, "a")).Following(huge, by("x", 11))
	assert.Equal(t, changesOf(huge), changesOf(next))
	_, err := next.RollBack(10)
	assert.EqualError(t, err, `roll back node "n1" to entry 10 of its history: it can be rolled back to entries 11 to 11 (11 is before its first change that is kept)`)
}

func TestRollBack(t *testing.T) {
	r := holding(map[string]string{"a": "1", "same": "x", "t:NoExecute": "1"})
	for i, items := range []map[string]string{
		{"a": "2", "same": "x", "t:NoExecute": "1"},
		{"a": "2", "b": "1", "same": "x"},
		{"b": "2", "same": "x"},
		{"a": "", "b": "2", "same": "x"},
	} {
		r = holding(items).Following(r, by("x", i))
	}
	for to, want := range map[int]string{
		0: `{"a": "1", "b": null, "t:NoExecute": "1"}`,
		1: `{"a": "2", "b": null, "t:NoExecute": "1"}`,
		2: `{"a": "2", "b": "1"}`,
		3: `{"a": null}`,
		4: `{}`,
	} {
		items, err := r.RollBack(to)
		require.NoError(t, err)
		got, err := json.Marshal(items)
		require.NoError(t, err)
		assert.JSONEq(t, want, string(got), "to %d", to)
	}
}

func TestRollBackSaysHowFarItGoes(t *testing.T) {
	gap := edited(5)
	gap.History = append(gap.History[:2:2], gap.History[3:]...)
	omitted := edited(5)
	omitted.History[1].Items, omitted.History[1].Omitted = nil, 900
	for name, tt := range map[string]struct {
		record store.Record
		to     int
		want   string
	}{
		"there is none":      {holding(nil), 1, "it has none: nothing has changed since the record was first written"},
		"it was left out":    {edited(5).WithoutHistory(), 1, "the history was not read with the record; read it live"},
		"of the future":      {edited(5), 6, "it can be rolled back to entries 0 to 5 (0 is before its first change that is kept)"},
		"below nothing":      {edited(5), -1, "it can be rolled back to entries 0 to 5 (0 is before"},
		"dropped":            {edited(25), 4, "it can be rolled back to entries 5 to 25 (5 is before"},
		"before a gap":       {gap, 2, "it can be rolled back to entries 3 to 5 (3 is before"},
		"before an omission": {omitted, 1, "it can be rolled back to entries 2 to 5 (2 is before"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tt.record.RollBack(tt.to)
			require.ErrorContains(t, err, fmt.Sprintf(`roll back node "n1" to entry %d of its history: %s`, tt.to, tt.want))
		})
	}
	_, err := edited(25).RollBack(5)
	require.NoError(t, err)
	_, err = gap.RollBack(3)
	require.NoError(t, err)
	_, err = omitted.RollBack(2)
	require.NoError(t, err)
}

func TestAHistoryThatSomebodyTamperedWithHarmsNothing(t *testing.T) {
	const good = `{"number": 3, "time": "2026-05-01T12:00:00Z", "actor": "x", "labels": {"a": {"to": "1"}}}`
	const kept = `3 2026-05-01T12:00:00Z "x" [a: none -> "1"] 0`
	for name, tt := range map[string]struct {
		history string
		want    []string
	}{
		"none":                      {`null`, nil},
		"an object":                 {`{}`, nil},
		"a text":                    {`"a"`, nil},
		"entries that are none":     {`[null, 1, "a", [], {}, ` + good + `]`, []string{kept}},
		"a number in quotes":        {`[{"number": "1", "time": "2026-05-01T12:00:00Z", "labels": {"a": {"to": "1"}}}, ` + good + `]`, []string{kept}},
		"no number":                 {`[{"time": "2026-05-01T12:00:00Z", "labels": {"a": {"to": "1"}}}, ` + good + `]`, []string{kept}},
		"a number that is too big":  {`[` + good + `, {"number": 9223372036854775807, "time": "2026-05-01T12:00:00Z", "labels": {"a": {"to": "1"}}}]`, []string{kept}},
		"the same number twice":     {`[` + good + `, ` + good + `]`, []string{kept}},
		"not in order":              {`[` + good + `, {"number": 2, "time": "2026-05-01T12:00:00Z", "labels": {"b": {"to": "1"}}}]`, []string{kept}},
		"no time":                   {`[` + good + `, {"number": 4, "labels": {"b": {"to": "1"}}}]`, []string{kept}},
		"a time that is none":       {`[` + good + `, {"number": 4, "time": "today", "labels": {"b": {"to": "1"}}}]`, []string{kept}},
		"a time out of range":       {`[` + good + `, {"number": 4, "time": "9999-12-31T23:59:59-01:00", "labels": {"b": {"to": "1"}}}]`, []string{kept}},
		"no items":                  {`[` + good + `, {"number": 4, "time": "2026-05-01T12:00:00Z"}]`, []string{kept}},
		"nothing changed":           {`[` + good + `, {"number": 4, "time": "2026-05-01T12:00:00Z", "labels": {"b": {"from": "1", "to": "1"}}}]`, []string{kept}},
		"fewer than none":           {`[` + good + `, {"number": 4, "time": "2026-05-01T12:00:00Z", "omitted": -1}]`, []string{kept}},
		"a key that is none":        {`[` + good + `, {"number": 4, "time": "2026-05-01T12:00:00Z", "labels": {"two words": {"to": "1"}}}]`, []string{kept}},
		"a value that is none":      {`[` + good + `, {"number": 4, "time": "2026-05-01T12:00:00Z", "labels": {"b": {"to": "two words"}}}]`, []string{kept}},
		"a former value that isn't": {`[` + good + `, {"number": 4, "time": "2026-05-01T12:00:00Z", "labels": {"b": {"from": "` + strings.Repeat("x", 64) + `"}}}]`, []string{kept}},
		"an effect that is none":    {`[` + good + `, {"number": 4, "time": "2026-05-01T12:00:00Z", "taints": [{"key": "b", "effect": "Never", "to": "1"}]}]`, []string{kept}},
		"an actor that moves a cursor": {
			`[` + good + `, {"number": 4, "time": "2026-05-01T12:00:00Z", "actor": "x\u001b[2J", "labels": {"b": {"to": "1"}}}]`, []string{kept},
		},
		"an actor that is too long": {
			`[` + good + `, {"number": 4, "time": "2026-05-01T12:00:00Z", "actor": "` + strings.Repeat("x", 129) + `", "labels": {"b": {"to": "1"}}}]`, []string{kept},
		},
	} {
		t.Run(name, func(t *testing.T) {
			record, err := store.Decode([]byte(`{"version": 1, "node": "n1", "labels": {"a": "1"}, "history": `+tt.history+`}`), "n1")
			require.NoError(t, err, "what is remembered counts all the same")
			assert.Equal(t, map[string]string{"a": "1"}, record.Items)
			assert.Equal(t, append([]string{}, tt.want...), changesOf(record))
		})
	}
	var long []string
	for i := range 100 {
		long = append(long, fmt.Sprintf(`{"number": %d, "time": "2026-05-01T12:00:00Z", "labels": {"a": {"to": "1"}}}`, i+1))
	}
	record, err := store.Decode([]byte(`{"version": 1, "node": "n1", "history": [`+strings.Join(long, ",")+`]}`), "n1")
	require.NoError(t, err)
	require.Len(t, record.History, store.Max)
	assert.Equal(t, 81, record.History[0].Number)
}

func TestARecordWithoutItsHistoryIsNotWritten(t *testing.T) {
	whole := edited(3)
	left := whole.WithoutHistory()
	assert.Len(t, whole.History, 3, "another record is made")
	assert.Empty(t, left.History)
	assert.True(t, left.HistoryLeftOut())
	assert.True(t, left.Same(whole))
	assert.True(t, left.WithoutHistory().HistoryLeftOut())
	_, err := store.Encode(left)
	require.EqualError(t, err, `encode record of node "n1": its history would be lost, which was left out when it was read from memory; read it live`)
	assert.True(t, holding(nil).Following(left, by("x", 0)).HistoryLeftOut(), "nor what follows it")

	none := holding(nil).WithoutHistory()
	assert.False(t, none.HistoryLeftOut(), "it has none")
	_, err = store.Encode(none)
	require.NoError(t, err)

	quarantined := holding(nil)
	quarantined.Quarantined = &whole
	assert.True(t, quarantined.WithoutHistory().HistoryLeftOut())
	assert.Len(t, whole.History, 3)
	assert.False(t, quarantined.HistoryLeftOut())
}
