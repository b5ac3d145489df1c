package webhook

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
)

// How often reviews may write only the time of an observation: once in momentEvery for each Node object. For all objects together, the
// limit is momentsAtOnce, then momentsASecond. A real deletion needs it once. Reviews can be forged, and every heartbeat of a Node is a
// later moment.
const (
	momentEvery    = 10 * time.Minute
	momentsAtOnce  = 10_000
	momentsASecond = 100
)

// moments bounds the writes that record a moment only. It holds the UIDs of Node objects that exist, for two periods at most.
type moments struct {
	mu            sync.Mutex
	all           *rate.Limiter
	since         time.Time
	last, current map[types.UID]struct{} // those that were written in the period before and in this one
}

// take reports whether the moment of a Node object may be written now, and notes that it is.
func (m *moments) take(uid types.UID, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = rate.NewLimiter(momentsASecond, momentsAtOnce)
	}
	if past := now.Sub(m.since); m.current == nil || past >= momentEvery || past < 0 {
		if m.last = m.current; past >= 2*momentEvery {
			m.last = nil
		}
		m.current, m.since = map[types.UID]struct{}{}, now
	}
	_, before := m.last[uid]
	if _, again := m.current[uid]; again || before || !m.all.AllowN(now, 1) {
		return false
	}
	m.current[uid] = struct{}{}
	return true
}
