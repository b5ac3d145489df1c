package impact

import (
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/webhook"
)

// Fate is what becomes of a recorded item at a registration; none where it was not recorded.
type Fate struct {
	Kind   ChangeKind
	Reason policy.Reason
}

// FateOf returns what becomes of an item by the answer of the webhook.
func FateOf(item string, answer webhook.Explanation, p policy.Policy) Fate {
	if reason, withheld := answer.Withheld[item]; withheld {
		return Fate{NotGiven, reason}
	}
	if _, restored := answer.Restored[item]; restored {
		return Fate{Kind: Restored}
	}
	if _, inline := answer.Inline[item]; inline { // one of the deferred ones
		return Fate{Kind: Inlined}
	}
	if _, deferred := answer.Deferred[item]; deferred {
		if pattern, _ := p.Defers(item); pattern != "" {
			return Fate{Deferred, policy.Reason("labels.defer has " + pattern)}
		}
		return Fate{Kind: Deferred}
	}
	return Fate{}
}
