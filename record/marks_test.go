package record

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMarksAreStoredWithTheRecordAndOnlyThoseThatAClientCanHaveMade(t *testing.T) {
	r := New("n1", Object{UID: "u", Version: 5}, map[string]string{"a": "1"}).WithMarks(map[string]Mark{
		"example.com/ends": {Value: "soon", By: "drainer"}, "t:NoSchedule": {By: "drainer"},
		"no one": {Value: "x", By: ""}, "bad value": {Value: "!", By: "d"}, "@a/b": {Value: "x", By: "d"}, "long": {Value: "x", By: strings.Repeat("d", 129)},
	})
	assert.Len(t, r.Marks, 2)
	data, err := Encode(r)
	require.NoError(t, err)
	read, err := Decode(data)
	require.NoError(t, err)
	assert.Equal(t, r.Marks, read.Marks)

	forged := strings.Replace(string(data), `"t:NoSchedule": {`, `"@a/b": {"value": "x", "by": "d"}, "t:Never": {"value": "", "by": "d"}, "t:NoSchedule": {`, 1)
	read, err = Decode([]byte(forged))
	require.NoError(t, err)
	assert.Equal(t, r.Marks, read.Marks, "what a client wrote into the record")
}

func TestMarksAreOfTheNewestObjectAndFew(t *testing.T) {
	plural := map[string]Mark{}
	for i := range 10 * MaxMarks {
		plural[fmt.Sprintf("k%d", i)] = Mark{Value: "1", By: "d"}
	}
	r := New("n1", Object{UID: "u", Version: 5}, nil).WithMarks(plural)
	assert.Len(t, r.Marks, MaxMarks)
	assert.Equal(t, r.Marks, New("n1", Object{UID: "u", Version: 5}, nil).WithMarks(plural).Marks, "the same ones each time")
	assert.Equal(t, r.Marks, r.MarksOf(Object{UID: "u"}))
	assert.Nil(t, r.MarksOf(Object{UID: "v"}))
	assert.Nil(t, Record{Marks: r.Marks}.MarksOf(Object{}))
}

func TestAMarkIsWorthAWriteOnce(t *testing.T) {
	plain := New("n1", Object{UID: "u", Version: 5}, map[string]string{"a": "1"})
	marked := plain.WithMarks(map[string]Mark{"b": {Value: "1", By: "drainer"}})
	next := New("n1", Object{UID: "v", Version: 9}, map[string]string{"a": "1"})
	assert.True(t, WorthWriting(plain, marked, Observation{UID: "u", Version: 6}, false))
	assert.False(t, WorthWriting(marked, marked, Observation{UID: "u", Version: 7}, true), "a heartbeat")
	assert.True(t, WorthWriting(marked, plain, Observation{UID: "u", Version: 7}, false), "the Node stays")
	assert.Equal(t, WorthWriting(plain, next, Observation{UID: "v", Version: 9}, false), WorthWriting(marked, next, Observation{UID: "v", Version: 9}, false), "another object has none")
}
