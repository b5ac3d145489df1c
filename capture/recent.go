package capture

import "time"

// recent is a map whose entries are forgotten some time after they were put last: after at least one window and at most
// two, or earlier where more entries come than it may hold.
type recent[K comparable, V any] struct {
	window        time.Duration
	most          int // entries of each window, this one and the one before
	fresh, former map[K]V
	since         time.Time // since when fresh has been filled
}

func (r *recent[K, V]) get(key K, now time.Time) (V, bool) {
	r.forget(now)
	if value, found := r.fresh[key]; found {
		return value, true
	}
	value, found := r.former[key]
	return value, found
}

func (r *recent[K, V]) put(key K, value V, now time.Time) {
	r.forget(now)
	if _, found := r.fresh[key]; !found && len(r.fresh) >= r.most { // the newest entries count more than the oldest
		r.turn(now)
	}
	r.fresh[key] = value
}

// forget drops what is older than a window, a window at a time.
func (r *recent[K, V]) forget(now time.Time) {
	if age := now.Sub(r.since); r.fresh == nil || age >= r.window {
		r.turn(now)
		if age >= 2*r.window {
			r.former = nil
		}
	}
}

func (r *recent[K, V]) turn(now time.Time) {
	r.former, r.fresh, r.since = r.fresh, map[K]V{}, now
}
