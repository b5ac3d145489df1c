package verify

import (
	"slices"
	"time"
)

// Took returns how long a check took. A kubelet writes the number, so it counts as no more than the timeout of the check. If it is not known, ok is false:
// the check was skipped, or the controller asked the kubelet.
func (p CompiledProfile) Took(result Result) (took time.Duration, ok bool) {
	i := slices.IndexFunc(p.Checks, func(check Check) bool { return check.Name == result.Check })
	if i < 0 || result.Outcome == Skipped || p.Checks[i].Kubelet != nil {
		return 0, false
	}
	timeout := p.TimeoutOf(p.Checks[i])
	if p.Checks[i].Container != nil && result.Reason == ReasonTimeout {
		return timeout, true
	}
	return time.Duration(min(max(0, int64(result.Millis)), timeout.Milliseconds())) * time.Millisecond, true
}
