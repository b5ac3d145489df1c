package packing_test

import (
	"maps"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/record/packing"
)

func TestValuesAreReadAsTheyWereWritten(t *testing.T) {
	texts := []string{"", "a", "\x00", "a\x00b", "\xff", string(make([]byte, 200))}
	numbers := []uint64{0, 1, 127, 128, 1 << 32, math.MaxUint64, uint64(math.MaxUint64 - 61)}
	lists := [][]string{nil, {}, {""}, {"a", "a", "b"}}
	all := []map[string]string{nil, {}, {"": ""}, {"a": "1", "b": "\x00"}}
	var w packing.Writer
	for _, list := range lists {
		w.Texts(list)
	}
	for i, text := range texts {
		w.Text(text)
		w.Flag(i%2 == 0)
	}
	for _, m := range all {
		w.ByText(m)
	}
	for _, number := range numbers {
		w.Number(number)
	}
	r := packing.Reader(w)
	for _, list := range lists {
		assert.Equal(t, list, r.Texts())
	}
	for i, text := range texts {
		assert.Equal(t, text, r.Text())
		assert.Equal(t, i%2 == 0, r.Flag())
	}
	for _, m := range all {
		assert.Equal(t, m, r.ByText())
	}
	for _, number := range numbers {
		assert.Equal(t, number, r.Number())
	}
	assert.Empty(t, r, "nothing is left")
}

func FuzzEqualValuesHaveEqualBytesAndOthersOtherBytes(f *testing.F) {
	f.Add("a", "b", "c", "d", uint64(1), uint64(2))
	f.Add("a", "", "", "a", uint64(0), uint64(0))
	f.Add("\x01a", "a\x01", "\x01", "\x00", uint64(128), uint64(1))
	f.Fuzz(func(t *testing.T, a, b, c, d string, n, m uint64) {
		pack := func(key, value string, number uint64) string {
			var w packing.Writer
			w.ByText(map[string]string{key: value, "k": "v"})
			w.Number(number)
			w.Texts([]string{value, key})
			return string(w)
		}
		text, second := pack(a, b, n), pack(c, d, m)
		equal := maps.Equal(map[string]string{a: b, "k": "v"}, map[string]string{c: d, "k": "v"}) && a == c && b == d && n == m
		assert.Equal(t, equal, text == second)
	})
}
