package webhook

import (
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
)

// How often reviews may write only the time of an observation: once in momentEvery for each Node object. For all objects together, the
// limit is momentsAtOnce, then momentsASecond. A real deletion needs it once. Reviews can be forged, and every heartbeat of a Node is a
// later moment.
const (
	momentEvery    = 10 * time.Minute
	momentsAtOnce  = 10_000
	momentsASecond = 100
)

// moments bounds the writes that record a moment only. It holds the UIDs of Node objects that exist, for momentEvery.
type moments struct {
	all     *rate.Limiter
	written *cache.Expiring
}

func newMoments() moments {
	return moments{all: rate.NewLimiter(momentsASecond, momentsAtOnce), written: cache.NewExpiring()}
}

// take reports whether the moment of a Node object may be written now, and notes that it is. Nobody else asks about that object meanwhile.
func (m moments) take(uid types.UID) bool {
	if _, ok := m.written.Get(uid); ok || !m.all.Allow() {
		return false
	}
	m.written.Set(uid, nil, momentEvery)
	return true
}
