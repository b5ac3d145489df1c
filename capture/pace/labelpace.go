package pace

import (
	"cmp"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// DefaultLabelPatches is how many Nodes a second are changed for the labels of rules where nothing else is said.
const DefaultLabelPatches = 50

// LabelPace spreads changes that new rules make on many Nodes. Any goroutine may call its methods.
type LabelPace struct {
	mu    sync.Mutex
	limit *rate.Limiter
	turns map[string]time.Time // when the turn of a Node comes
}

// NewLabelPace returns a pace that gives a turn to so many Nodes a second; 0: to [DefaultLabelPatches].
func NewLabelPace(perSecond int) *LabelPace {
	perSecond = cmp.Or(perSecond, DefaultLabelPatches)
	return &LabelPace{limit: rate.NewLimiter(rate.Limit(perSecond), perSecond), turns: map[string]time.Time{}}
}

// Wait returns how long a Node has to wait for its turn; 0: it is now.
func (p *LabelPace) Wait(node string, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	turn, waits := p.turns[node]
	if !waits {
		turn = now.Add(p.limit.ReserveN(now, 1).DelayFrom(now))
		p.turns[node] = turn
	}
	if turn.After(now) {
		return turn.Sub(now)
	}
	delete(p.turns, node)
	return 0
}

// Forget is called when a Node is deleted.
func (p *LabelPace) Forget(node string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.turns, node)
}
