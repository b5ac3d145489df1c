package verify

import "time"

// EventReleased is the reason of the Event about a Node whose taint was removed without a passed check. The deadline passed, or an operator removed
// it.
const EventReleased = "VerificationReleased"

// ReleasedBy is the progress once a client has removed the taint on purpose. The round ends, and worker Pods of it no longer count.
func (p Progress) ReleasedBy(message string, now time.Time) Progress {
	return p.closed(Last{Result: VerdictReleased, Message: Clean(message), Time: now})
}
