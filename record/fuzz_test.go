package record_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/record"
)

func FuzzDecode(f *testing.F) {
	files, err := filepath.Glob("testdata/*.json")
	require.NoError(f, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(data)
	}
	for _, data := range []string{
		``, `null`, `[]`, `{"version":1}`, `{"version":1,"node":"n","labels":{"a":"\u2028<&>\ud800"},"x":"\u2028<&>\ud800","y":1e400}`,
		`{"version":1,"notShown":{"x":{"a":[]}},"Labels":1,"":2}`, `{"version":1,"deletedAt":"2026-05-01T12:00:00.5+02:00","history":null}`,
		`{"version":1,"uid":"u","nodeResourceVersion":"5","labels":{"a:b":"1"},"taints":[{"key":"a:b","effect":"c:d"},{"key":"a","effect":"NoExecute","timeAdded":"2026-05-01T12:00:00Z"},null]}`,
		`{"version":1,"uid":"u","nodeResourceVersion":"18446744073709551615","forgottenUntil":"18446744073709551614","removed":{"a":"18446744073709551615"},"labels":{"b":"1"}}`,
		`{"version":2,"uid":"u","nodeResourceVersion":"5","former":[{"uid":"v","nodeResourceVersion":"3"},null],"inherited":{"a":"3","b":""},"labels":{"a":"1","b":"1"},"machine":{"systemUUID":"s"}}`,
		`{"version":1,"uid":"u","nodeResourceVersion":"5","labels":{"@a":"1"},"taints":[{"key":"@a","effect":"NoSchedule"}],"annotations":{"a":"<\u2028>","@a":"1","b:c":""},"notShown":{"annotations":{"a":"2","x.io/y":"{\"z\":1}"}},"removed":{"@x.io/z":"3"}}`,
		"{\"version\":1,\"\xff\":\"\xff\",\"node\":\"\xff\",\"uid\":\"\xff\",\"nodeResourceVersion\":\"1\"}",
	} {
		f.Add([]byte(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := record.Decode(data)
		if err != nil {
			assert.Zero(t, r)
			return
		}
		written, err := record.Encode(r)
		if err != nil {
			assert.ErrorContains(t, err, "bytes are more than")
			return
		}
		returned, err := record.Decode(written)
		require.NoError(t, err, "what is written can be read")
		assert.Equal(t, r.Entries, returned.Entries)
		assert.Equal(t, r.Seen, returned.Seen)
		assert.Equal(t, r.Floor, returned.Floor)
		reread, err := record.Encode(returned)
		require.NoError(t, err)
		assert.Equal(t, string(written), string(reread))

		next := record.Version(1)
		if newest := r.Newest().Version; newest < 1<<63 {
			next = newest + 1
		} else {
			r, _ = r.Rebase("", 0)
		}
		node := shows("new", next, "label", "value")
		assert.Equal(t, "value", record.Merge(r, node).Items()["label"], "no record keeps what a Node shows from being recorded")
	})
}

// FuzzMerge reads observations from bytes, eight for each, over one label and one taint.
func FuzzMerge(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{1, 5, 0, 1, 1, 0, 0, 0, 1, 6, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{1, 5, 0, 1, 1, 0, 0, 0, 2, 19, 1, 1, 1, 1, 1, 0, 1, 7, 2, 2, 0, 0, 0, 0, 2, 20, 0, 0, 2, 1, 1, 19})
	f.Add([]byte{255, 5, 0, 1, 1, 0, 0, 0, 2, 19, 1, 1, 1, 1, 1, 0, 255, 27, 4, 0, 0, 5, 6, 0})
	var plural []byte
	for object := range byte(12) {
		plural = append(plural, 1, object*16+3, 0, object%3, 1, 0, 0, 0)
	}
	f.Add(append(plural, 1, 3, 0, 2, 2, 0, 0, 0))
	f.Fuzz(func(t *testing.T, data []byte) {
		var r record.Record
		possible := true
		for len(data) >= 8 {
			possible = possible && data[0] != hostile
			o := observationFrom(data[:8])
			data = data[8:]
			prev := r
			r = record.Merge(prev, o)
			record.WorthWriting(prev, r, o, true)
			record.Missing(r, o)
			record.Stale(r, o)
			if possible {
				assert.Equal(t, r.Items(), record.Merge(r, o).Items(), "an observation repeated changes nothing")
			}
			assert.LessOrEqual(t, len(r.Seen), record.MaxObjects)
			assert.True(t, slices.IsSortedFunc(r.Entries, func(a, b record.Entry) int { return map[bool]int{true: -1, false: 1}[a.Key < b.Key] }))
			for _, e := range r.Entries {
				assert.LessOrEqual(t, e.Version, r.Newest().Version)
			}
			if o.Version > r.Floor && !o.DeletedAt.IsZero() && r.Newest().UID == o.UID {
				assert.False(t, r.DeletedAt.IsZero())
			}
		}
		written, err := record.Encode(r)
		require.NoError(t, err)
		returned, err := record.Decode(written)
		require.NoError(t, err)
		assert.Equal(t, r.Items(), returned.Items(), "what Merge makes can be written and read")
		assert.Equal(t, r.Seen, returned.Seen)
		assert.Equal(t, r.Floor, returned.Floor)
	})
}

// hostile is the first byte of an observation whose object lives at the same time as others, which no API server shows.
const hostile = 0xff

// observationFrom is any observation. Its stamp may say anything.
func observationFrom(b []byte) record.Observation {
	o := shows(types.UID(rune('A'+b[1]/16)), record.Version(b[1])*2) // the lives of sixteen objects, one after the other
	if b[0] == hostile {
		o.UID, o.Version = "Z", o.Version+1
	}
	o.Final = b[2]&1 != 0
	if b[2]&2 != 0 {
		o.DeletedAt = time.Unix(1, 0).UTC()
	}
	values := []string{"", "a", "b", "c"}
	for i, key := range []string{label, taint} {
		if v := b[3+i]; v%4 != 0 {
			owned(o, key, values[v%4], record.Owner(v/4%4))
		}
		switch v := b[5+i]; {
		case v%8 > 4:
			brought(o, key, values[v%4])
		case v%8 > 0:
			listed(o, key, values[v%4], record.Version(b[7])*2)
		}
	}
	if b[2]&4 != 0 {
		o = unproved(o, taint)
	}
	return o
}
