package inventory

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// decoded returns a snapshot of these entries, of which rack and model are kept.
func decoded(t *testing.T, entries string) Snapshot {
	t.Helper()
	next, err := tryDecode(entries)
	require.NoError(t, err)
	return next
}

func tryDecode(entries string) (Snapshot, error) {
	document := `{"apiVersion":"nodekeep.dev/v1alpha1","kind":"Inventory","nodes":[` + entries + `]}`
	return Decode(json.NewDecoder(strings.NewReader(document)), Source{Name: "cmdb", Attributes: []string{"model", "rack"}, Kept: MaxKept})
}

func TestWhatIsWrongWithAnAttributeConcernsThatAttributeOfThatNodeAlone(t *testing.T) {
	for name, c := range map[string]struct{ attributes, problem string }{
		"a number":             {`"rack":7`, "attribute rack must be a string"},
		"a number of no float": {`"rack":1e999999999`, "attribute rack must be a string"},
		"null":                 {`"rack":null`, "attribute rack must be a string"},
		"a list":               {`"rack":["r7",{"a":[]}]`, "attribute rack must be a string"},
		"an object":            {`"rack":{"name":"r7"}`, "attribute rack must be a string"},
		"64 bytes":             {`"rack":"` + strings.Repeat("r", 64) + `"`, "attribute rack is too long"},
		"no UTF-8":             {"\"rack\":\"r\xff7\"", "attribute rack has a control character or is no UTF-8"},
		"half of a surrogate":  {`"rack":"\ud800"`, "attribute rack has a control character or is no UTF-8"},
		"a line break":         {`"rack":"r7\nforged=line"`, "attribute rack has a control character or is no UTF-8"},
		"a zero byte":          {`"rack":"\u0000must be a string"`, "attribute rack has a control character or is no UTF-8"},
		"there twice":          {`"rack":"r1","rack":"r2"`, "attribute rack is there twice"},
	} {
		t.Run(name, func(t *testing.T) {
			s := decoded(t, `{"name":"a","systemUUID":"A1","attributes":{`+c.attributes+`,"model":"R740"}},{"name":"b","attributes":{"rack":"r8"}}`)
			a, ok := s.Attributes("a", "a1")
			assert.True(t, ok)
			assert.Equal(t, map[string]string{"model": "R740"}, a, "rack is not known, and labels of rules stay")
			b, _ := s.Attributes("b", "")
			assert.Equal(t, map[string]string{"model": "", "rack": "r8"}, b)
			assert.Equal(t, c.problem, s.Problem("a", "a1"))
			assert.Empty(t, s.Problem("b", ""))
			first, count := s.Problems(nil)
			assert.Equal(t, []Problem{{"a", c.problem}}, first)
			assert.Equal(t, 1, count)
			assert.Equal(t, "a1", s.SystemUUID("a"))
		})
	}
}

func TestWhatIsWrongWithAnEntryConcernsThatNodeAlone(t *testing.T) {
	const attributes = `"attributes":{"rack":"r7"}`
	for name, c := range map[string]struct{ entry, problem string }{
		"another machine":               {`{"name":"a","systemUUID":"B2",` + attributes + `}`, `systemUUID is "b2", and the Node reports "a1"`},
		"a machine that is a number":    {`{"name":"a","systemUUID":17,` + attributes + `}`, "systemUUID must be a string"},
		"a machine of 129 bytes":        {`{"name":"a","systemUUID":"` + strings.Repeat("a", 129) + `",` + attributes + `}`, "systemUUID is too long"},
		"a machine with a line break":   {`{"name":"a","systemUUID":"a1\n",` + attributes + `}`, "systemUUID has a control character or is no UTF-8"},
		"attributes that are a list":    {`{"name":"a","attributes":["rack"]}`, "attributes must be an object"},
		"an attribute at a wrong place": {`{"name":"a","rack":["r7"],` + attributes + `}`, "the entry has a field other than name, systemUUID and attributes"},
		"attributes twice":              {`{"name":"a",` + attributes + `,` + attributes + `}`, "the entry has a field twice"},
		"the Node is there twice":       {`{"name":"a",` + attributes + `},{"name":"a",` + attributes + `}`, "the Node is listed twice"},
	} {
		t.Run(name, func(t *testing.T) {
			s := decoded(t, c.entry+`,{"name":"b","attributes":{"rack":"r8"}}`)
			assert.Equal(t, 2, s.Len())
			_, ok := s.Attributes("a", "a1")
			assert.False(t, ok, "nothing is known")
			b, _ := s.Attributes("b", "")
			assert.Equal(t, "r8", b["rack"])
			assert.Equal(t, c.problem, s.Problem("a", "a1"))
			first, count := s.Problems(map[string]string{"a": "a1", "b": "b"})
			assert.Equal(t, []Problem{{"a", c.problem}}, first)
			assert.Equal(t, 1, count)
		})
	}
}

