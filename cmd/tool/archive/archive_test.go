package archive

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/store"
)

func someRecords() []store.Record {
	gone := metav1.NewTime(time.Unix(1_700_000_000, 0).UTC())
	return []store.Record{
		{Version: 1, Node: "worker-1", UID: "u1", NodeResourceVersion: "5", Items: map[string]string{"dedicated": "ci", "tenant:NoSchedule": "blue"}},
		{
			Version: 1, Node: "worker-2", Items: map[string]string{"a": "1"}, DeletedAt: &gone, Accepted: store.OldMachine,
			Quarantined: &store.Record{Version: 1, Node: "worker-2", Items: map[string]string{"b": ""}},
		},
	}
}

func written(t testing.TB, records ...store.Record) []byte {
	t.Helper()
	var file bytes.Buffer
	w, err := NewWriter(&file)
	require.NoError(t, err)
	for _, r := range records {
		require.NoError(t, w.Write(r))
	}
	require.NoError(t, w.Close())
	return file.Bytes()
}

func read(content []byte) (entries []Entry, mistakes []string) {
	for entry, err := range Read(bytes.NewReader(content)) {
		if err != nil {
			mistakes = append(mistakes, err.Error())
			continue
		}
		entries = append(entries, entry)
	}
	return entries, mistakes
}

const golden = `{
  "apiVersion": "nodekeep.dev/v1alpha1",
  "kind": "RecordExport"
}
{
  "record": {
    "version": 1,
    "node": "worker-1",
    "uid": "u1",
    "nodeResourceVersion": "5",
    "labels": {
      "dedicated": "ci"
    },
    "taints": [
      {
        "key": "tenant",
        "value": "blue",
        "effect": "NoSchedule"
      }
    ]
  }
}
{
  "record": {
    "version": 1,
    "node": "worker-2",
    "labels": {
      "a": "1"
    },
    "deletedAt": "2023-11-14T22:13:20Z"
  },
  "quarantined": {
    "version": 1,
    "node": "worker-2",
    "labels": {
      "b": ""
    }
  },
  "accepted": "old"
}
{
  "end": {
    "records": 2
  }
}
`

func lined(text string) []string { return strings.Split(text, "\n") }

func TestAFileIsIndentedAndItsRecordsAreReadAgainFromTheirPlaces(t *testing.T) {
	records := someRecords()
	content := written(t, records...)
	assert.Equal(t, lined(golden), lined(string(content)))

	entries, mistakes := read(content)
	require.Empty(t, mistakes)
	require.Len(t, entries, 2)
	assert.Equal(t, []int{5, 23}, []int{entries[0].Line, entries[1].Line})
	for i, entry := range entries {
		assert.Equal(t, records[i].Node, entry.Node)
		again, err := ReadAt(bytes.NewReader(content), entry.Place)
		require.NoError(t, err)
		assert.Equal(t, entry.Record, again)
	}
	assert.Equal(t, lined(golden), lined(string(written(t, entries[0].Record, entries[1].Record))), "what is read is what was written")
	_, err := ReadAt(bytes.NewReader(bytes.ReplaceAll(content, []byte("worker-1"), []byte("worker-9"))), entries[0].Place)
	assert.ErrorContains(t, err, "the file has changed meanwhile")
}

func TestAFileThatIsCutOffAnywhereIsNotTakenForAWholeOne(t *testing.T) {
	content := written(t, someRecords()...)
	last := len(strings.TrimRight(string(content), "\n"))
	for length := range last {
		_, mistakes := read(content[:length])
		require.NotEmpty(t, mistakes, "%d of %d bytes", length, last)
	}
	_, mistakes := read(content[:last])
	assert.Empty(t, mistakes)
}

func TestFieldsOfLaterVersionsSurvive(t *testing.T) {
	content := strings.Replace(golden, `"uid": "u1"`, `"uid": "u1", "later than this": [1]`, 1)
	entries, mistakes := read([]byte(content))
	require.Empty(t, mistakes)
	assert.Contains(t, string(written(t, entries[0].Record)), `"later than this": [`)
}

