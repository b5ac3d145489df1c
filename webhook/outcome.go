package webhook

// outcome is how a review ended, for the metric and the log.
type outcome string

const (
	restoredAll      outcome = "restored"          // labels were put in, nothing is left to do
	deferredSome     outcome = "deferred"          // protected labels are left to capture, the gate is on
	restoredInline   outcome = "restored_inline"   // protected labels were put in, in the second pass
	nothingMissing   outcome = "nothing_missing"   // the Node has all of its record
	unreadableRecord outcome = "unreadable_record" // nothing restored: the record cannot be read
	otherMachine     outcome = "other_machine"     // nothing restored: another machine has the name
	notOurs          outcome = "not_ours"          // not the creation of a named Node
	malformedNode    outcome = "malformed_node"    // the object cannot be read
	tooLarge         outcome = "too_large"         // no labels: with them the object might be refused for its size
	notReady         outcome = "not_ready"         // answered 503: records are still being read
	tooBusy          outcome = "too_busy"          // answered 503: too many reviews at once
	malformedReview  outcome = "malformed_review"  // answered 4xx: not an AdmissionReview
	panicked         outcome = "panicked"          // answered 500
)

func outcomes() []outcome {
	return []outcome{
		restoredAll, deferredSome, restoredInline, nothingMissing, unreadableRecord, otherMachine, notOurs, malformedNode, tooLarge,
		notReady, tooBusy, malformedReview, panicked,
	}
}
