package store_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/store"
)

func TestDecodeRefuses(t *testing.T) {
	tests := map[string]struct{ data, want string }{
		"nothing":                               {``, "it is empty"},
		"white space":                           {` `, "unexpected end of JSON input"},
		"no JSON":                               {`version: 1`, "invalid character"},
		"half of it":                            {`{"version": 1, "node": "worker-1"`, "unexpected end of JSON input"},
		"more than one":                         {`{"version": 1, "node": "worker-1"} {}`, "after top-level value"},
		"a list":                                {`[]`, "cannot unmarshal array"},
		"null":                                  {`null`, "its version is 0"},
		"no version":                            {`{"node": "worker-1"}`, "its version is 0; this nodekeep reads 1 to 2"},
		"version 0":                             {`{"version": 0, "node": "worker-1"}`, "its version is 0; this nodekeep reads 1 to 2"},
		"a negative version":                    {`{"version": -1, "node": "worker-1"}`, "its version is -1"},
		"version 3":                             {`{"version": 3, "node": "worker-1"}`, "its version is 3; this nodekeep reads 1 to 2"},
		"a version in quotes":                   {`{"version": "1", "node": "worker-1"}`, "version: json: cannot unmarshal string"},
		"a version and a half":                  {`{"version": 1.5, "node": "worker-1"}`, "version: json: cannot unmarshal number"},
		"a version in capitals":                 {`{"Version": 1, "node": "worker-1"}`, "its version is 0"},
		"no node":                               {`{"version": 1}`, `it is the record of node ""`},
		"another node":                          {`{"version": 1, "node": "worker-2"}`, `it is the record of node "worker-2"`},
		"a node in capitals":                    {`{"version": 1, "node": "Worker-1"}`, `it is the record of node "Worker-1"`},
		"a node that is no string":              {`{"version": 1, "node": 1}`, "node: json: cannot unmarshal number"},
		"labels that are a list":                {`{"version": 1, "node": "worker-1", "labels": []}`, "labels: json: cannot unmarshal array"},
		"a label that is a number":              {`{"version": 1, "node": "worker-1", "labels": {"a": 1}}`, "labels: json: cannot unmarshal number"},
		"withheld that is a string":             {`{"version": 1, "node": "worker-1", "withheld": "a"}`, "withheld: json: cannot unmarshal string"},
		"withheld labels that are a list":       {`{"version": 1, "node": "worker-1", "withheld": {"labels": ["a"]}}`, "withheld: labels: json: cannot unmarshal array"},
		"taints that are a map":                 {`{"version": 1, "node": "worker-1", "taints": {}}`, "taints: json: cannot unmarshal object"},
		"a taint that is a string":              {`{"version": 1, "node": "worker-1", "taints": ["a=b:NoSchedule"]}`, "taints: json: cannot unmarshal string"},
		"withheld taints that are a map":        {`{"version": 1, "node": "worker-1", "withheld": {"taints": {}}}`, "withheld: taints: json: cannot unmarshal object"},
		"rule taints that are a string":         {`{"version": 1, "node": "worker-1", "ruleTaints": "a"}`, "ruleTaints: json: cannot unmarshal string"},
		"a time that is none":                   {`{"version": 1, "node": "worker-1", "deletedAt": "yesterday"}`, "deletedAt: parsing time"},
		"a time that is a number":               {`{"version": 1, "node": "worker-1", "deletedAt": 1}`, "deletedAt: json: cannot unmarshal number"},
		"a time that could not be written back": {`{"version": 1, "node": "worker-1", "deletedAt": "9999-12-31T23:59:59-01:00"}`, "its deletedAt is out of range"},
		"a time before there was any":           {`{"version": 1, "node": "worker-1", "deletedAt": "0000-01-01T00:00:00+01:00"}`, "its deletedAt is out of range"},
		"a time that means none":                {`{"version": 1, "node": "worker-1", "deletedAt": "0001-01-01T00:00:00Z"}`, "its deletedAt is out of range"},
		"too much":                              {`{"version": 1, "node": "worker-1"}` + strings.Repeat(" ", store.MaxRecordBytes), "bytes are more than the 524288 that a record may have"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			record, err := store.Decode([]byte(tt.data), "worker-1")
			require.ErrorIs(t, err, store.ErrUnreadable)
			require.ErrorContains(t, err, `read record of node "worker-1": `)
			require.ErrorContains(t, err, tt.want)
			assert.Zero(t, record, "nothing may be taken from it")
		})
	}
}

