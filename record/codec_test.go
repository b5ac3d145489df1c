package record_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/record"
)

var update = flag.Bool("update", false, "write the golden files anew")

// usual returns the record of a Node that never registered again.
func usual() record.Record {
	r := merged(shows("U1", 9, "dedicated", "ci", "rack", "r1", "tenant:NoSchedule", "blue"))
	r.Node, r.Cluster, r.Machine = "worker-2", "C1", record.Machine{SystemUUID: "4c4c4544-0051"}
	r.History = []byte(`[{"number":1}]`)
	return r
}

// full returns the record of a Node that registered again, and then was deleted.
func full() record.Record {
	r := merged(
		shows("U0", 4, "rack", "r0"), shows("U1", 8, "rack", "r1", "tier", "gold", "old", "x", "tenant:NoSchedule", "blue", "team:NoExecute", ""),
		shows("U1", 9, "rack", "r1", "tier", "gold", "tenant:NoSchedule", "blue", "team:NoExecute", ""),
		given(listed(shows("U2", 20, "dedicated", "ci"), "tenant:NoSchedule", "blue", 0), "rack", "r1", 0),
	)
	r.Node, r.Cluster, r.Floor, r.DeletedAt = "worker-2", "C1", 3, time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	return r
}

func TestEncodeWritesTheGoldenFiles(t *testing.T) {
	tests := map[string]struct {
		file   string
		record record.Record
	}{
		"the usual record":                         {"usual.json", usual()},
		"a Node that registered again":             {"full.json", full()},
		"a record of next to nothing":              {"bare.json", record.Record{Node: "worker-2"}},
		"a record whose cluster was made anew":     {"rebased.json", rebased(full())},
		"a deletion of a Node that showed nothing": {"empty.json", merged(shows("U1", 5))},
	}
	files := map[string]bool{"next-version.json": true}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("testdata", tt.file)
			files[tt.file] = true
			got, err := record.Encode(tt.record)
			require.NoError(t, err)
			if *update {
				require.NoError(t, os.WriteFile(path, got, 0o644))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Equal(t, string(want), string(got))
			returned, err := record.Decode(want)
			require.NoError(t, err)
			reread, err := record.Encode(returned)
			require.NoError(t, err)
			assert.Equal(t, string(want), string(reread))
			assert.Equal(t, tt.record.Entries, returned.Entries)
			assert.Equal(t, tt.record.Seen, returned.Seen)
			assert.Equal(t, tt.record.Floor, returned.Floor)
			assert.Equal(t, tt.record.DeletedAt, returned.DeletedAt)
		})
	}
	entries, err := os.ReadDir("testdata")
	require.NoError(t, err)
	for _, entry := range entries {
		assert.True(t, entry.IsDir() || files[entry.Name()], "no test uses testdata/%s", entry.Name())
	}
}

func rebased(r record.Record) record.Record {
	r, _ = r.Rebase("C2", 1)
	return r
}

func TestTheNextVersionIsReadAndWrittenBackWhole(t *testing.T) {
	data, err := os.ReadFile("testdata/next-version.json")
	require.NoError(t, err)
	r, err := record.Decode(data)
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"dedicated": "ci", "tier": "gold"}, r.Items())
	written, err := record.Encode(r)
	require.NoError(t, err)
	assert.JSONEq(t, string(data), string(written))
	written, err = record.Encode(record.Merge(r, shows("U1", 10, "dedicated", "gpu", "tier", "gold")))
	require.NoError(t, err)
	for _, field := range []string{`"version": 2`, `"dedicated": "gpu"`, `"later": {`, `"why": "x"`} {
		assert.Contains(t, string(written), field)
	}
}

