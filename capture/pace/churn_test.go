package pace

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"
)

func TestAFlapIsAChangeThatUndoesTheOneBeforeItWithinAMinute(t *testing.T) {
	a, b, empty := map[string]string{"k": "a"}, map[string]string{"k": "b"}, map[string]string{}
	type change struct {
		delay    time.Duration
		object   types.UID
		from, to map[string]string
		flaps    bool
	}
	for name, changes := range map[string][]change{
		"back and forth":               {{0, "1", a, b, false}, {time.Second, "1", b, a, true}, {time.Second, "1", a, b, true}},
		"removed and added again":      {{0, "1", a, empty, false}, {time.Second, "1", empty, a, true}},
		"added and removed again":      {{0, "1", empty, a, false}, {time.Second, "1", a, empty, true}},
		"an empty value is not no one": {{0, "1", map[string]string{"k": ""}, a, false}, {time.Second, "1", a, empty, false}},
		"on and on":                    {{0, "1", empty, a, false}, {time.Second, "1", a, b, false}, {time.Second, "1", b, map[string]string{"k": "c"}, false}},
		"a minute later":               {{0, "1", a, b, false}, {time.Minute, "1", b, a, false}},
		"just within a minute, of which the half is another window": {{0, "2", a, b, false}, {30 * time.Second, "1", a, b, false}, {time.Minute - 1, "1", b, a, true}},
		"an hour later":   {{0, "1", a, b, false}, {time.Hour, "1", b, a, false}},
		"another object":  {{0, "1", a, b, false}, {time.Second, "2", b, a, false}},
		"another item":    {{0, "1", a, b, false}, {time.Second, "1", map[string]string{"l": "b"}, map[string]string{"l": "a"}, false}},
		"nothing changed": {{0, "1", a, a, false}},
	} {
		t.Run(name, func(t *testing.T) {
			c := Churn{newRecent[reversal](flapWindow)}
			clock := now
			for i, change := range changes {
				clock = clock.Add(change.delay)
				changed, flapped := c.Compare(change.object, change.from, change.to, clock)
				assert.Equal(t, fmt.Sprint(change.from) != fmt.Sprint(change.to), len(changed) == 1, "change %d", i)
				assert.Equal(t, change.flaps, len(flapped) == 1, "change %d", i)
			}
		})
	}
}