func TestDecodeReads(t *testing.T) {
	tests := map[string]struct {
		data string
		want store.Record
	}{
		"the least there is":            {`{"version": 1, "node": "worker-1"}`, store.Record{Version: 1, Node: "worker-1"}},
		"nulls":                         {`{"version": 1, "node": "worker-1", "uid": null, "labels": null, "withheld": null, "deletedAt": null}`, store.Record{Version: 1, Node: "worker-1"}},
		"labels that no Node may have":  {`{"version": 1, "node": "worker-1", "labels": {"": "two words"}}`, store.Record{Version: 1, Node: "worker-1", Items: map[string]string{"": "two words"}}},
		"the last of two fields counts": {`{"version": 2, "version": 1, "node": "x", "node": "worker-1"}`, store.Record{Version: 1, Node: "worker-1"}},
		"just as much as there may be":  {`{"version": 1, "node": "worker-1"}` + strings.Repeat(" ", store.MaxRecordBytes-34), store.Record{Version: 1, Node: "worker-1"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			record, err := store.Decode([]byte(tt.data), "worker-1")
			require.NoError(t, err)
			assert.Equal(t, tt.want, record)
		})
	}
}

func TestARecordThatIsReadOverAnotherKeepsNothingOfIt(t *testing.T) {
	var record store.Record
	require.NoError(t, json.Unmarshal([]byte(`{"version": 2, "node": "worker-1", "labels": {"a": "1"}, "withheld": {"labels": {"b": "1"}, "x": 1}, "y": 1}`), &record))
	require.NoError(t, json.Unmarshal([]byte(`{"version": 1, "node": "worker-2", "withheld": {}}`), &record))
	assert.Equal(t, store.Record{Version: 1, Node: "worker-2"}, record)

	var withheld store.Withheld
	require.NoError(t, json.Unmarshal([]byte(`{"labels": {"b": "1"}, "x": 1}`), &withheld))
	require.NoError(t, json.Unmarshal([]byte(`{}`), &withheld))
	assert.True(t, withheld.IsZero())
}

func FuzzDecode(f *testing.F) {
	files, err := filepath.Glob("testdata/*.json")
	require.NoError(f, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(data, "worker-1")
	}
	for _, data := range []string{
		``, `null`, `[]`, `{"version":1}`, `{"version":1,"node":"n","labels":{"a":"\u2028<&>\ud800"},"x":"\u2028<&>\ud800","y":1e400}`,
		`{"version":1,"node":"n","withheld":{"x":{"a":[]}},"Labels":1,"":2}`, `{"version":1,"node":"n","deletedAt":"2026-05-01T12:00:00.5+02:00"}`,
		`{"version":1,"node":"n","labels":{"a:b":"1"},"taints":[{"key":"a:b","effect":"c:d"},{"key":"a","effect":"b:c:d","timeAdded":"2026-05-01T12:00:00Z"},null]}`,
		`{"version":1,"node":"n","ruleTaints":[{"key":"b"},{"key":"a","timeAdded":"2026-05-01T12:00:00Z"},null],"later":{"a:b":null},"withheld":{"taints":[{},{}]}}`,
		`{"version":1,"node":"n","deletedAt":"9999-12-31T23:59:59-01:00"}`, "{\"version\":1,\"node\":\"n\",\"\xff\":\"\xff\"}",
		`{"version":1,"node":"n","history":[{"number":1,"time":"2026-05-01T12:00:00.5+02:00","labels":{"a":{"to":"1"},"b":{"from":""}}},{"number":1},null,{"number":9,"time":"2026-05-01T12:00:00Z","omitted":3}]}`,
		`{"version":1,"node":"n","history":[{"number":2,"time":"2026-05-01T12:00:00Z","actor":"<&>","labels":{"a:NoExecute":{"to":"1"}},"taints":[{"key":"a","effect":"NoExecute","from":"1"},{"key":"b","effect":"Never"}]}]}`,
	} {
		f.Add([]byte(data), "n")
	}
	f.Fuzz(func(t *testing.T, data []byte, node string) {
		record, err := store.Decode(data, node)
		if err != nil {
			require.ErrorIs(t, err, store.ErrUnreadable)
			assert.Zero(t, record)
			return
		}
		assert.Equal(t, node, record.Node)
		written, err := store.Encode(record)
		if err != nil {
			assert.ErrorContains(t, err, "bytes are more than")
			return
		}
		require.True(t, json.Valid(written))
		back, err := store.Decode(written, node)
		require.NoError(t, err, "what is written can be read")
		assert.True(t, record.Same(back))
		assert.Equal(t, record.Remembered(), back.Remembered())
		if len(written) < store.MaxRecordBytes/2 { // else it may have given way
			assert.Equal(t, changesOf(record), changesOf(back))
		}
		again, err := store.Encode(back)
		require.NoError(t, err)
		assert.Equal(t, string(written), string(again))
	})
}