func TestEncodeRefusesARecordThatIsTooLarge(t *testing.T) {
	large := record.Record{Node: "worker-1"}
	for range 5000 {
		large.Entries = append(large.Entries, record.Entry{Key: strings.Repeat("k", 60), Value: strings.Repeat("v", 63)})
	}
	for i := range large.Entries {
		large.Entries[i].Key += strings.Repeat("x", i%3) + time.Duration(i).String()
	}
	_, err := record.Encode(large)
	require.Error(t, err)
	assert.Regexp(t, `^encode record of node "worker-1": too large: its \d+ bytes are more than the 524288 that a record may have; let the policy keep fewer labels$`, err.Error())
}

func TestDecodeRefuses(t *testing.T) {
	tests := map[string]struct{ data, want string }{
		"nothing":                    {``, "it is empty"},
		"no JSON":                    {`version: 1`, "invalid character"},
		"half of it":                 {`{"version": 1, "node": "n"`, "unexpected end of JSON input"},
		"more than one":              {`{"version": 1, "node": "n"} {}`, "after top-level value"},
		"a list":                     {`[]`, "cannot unmarshal array"},
		"null":                       {`null`, "its version is 0; this nodekeep reads 1 to 2"},
		"a version in capitals":      {`{"Version": 1, "node": "n"}`, "its version is 0"},
		"version 3":                  {`{"version": 3, "node": "n"}`, "its version is 3; this nodekeep reads 1 to 2"},
		"a version in quotes":        {`{"version": "1"}`, "version: json: cannot unmarshal string"},
		"a node that is no string":   {`{"version": 1, "node": 1}`, "node: json: cannot unmarshal number"},
		"labels that are a list":     {`{"version": 1, "labels": []}`, "labels: json: cannot unmarshal array"},
		"taints that are a map":      {`{"version": 1, "taints": {}}`, "taints: json: cannot unmarshal object"},
		"notShown that is a string":  {`{"version": 1, "notShown": "a"}`, "notShown: json: cannot unmarshal string"},
		"notShown labels as a list":  {`{"version": 1, "notShown": {"labels": []}}`, "notShown: labels: json: cannot unmarshal array"},
		"inherited that is a list":   {`{"version": 1, "inherited": []}`, "inherited: json: cannot unmarshal array"},
		"removed with numbers":       {`{"version": 1, "removed": {"a": 1}}`, "removed: json: cannot unmarshal number"},
		"former that is a map":       {`{"version": 1, "former": {}}`, "former: json: cannot unmarshal object"},
		"forgottenUntil as a number": {`{"version": 1, "forgottenUntil": 1}`, "forgottenUntil: json: cannot unmarshal number"},
		"a time that is none":        {`{"version": 1, "deletedAt": "yesterday"}`, "deletedAt: parsing time"},
		"a time out of range":        {`{"version": 1, "deletedAt": "9999-12-31T23:59:59-01:00"}`, "deletedAt: it is out of range"},
		"too much":                   {`{"version": 1}` + strings.Repeat(" ", record.MaxBytes), "bytes are more than the 524288 that a record may have"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r, err := record.Decode([]byte(tt.data))
			require.ErrorContains(t, err, tt.want)
			assert.Zero(t, r, "nothing may be taken from it")
		})
	}
}

