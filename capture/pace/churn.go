package pace

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// flapWindow is how soon a change must be undone to count as a flap. Two writers that fight do it within seconds. Operators who change
// their minds take longer.
const flapWindow = time.Minute

// Churn finds labels and taints that change back and forth. A flap undoes the previous change of the same item of the same Node object
// within flapWindow. Only items that changed recently are held here.
type Churn struct{ recent *recent[reversal] }

// NewChurn knows of no change.
func NewChurn() Churn { return Churn{newRecent[reversal](flapWindow)} }

// nodeItem is a label or taint of a Node object.
type nodeItem struct {
	uid  types.UID
	item string
}

// reversal is what would undo a change.
type reversal struct {
	value   string
	present bool
	changed time.Time
}

// Compare finds the items in which two states of one Node object differ, and those of them that flapped.
func (c Churn) Compare(uid types.UID, prev, next map[string]string, now time.Time) (changed, flapped []string) {
	for item := range sets.KeySet(prev).Union(sets.KeySet(next)) {
		old, ok := prev[item]
		value, found := next[item]
		if old == value && ok == found {
			continue
		}
		changed = append(changed, item)
		key := nodeItem{uid, item}
		if last := c.recent.get(key, now); last.value == value && last.present == found && now.Sub(last.changed) < flapWindow {
			flapped = append(flapped, item)
		}
		c.recent.put(key, reversal{value: old, present: ok, changed: now}, now)
	}
	return changed, flapped
}