func TestANodeThatIsNotListedHasNoAttributesAndNoProblem(t *testing.T) {
	for name, s := range map[string]Snapshot{"in a list of others": decoded(t, `{"name":"a"}`), "in an empty list": decoded(t, "")} {
		t.Run(name, func(t *testing.T) {
			attributes, ok := s.Attributes("unlisted", "b2")
			assert.True(t, ok)
			assert.Equal(t, map[string]string{"model": "", "rack": ""}, attributes)
			first, count := s.Problems(map[string]string{"unlisted": "b2"})
			assert.Empty(t, first)
			assert.Zero(t, count)
		})
	}
}

func TestEntriesThatNameNoNodeAreCountedAndTheOthersCount(t *testing.T) {
	for name, c := range map[string]struct{ entry, problem string }{
		"no object":         {`7`, "nodes[0]: must be an object"},
		"no name":           {`{"attributes":{"rack":"r7"}}`, "nodes[0]: name is missing"},
		"null":              {`{"name":null}`, "nodes[0]: name must be a string"},
		"other letters":     {`{"Name":"a"}`, "nodes[0]: name is missing"},
		"two names":         {`{"name":"a","name":"b"}`, "nodes[0]: name is there twice"},
		"no name of a Node": {`{"name":"../a"}`, `nodes[0]: name is "../a"`},
	} {
		t.Run(name, func(t *testing.T) {
			s := decoded(t, c.entry+`,{"name":"c","attributes":{"rack":"r8"}},[]`)
			assert.Equal(t, []string{"c"}, s.Names())
			first, count := s.Problems(map[string]string{"c": ""})
			assert.Equal(t, []Problem{{Message: "entries that name no Node: 2, such as " + c.problem}}, first)
			assert.Equal(t, 1, count)
			assert.NotEqual(t, decoded(t, `{"name":"c","attributes":{"rack":"r8"}}`).Hash(), s.Hash())
		})
	}
}

func TestProblemsAreBoundedAndThoseOfNodesThatAreThereAreFirst(t *testing.T) {
	entries := []string{`{"name":"` + strings.Repeat("\u202e\U0001f600", 30) + `"}`}
	for i := range 1000 {
		entries = append(entries, fmt.Sprintf(`{"name":"n%04d","systemUUID":"%s","attributes":{"rack":7}}`, i, strings.Repeat("\u202e", 42)))
	}
	s := decoded(t, strings.Join(entries, ","))
	first, count := s.Problems(map[string]string{"n0999": strings.Repeat("\x1b", 1000)})
	assert.Equal(t, 1001, count)
	require.Len(t, first, mostProblems)
	assert.Equal(t, "n0999", first[1].Node)
	for _, problem := range first {
		assert.LessOrEqual(t, len(problem.Message), maxProblem)
		for _, r := range problem.Message {
			assert.True(t, unicode.IsPrint(r), "%q", problem.Message)
		}
	}
}

func TestAttributesThatNoNodeHasAreMissing(t *testing.T) {
	for name, c := range map[string]struct {
		entries string
		want    []string
	}{
		"no Node":                    {"", []string{"model", "rack"}},
		"one has all":                {`{"name":"a","attributes":{"model":"m","rack":"r"}},{"name":"b"}`, nil},
		"each has another":           {`{"name":"a","attributes":{"model":"m"}},{"name":"b","attributes":{"rack":"r"}}`, nil},
		"one is misspelt":            {`{"name":"a","attributes":{"nodel":"m","rack":"r"}}`, []string{"model"}},
		"one is empty":               {`{"name":"a","attributes":{"model":"","rack":"r"}}`, []string{"model"}},
		"one is wrong, but is there": {`{"name":"a","attributes":{"model":7,"rack":"r"}}`, nil},
		"in an entry that is wrong":  {`{"name":"a","other":7,"attributes":{"model":"m","rack":"r"}}`, []string{"model", "rack"}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, decoded(t, c.entries).Missing())
		})
	}
}
