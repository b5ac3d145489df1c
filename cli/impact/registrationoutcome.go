package impact

import (
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/webhook"
)

// RegistrationOutcome is what becomes of a recorded item at a registration; none where it was not recorded.
type RegistrationOutcome struct {
	Kind   ChangeKind
	Reason policy.Reason
}

// RegistrationOutcomeOf returns what becomes of an item by the answer of the webhook.
func RegistrationOutcomeOf(item string, answer webhook.Explanation, p policy.Policy) RegistrationOutcome {
	if reason, withheld := answer.Withheld[item]; withheld {
		return RegistrationOutcome{NotRestored, reason}
	}
	if _, restored := answer.Restored[item]; restored {
		return RegistrationOutcome{Kind: Restored}
	}
	if _, inline := answer.Inline[item]; inline { // one of the deferred ones
		return RegistrationOutcome{Kind: RestoredInline}
	}
	if _, deferred := answer.Deferred[item]; deferred {
		if pattern, _ := p.DeferPattern(item); pattern != "" {
			return RegistrationOutcome{Deferred, policy.Reason("labels.defer has " + pattern)}
		}
		return RegistrationOutcome{Kind: Deferred}
	}
	return RegistrationOutcome{}
}
