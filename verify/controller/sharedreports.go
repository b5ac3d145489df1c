package controller

import (
	"maps"
	"sync"
	"time"

	"nodekeep.dev/nodekeep/verify"
)

// tellAgain is how often a lasting state is reported. The API server keeps Events for an hour, and the Node with the Event may be deleted.
const tellAgain = 30 * time.Minute

// told is what is reported once for many Nodes of a profile. That is a shared failure, a brake that concerns the profile, or attempts that ended
// without a verdict. It is lost with the process; only the frequency of reports depends on it.
type told struct {
	mu    sync.Mutex
	facts map[fact]telling
}

type fact struct{ profile, what string }

type telling struct {
	on     string    // the uid of the Node that it was reported on last
	at     time.Time // when that was
	until  time.Time // when it has ended, unless an attempt meets it again by then
	others bool      // other Nodes have met it since: it is their turn, so no kubelet can keep the report for its Node
}

// due reports whether the result of an attempt on a Node must be reported. It must be if it is new, or was last reported long ago.
func (t *told) due(what, node string, action verify.Action, now time.Time) bool {
	until, of := now.Add(action.Progress.NextEnds(action.Profile)), fact{action.Profile.Name, what}
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.facts, func(_ fact, told telling) bool { return !told.until.After(now) }) // kubelets choose some of the reasons
	told, known := t.facts[of]
	told.others = told.others || node != told.on
	due := !known || !now.Before(told.at.Add(tellAgain)) && (node != told.on || !told.others)
	if due {
		told.on, told.at, told.others = node, now, false
	}
	if until.After(told.until) {
		told.until = until
	}
	t.facts[of] = told
	return due
}

// lasts reports whether something was met, and would not have been met again yet.
func (t *told) lasts(what, profile string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.facts[fact{profile, what}].until.After(now)
}
