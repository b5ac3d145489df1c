package history_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/record/history"
)

var day = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// changesOf returns a history in a few words.
func changesOf(r record.Record) []string {
	reported := []string{}
	for _, change := range history.Changes(r) {
		items := []string{}
		for item, values := range change.Items {
			items = append(items, fmt.Sprintf("%s: %s -> %s", item, orNone(values.From), orNone(values.To)))
		}
		reported = append(reported, fmt.Sprintf("%d %s %q %v %d", change.Number, change.Time.UTC().Format(time.RFC3339), change.Actor, slices.Sorted(slices.Values(items)), change.Omitted))
	}
	return reported
}

func orNone(value *string) string {
	if value == nil {
		return "none"
	}
	return fmt.Sprintf("%q", *value)
}

// by returns a cause for every change, some minutes after day.
func by(actor string, minutes int) func(string, history.Values) history.Cause {
	return func(string, history.Values) history.Cause {
		return history.Cause{Actor: actor, Time: metav1.NewTime(day.Add(time.Duration(minutes) * time.Minute))}
	}
}

// holding returns a record that remembers these items.
func holding(items map[string]string) record.Record {
	return record.New("n1", record.Object{}, items)
}

// having returns a record with that history.
func having(t *testing.T, r record.Record, changes []history.Change) record.Record {
	t.Helper()
	data, err := json.Marshal(changes)
	require.NoError(t, err)
	r.History = data
	return r
}

// removed returns a record that remembers that a client removed these keys.
func removed(keys ...string) record.Record {
	r := record.Record{Node: "n1"}
	for _, key := range keys {
		r.Entries = append(r.Entries, record.Entry{Key: key, Removed: true, Version: 7})
	}
	return r
}

func TestFollowing(t *testing.T) {
	type items = map[string]string
	for name, tt := range map[string]struct {
		prev, next record.Record
		cause      func(string, history.Values) history.Cause
		want       []string
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
		"a label is not shown from now on: the record still has it": {
			holding(items{"a": "1"}), record.Record{Node: "n1", Entries: []record.Entry{{Key: "a", Value: "1", Version: 3, NotShown: true}}}, by("x", 0), []string{},
		},
		"a client removed a label": {holding(items{"a": "1"}), removed("a"), by("x", 0), []string{`1 2026-05-01T12:00:00Z "x" [a: "1" -> none] 0`}},
		"a removal is forgotten":   {removed("a"), holding(nil), by("x", 0), []string{}},
		"several causes: in the order of time, then by name": {
			holding(items{"a": "1", "b": "1", "c": "1"}), holding(items{"a": "2", "b": "2", "d": "2"}),
			func(item string, _ history.Values) history.Cause {
				return map[string]history.Cause{"a": by("z", 3)("", history.Values{}), "b": by("y", 3)("", history.Values{}), "c": by("", 9)("", history.Values{}), "d": by("z", 3)("", history.Values{})}[item]
			},
			[]string{
				`1 2026-05-01T12:03:00Z "y" [b: "1" -> "2"] 0`, `2 2026-05-01T12:03:00Z "z" [a: "1" -> "2" d: none -> "2"] 0`,
				`3 2026-05-01T12:09:00Z "" [c: "1" -> none] 0`,
			},
		},
		"parts of a second and time zones make no difference": {
			holding(nil), holding(items{"a": "1", "b": "1"}),
			func(item string, _ history.Values) history.Cause {
				if item == "a" {
					return history.Cause{Actor: "x", Time: metav1.NewTime(day.Add(300 * time.Millisecond))}
				}
				return history.Cause{Actor: "x", Time: metav1.NewTime(day.In(time.FixedZone("CEST", 2*60*60)))}
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
			assert.Equal(t, tt.want, changesOf(history.Append(tt.prev, tt.next, tt.cause)))
			assert.Empty(t, tt.next.History, "a new record is made")
		})
	}
}

// edited returns a record after n edits of one label, each by an actor that is named after it.
func edited(n int) record.Record {
	r := holding(map[string]string{"a": "0"})
	for i := range n {
		r = history.Append(r, holding(map[string]string{"a": fmt.Sprint(i + 1)}), by(fmt.Sprint("actor-", i+1), i))
	}
	return r
}

