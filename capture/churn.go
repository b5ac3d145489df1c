package capture

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// flapWindow is how soon a change must be undone to count as a flap: two writers that fight do it within seconds, people who
// change their minds take longer.
const flapWindow = time.Minute

// maxRemembered bounds how many changes are remembered of each flapWindow, this one and the one before: flaps among what
// comes on top are missed. A full window takes 12 MB, and goes with the first change after the next.
const maxRemembered = 100_000

// churn finds labels and taints that change back and forth: a flap is a change that undoes the one before it on the same
// item of the same Node object within flapWindow. Only items that changed of late are remembered.
type churn struct {
	mu            sync.Mutex
	fresh, former map[changedItem]undone
	since         time.Time // since when fresh has been filled
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
	c.forget(now)
	each := func(item string) {
		was, had := before[item]
		is, has := after[item]
		if was == is && had == has {
			return
		}
		changed = append(changed, item)
		at := changedItem{object: object, item: item}
		last, remembered := c.last(at)
		if remembered && last.value == is && last.present == has && now.Sub(last.changed) < flapWindow {
			flapped = append(flapped, item)
		}
		if len(c.fresh) < maxRemembered {
			c.fresh[at] = undone{value: was, present: had, changed: now}
		}
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

// last is what would undo the last change of an item, if that is remembered.
func (c *churn) last(at changedItem) (undone, bool) {
	if last, found := c.fresh[at]; found {
		return last, true
	}
	last, found := c.former[at]
	return last, found
}

// forget drops what is older than a window, a window at a time.
func (c *churn) forget(now time.Time) {
	if age := now.Sub(c.since); c.fresh == nil || age >= flapWindow {
		c.former, c.fresh, c.since = c.fresh, map[changedItem]undone{}, now
		if age >= 2*flapWindow {
			c.former = nil
		}
	}
}
