package policy

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/record"
)

func FuzzTaintText(f *testing.F) {
	for _, key := range []string{"", ":", "a", "a:NoSchedule", "a:b:NoExecute", "a/b/c:NoExecute", "\xff:\xff", "a=b:PreferNoSchedule", "example.com/a:NoExecute"} {
		f.Add(key, "")
		f.Add(key, "two words")
		f.Add(key, "value")
	}
	f.Fuzz(func(t *testing.T, key, value string) {
		taint := record.Taint(key, value)
		if record.IsTaint(key) && record.Valid(key, value) {
			assert.Equal(t, taint, parseTaint(taint.ToString()), "a valid taint is read as it is written")
		} else {
			parseTaint(taint.ToString()) // panics at nothing
		}
	})
}