func TestAHistoryHoldsTheNewestChangesAndTheirNumbersStay(t *testing.T) {
	r := edited(history.Max)
	require.Len(t, history.Changes(r), history.Max)
	assert.Equal(t, 1, history.Changes(r)[0].Number)
	r = edited(history.Max + 7)
	require.Len(t, history.Changes(r), history.Max)
	assert.Equal(t, 8, history.Changes(r)[0].Number)
	assert.Equal(t, history.Max+7, history.Changes(r)[history.Max-1].Number)

	prev := having(t, holding(map[string]string{"a": "0"}), history.Changes(r)[:3])
	want := changesOf(prev)
	next := history.Append(prev, holding(map[string]string{"a": "new"}), by("x", 99))
	assert.Len(t, history.Changes(next), 4)
	assert.Equal(t, want, changesOf(prev), "the one before is left as it is")
}

func TestAHistoryIsBoundedInItsSizeToo(t *testing.T) {
	plural := func(n int, value string) map[string]string {
		items := map[string]string{}
		for i := range n {
			items[fmt.Sprintf("%s/%s%07d", strings.Repeat("d", 253), strings.Repeat("n", 56), i)] = value + strings.Repeat("v", 62)
		}
		return items
	}
	r := holding(plural(40, "a"))
	for i := range 10 {
		r = history.Append(r, holding(plural(40, fmt.Sprint(i))), by("x", i))
		data, err := record.Encode(record.Record{Node: "n1", History: r.History})
		require.NoError(t, err)
		assert.Less(t, len(data), 64<<10)
	}
	assert.Equal(t, 10, history.Changes(r)[len(history.Changes(r))-1].Number)
	assert.Len(t, history.Changes(r), 2)

	huge := history.Append(r, holding(plural(500, "a")), by("x", 10))
	assert.Equal(t, []string{`11 2026-05-01T12:10:00Z "x" [] 500`}, changesOf(huge), "the entry shows that so many changed")
	next := history.Append(huge, holding(plural(500, "a")), by("x", 11))
	assert.Equal(t, changesOf(huge), changesOf(next))
	_, err := history.RollBack(next, 10)
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
		r = history.Append(r, holding(items), by("x", i))
	}
	for to, want := range map[int]string{
		0: `{"a": "1", "b": null, "t:NoExecute": "1"}`,
		1: `{"a": "2", "b": null, "t:NoExecute": "1"}`,
		2: `{"a": "2", "b": "1"}`,
		3: `{"a": null}`,
		4: `{}`,
	} {
		items, err := history.RollBack(r, to)
		require.NoError(t, err)
		got, err := json.Marshal(items)
		require.NoError(t, err)
		assert.JSONEq(t, want, string(got), "to %d", to)
	}
}

func TestRollBackSaysHowFarItGoes(t *testing.T) {
	gap := having(t, edited(5), slices.Delete(history.Changes(edited(5)), 2, 3))
	large := history.Changes(edited(5))
	large[1].Items, large[1].Omitted = nil, 900
	omitted := having(t, edited(5), large)
	for name, tt := range map[string]struct {
		record record.Record
		to     int
		want   string
	}{
		"there is none":      {holding(nil), 1, "it has none: nothing has changed since the record was first written"},
		"it was left out":    {record.Record{Node: "n1", HistoryOmitted: true}, 1, "the history was not read with the record; read it live"},
		"of the future":      {edited(5), 6, "it can be rolled back to entries 0 to 5 (0 is before its first change that is kept)"},
		"below nothing":      {edited(5), -1, "it can be rolled back to entries 0 to 5 (0 is before"},
		"dropped":            {edited(25), 4, "it can be rolled back to entries 5 to 25 (5 is before"},
		"before a gap":       {gap, 2, "it can be rolled back to entries 3 to 5 (3 is before"},
		"before an omission": {omitted, 1, "it can be rolled back to entries 2 to 5 (2 is before"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := history.RollBack(tt.record, tt.to)
			require.ErrorContains(t, err, fmt.Sprintf(`roll back node "n1" to entry %d of its history: %s`, tt.to, tt.want))
		})
	}
	_, err := history.RollBack(edited(25), 5)
	require.NoError(t, err)
	_, err = history.RollBack(gap, 3)
	require.NoError(t, err)
	_, err = history.RollBack(omitted, 2)
	require.NoError(t, err)
}

