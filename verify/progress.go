package verify

import (
	"encoding/json"
	"slices"
	"time"
)

// Progress is the annotation [Annotation]: what was tried on a Node. A kubelet may write it, so it concerns its own Node alone, and is shown to operators.
type Progress struct {
	Round    int    `json:"round"`             // how often this Node object was opened before
	Attempts int    `json:"attempts"`          // attempts of this round that did not pass
	Failed   int    `json:"failed,omitempty"`  // those of them in which a check said no; only these lead to a removal
	Shared   int    `json:"shared,omitempty"`  // attempts of this round that failed as a verified Node does; they are no attempts of this Node
	Returns  int    `json:"returns,omitempty"` // how often in a row the taint returned soon after it was removed
	BootID   string `json:"bootID,omitempty"`
	Profile  string `json:"profile,omitempty"`
	Taint    string `json:"taint,omitempty"`    // key of the taint of these attempts
	Hash     string `json:"hash,omitempty"`     // of the profile's checks
	Reports  bool   `json:"reports,omitempty"`  // the profile only reports: see [ModeReport]
	OnReboot bool   `json:"onReboot,omitempty"` // the profile checks the Node again after a reboot; of Nodes from before, the boot is not known
	// Label is the key of the label that the Node got when it passed, until it is closed again.
	Label string `json:"label,omitempty"`
	// Generation is that of the policy by which the Node passed last; 0: it is not known.
	Generation int64 `json:"generation,omitempty"`

	Request string `json:"request,omitempty"` // the [RequestAnnotation] that was noted last, as a hash
	// Asked is when an operator last asked for an attempt at once ([Progress.RestartClosed]), in the round that is not over.
	Asked time.Time `json:"asked,omitzero"`
	Last  *Last     `json:"last,omitempty"`
	// FailingSince is when the first of the failed attempts ended.
	FailingSince time.Time `json:"failingSince,omitzero"`
	// Removing is what nodekeep has removed to have this Node removed: its NodeClaim, its Machine. The Node goes with it.
	Removing RemovalKind `json:"removing,omitempty"`
	// RemovalHeld is the brake that held the removal of this Node after the last attempt; nil: none did.
	RemovalHeld *Brake `json:"removalHeld,omitempty"`
}

// Last is how the last attempt or the round ended.
type Last struct {
	Result  Verdict   `json:"result"`
	Check   string    `json:"check,omitempty"`  // the check that failed
	Reason  string    `json:"reason,omitempty"` // a word for machines
	Message string    `json:"message,omitempty"`
	Time    time.Time `json:"time"`
	Skipped []string  `json:"skipped,omitempty"` // checks that were left out at a cold start
	// Unconfirmed is true of a failure if no other Node is known to pass what failed; see [ModeReport].
	Unconfirmed bool `json:"unconfirmed,omitempty"`
}

// Verdict is what came of an attempt, or of a round that ended otherwise.
type Verdict string

// The verdicts.
const (
	VerdictRunning      Verdict = ""             // the worker is not done
	VerdictPassed       Verdict = "passed"       // every required check passed
	VerdictFailed       Verdict = "failed"       // a required check said no
	VerdictInconclusive Verdict = "inconclusive" // the checks could not be run, or nothing usable was reported
	VerdictShared       Verdict = "shared"       // failed, and a verified Node fails the same check
	VerdictReleased     Verdict = "released"     // the deadline passed and the profile says release
	VerdictNotSelected  Verdict = "notSelected"  // no profile selects the Node any more
	VerdictRemoved      Verdict = "removed"      // another client removed the taint
	VerdictRebooted     Verdict = "rebooted"     // too many Nodes were not Ready at once: it was not checked again after a reboot
)

// Limits of what is read from the annotation and written to it.
const (
	maxAnnotation = 4 << 10   // bytes
	maxCount      = 1_000_000 // rounds and attempts
	maxMessage    = 300       // bytes of a message in the annotation; the report has all of it
)

