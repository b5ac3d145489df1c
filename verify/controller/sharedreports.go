package controller

import (
	"maps"
	"sync"
	"time"

	"nodekeep.dev/nodekeep/verify"
)

// tellAgain is how often a lasting state is reported. The API server keeps Events for an hour, and the Node with the Event may be deleted.
const tellAgain = 30 * time.Minute

// sharedReports is what is reported once for many Nodes of a profile. That is a shared failure, a brake that concerns the profile, or attempts that ended
// without a verdict. It is lost with the process; only the frequency of reports depends on it.
type sharedReports struct {
	mu    sync.Mutex
	facts map[fact]telling
}

type fact struct{ profile, reason string }

type telling struct {
	uid    string    // the uid of the Node that it was reported on last
	time   time.Time // when that was
	end    time.Time // when it has ended, unless an attempt meets it again by then
	shared bool      // other Nodes have met it since: it is their turn, so no kubelet can keep the report for its Node
}

// due reports whether the result of an attempt on a Node must be reported. It must be if it is new, or was last reported long ago.
func (t *sharedReports) due(reason, node string, action verify.Action, now time.Time) bool {
	deadline, key := now.Add(action.Progress.NextEnds(action.Profile)), fact{action.Profile.Name, reason}
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.facts, func(_ fact, report telling) bool { return !report.end.After(now) }) // kubelets choose some of the reasons
	report, known := t.facts[key]
	report.shared = report.shared || node != report.uid
	due := !known || !now.Before(report.time.Add(tellAgain)) && (node != report.uid || !report.shared)
	if due {
		report.uid, report.time, report.shared = node, now, false
	}
	if deadline.After(report.end) {
		report.end = deadline
	}
	t.facts[key] = report
	return due
}

// lasts reports whether something was met, and would not have been met again yet.
func (t *sharedReports) lasts(reason, profile string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.facts[fact{profile, reason}].end.After(now)
}
