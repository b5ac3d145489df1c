//go:build oldcore

package capture

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/store"
)

func TestARecordIsAheadOfANodeWhereAnyOfItsVersionsIs(t *testing.T) {
	seen := node("b", "20", labels{"k": "v"})
	later := func(version string) func(*store.Record) {
		return func(r *store.Record) {
			r.Later, r.LaterVersions = map[string]*string{"k": nil}, map[string]string{"k": version}
		}
	}
	for name, c := range map[string]struct {
		record *store.Record
		want   bool
	}{
		"an older object":                         {remembered("a", "10", nil), false},
		"the same version":                        {remembered("a", "20", nil), false},
		"another object, later":                   {remembered("a", "21", nil), true},
		"this object, later":                      {remembered("b", "21", nil), true},
		"what came after an older object":         {remembered("a", "10", nil, later("15")), false},
		"what came after it, later than the Node": {remembered("a", "10", nil, later("999999999")), true},
		"no version":                              {remembered("", "", nil), false},
		"a version that is no number":             {remembered("a", "x", nil), false},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, ahead(*c.record, seen)) })
	}
}

func TestARecordWithoutItsObjectRemembersTheSame(t *testing.T) {
	value := "later"
	record := remembered("a", "10", labels{"k": "v", "gone": "1", "changed": "1"}, func(r *store.Record) {
		r.Later, r.LaterVersions = map[string]*string{"gone": nil, "changed": &value}, map[string]string{"gone": "99", "changed": "99"}
		r.Withheld.Items, r.Early, r.History = map[string]string{"w": "1"}, true, []store.Change{{Number: 1}}
		r.Quarantined = remembered("q", "999", labels{"old": "1"})
	})
	next := WithoutObject(*record)
	assert.Equal(t, record.Remembered(), next.Remembered())
	assert.Equal(t, record.History, next.History)
	assert.Equal(t, labels{"old": "1"}, next.Quarantined.Items)
	assert.False(t, ahead(next, node("b", "1", nil)) || ahead(*next.Quarantined, node("b", "1", nil)))
	assert.Empty(t, next.UID)
	assert.Equal(t, "999", record.Quarantined.NodeResourceVersion, "the record itself is not changed")
}