func TestAHistoryThatAClientTamperedWithHarmsNothing(t *testing.T) {
	const good = `{"number": 3, "time": "2026-05-01T12:00:00Z", "actor": "x", "labels": {"a": {"to": "1"}}}`
	const kept = `3 2026-05-01T12:00:00Z "x" [a: none -> "1"] 0`
	for name, written := range map[string]string{
		"none":                         `null`,
		"an object":                    `{}`,
		"a text":                       `"a"`,
		"entries that are none":        `[null, 1, "a", [], {}, ` + good + `]`,
		"a number in quotes":           `[{"number": "1", "time": "2026-05-01T12:00:00Z", "labels": {"a": {"to": "1"}}}, ` + good + `]`,
		"no number":                    `[{"time": "2026-05-01T12:00:00Z", "labels": {"a": {"to": "1"}}}, ` + good + `]`,
		"a number that is too big":     `[` + good + `, {"number": 9223372036854775807, "time": "2026-05-01T12:00:00Z", "labels": {"a": {"to": "1"}}}]`,
		"the same number twice":        `[` + good + `, ` + good + `]`,
		"not in order":                 `[` + good + `, {"number": 2, "time": "2026-05-01T12:00:00Z", "labels": {"b": {"to": "1"}}}]`,
		"no time":                      `[` + good + `, {"number": 4, "labels": {"b": {"to": "1"}}}]`,
		"a time that is none":          `[` + good + `, {"number": 4, "time": "today", "labels": {"b": {"to": "1"}}}]`,
		"a time out of range":          `[` + good + `, {"number": 4, "time": "9999-12-31T23:59:59-01:00", "labels": {"b": {"to": "1"}}}]`,
		"no items":                     `[` + good + `, {"number": 4, "time": "2026-05-01T12:00:00Z"}]`,
		"nothing changed":              `[` + good + `, {"number": 4, "time": "2026-05-01T12:00:00Z", "labels": {"b": {"from": "1", "to": "1"}}}]`,
		"fewer than none":              `[` + good + `, {"number": 4, "time": "2026-05-01T12:00:00Z", "omitted": -1}]`,
		"a key that is none":           `[` + good + `, {"number": 4, "time": "2026-05-01T12:00:00Z", "labels": {"two words": {"to": "1"}}}]`,
		"a value that is none":         `[` + good + `, {"number": 4, "time": "2026-05-01T12:00:00Z", "labels": {"b": {"to": "two words"}}}]`,
		"a former value that isn't":    `[` + good + `, {"number": 4, "time": "2026-05-01T12:00:00Z", "labels": {"b": {"from": "` + strings.Repeat("x", 64) + `"}}}]`,
		"an effect that is none":       `[` + good + `, {"number": 4, "time": "2026-05-01T12:00:00Z", "taints": [{"key": "b", "effect": "Never", "to": "1"}]}]`,
		"an actor that moves a cursor": `[` + good + `, {"number": 4, "time": "2026-05-01T12:00:00Z", "actor": "x\u001b[2J", "labels": {"b": {"to": "1"}}}]`,
		"an actor that is too long":    `[` + good + `, {"number": 4, "time": "2026-05-01T12:00:00Z", "actor": "` + strings.Repeat("x", 129) + `", "labels": {"b": {"to": "1"}}}]`,
	} {
		t.Run(name, func(t *testing.T) {
			r, err := record.Decode([]byte(`{"version": 1, "node": "n1", "labels": {"a": "1"}, "history": ` + written + `}`))
			require.NoError(t, err, "the record counts all the same")
			assert.Equal(t, map[string]string{"a": "1"}, r.Items())
			want := []string{}
			if strings.Contains(written, good) {
				want = []string{kept}
			}
			assert.Equal(t, want, changesOf(r))
			edited := history.Append(r, holding(map[string]string{"a": "2"}), by("x", 0))
			assert.Len(t, history.Changes(edited), len(want)+1, "and it goes on")
		})
	}
	var long []string
	for i := range 100 {
		long = append(long, fmt.Sprintf(`{"number": %d, "time": "2026-05-01T12:00:00Z", "labels": {"a": {"to": "1"}}}`, i+1))
	}
	r, err := record.Decode([]byte(`{"version": 1, "node": "n1", "history": [` + strings.Join(long, ",") + `]}`))
	require.NoError(t, err)
	require.Len(t, history.Changes(r), history.Max)
	assert.Equal(t, 81, history.Changes(r)[0].Number)
}