// ParseProgress reads the annotation. What cannot be read counts as no annotation: then the Node is tried as if it were new.
func ParseProgress(annotation string) Progress {
	var p Progress
	if len(annotation) > maxAnnotation || json.Unmarshal([]byte(annotation), &p) != nil {
		return Progress{}
	}
	minimum, maximum := min(p.Round, p.Attempts, p.Returns, p.Shared, p.Failed), max(p.Round, p.Attempts, p.Returns, p.Shared)
	if minimum < 0 || maximum > maxCount || p.Failed > p.Attempts {
		return Progress{}
	}
	if p.Last != nil {
		p.Last.Message, p.Last.Check, p.Last.Reason = Shorten(p.Last.Message), Shorten(p.Last.Check), Shorten(p.Last.Reason)
	}
	if p.RemovalHeld != nil && !slices.Contains(BrakeReasons(), p.RemovalHeld.Reason) {
		p.RemovalHeld = nil
	}
	if p.RemovalHeld != nil {
		p.RemovalHeld.Message = Shorten(p.RemovalHeld.Message)
	}
	p.Label, p.Request = Shorten(p.Label), Shorten(p.Request)
	if !slices.Contains(RemovalKinds(), p.Removing) {
		p.Removing = ""
	}
	return p
}

// String returns the annotation.
func (p Progress) String() string { return toJSON(p) }

// forProfile returns the progress with the checks of a profile. Other checks and another boot begin the attempts anew.
func (p Progress) forProfile(profile CompiledProfile, bootID string) Progress {
	if p.Hash != profile.Hash || p.BootID != bootID {
		p = p.untried()
		p.Last = nil
	}
	p.Profile, p.Taint, p.Hash, p.BootID, p.OnReboot = profile.Name, profile.Taint.Key, profile.Hash, bootID, profile.Reverify == OnReboot
	p.Reports = profile.ReportsOnly()
	return p
}

// untried returns the progress with no attempt of this round.
func (p Progress) untried() Progress {
	p.Attempts, p.Failed, p.Shared, p.FailingSince, p.RemovalHeld = 0, 0, 0, time.Time{}, nil
	return p
}

// advance returns the progress once an attempt did not pass. A failure that a verified Node has, too, is no attempt of this Node. An attempt
// that was inconclusive says nothing about brakes.
func (p Progress) advance(last Last) Progress {
	last.Message = cut(last.Message, maxMessage)
	p.Last = &last
	if last.Result == VerdictShared {
		p.Shared++
		return p
	}
	p.Attempts++
	if last.Result != VerdictFailed {
		return p
	}
	if p.Failed++; p.Failed == 1 {
		p.FailingSince = last.Time
	}
	p.RemovalHeld = nil
	return p
}

// Tried reports whether an attempt of this round did not pass.
func (p Progress) Tried() bool { return p.tried() > 0 && p.Last != nil }

// tried returns how many attempts of this round are over.
func (p Progress) tried() int { return p.Attempts + p.Shared }

// closed returns the progress once a round has ended: worker Pods of that round no longer count.
func (p Progress) closed(last Last) Progress {
	last.Message = cut(last.Message, maxMessage)
	switch removed, due := p.removed(); {
	case !removed: // attempts that did not pass, or another client, came between
	case last.Time.Sub(due) < recheckDelay+p.pause():
		p.Returns++
	default:
		p.Returns = 0
	}
	p = p.untried()
	p.Round, p.Last, p.Removing, p.Label, p.Asked, p.Generation = p.Round+1, &last, "", "", time.Time{}, 0
	return p
}

// RestartClosed returns the progress of a closed Node that an operator has checked at once. Attempts of before count no more, nor a pause after them. A worker
// Pod that runs is replaced. The round stays, so that a Node which was never open may still be removed.
func (p Progress) RestartClosed(asked time.Time) Progress {
	p = p.untried()
	p.Last, p.Asked = nil, asked.UTC()
	return p
}

// ReleasedBy returns the progress once a client has removed the taint on purpose. The round ends, and worker Pods of it no longer count.
func (p Progress) ReleasedBy(message string, now time.Time) Progress {
	return p.closed(Last{Result: VerdictReleased, Message: Clean(message), Time: now})
}

// AfterOpen returns the progress of a Node that was open before and is closed now, whatever the annotation says. Verification may have been off, or the annotation was deleted.
func (p Progress) AfterOpen() Progress {
	p.Round, p.Label = max(p.Round, 1), ""
	return p
}

// Stuck reports whether the Node has had all its attempts; it is tried on, once in maxBackoff.
func (p Progress) Stuck(profile CompiledProfile) bool { return p.Attempts >= profile.MaxAttempts }

// FreeReturns is how often in a row the taint may return soon after its removal before there is a pause. An operator has a Node checked again a few
// times after a repair. Another mutating admission policy can add the taint again in the very PATCH that removes it, without end.
const FreeReturns = 3

// recheckDelay is how long after the end of a round the next one ends, if the taint returned at once. It is the time of a check, and some more.
const recheckDelay = 5 * time.Minute

// The first and the longest pause before nodekeep again removes a taint that keeps returning. Each pause is twice as long as the one before.
const (
	firstPause   = 10 * time.Second
	longestPause = 5 * time.Minute
)

