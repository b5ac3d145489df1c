package verify

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Cause is why a Node stands where it stands, in a word. It is the reason of the condition [Condition], and a label of a metric.
type Cause string

// The causes of a Node with the taint, while no worker Pod runs.
const (
	CauseOtherTaint   Cause = "OtherTaint"
	CauseNotReady     Cause = "NodeNotReady"
	CauseCondition    Cause = "WaitsForCondition"
	CauseDaemonSet    Cause = "WaitsForDaemonSet"
	CauseResource     Cause = "WaitsForResource"
	CauseOldWorker    Cause = "OldWorkerPod"
	CauseTaintReturns Cause = "TaintReturns"
	CauseRefused      Cause = "StepRefused"
	CauseMayReboot    Cause = "MayReboot"
	CauseDue          Cause = "AttemptDue"
	CauseOpenBefore   Cause = "OpenBefore"
	CauseAllPassed    Cause = "AllPassed"
	CauseDeadline     Cause = "DeadlinePassed"
	CauseNotSelected  Cause = "NotSelected"
	CauseReportsOnly  Cause = "ReportsOnly"
	CauseEmergency    Cause = "Emergency"
)

// The causes while a worker Pod exists.
const (
	CauseWorkerStarts Cause = "WorkerStarts"
	CauseWorkerRuns   Cause = "WorkerRuns"
	CauseAsksKubelet  Cause = "AsksKubelet"
	CauseAsksVerified Cause = "AsksVerifiedNodes"
)

// The causes after an attempt that did not pass.
const (
	CauseChecksFailed Cause = "ChecksFailed"
	CauseUnconfirmed  Cause = "FailureUnconfirmed"
	CauseShared       Cause = "SharedFailure"
	CauseImage        Cause = "ImageNotPulled"
	CauseNotStarted   Cause = "WorkerNotStarted"
	CauseHung         Cause = "WorkerHung"
	CauseNoReport     Cause = "WorkerCutOff"
	CauseBadReport    Cause = "BadReport"
	CauseWorkerFailed Cause = "WorkerFailed"
)

// The causes of a Node without the taint.
const (
	CauseChecksPassed Cause = "ChecksPassed"
	CauseReleased     Cause = "Released"
	CauseRebooted     Cause = "Rebooted"
	CauseTaintRemoved Cause = "TaintRemoved"
	CauseKeyChanged   Cause = "TaintKeyChanged"
	CauseNotVerified  Cause = "NotVerified"
	CauseRecheck      Cause = "RecheckWaits"
	CauseCheckDue     Cause = "CheckDue"
)

// Explained is what a cause means, and what follows. Means has one %s where the cause has a detail of the Node.
type Explained struct {
	Cause       Cause
	States      []State
	Status      corev1.ConditionStatus // of the condition, before an attempt has failed
	Means, Next string
	// Lasts is true of what is shown by a condition and an Event once it lasts; see [lasting].
	Lasts bool
}

