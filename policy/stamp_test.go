package policy

import (
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestStampIsReadAsItWasWritten(t *testing.T) {
	tests := map[string]struct {
		restored, pending []string
		want              string
	}{
		"nothing was there to restore": {nil, nil, `{"restored":[],"pending":[]}`},
		"some keys, sorted":            {[]string{"b", "a"}, []string{"d", "c"}, `{"restored":["a","b"],"pending":["c","d"]}`},
		"no key twice":                 {[]string{"b", "a", "b"}, []string{"c", "c"}, `{"restored":["a","b"],"pending":["c"]}`},
		"only what waits":              {nil, []string{"node-role.kubernetes.io/worker"}, `{"restored":[],"pending":["node-role.kubernetes.io/worker"]}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			stamp := NewStamp(tt.restored, tt.pending)
			assert.Equal(t, tt.want, stamp.String())
			back, ok := ParseStamp(stamp.String())
			assert.True(t, ok)
			assert.Equal(t, stamp, back)
			assert.Equal(t, tt.want, Stamp{Restored: tt.restored, Pending: tt.pending}.String(), "a stamp put together by hand has the same bytes")
		})
	}
}

func TestNewStampLeavesItsInputAlone(t *testing.T) {
	restored, pending := []string{"b", "a"}, []string{"d", "c"}
	NewStamp(restored, pending)
	assert.Equal(t, []string{"b", "a"}, restored)
	assert.Equal(t, []string{"d", "c"}, pending)
}

func TestParseStamp(t *testing.T) {
	tests := map[string]struct {
		value string
		want  Stamp
		ok    bool
	}{
		"nothing":                          {"", Stamp{}, false},
		"words":                            {"restored", Stamp{}, false},
		"a list":                           {`["dedicated"]`, Stamp{}, false},
		"a number":                         {`7`, Stamp{}, false},
		"keys that are no list":            {`{"restored":"dedicated"}`, Stamp{}, false},
		"keys that are no strings":         {`{"restored":["dedicated",1]}`, Stamp{}, false},
		"only the second list is no list":  {`{"restored":["dedicated"],"pending":{}}`, Stamp{}, false},
		"the end is missing":               {`{"restored":["dedicated"]`, Stamp{}, false},
		"something follows":                {`{"restored":["dedicated"]} x`, Stamp{}, false},
		"an object that says nothing":      {`{}`, Stamp{}, true},
		"one of the lists":                 {`{"restored":["dedicated"]}`, Stamp{Restored: []string{"dedicated"}}, true},
		"fields of a later version":        {`{"restored":["dedicated"],"pending":[],"ofTomorrow":["x"]}`, Stamp{Restored: []string{"dedicated"}, Pending: []string{}}, true},
		"spaces and another order of keys": {` { "pending" : [ "b", "a" ] } `, Stamp{Pending: []string{"b", "a"}}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			stamp, ok := ParseStamp(tt.value)
			assert.Equal(t, tt.ok, ok)
			assert.Equal(t, tt.want, stamp)
		})
	}
}

func TestGiven(t *testing.T) {
	tests := map[string]struct {
		stamp Stamp
		keys  []string
		want  Stamp
	}{
		"what waited is given":                     {NewStamp([]string{"a"}, []string{"b", "c"}), []string{"b"}, NewStamp([]string{"a", "b"}, []string{"c"})},
		"what nobody knew of is given":             {NewStamp(nil, nil), []string{"b", "a"}, NewStamp([]string{"a", "b"}, nil)},
		"what was given before is given once":      {NewStamp([]string{"a"}, nil), []string{"a"}, NewStamp([]string{"a"}, nil)},
		"nothing is given":                         {NewStamp([]string{"a"}, []string{"b"}), nil, NewStamp([]string{"a"}, []string{"b"})},
		"the first stamp of a Node that lacks one": {Stamp{}, []string{"a"}, NewStamp([]string{"a"}, nil)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before := Stamp{Restored: slices.Clone(tt.stamp.Restored), Pending: slices.Clone(tt.stamp.Pending)}
			items := map[string]string{}
			for _, key := range tt.keys {
				items[key] = "1"
			}
			assert.Equal(t, tt.want, tt.stamp.Given(items))
			assert.Equal(t, before, tt.stamp, "the old stamp is as it was")
		})
	}
}

func TestProves(t *testing.T) {
	stamp := NewStamp([]string{"dedicated", "node-role.kubernetes.io/worker", "node.kubernetes.io/x"}, []string{"disktype"})
	tests := map[string]struct {
		key           string
		lists, proves bool
	}{
		"a listed key that a kubelet may set":                      {"dedicated", true, true},
		"a listed key of the kubelet's own domain":                 {"node.kubernetes.io/x", true, true},
		"a listed key that is protected, as a kubelet could claim": {"node-role.kubernetes.io/worker", true, false},
		"a key that still waits":                                   {"disktype", false, false},
		"a key that the stamp does not know":                       {"rack", false, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.lists, stamp.Lists(tt.key))
			assert.Equal(t, tt.proves, stamp.Proves(tt.key))
		})
	}
}

func FuzzParseStamp(f *testing.F) {
	for _, value := range []string{
		"", "null", "{}", `{"restored":["a"],"pending":["b"]}`, `{"restored":null}`, `{"Restored":["a","a"]}`, `{"restored":["\ud800"]}`, "{\"restored\":[\"\xff\"]}",
		`{"taints":{"a:NoSchedule":"1"},"brought":{"b:NoExecute":""},"ruleTaints":{"c:NoSchedule":"x"}}`, `{"taints":{},"brought":null}`, `{"taints":{"a":"1","\ud800":"\ud801"}}`,
	} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		stamp, ok := ParseStamp(value)
		if !ok {
			assert.Equal(t, Stamp{}, stamp)
			return
		}
		written := stamp.String()
		assert.True(t, utf8.ValidString(written), "an annotation is text")
		back, ok := ParseStamp(written)
		require.True(t, ok)
		assert.Equal(t, sortedKeys(stamp.Restored), back.Restored)
		assert.Equal(t, sortedKeys(stamp.Pending), back.Pending)
		assert.Equal(t, orEmpty(stamp.Taints), orEmpty(back.Taints))
		assert.Equal(t, orEmpty(stamp.Brought), orEmpty(back.Brought))
		assert.Equal(t, orEmpty(stamp.RuleTaints), orEmpty(back.RuleTaints))
		assert.True(t, back.Equal(back.Given(nil)))
		assert.Equal(t, written, back.String())
	})
}
