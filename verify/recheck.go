package verify

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// RequestAnnotation has a Node checked again each time that its value is another one. Others set it; nodekeep notes the value and never writes it.
const RequestAnnotation = "nodekeep.dev/check-request"

// recheckValue is the value of the taint that closes an open Node to check it again. So the admission policy of the chart and [Profiles.MayRemove]
// distinguish the Node from a new one.
const recheckValue = "recheck"

// recheckInterval is how often a Node looks whether it may be closed by now.
const recheckInterval = 5 * time.Second

// Room is how many open Nodes may be closed at one time to check them again.
type Room struct {
	Selected int  // Nodes that the profile selects
	Closed   int  // those of them that are closed for this reason
	Takers   int  // Nodes of the cluster on which ordinary Pods can run
	Takes    bool // the Node in question is one of them
}

// Refuses says why no further Node may be closed; empty: the Node may be.
func (r Room) Refuses() (reason string) {
	switch {
	case r.Takes && r.Takers <= 1:
		return "it is not closed, since it is the last Node that takes Pods"
	case r.Closed >= max(1, r.Selected/10):
		return "as many Nodes of its profile are closed for this as may be, one in ten; it is its turn when one of them opens"
	}
	return ""
}

// Rechecked reports whether a Node was closed to check it again.
func (p Profiles) Rechecked(taints []corev1.Taint) bool {
	return slices.ContainsFunc(p.ClosingTaints(taints), func(taint corev1.Taint) bool { return taint.Value == recheckValue })
}

// wantsCheck says why an open Node is to be checked again; empty: it is not. The label counts as removed only if the Node got the very label that the
// policy names now. So another label in the policy closes no Node.
func (n *Node) wantsCheck(profiles Profiles, progress Progress, served string) (cause string) {
	labelled := n.Labels[profiles.Label] == "true"
	switch passed := progress.Last != nil && progress.Last.Result == VerdictPassed; {
	case n.Request != "" && n.Request != progress.Request && n.Request != served:
		return "the annotation " + RequestAnnotation + " asks for a check"
	case passed && !labelled && progress.Label != "" && progress.Label == profiles.Label:
		return "the label " + profiles.Label + " was removed"
	}
	return ""
}

// recheck returns the next step for an open Node that has nothing else to wait for.
func recheck(seen Observed, profiles Profiles, cluster Cluster, action Action, now time.Time) Action {
	node, profile, progress := seen.Node, action.Profile, action.Progress
	cause := node.wantsCheck(profiles, progress, seen.Served)
	if cause == "" || profile.Name == "" || Incomplete(node.Taints, cluster.Gate) != "" {
		return action
	}
	action.Recheck = cause
	waits := func(reason string, requeue time.Time) Action {
		return action.next(DoWait, Diagnosis{CauseRecheck, reason}, requeue)
	}
	if due := progress.resumes(now); due.After(now) {
		return waits(fmt.Sprintf("%s, %d times in a row soon after a check; nodekeep pauses", cause, progress.Returns), due)
	}
	if diagnosis, ok := node.notReady(); ok {
		return waits(cause+", and "+diagnosis.String(), time.Time{})
	}
	if cluster.OutageUntil.After(now) {
		return waits(cause+", and too many Nodes are not Ready at once", cluster.OutageUntil)
	}
	if seen.Room == nil {
		return waits(cause+"; one in ten Nodes of its profile is checked again at a time, and never the last one that takes Pods", now.Add(recheckInterval))
	}
	if reason := seen.Room.Refuses(); reason != "" {
		action.Braked = true
		return waits(cause+"; "+reason, now.Add(recheckInterval))
	}
	action.Operation, action.Diagnosis, action.Progress = DoRecheck, Diagnosis{CauseRecheck, cause}, progress.AfterOpen().requested(node.Request)
	action.Hold = corev1.Taint{Key: profile.Taint.Key, Value: recheckValue, Effect: profile.Taint.Effect}
	return action
}

// requested returns the progress once a request is noted: attempts that were begun before do not answer it.
func (p Progress) requested(request string) Progress {
	if request == "" || request == p.Request {
		return p
	}
	if p.tried() > 0 {
		p.Last = nil
	}
	p = p.untried()
	p.Request = request
	return p
}

// requestOf returns what is noted of the annotation; empty: the Node has none.
func requestOf(annotations map[string]string) string {
	value, ok := annotations[RequestAnnotation]
	if !ok {
		return ""
	}
	return hash(8, "%q", value)
}