func TestWhatFollowsARecordWithoutItsHistoryHasNoneEither(t *testing.T) {
	read := holding(map[string]string{"a": "1"})
	read.HistoryOmitted = true
	next := history.Append(read, holding(map[string]string{"a": "2"}), by("x", 0))
	assert.True(t, next.HistoryOmitted)
	assert.Empty(t, next.History)
	_, err := record.Encode(next)
	require.ErrorContains(t, err, "read the record live")
}

func TestAHistoryIsShortenedFromItsOldestEntryOn(t *testing.T) {
	r := edited(3)
	var lengths []int
	for ok := true; ok; r, ok = history.Shortened(r) {
		lengths = append(lengths, len(history.Changes(r)))
	}
	assert.Equal(t, []int{3, 2, 1, 1}, lengths)
	assert.Equal(t, []string{`3 2026-05-01T12:02:00Z "actor-3" [] 1`}, changesOf(r), "the history shows that there was a change")
	number, items, known := history.Start(r)
	assert.True(t, known)
	assert.Equal(t, 3, number, "it is not the first record")
	assert.Equal(t, map[string]string{"a": "3"}, items)
	r = history.Append(r, withItems(r, map[string]string{"a": "4"}), by("kubectl", 4))
	assert.Equal(t, 4, history.Changes(r)[1].Number, "no number is given twice")
}

func derivedBy(rule string, values map[string]string, absent ...string) map[string]record.RuleLabel {
	ruleLabels := map[string]record.RuleLabel{}
	for key, value := range values {
		ruleLabels[key] = record.RuleLabel{Value: value, Rule: rule}
	}
	for _, key := range absent {
		ruleLabels[key] = record.RuleLabel{Rule: rule, Absent: true}
	}
	return ruleLabels
}

func TestFollowingRules(t *testing.T) {
	type items = map[string]string
	held := derivedBy("gpu", items{"a": "1"})
	held["a"] = record.RuleLabel{Value: "1", Rule: "gpu", End: day}
	for name, tt := range map[string]struct {
		prev, next map[string]record.RuleLabel
		onNode     items
		want       []string
	}{
		"nothing changed":                         {derivedBy("gpu", items{"a": "1"}), derivedBy("gpu", items{"a": "1"}), nil, []string{}},
		"a rule sets a label":                     {nil, derivedBy("gpu", items{"a": "1"}), items{"a": "1"}, []string{`0 2026-05-01T12:00:00Z "rule:gpu" [a: none -> "1"] 0`}},
		"a rule sets it to another value":         {derivedBy("gpu", items{"a": "1"}), derivedBy("gpu", items{"a": "2"}), items{"a": "2"}, []string{`0 2026-05-01T12:00:00Z "rule:gpu" [a: "1" -> "2"] 0`}},
		"another rule sets it to another value":   {derivedBy("gpu", items{"a": "1"}), derivedBy("tier", items{"a": "2"}), items{"a": "2"}, []string{`0 2026-05-01T12:00:00Z "rule:tier" [a: "1" -> "2"] 0`}},
		"another rule sets it to the same":        {derivedBy("gpu", items{"a": "1"}), derivedBy("tier", items{"a": "1"}), items{"a": "1"}, []string{}},
		"a rule removes its label":                {derivedBy("gpu", items{"a": "1"}), nil, nil, []string{`0 2026-05-01T12:00:00Z "rule:gpu" [a: "1" -> none] 0`}},
		"what a client had set is restored":       {derivedBy("gpu", items{"a": "1"}), nil, items{"a": "mine"}, []string{`0 2026-05-01T12:00:00Z "rule:gpu" [a: "1" -> "mine"] 0`}},
		"a rule holds its label":                  {derivedBy("gpu", items{"a": "1"}), held, items{"a": "1"}, []string{}},
		"a rule keeps an item away that was none": {nil, derivedBy("gpu", nil, "b:NoSchedule"), nil, []string{}},
		"a rule no longer keeps an item away":     {derivedBy("gpu", nil, "b:NoSchedule"), nil, items{"b:NoSchedule": ""}, []string{`0 2026-05-01T12:00:00Z "rule:gpu" [b:NoSchedule: none -> ""] 0`}},
		"two rules": {
			nil, map[string]record.RuleLabel{"a": {Value: "1", Rule: "gpu"}, "b": {Value: "2", Rule: "tier"}}, nil,
			[]string{`0 2026-05-01T12:00:00Z "rule:gpu" [a: none -> "1"] 0`, `0 2026-05-01T12:00:00Z "rule:tier" [b: none -> "2"] 0`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			prev, next := holding(items{"x": "1"}), holding(items{"x": "1"})
			prev.RuleLabels, next.RuleLabels = tt.prev, tt.next
			assert.Equal(t, tt.want, changesOf(history.AppendRules(prev, next, tt.onNode, day)))
		})
	}
	omitted := holding(nil)
	omitted.HistoryOmitted = true
	omitted.RuleLabels = derivedBy("gpu", items{"a": "1"})
	assert.Empty(t, history.AppendRules(holding(nil), omitted, nil, day).History, "it would be lost")
}