// Causes returns all causes. It is the one place that says what an operator reads: commands, Events, the condition and docs/verification.md show these
// sentences.
func Causes() []Explained {
	rows := func(status corev1.ConditionStatus, lasts bool, states ...State) func(cause Cause, means, next string) Explained {
		return func(cause Cause, means, next string) Explained {
			return Explained{cause, states, status, means, next, lasts}
		}
	}
	waits := rows(corev1.ConditionUnknown, true, StateWaiting, StateRetrying, StateStuck)
	refused := rows(corev1.ConditionUnknown, true, StateWaiting, StateChecking, StateRetrying, StateStuck)
	acts := rows(corev1.ConditionUnknown, false, StateWaiting, StateRetrying, StateStuck)
	checks := rows(corev1.ConditionUnknown, false, StateChecking)
	tried := rows(corev1.ConditionFalse, false, StateRetrying, StateStuck, StateFailing)
	open := rows(corev1.ConditionUnknown, false, StateOpen)
	passed, released := rows(corev1.ConditionTrue, false, StateOpen), rows(corev1.ConditionFalse, false, StateOpen)
	const retryHint, checkIt = "nodekeep tries again by itself", "`nodekeep recheck NODE` checks it"
	return []Explained{
		waits(CauseOtherTaint, "the taint %s is on the Node", "the component that added it must remove it first"),
		waits(CauseNotReady, "the Node is not Ready", "`kubectl describe node NODE` shows what its kubelet reports"),
		waits(CauseCondition, "the profile waits for a condition: %s", "look at the agent that sets the condition, or change `wait.conditions`"),
		waits(CauseDaemonSet, "no Pod of DaemonSet %s is Ready on the Node", "look at that Pod; it needs a toleration for the taint"),
		waits(CauseResource, "the profile waits for a resource: %s", "look at the device plugin, or change `wait.allocatable`"),
		acts(CauseOldWorker, "an old worker Pod is on the Node: %s", "it is deleted first"),
		waits(CauseTaintReturns, "another client adds the taint again each time, %s times now", "find the client, often an admission policy or webhook; nodekeep pauses"),
		refused(CauseRefused, "the controller cannot go on: %s", "correct what the message names; `nodekeep doctor` compares the rights"),
		acts(CauseMayReboot, "the Node was not Ready, and may have rebooted: %s", "with another boot it is checked again, else the taint is removed"),
		acts(CauseDue, "attempt %s is due", "the controller starts a worker Pod; at most 10 start a second, and 200 run"),
		acts(CauseOpenBefore, "the Node was open before its taint was added", "it is checked, and never removed"),
		acts(CauseAllPassed, "all that is required holds", "the controller removes the taint"),
		acts(CauseDeadline, "the Node was not verified within %s, and onTimeout is release", "the controller removes the taint"),
		acts(CauseNotSelected, "no profile selects the Node", "the controller removes the taint"),
		acts(CauseReportsOnly, "the profile of the Node only reports", "the controller removes the taint"),
		acts(CauseEmergency, "an emergency is declared, so no Node is kept closed", "the controller removes the taint; `nodekeep emergency --end` ends the emergency"),
		checks(CauseWorkerStarts, "the worker Pod has not started: %s", "the attempt ends after `startTimeout`"),
		checks(CauseWorkerRuns, "the worker Pod runs the checks", "they end within the profile's `timeout`"),
		checks(CauseAsksKubelet, "the kubelet is asked for the worker's log: %s", "the check fails after the profile's `timeout`"),
		checks(CauseAsksVerified, "a check failed, and verified Nodes are asked the same", "the attempt counts if they pass"),
		tried(CauseChecksFailed, "a required check failed: %s", retryHint+"; `nodekeep show NODE --verification` has the report"),
		{CauseUnconfirmed, []State{StateFailing}, corev1.ConditionUnknown, "a required check failed, and it is not known yet whether the fault is of this Node: %s",
			retryHint + "; the condition is False once it fails again and other Nodes pass", false},
		tried(CauseShared, "a check fails on verified Nodes, too: %s", "correct what the check asks for; such attempts do not count"),
		tried(CauseImage, "an image cannot be pulled: %s", "look at the image's name, the registry, and the pull Secret in the namespace of worker Pods"),
		tried(CauseNotStarted, "the worker Pod did not start: %s", "`kubectl describe` the next worker Pod; "+retryHint),
		tried(CauseHung, "the worker did not end in time: %s", "look at the load of the Node, and at its kubelet; "+retryHint),
		tried(CauseNoReport, "the worker ended without a report: %s", "look for memory pressure or a shutdown of the Node; "+retryHint),
		tried(CauseBadReport, "the worker's report cannot be used: %s", "worker and controller must be of one version; "+retryHint),
		tried(CauseWorkerFailed, "the checks did not run to their end: %s", "`nodekeep show NODE --verification` has the report; "+retryHint),
		passed(CauseChecksPassed, "the Node was verified", ""),
		released(CauseReleased, "the Node was opened without passed checks: %s", checkIt),
		open(CauseRebooted, "the Node has rebooted, and was not checked again: %s", checkIt),
		open(CauseTaintRemoved, "the taint was removed before the checks passed", checkIt),
		open(CauseKeyChanged, "the Node has the taint %s, which no profile has any more", "remove that taint, or add it to a profile again"),
		open(CauseRecheck, "the Node is to be checked again: %s", "`nodekeep recheck NODE` does it at once"),
		open(CauseNotVerified, "the Node has not passed its checks", checkIt),
		open(CauseCheckDue, "the Node takes workloads, and is to be checked: %s", "the controller checks it; at most 10 start a second, and 200 run"),
	}
}

