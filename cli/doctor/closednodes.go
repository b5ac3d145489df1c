package doctor

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/verify"
)

// outageFraction is which share of all Nodes makes a state of Nodes an outage: one in so many.
const outageFraction = 10

// severityOfShare returns how bad it is that so many of all Nodes have something.
func severityOfShare(part, all int) Severity {
	if part*outageFraction >= all {
		return Error
	}
	return Warning
}

// ClosingCriteria is what decides whether a Node counts as closed for too long.
type ClosingCriteria struct {
	Gate        policy.Gate
	Keys        []string        // the keys of verification taints
	Profiles    verify.Profiles // of the policy in force
	Quarantined bool            // its record waits for an operator
}

// The commands that show why a Node is closed.
const (
	listGatedCommand      = "nodekeep list --waiting gate"
	listUnverifiedCommand = "nodekeep list --waiting verification"
)

// AddClosed counts a Node that is stuck, or has been closed for too long. It takes note of the command that shows why.
func (n *Nodes) AddClosed(node *corev1.Node, reasons ClosingCriteria, now time.Time) {
	reason, shows := n.longClosedReason(node, reasons, now)
	if reason == "" {
		return
	}
	n.ClosedTooLong.Add(node.Name + " (" + reason + ")")
	if !slices.Contains(n.WhyCommands, shows) {
		n.WhyCommands = append(n.WhyCommands, shows)
		slices.Sort(n.WhyCommands)
	}
}

// longClosedReason says why a Node is closed, and which command shows more of it. It is empty for an open Node, and for one that waits as its profile documents.
func (n *Nodes) longClosedReason(node *corev1.Node, reasons ClosingCriteria, now time.Time) (reason, shows string) {
	age := now.Sub(node.CreationTimestamp.Time)
	gated := reasons.Gate.Present(node.Spec.Taints) && age > n.GateAfter
	closed := len(tainted(node, reasons.Keys)) > 0
	profile, selected := reasons.Profiles.Match(node.Labels)
	switch start := closedSince(node); {
	case gated && reasons.Quarantined:
		return "its record waits for a decision", listGatedCommand
	case gated:
		return "behind the gate for " + duration.HumanDuration(age), listGatedCommand
	case !closed:
		return "", ""
	case selected && stuck(node, profile):
		return "stuck: its attempts keep failing", listUnverifiedCommand
	case selected && now.Sub(start) > profile.Deadline, !selected && now.Sub(start) > n.GateAfter:
		return "not verified for " + duration.HumanDuration(now.Sub(start)), listUnverifiedCommand
	}
	return "", ""
}

// stuck reports whether all attempts of a profile have failed on a Node.
func stuck(node *corev1.Node, profile verify.CompiledProfile) bool {
	progress := verify.ParseProgress(node.Annotations[verify.Annotation])
	return !profile.OnlyWaits() && progress.Hash == profile.Hash && progress.Stuck(profile)
}

// tainted returns the taints of a Node that have one of these keys.
func tainted(node *corev1.Node, keys []string) (held []corev1.Taint) {
	for _, taint := range node.Spec.Taints {
		for _, key := range keys {
			if taint.Key == key {
				held = append(held, taint)
			}
		}
	}
	return held
}

// closedSince returns when a Node with a taint of verification was closed. If the Node was open before (its round is not 0), that is when its taints last
// changed, and else its creation.
func closedSince(node *corev1.Node) time.Time {
	start := node.CreationTimestamp.Time
	if verify.ParseProgress(node.Annotations[verify.Annotation]).Round == 0 {
		return start
	}
	if last, known := observe.LastWriter(observe.FromNode(node).Writers, func(w observe.Writer) bool { return w.Taints }); known && last.Time > start.Unix() {
		return time.Unix(last.Time, 0)
	}
	return start
}

// judgeClosedNodes judges which share of the Nodes is stuck, or takes no new workloads for too long.
func judgeClosedNodes(seen Installation) answer {
	var a answer
	addUnknown(&a, "", seen.Nodes)
	nodes := seen.Nodes.Value
	a.okText = "no Node is stuck, or has waited for too long to take workloads"
	if closed := nodes.ClosedTooLong; closed.All > 0 {
		addUnknown(&a, "", nodes.NotKept) // NotKept is unknown where the records are, and with them why a gated Node waits
		takes := "take no workloads, and are stuck or have waited for too long"
		if closed.All == 1 {
			takes = "takes no new workloads, and is stuck or has waited for too long"
		}
		a.add(severityOfShare(closed.All, nodes.All), "", newRemedy("See what each waits for, and the next step:", nodes.WhyCommands...),
			"%d of %s %s: %s", closed.All, view.Counted(nodes.All, "Node"), takes, sampleText(closed, "Nodes"))
	}
	return a
}

// judgePausedItems judges on which share of the Nodes capture has stopped setting what another client undoes. The Event of a fight is written once,
// when it begins.
func judgePausedItems(seen Installation) answer {
	a := answer{okText: "no fight over what capture sets began within the last hour; the metric nodekeep_capture_items_paused counts those that last"}
	addUnknown(&a, "", seen.ItemsPaused)
	addUnknown(&a, "", seen.Nodes)
	if paused := seen.Nodes.Value.ItemsPaused; paused.All > 0 {
		a.add(severityOfShare(paused.All, seen.Nodes.Value.All), "",
			newRemedy("Stop the other client, or change the policy. The Events name the client and the label or taint:",
				"kubectl get events -n "+EventsNamespace+" --field-selector involvedObject.kind=Node,reason="+capture.ItemPaused),
			"within the last hour another client undid again and again what capture sets on %d of %d Nodes, so capture sets it less and less often: %s",
			paused.All, seen.Nodes.Value.All, sampleText(paused, "Nodes"))
	}
	return a
}

// EventsNamespace is the namespace of Events about objects that have none, such as Nodes.
const EventsNamespace = corev1.NamespaceDefault

// pausedFor is how long an Event counts that another client undoes what capture sets.
const pausedFor = time.Hour

// PausedOf returns the Nodes, by uid, about which an Event of the last hour reports that capture stopped setting an item.
func PausedOf(events []corev1.Event, now time.Time) map[types.UID]bool {
	paused := map[types.UID]bool{}
	for _, event := range events {
		seen := event.LastTimestamp.Time
		if seen.IsZero() {
			seen = event.EventTime.Time
		}
		if event.Series != nil && event.Series.LastObservedTime.After(seen) {
			seen = event.Series.LastObservedTime.Time
		}
		if now.Sub(seen) <= pausedFor {
			paused[event.InvolvedObject.UID] = true
		}
	}
	return paused
}