func TestMistakesAreToldWithTheirLines(t *testing.T) {
	tests := map[string]struct {
		old, with string
		want      []string
	}{
		"a label that is none":                {`"dedicated": "ci"`, `"dedi cated": "ci"`, []string{`line 5: node "worker-1": "dedi cated": "ci" is not a valid label`}},
		"a value that is none":                {`"dedicated": "ci"`, `"dedicated": "c i"`, []string{`line 5: node "worker-1": "dedicated": "c i" is not a valid label`}},
		"a taint among the labels":            {`"dedicated": "ci"`, `"dedicated:NoSchedule": "ci"`, []string{`line 5: node "worker-1": "dedicated:NoSchedule": "ci" is not a valid label`}},
		"an effect that is none":              {`"effect": "NoSchedule"`, `"effect": "Never"`, []string{`line 5: node "worker-1": tenant=blue:Never is not a valid taint`}},
		"a taint twice":                       {`"taints": [`, `"taints": [{"key": "tenant", "effect": "NoSchedule"},`, []string{`line 5: node "worker-1": the taint tenant:NoSchedule is there twice`}},
		"a label twice":                       {`"dedicated": "ci"`, `"dedicated": "ci", "dedicated": "x"`, []string{`line 12: duplicate object member name`}},
		"an unknown side":                     {`"accepted": "old"`, `"accepted": "both"`, []string{`line 23: node "worker-2": accepted "both": must be old or new`}},
		"nothing to accept":                   {`"kind": "RecordExport"` + "\n}\n{\n", `"kind": "RecordExport"` + "\n}\n{\n" + `"accepted": "new",`, []string{`line 5: node "worker-1": accepted: there is nothing quarantined that could be`}},
		"another Node's side":                 {"\"quarantined\": {\n    \"version\": 1,\n    \"node\": \"worker-2\"", `"quarantined": {"version": 1, "node": "worker-3"`, []string{`line 23: node "worker-2": quarantined: it is the record of node "worker-3"`}},
		"no version":                          {`"version": 1,`, ``, []string{`line 5: node "worker-1": its version is 0; this nodekeep reads 1 to 2`}},
		"a field that is not the format's":    {`"record": {`, `"spec": 1, "record": {`, []string{`line 5: unknown object member name`}},
		"a record too few":                    {`"records": 2`, `"records": 3`, []string{`line 41: the file has 2 records and should have 3`}},
		"something else at the beginning":     {`"kind": "RecordExport"`, `"kind": "List"`, []string{`line 1: this is no export of nodekeep's`}},
		"a format of the future":              {`nodekeep.dev/v1alpha1`, `nodekeep.dev/v2`, []string{`line 1: apiVersion "nodekeep.dev/v2": this nodekeep reads nodekeep.dev/v1alpha1`}},
		"a Node twice":                        {`"node": "worker-1"`, `"node": "worker-2"`, []string{`line 23: node "worker-2": it is there twice, first at line 5`}},
		"something behind the end":            {"\"records\": 2\n  }\n}\n", "\"records\": 2\n  }\n}\n[]", []string{`line 46: something follows the end`}},
		"two mistakes in one, and one behind": {`"node": "worker-1",`, `"node": "worker-1", "withheld": {"labels": {"?": "", "!": ""}},`, []string{`line 5: node "worker-1": "!"`, `line 5: node "worker-1": "?"`}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, golden, tt.old)
			_, mistakes := read([]byte(strings.Replace(golden, tt.old, tt.with, 1)))
			require.Len(t, mistakes, len(tt.want), "%q", mistakes)
			for i, want := range tt.want {
				assert.True(t, strings.HasPrefix(mistakes[i], want), "%q", mistakes[i])
			}
		})
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("the disk is broken") }

func TestAReaderThatFailsIsNoMistakeInTheFile(t *testing.T) {
	for _, err := range Read(broken{}) {
		require.ErrorContains(t, err, "the disk is broken")
		assert.NotErrorAs(t, err, &Mistake{})
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(golden))
	f.Add(written(f))
	f.Add([]byte(`{"kind":"RecordExport","apiVersion":"nodekeep.dev/v1alpha1"}{"record":{"version":1,"node":"a","later":{"x":null}}}{"end":{"records":1}}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		entries, mistakes := read(content)
		if len(mistakes) > 0 {
			return
		}
		var records []store.Record
		for _, entry := range entries {
			again, err := ReadAt(bytes.NewReader(content), entry.Place)
			require.NoError(t, err)
			require.Equal(t, entry.Record, again)
			records = append(records, entry.Record)
		}
		once := written(t, records...)
		more, mistakes := read(once)
		require.Empty(t, mistakes, "what was read can be written and read")
		require.Len(t, more, len(entries))
		twice := make([]store.Record, len(more))
		for i, entry := range more {
			twice[i] = entry.Record
		}
		require.Equal(t, string(once), string(written(t, twice...)), "and stays as it is")
	})
}
