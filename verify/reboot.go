package verify

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// outageLasts is how long after an outage Nodes that reboot are not checked again. After a power cut they return within minutes of each other.
const outageLasts = 10 * time.Minute

// Outage reports whether more Nodes are away at once than single reboots explain. During an outage no Node is checked again because of a reboot.
// Thousands of Nodes that return after a power cut take workloads at once.
type Outage struct {
	counted, absent int
	end             time.Time
}

// Change adds to the number of Nodes that count, and to the number of them that are away; see [Profiles.Absent]. If an outage begins, began is true.
func (o *Outage) Change(counted, absent int, now time.Time) (began bool) {
	prev := now.Before(o.end)
	o.counted, o.absent = o.counted+counted, o.absent+absent
	return now.Before(o.End(now)) && !prev
}

// End returns when the outage ends, if no more Nodes are away by then. If the time is not in the future, there is no outage. One Node may always be
// away, and one of ten.
func (o *Outage) End(now time.Time) time.Time {
	if o.absent > max(1, o.counted/10) {
		o.end = now.Add(outageLasts)
	}
	return o.end
}

// Absent reports whether a Node counts for [Outage], and whether it is away. A Node is away if it is not Ready, or not yet checked again since. A new
// Node does not count, whether it waits to be verified or has never been Ready.
func (p Profiles) Absent(node *Node) (counts, absent bool) {
	closing := p.ClosingTaints(node.Taints)
	if node.Deleting || len(closing) > 0 && !node.rebootMarks(closing) {
		return false, false
	}
	profile, _ := p.Match(node.Labels)
	progress := ParseProgress(node.Annotation)
	if len(closing) == 0 && node.isNew(progress) {
		return false, false
	}
	return true, !node.Ready || len(closing) > 0 || node.rebooted(profile, progress)
}

// registers is how far a kubelet's clock may be ahead of the API server's for [Node.isNew].
const registers = 10 * time.Second

// isNew reports whether an open Node has not been Ready since its kubelet registered it. The kubelet writes the condition into the object that it
// creates, and changes its time only with its status (pkg/kubelet/nodestatus/setters.go).
func (n *Node) isNew(progress Progress) bool {
	return !n.Ready && progress.Round == 0 && !n.ReadySince.After(n.Created.Add(registers))
}

// rebootOwner returns how the value of a taint begins that was added because this Node was not Ready. A kubelet that registers its Node with a taint
// cannot know the uid, so it cannot write this value. No kubelet can change a taint later.
func (n *Node) rebootOwner() string { return "reboot-" + hash(8, "%q", []string{n.UID}) + "-" }

// rebootMark returns the whole value: it also names the boot that was checked.
func (n *Node) rebootMark(bootID string) string {
	return n.rebootOwner() + hash(8, "%q", []string{n.UID, bootID})
}

// rebootMarks reports whether a Node has the taints of verification for no other reason than that it was not Ready. Then it was open before.
func (n *Node) rebootMarks(held []corev1.Taint) bool {
	return len(held) > 0 && !slices.ContainsFunc(held, func(taint corev1.Taint) bool { return !strings.HasPrefix(taint.Value, n.rebootOwner()) })
}

// rebooted reports whether an open Node is known to run another boot than the one that was checked.
func (n *Node) rebooted(profile CompiledProfile, progress Progress) bool {
	return profile.Reverify == OnReboot && progress.OnReboot && progress.BootID != "" && n.BootID != "" && progress.BootID != n.BootID
}

// watchReboot returns the next step for an open Node. A Node that may be rebooting gets the taint while it is not Ready. So no Pod can be bound to it
// between the reboot and the checks.
func watchReboot(node *Node, cluster Cluster, action Action, now time.Time) Action {
	profile, progress := action.Profile, action.Progress
	rebooted := node.rebooted(profile, progress)
	if profile.Reverify != OnReboot || node.BootID == "" || Incomplete(node.Taints, cluster.Gate) != "" || node.Ready && !rebooted || node.isNew(progress) {
		return action
	}
	if outage := cluster.OutageUntil.After(now); outage && rebooted {
		return unhold(node, action, rebooted, now)
	} else if outage {
		return action.next(DoWait, action.Diagnosis, cluster.OutageUntil)
	}
	bootID := node.BootID
	action.Operation, action.Diagnosis = DoHold, Diagnosis{CauseMayReboot, "it is not Ready"}
	if rebooted {
		bootID, action.Diagnosis.Detail = progress.BootID, "it runs another boot"
	}
	action.Hold = corev1.Taint{Key: profile.Taint.Key, Value: node.rebootMark(bootID), Effect: profile.Taint.Effect}
	return action
}

// afterHold returns the next step for a Node whose taint was added by [DoHold]. If the Node must be checked like any other, ok is false.
func afterHold(node *Node, held []corev1.Taint, cluster Cluster, action Action, now time.Time) (next Action, ok bool) {
	if !node.rebootMarks(held) {
		return action, false
	}
	equal := !slices.ContainsFunc(held, func(taint corev1.Taint) bool { return taint.Value != node.rebootMark(node.BootID) })
	switch {
	case action.Profile.Reverify != OnReboot, cluster.OutageUntil.After(now):
		return unhold(node, action, !equal, now), true
	case equal && node.Ready:
		action = unhold(node, action, false, now)
		action.Diagnosis.Detail = "it is Ready again, and did not reboot"
		return action, true
	case equal:
		action.Diagnosis = Diagnosis{CauseMayReboot, "it is not Ready"}
		return action, true
	}
	return action, false
}

// unhold lets a Node be open as it was before.
func unhold(node *Node, action Action, rebooted bool, now time.Time) Action {
	onReboot := action.Profile.Reverify == OnReboot
	action.Operation, action.Diagnosis = DoUnhold, Diagnosis{CauseMayReboot, "too many Nodes are not Ready at once: none is checked again because of it"}
	if !onReboot {
		action.Diagnosis.Detail = "the profile does not check Nodes again after a reboot"
	}
	if rebooted {
		action.Progress = action.Progress.closed(Last{Result: VerdictRebooted, Message: action.Diagnosis.Detail, Time: now})
	}
	action.Progress.BootID, action.Progress.OnReboot = node.BootID, onReboot
	return action
}