func TestDecodeDropsSingleEntriesThatNodekeepCannotHaveWritten(t *testing.T) {
	const head = `{"version": 1, "node": "n", "uid": "U1", "nodeResourceVersion": "9", `
	type entries = []record.Entry
	u1 := []record.Object{{UID: "U1", Version: 9}}
	tests := map[string]struct {
		data    string
		entries entries
		seen    []record.Object
		floor   record.Version
	}{
		"labels that no Node may have":           {head + `"labels": {"": "a", "a": "two words", "a:b": "c", "ok": "1"}}`, entries{{Key: "ok", Value: "1", Version: 9}}, u1, 0},
		"taints that no Node may have":           {head + `"taints": [{"key": "a", "effect": "Never"}, {"key": "ok", "effect": "NoExecute"}, {"key": "ok", "value": "2", "effect": "NoExecute"}, null]}`, entries{{Key: "ok:NoExecute", Version: 9}}, u1, 0},
		"a value that is shown and not shown":    {head + `"labels": {"a": "1"}, "notShown": {"labels": {"a": "2"}}}`, entries{{Key: "a", Value: "1", Version: 9}}, u1, 0},
		"a value that is there and removed":      {head + `"labels": {"a": "1"}, "removed": {"a": "8"}}`, entries{{Key: "a", Value: "1", Version: 9}}, u1, 0},
		"a version that is none":                 {head + `"labels": {"a": "1", "b": "1"}, "inherited": {"a": "x", "b": "-1", "c": "5"}}`, entries{{Key: "a", Value: "1"}, {Key: "b", Value: "1"}}, u1, 0},
		"a version of the future":                {head + `"labels": {"a": "1"}, "inherited": {"a": "10"}, "removed": {"b": "10", "c": "18446744073709551616"}}`, entries{{Key: "a", Value: "1"}}, u1, 0},
		"a removal without a version":            {head + `"removed": {"a": "", "b": "0", "c": "8"}}`, entries{{Key: "c", Removed: true, Version: 8}}, u1, 0},
		"a removal below the floor":              {head + `"forgottenUntil": "5", "removed": {"a": "5"}}`, entries{{Key: "a", Removed: true, Version: 5}}, u1, 5},
		"a floor that would hide every state":    {head + `"forgottenUntil": "9"}`, nil, u1, 0},
		"objects in no order that can be":        {head + `"former": [{"uid": "A", "nodeResourceVersion": "5"}, {"uid": "B", "nodeResourceVersion": "4"}, {"uid": "C", "nodeResourceVersion": "12"}, {"uid": "A", "nodeResourceVersion": "6"}, {"uid": "U1", "nodeResourceVersion": "7"}, {"uid": "", "nodeResourceVersion": "4"}, null]}`, nil, []record.Object{{UID: "A", Version: 5}, {UID: "U1", Version: 9}}, 0},
		"an object without a version":            {`{"version": 1, "uid": "U1", "former": [{"uid": "A", "nodeResourceVersion": "5"}], "labels": {"a": "1"}, "removed": {"b": "3"}}`, entries{{Key: "a", Value: "1"}}, nil, 0},
		"a version that no API server gives out": {`{"version": 1, "uid": "U1", "nodeResourceVersion": "09", "labels": {"a": "1"}}`, entries{{Key: "a", Value: "1"}}, nil, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r, err := record.Decode([]byte(tt.data))
			require.NoError(t, err)
			assert.Equal(t, tt.entries, r.Entries)
			assert.Equal(t, tt.seen, r.Seen)
			assert.Equal(t, tt.floor, r.Floor)
		})
	}
	r, err := record.Decode([]byte(head + `"labels": {"": "a", "a": "two words", "ok": "1"}, "taints": [{"key": "a", "effect": "Never"}], "notShown": {"labels": {"b": "?"}, "taints": [null, {"key": "c d", "effect": "NoExecute"}]}}`))
	require.NoError(t, err)
	assert.Equal(t, record.Dropped{Labels: 3, Taints: 3}, r.Dropped, "operators see that a client edited a record")
	plural, err := record.Decode([]byte(`{"version": 1, "uid": "U1", "nodeResourceVersion": "90", "former": [` + objects(20) + `]}`))
	require.NoError(t, err)
	assert.Len(t, plural.Seen, record.MaxObjects, "more objects than a record knows")
	assert.Equal(t, record.Version(22), plural.Floor)
}

// objects is JSON of so many objects.
func objects(n int) string {
	var all []string
	for i := range n {
		all = append(all, `{"uid": "A`+record.Version(i).String()+`", "nodeResourceVersion": "`+record.Version(10+i).String()+`"}`)
	}
	return strings.Join(all, ",")
}
