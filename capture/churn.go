package capture

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// flapWindow is how soon a change must be undone to count as a flap: two writers that fight do it within seconds, people who
// change their minds take longer.
const flapWindow = time.Minute

// maxRemembered bounds how much is remembered of each window, this one and the one before: beyond it, the oldest is
// forgotten earlier. Full windows of changes take 12 MB each, and go with the first change after the next.
const maxRemembered = 100_000

// churn finds labels and taints that change back and forth: a flap is a change that undoes the one before it on the same
// item of the same Node object within flapWindow. Only items that changed of late are remembered.
type churn struct {
	mu      sync.Mutex
	changes recent[changedItem, undone]
}

type changedItem struct {
	object types.UID
	item   string
}

// undone is what would undo a change.
type undone struct {
	value   string
	present bool
	changed time.Time
}

// compare finds the items in which two states of one Node object differ, and those of them that flapped.
func (c *churn) compare(object types.UID, before, after map[string]string, now time.Time) (changed, flapped []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes.window, c.changes.most = flapWindow, maxRemembered
	each := func(item string) {
		was, had := before[item]
		is, has := after[item]
		if was == is && had == has {
			return
		}
		changed = append(changed, item)
		at := changedItem{object: object, item: item}
		last, remembered := c.changes.get(at, now)
		if remembered && last.value == is && last.present == has && now.Sub(last.changed) < flapWindow {
			flapped = append(flapped, item)
		}
		c.changes.put(at, undone{value: was, present: had, changed: now}, now)
	}
	for item := range before {
		each(item)
	}
	for item := range after {
		if _, done := before[item]; !done {
			each(item)
		}
	}
	return changed, flapped
}
