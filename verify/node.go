package verify

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Node is what the plan reads of a Node.
type Node struct {
	Name, UID   string
	Created     time.Time
	Deleting    bool
	Labels      map[string]string
	Taints      []corev1.Taint
	Ready       bool
	ReadySince  time.Time // the time of the condition Ready, as its kubelet says
	BootID      string
	Conditions  map[string]corev1.ConditionStatus // by type
	Allocatable corev1.ResourceList
	Annotation  string     // [Annotation]; untrusted
	Request     string     // the value of [RequestAnnotation] as a hash; empty: the Node has none
	Verified    Projection // the condition [Condition]; zero where the Node has none
	ShownAt     time.Time  // the heartbeat of that condition
}

// NodeOf returns what the plan reads of a Node.
func NodeOf(object *corev1.Node) Node {
	n := Node{
		Name: object.Name, UID: string(object.UID), Created: object.CreationTimestamp.Time, Deleting: object.DeletionTimestamp != nil,
		Labels: object.Labels, Taints: object.Spec.Taints, BootID: object.Status.NodeInfo.BootID, Allocatable: object.Status.Allocatable,
		Annotation: object.Annotations[Annotation], Request: requestOf(object.Annotations), Conditions: map[string]corev1.ConditionStatus{},
	}
	for _, condition := range object.Status.Conditions {
		n.Conditions[string(condition.Type)] = condition.Status
		switch condition.Type {
		case corev1.NodeReady:
			n.Ready, n.ReadySince = condition.Status == corev1.ConditionTrue, condition.LastTransitionTime.Time
		case Condition:
			n.Verified = Projection{Status: condition.Status, Reason: condition.Reason, Message: condition.Message}
			n.ShownAt = condition.LastHeartbeatTime.Time
		}
	}
	return n
}

// Projection is what the condition [Condition] says.
type Projection struct {
	Status          corev1.ConditionStatus
	Reason, Message string
}

// Pod is what the plan reads of a worker Pod. The plan trusts the fields of the first group: the controller wrote them, and no kubelet can
// change them.
type Pod struct {
	Name, UID, ResourceVersion string
	NodeUID                    string // of the Node in the ownerReferences
	Created, Deleted           time.Time
	Skipped                    []string // checks that were left out at a cold start

	Log        Log // what came of reading the worker's log, for checks of kind kubelet
	Phase      corev1.PodPhase
	Reason     string // of the status, such as Evicted
	Containers []ContainerState
}

// Log is what came of reading the log of a worker Pod through the API server.
type Log struct {
	Asked   bool
	Reason  Reason // empty: it was read
	Message string
}

// ContainerState is the state of a container of a worker Pod: [Worker], or the name of a container check.
type ContainerState struct {
	Name     string
	Started  time.Time // zero: not yet
	Ended    bool
	Finished time.Time // zero: not yet, or not told
	ExitCode int
	Reason   string // why it waits or ended
	Message  string // of the worker, once it has ended: its report; of a container that waits: what its kubelet says
	Image    string
}

// OwnPod is a worker Pod that a process created: its uid, and the attempt that it was created for ([AttemptOf]).
type OwnPod struct{ UID, Attempt string }

// Observed is all that the plan reads about one Node.
type Observed struct {
	Node *Node // nil: there is none of that name
	Pods []Pod // what looks like worker Pods on the Node of that name
	// DaemonSets are those that the profile waits for, by NAMESPACE/NAME, and whether their Pod on the Node is Ready. An entry NAMESPACE/* or auto is
	// true if one of its DaemonSets runs on the Node. Those that do are there, too.
	DaemonSets map[string]bool
	// Services are what is behind Services, by NAMESPACE/NAME. A Service that is missing here counts as ready.
	Services map[string]Backing
	// Cold is true while no Node of the cluster can run ordinary Pods; see [TakesWorkloads].
	Cold bool
	// Control is that of the profile.
	Control Control
	// Room is for an open Node that is to be checked again. If it is nil, whether the Node may be closed is not known.
	Room *Room
	// Worker is the worker Pod that this process created last for the Node, since it observed the taint. No other Pod counts. Its name, account and owner
	// prove nothing: any client that may create Pods in the namespace can set them. It is empty after a restart.
	Worker OwnPod
	// Opened is true after this process observed this Node object without the taint, and then with it.
	Opened bool
	// Held is when this process first observed the taint on this Node object without a break. Started is when it last started a worker Pod for the
	// Node. Both are this process's own memory, so no kubelet can change them; zero after a restart.
	Held, Started time.Time
	// Answers is the request of [Progress.Asked] that the worker Pod answers which this process started last.
	Answers time.Time
	// Hurried is when this process last started a worker Pod because of such a request.
	Hurried time.Time
	// Served is the request for a check that this process noted last. Another admission policy may drop the note that is on the Node.
	Served string
	// Waits is what the Node waited for when this process last looked at it, and since when.
	Waits Waits
	// Refused is what the API server answers again and again to a step that this process takes for the Node. It is empty if none
	// is refused.
	Refused string
	// Shown is when this process last wrote the condition; zero after a restart.
	Shown time.Time
}