func TestWhatRulesDoDropsNothingThatClientsDid(t *testing.T) {
	r := holding(nil)
	flap := func(times int) {
		for i := range times {
			next := r
			next.RuleLabels = derivedBy("gpu", map[string]string{"a": fmt.Sprintf("v%d", i)})
			r = history.AppendRules(r, next, nil, day)
		}
	}
	edit := func(value string) {
		r = history.Append(r, withItems(r, map[string]string{"x": value}), by("kubectl", 1))
	}
	flap(50)
	edit("1")
	flap(50)
	edit("2")
	flap(3)
	known := history.Changes(r)
	assert.Len(t, known, history.MaxOfRules+2)
	var numbers []int
	for _, change := range known {
		numbers = append(numbers, change.Number)
	}
	assert.Equal(t, []int{1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0}, numbers)
	items, err := history.RollBack(r, 1)
	require.NoError(t, err)
	assert.Equal(t, []string{"x"}, slices.Collect(maps.Keys(items)), "a rule decides its labels anew: they are not rolled back")
	_, err = history.RollBack(r, 3)
	require.ErrorContains(t, err, "entries 0 to 2")
}

func TestRulesThatChangeManyLongLabelsDropNothingThatClientsDid(t *testing.T) {
	r := history.Append(holding(nil), withItems(holding(nil), map[string]string{"x": "1"}), by("kubectl", 1))
	for i := range 50 {
		next, values := r, map[string]string{}
		for key := range 40 {
			values[fmt.Sprintf("%s.example.com/%s-%d", strings.Repeat("d", 60), strings.Repeat("k", 50), key)] = fmt.Sprintf("v%d", i)
		}
		next.RuleLabels = derivedBy("many", values)
		r = history.AppendRules(r, next, nil, day)
	}
	known := history.Changes(r)
	assert.Equal(t, "kubectl", known[0].Actor)
	assert.Less(t, len(r.History), 32<<10)

	for ok := true; ok && len(known) > 1; known = history.Changes(r) { // a record that would be too large
		r, ok = history.Shortened(r)
		assert.Equal(t, "kubectl", history.Changes(r)[0].Actor, "what rules did goes first")
	}
	r = history.Append(r, withItems(r, map[string]string{"x": "2"}), by("kubectl", 2))
	assert.Equal(t, 2, history.Changes(r)[1].Number, "no number is given twice")
}

func withItems(r record.Record, items map[string]string) record.Record {
	next := holding(items)
	next.RuleLabels, next.History = r.RuleLabels, r.History
	return next
}