// Explain returns the row of a cause; ok is false of a word that is none.
func (c Cause) Explain() (row Explained, ok bool) {
	rows := Causes()
	i := slices.IndexFunc(rows, func(row Explained) bool { return row.Cause == c })
	if i < 0 {
		return Explained{}, false
	}
	return rows[i], true
}

// Diagnosis is a cause with what is particular to the Node.
type Diagnosis struct {
	Cause  Cause
	Detail string
}

// Sentence returns that of the table about one Node: the cause, and what follows.
func (w Diagnosis) Sentence(node string) string {
	row, _ := w.Cause.Explain()
	next := ""
	if row.Next != "" {
		next = "; " + strings.ReplaceAll(row.Next, "NODE", node)
	}
	return w.String() + next
}

// String returns the cause.
func (w Diagnosis) String() string {
	row, _ := w.Cause.Explain()
	return strings.Replace(row.Means, "%s", cmp.Or(Shorten(w.Detail), "nothing more is known"), 1)
}

// Shown returns what the condition of a Node says about a cause, and whether it says something else now. On a Node on which an attempt has failed, it is
// False whatever comes next.
func (w Diagnosis) Shown(node *Node, tried bool) (show Projection, differs bool) {
	row, _ := w.Cause.Explain()
	show = Projection{Status: row.Status, Reason: string(w.Cause), Message: w.Sentence(node.Name)}
	if tried {
		show.Status = corev1.ConditionFalse
	}
	return show, show != node.Verified
}

// Reported returns what the condition of a Node says of what only the controller can know. That is why it does not take the next step. A kubelet can write the condition.
func (n *Node) Reported() (cause Cause, sentence string, ok bool) {
	cause = Cause(n.Verified.Reason)
	return cause, cut(Clean(n.Verified.Message), MaxReport), cause == CauseRefused || cause == CauseDaemonSet
}

// Diagnosis returns the cause of a Node whose last attempt or round ended so.
func (l Last) Diagnosis() Diagnosis {
	detail := l.Message
	if l.Check != "" {
		detail = l.Check + ": " + cmp.Or(l.Message, l.Reason)
	}
	switch l.Result {
	case VerdictPassed:
		return Diagnosis{Cause: CauseChecksPassed}
	case VerdictFailed:
		cause := CauseChecksFailed
		if l.Unconfirmed {
			cause = CauseUnconfirmed
		}
		return Diagnosis{cause, strings.TrimSuffix(fmt.Sprintf("%s (%s): %s", l.Check, cmp.Or(l.Reason, string(ReasonError)), l.Message), ": ")}
	case VerdictShared:
		return Diagnosis{CauseShared, detail}
	case VerdictReleased:
		return Diagnosis{CauseReleased, detail}
	case VerdictRebooted:
		return Diagnosis{CauseRebooted, detail}
	case VerdictRemoved:
		return Diagnosis{Cause: CauseTaintRemoved}
	case VerdictInconclusive:
		if row, ok := Cause(l.Reason).Explain(); ok && slices.Contains(row.States, StateRetrying) && row.Status == corev1.ConditionFalse {
			return Diagnosis{row.Cause, detail}
		}
		return Diagnosis{CauseWorkerFailed, detail}
	}
	return Diagnosis{Cause: CauseNotVerified}
}