// Waits is what a Node waits for, without a break, as one process observed it.
type Waits struct {
	Cause Cause
	Start time.Time
}

// Cluster is what the plan has to know of the cluster.
type Cluster struct {
	Gate string // key of the gate's taint
	DNS  string // NAMESPACE/NAME of the DNS Service
	// OutageUntil is until when no Node is checked again because it has rebooted; see [Outage].
	OutageUntil time.Time
}

// Taints by which other components say that a Node is not yet complete.
const (
	taintUnregistered  = "karpenter.sh/unregistered"
	taintUninitialized = "node.cloudprovider.kubernetes.io/uninitialized"
	taintNotReady      = "node.kubernetes.io/not-ready"
	taintUnreachable   = "node.kubernetes.io/unreachable"
	agentNotReady      = "/agent-not-ready" // of CNI plugins and CSI drivers, below a prefix of their own
)

// ClosingTaints returns the taints on a Node that require verification: the taint of any profile, or [Taint]. The key alone decides.
func (p Profiles) ClosingTaints(taints []corev1.Taint) (closing []corev1.Taint) {
	for _, taint := range taints {
		if taint.Key == Taint || p.IsTaint(taint) {
			closing = append(closing, taint)
		}
	}
	return closing
}

// Opened returns the taints of a Node once verification has removed its own.
func (p Profiles) Opened(taints []corev1.Taint) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(taints), func(taint corev1.Taint) bool { return taint.Key == Taint || p.IsTaint(taint) })
}

// TakesWorkloads reports whether ordinary Pods can run on a Node. While there is no such Node, the cluster's own DNS may have no place to run.
func TakesWorkloads(ready, unschedulable bool, taints []corev1.Taint) bool {
	return ready && !unschedulable && isOpen(taints)
}

// Incomplete returns the key of a taint by which another component still completes the Node's labels. Until then, the profile is not
// known.
func Incomplete(taints []corev1.Taint, gate string) (by string) {
	for _, taint := range taints {
		if key := taint.Key; key == gate || key == taintUnregistered || key == taintUninitialized {
			return key
		}
	}
	return ""
}

// NeedsLookups reports whether the plan would look at DaemonSets and Services: no other component still works on the Node.
func (n *Node) NeedsLookups(gate string) bool {
	_, ok := n.notReady()
	return Incomplete(n.Taints, gate) == "" && !ok
}

// notReady reports why no Pod of the cluster network can be expected to run on the Node yet.
func (n *Node) notReady() (diagnosis Diagnosis, ok bool) {
	if !n.Ready {
		return Diagnosis{Cause: CauseNotReady}, true
	}
	for _, taint := range n.Taints {
		if key := taint.Key; key == taintNotReady || key == taintUnreachable || strings.HasSuffix(key, agentNotReady) {
			return Diagnosis{CauseOtherTaint, key}, true
		}
	}
	return Diagnosis{}, false
}

// known returns a status as text. Its kubelet may write anything there.
func known(status corev1.ConditionStatus) string {
	if slices.Contains([]corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown}, status) {
		return string(status)
	}
	return "something else"
}

// waits reports what the section wait of a profile still waits for.
func (o Observed) waits(profile CompiledProfile) (diagnosis Diagnosis, yes bool) {
	for _, name := range slices.Sorted(maps.Keys(profile.Wait.Conditions)) {
		status, ok := o.Node.Conditions[name]
		if !ok {
			return Diagnosis{CauseCondition, "the Node has no condition " + name}, true
		}
		if wanted := profile.Wait.Conditions[name]; ConditionStatus(status) != wanted {
			return Diagnosis{CauseCondition, fmt.Sprintf("%s is %s, and must be %s", name, known(status), wanted)}, true
		}
	}
	for _, name := range profile.Wait.DaemonSets {
		if daemonSet := o.lacks(name); daemonSet != "" {
			return Diagnosis{CauseDaemonSet, daemonSet}, true
		}
	}
	for _, resource := range slices.Sorted(maps.Keys(profile.Allocatable)) {
		minimum := profile.Allocatable[resource]
		quantity, reported := o.Node.Allocatable[resource]
		if !reported {
			return Diagnosis{CauseResource, fmt.Sprintf("the Node does not report %s, and must have %s", resource, minimum.String())}, true
		}
		if quantity.Cmp(minimum) < 0 {
			return Diagnosis{CauseResource, fmt.Sprintf("the Node has %s of %s, and must have %s", quantity.String(), resource, minimum.String())}, true
		}
	}
	return Diagnosis{}, false
}