func TestTheStartOfAHistoryIsWhatTheRecordHeldBeforeItsFirstChange(t *testing.T) {
	type items = map[string]string
	followed := func(changes ...items) record.Record {
		r := holding(changes[0])
		for i, next := range changes[1:] {
			r = history.Append(r, holding(next), by("x", i))
		}
		return r
	}
	long := []items{{"a": "first"}}
	for i := range history.Max + 2 {
		long = append(long, items{"a": fmt.Sprint(i)})
	}
	omitted := followed(items{"a": "1"}, items{"a": "2"})
	omitted.HistoryOmitted = true
	spoiled := holding(items{"a": "2"})
	spoiled.History = json.RawMessage(`"x"`)
	for name, c := range map[string]struct {
		rec    record.Record
		number int
		items  items
		known  bool
	}{
		"it has not changed":               {holding(items{"a": "1"}), 0, items{"a": "1"}, true},
		"labels came, changed and went":    {followed(items{"a": "1", "b": "1"}, items{"a": "2", "b": "1"}, items{"c": "1"}), 0, items{"a": "1", "b": "1"}, true},
		"it was empty":                     {followed(items{}, items{"a": "1"}), 0, items{}, true},
		"older changes are no longer kept": {followed(long...), 2, items{"a": "1"}, true},
		"the history was not read":         {omitted, 0, nil, false},
		"the only change lists no items":   {having(t, holding(items{"a": "2"}), []history.Change{{Number: 1, Time: metav1.NewTime(day), Omitted: 900}}), 1, items{"a": "2"}, true},
		"a change before the last lists no items": {having(t, holding(items{"a": "2"}), []history.Change{
			{Number: 1, Time: metav1.NewTime(day), Omitted: 900},
			{Number: 2, Time: metav1.NewTime(day), Items: map[string]history.Values{"a": {From: ptr.To("1"), To: ptr.To("2")}}},
		}), 1, items{"a": "1"}, true},
		"a number is missing": {having(t, holding(items{"a": "3"}), []history.Change{
			{Number: 1, Time: metav1.NewTime(day), Items: map[string]history.Values{"a": {To: ptr.To("1")}}},
			{Number: 3, Time: metav1.NewTime(day), Items: map[string]history.Values{"a": {From: ptr.To("2"), To: ptr.To("3")}}},
		}), 2, items{"a": "2"}, true},
		"no change can be read": {having(t, holding(items{"a": "2"}), []history.Change{{Number: 1, Time: metav1.NewTime(day)}}), 0, nil, false},
		"the last change cannot be read": {having(t, holding(items{"a": "3"}), []history.Change{
			{Number: 1, Time: metav1.NewTime(day), Items: map[string]history.Values{"a": {From: ptr.To("1"), To: ptr.To("2")}}},
			{Number: 2, Time: metav1.NewTime(day)},
			{Time: metav1.NewTime(day), Actor: history.RuleActor("r"), Items: map[string]history.Values{"tier": {To: ptr.To("gold")}}},
		}), 0, nil, false},
		"a number is given twice": {having(t, holding(items{"a": "3"}), []history.Change{
			{Number: 1, Time: metav1.NewTime(day), Items: map[string]history.Values{"a": {From: ptr.To("1"), To: ptr.To("2")}}},
			{Number: 1, Time: metav1.NewTime(day), Items: map[string]history.Values{"a": {From: ptr.To("2"), To: ptr.To("3")}}},
		}), 0, nil, false},
		"a change before the last cannot be read": {having(t, holding(items{"a": "3"}), []history.Change{
			{Number: 1, Time: metav1.NewTime(day), Items: map[string]history.Values{"a": {To: ptr.To("1")}}},
			{Number: 2, Time: metav1.NewTime(day)},
			{Number: 3, Time: metav1.NewTime(day), Items: map[string]history.Values{"a": {From: ptr.To("2"), To: ptr.To("3")}}},
		}), 2, items{"a": "2"}, true},
		"the history is no list":                 {spoiled, 0, nil, false},
		"what a rule did is no change of record": {having(t, holding(items{"a": "2"}), []history.Change{{Time: metav1.NewTime(day), Actor: history.RuleActor("r"), Items: map[string]history.Values{"tier": {To: ptr.To("gold")}}}}), 0, items{"a": "2"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			number, held, known := history.Start(c.rec)
			assert.Equal(t, c.known, known)
			assert.Equal(t, c.number, number)
			assert.Equal(t, c.items, held)
		})
	}
}
