package pace

import (
	"cmp"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// DefaultLabelPatchesPerSecond is how many Nodes a second are changed for the labels of rules where nothing else is said.
const DefaultLabelPatchesPerSecond = 50

// RuleChangeLimiter spreads changes that new rules make on many Nodes. Any goroutine may call its methods.
type RuleChangeLimiter struct {
	mu    sync.Mutex
	limit *rate.Limiter
	turns map[string]time.Time // when the turn of a Node comes
}

// NewRuleChangeLimiter returns a limiter that gives a turn to so many Nodes a second; 0: to [DefaultLabelPatchesPerSecond].
func NewRuleChangeLimiter(perSecond int) *RuleChangeLimiter {
	perSecond = cmp.Or(perSecond, DefaultLabelPatchesPerSecond)
	return &RuleChangeLimiter{limit: rate.NewLimiter(rate.Limit(perSecond), perSecond), turns: map[string]time.Time{}}
}

// Wait returns how long a Node has to wait for its turn; 0: it is now.
func (l *RuleChangeLimiter) Wait(node string, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	turn, waits := l.turns[node]
	if !waits {
		turn = now.Add(l.limit.ReserveN(now, 1).DelayFrom(now))
		l.turns[node] = turn
	}
	if turn.After(now) {
		return turn.Sub(now)
	}
	delete(l.turns, node)
	return 0
}

// Forget is called when a Node is deleted.
func (l *RuleChangeLimiter) Forget(node string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.turns, node)
}
