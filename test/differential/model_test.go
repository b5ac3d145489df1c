package differential

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Each row is what happens to the label a of a Node that registered while a=old was wanted.
func TestTheModel(t *testing.T) {
	lost := func(w *wanted) { w.mayBeLost(w.deleted()) }
	set := func(value answer) func(*wanted) { return func(w *wanted) { w.edited("a", value, true) } }
	recorded := func(value string) func(*wanted) {
		return func(w *wanted) { w.recorded(map[string]string{"a": value}) }
	}
	unproven := func(w *wanted) { w.edited("a", absent, false) }
	gone := func(w *wanted) { w.deleted() }
	tests := map[string]struct {
		story []func(*wanted)
		want  []answer
	}{
		"nothing":                              {nil, []answer{"old"}},
		"a change":                             {[]func(*wanted){set("new")}, []answer{"new"}},
		"a removal":                            {[]func(*wanted){set(absent)}, []answer{absent}},
		"a change and a deletion":              {[]func(*wanted){set("new"), gone}, []answer{"new"}},
		"a deletion without an edit":           {[]func(*wanted){lost}, []answer{"old"}},
		"an edit lost with its Node":           {[]func(*wanted){set("new"), lost}, []answer{"new", "old"}},
		"a removal lost with its Node":         {[]func(*wanted){set(absent), lost}, []answer{absent, "old"}},
		"two edits, of which one may be known": {[]func(*wanted){set("new"), set("newer"), lost}, []answer{"new", "newer", "old"}},
		"an edit that was recorded":            {[]func(*wanted){set("new"), recorded("new"), lost}, []answer{"new"}},
		"an edit behind the record":            {[]func(*wanted){set("new"), recorded("new"), set("newer"), lost}, []answer{"new", "newer"}},
		"a record from before the edit":        {[]func(*wanted){set("new"), recorded("old"), lost}, []answer{"new", "old"}},
		"a value that was there twice":         {[]func(*wanted){set("new"), set("old"), recorded("old"), lost}, []answer{"new", "old"}},
		"an unproven removal, and then it is known that the edit before may be lost": {[]func(*wanted){
			set("new"), func(w *wanted) {
				fallBack := w.deleted()
				w.registered()
				w.edited("a", absent, false)
				w.mayBeLost(fallBack)
			},
		}, []answer{absent, "new", "old"}},
		"an unproven removal of what was removed before, and then it is known that the removal before may be lost": {[]func(*wanted){
			set(absent), func(w *wanted) {
				fallBack := w.deleted()
				w.registered()
				w.edited("a", "new", false)
				w.edited("a", absent, false)
				w.mayBeLost(fallBack)
			},
		}, []answer{absent, "old"}},
		"an edit after a loss":                  {[]func(*wanted){set("new"), lost, (*wanted).registered, set("newer")}, []answer{"newer"}},
		"a loss that shows after an edit":       {[]func(*wanted){set("new"), func(w *wanted) { f := w.deleted(); w.registered(); set("newer")(w); w.mayBeLost(f) }}, []answer{"newer"}},
		"a loss that shows after a CREATE":      {[]func(*wanted){set("new"), func(w *wanted) { f := w.deleted(); w.registered(); w.mayBeLost(f) }}, []answer{"new", "old"}},
		"a removal that nothing proves":         {[]func(*wanted){unproven}, []answer{absent, "old"}},
		"of a label set in between":             {[]func(*wanted){set("new"), unproven}, []answer{absent, "old"}},
		"a removal that proves itself by a set": {[]func(*wanted){unproven, set("new")}, []answer{"new"}},
		"what is there is what counts": {[]func(*wanted){
			set("new"), lost,
			func(w *wanted) { w.settled(map[string]string{"a": "old"}) },
		}, []answer{"old"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWanted([]string{"a"})
			w.settled(map[string]string{"a": "old"})
			w.registered()
			for _, happens := range tt.story {
				happens(w)
			}
			assert.ElementsMatch(t, tt.want, w.labels["a"].right)
			assert.Empty(t, w.wrong(labelsOf(tt.want[0])))
			assert.NotEmpty(t, w.wrong(map[string]string{"a": "something-else"}))
		})
	}
}

func labelsOf(value answer) map[string]string {
	if value == absent {
		return nil
	}
	return map[string]string{"a": string(value)}
}

func TestOnlyNeededLimitsAreCounted(t *testing.T) {
	for value, want := range map[string][]limit{"new": nil, "old": {unwatchedDeletion}} {
		w := newWanted([]string{"a"})
		w.settled(map[string]string{"a": "old"})
		w.registered()
		w.edited("a", "new", true)
		w.mayBeLost(w.deleted())
		open, used := w.settled(map[string]string{"a": value})
		assert.Equal(t, []limit{unwatchedDeletion}, open)
		assert.Equal(t, want, used)
	}
}

func TestASeedIsAScript(t *testing.T) {
	assert.True(t, reflect.DeepEqual(write(7, 20, 5, true), write(7, 20, 5, true)))
	assert.False(t, reflect.DeepEqual(write(7, 20, 5, true), write(8, 20, 5, true)))
	kinds, total := write(7, 100, 10, false).operations()
	for _, kind := range []kind{labelling, changing, unlabelling, deleting, registering, restarting} {
		assert.Greater(t, kinds[kind], total/50, "%s", kind)
	}
}