// pause returns how long to wait before the next step about a taint that keeps returning.
func (p Progress) pause() time.Duration {
	if p.Returns <= FreeReturns {
		return 0
	}
	const doublings = 20 // more than the longest pause needs, and no overflow
	return min(firstPause<<min(p.Returns-FreeReturns-1, doublings), longestPause)
}

// removed reports whether the last thing that was done was to remove the taint, and when.
func (p Progress) removed() (yes bool, due time.Time) {
	if p.tried() > 0 || p.Last == nil {
		return false, time.Time{}
	}
	return slices.Contains([]Verdict{VerdictPassed, VerdictReleased, VerdictNotSelected, VerdictRebooted}, p.Last.Result), p.Last.Time
}

// resumes returns when nodekeep continues with a Node whose taint keeps returning; a time that is past: now. A time in the future, which only a kubelet
// writes, does not count.
func (p Progress) resumes(now time.Time) time.Time {
	if removed, due := p.removed(); removed && !due.After(now) {
		return due.Add(p.pause())
	}
	return time.Time{}
}

// Next returns when the next attempt may start at the earliest. A time in the future, which only a kubelet writes, counts as now.
func (p Progress) Next(profile CompiledProfile, now time.Time) time.Time {
	if profile.ReportsOnly() {
		return p.due(profile, now)
	}
	if p.tried() == 0 || p.Last == nil {
		return now
	}
	last := p.Last.Time
	if last.After(now) {
		last = now
	}
	return last.Add(p.Pause(profile))
}

// Pause returns how long to wait after the last attempt. A failure that is shared has a pause of its own, which does not grow.
func (p Progress) Pause(profile CompiledProfile) time.Duration {
	if p.Last != nil && p.Last.Result == VerdictShared {
		return min(max(controlLasts, profile.Backoff), profile.MaxBackoff)
	}
	return Backoff(profile, p.Attempts)
}

// NextEnds returns how long it takes at most until the next attempt has ended, with the control Pod that follows.
func (p Progress) NextEnds(profile CompiledProfile) time.Duration {
	return p.Pause(profile) + profile.decided()
}

// Backoff returns how long to wait after an attempt that did not pass. It is backoff after the first one, and doubles after each further one, up to
// maxBackoff. For a Node that is stuck it is maxBackoff.
func Backoff(profile CompiledProfile, attempts int) time.Duration {
	wait := profile.Backoff
	for i := 1; i < attempts && wait < profile.MaxBackoff; i++ {
		wait *= 2
	}
	if attempts >= profile.MaxAttempts {
		return profile.MaxBackoff
	}
	return min(wait, profile.MaxBackoff)
}

// PodPrefix is how the names of worker Pods begin.
const PodPrefix = "check-"

// NextAttempt identifies the attempt that is next on a Node, or that runs.
func (p CompiledProfile) NextAttempt(node *Node) string {
	return AttemptOf(node.UID, p.ProgressOf(node))
}

// ProgressOf returns what was tried on a Node of the checks that the profile has now.
func (p CompiledProfile) ProgressOf(node *Node) Progress {
	return ParseProgress(node.Annotation).forProfile(p, node.BootID)
}

// AttemptOf identifies an attempt. It encodes everything that the attempt is about: the Node object, its boot, the round, the checks, the requests.
func AttemptOf(nodeUID string, p Progress) string {
	return hash(16, "%q %d %d %q %q %q %q", nodeUID, p.Round, p.tried()+1, p.Hash, p.BootID, p.Request, p.Asked.UTC().Format(time.RFC3339Nano))
}

// askedPause is how long after the start of a worker Pod a request starts no further one. So many requests start no Pods one after the other.
const askedPause = 2 * time.Second

// Unanswered reports whether an operator asked for an attempt, and the last worker Pod answers another request.
func (p Progress) Unanswered(answers time.Time) bool {
	return !p.Asked.IsZero() && !p.Asked.Equal(answers)
}

// pauses is until when this process starts no further worker Pod for the Node, whatever the annotation says. A request that no worker Pod answers yet
// makes that short. It does so once in a backoff: a kubelet may write requests, too.
func (seen Observed) pauses(profile CompiledProfile, progress Progress) time.Time {
	if !progress.Unanswered(seen.Answers) {
		return seen.Started.Add(profile.Backoff)
	}
	short := seen.Started.Add(min(askedPause, profile.Backoff))
	if seen.Hurried.IsZero() {
		return short
	}
	return latest(short, seen.Hurried.Add(profile.Backoff))
}
