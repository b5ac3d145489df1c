package verify

import "encoding/json"

// Every field of a policy is optional, unless its comment says otherwise.
// +kubebuilder:validation:Optional

// Names that verification uses on Nodes.
const (
	Label      = "nodekeep.dev/verified"   // default of [Settings.Label]; its value is "true"
	Annotation = "nodekeep.dev/check"      // the attempts and the last result
	Condition  = "nodekeep.dev/Verified"   // projects the result for other tools; nothing of nodekeep reads it
	Namespace  = "nodekeep-checks"         // default namespace of worker Pods
	Account    = "nodekeep-check"          // the ServiceAccount of the api check, without rights
	Taint      = "nodekeep.dev/unverified" // default key of [Profile.Taint]
	Worker     = "nodekeep-check"          // the worker's container; no check has that name
	Manager    = "nodekeep-verify"         // the field manager of what the controller writes to Nodes
)

// EventReleased is the reason of the Event about a Node whose taint was removed without a passed check. The deadline passed, or an operator removed
// it.
const EventReleased = "VerificationReleased"

// Settings are the section verify of the policy.
type Settings struct {
	// The label that a verified Node gets, with the value "true"; nodekeep.dev/verified by default. It is never recorded or restored.
	// A key under node-restriction.kubernetes.io is for workloads that select by it, since no kubelet may set that.
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^(([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?$`
	Label string `json:"label"`
	// The brakes of removals.
	Limits Limits `json:"limits"`
	// What is asked of which Nodes. The first profile that selects a Node decides.
	// +kubebuilder:validation:MaxItems=50
	Profiles []Profile `json:"profiles"`
}

// Profile defines what is asked of the Nodes that it selects.
type Profile struct {
	// The name, which reports and Events show.
	// +required
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// Which Nodes are checked, as kubectl -l takes it. Without one, all.
	NodeSelector string `json:"nodeSelector"`
	// What a failed check means: enforce (the default) keeps the Node closed, report only says it in the condition nodekeep.dev/Verified.
	Mode Mode `json:"mode"`
	// How long after a passed check the Node is checked again, with mode report; 1h by default.
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+(\.[0-9]+)?(h|m|s|ms))+)$`
	Interval string `json:"every"`
	// What keeps workloads away until the Node is verified, as KEY:EFFECT or KEY=VALUE:EFFECT with NoSchedule or NoExecute. A new Node
	// registers with it. nodekeep.dev/unverified:NoSchedule by default.
	// +kubebuilder:validation:Pattern=`^(([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?(=[^:]*)?:(NoSchedule|NoExecute))?$`
	Taint string `json:"taint"`
	// What the controller waits for before it starts a worker Pod.
	Wait Wait `json:"wait"`
	// What is asked of the Node. Without checks, the Node opens when what wait names holds.
	// +kubebuilder:validation:MaxItems=20
	Checks []Check `json:"checks"`
	// How long all checks of an attempt take at most, from the start of the worker's container; 30s by default. Longer is
	// for a container that tests the hardware.
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+(\.[0-9]+)?(h|m|s|ms))+)$`
	Timeout string `json:"timeout"`
	// The longest time from the creation of the worker Pod to the start of its container; 2m by default. Longer is for large
	// images.
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+(\.[0-9]+)?(h|m|s|ms))+)$`
	StartTimeout string `json:"startTimeout"`
	// How often a Node is tried.
	Attempts Attempts `json:"attempts"`
	// When the Node should be verified, from its creation on; 14m by default. Longer is for machines that take
	// longer to install their drivers.
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+(\.[0-9]+)?(h|m|s|ms))+)$`
	Deadline string `json:"deadline"`
	// What happens at the deadline: keep (the default) or release, where a Node too few is worse than one
	// that was not checked.
	OnTimeout OnTimeout `json:"onTimeout"`
	// When a Node that was open is checked again: never (the default) or onReboot, for faults that a
	// reboot brings, such as those of drivers.
	Reverify Reverify `json:"reverify"`
	// What is removed when attempts.max attempts have failed: keep (nothing, the default), nodeClaim, machine or node.
	OnFailure RemovalKind `json:"onFailure"`
}

// OnlyWaits reports whether the profile has no checks. Then no worker Pod runs, and the Node opens when what wait names holds.
func (p Profile) OnlyWaits() bool { return len(p.Checks) == 0 }

// Wait is what the controller waits for before it starts a worker Pod. All of it must hold.
type Wait struct {
	// Types of conditions of the Node, and the status that each must have. A Node that lacks one waits.
	// +kubebuilder:validation:MaxProperties=20
	Conditions map[string]ConditionStatus `json:"conditions"`
	// NAMESPACE/NAME of DaemonSets whose Pod on the Node must be Ready. NAMESPACE/* means each DaemonSet of the namespace that has a Pod on the Node.
	// The entry auto means each one of the cluster.
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:Pattern=`^(auto|[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?/([*]|[a-z0-9]([a-z0-9.-]*[a-z0-9])?))$`
	DaemonSets []string `json:"daemonSets"`
	// Resources, and how much of each the Node must have at least.
	Allocatable map[string]Quantity `json:"allocatable"`
}

// Quantity is an amount of a resource as Kubernetes writes it: "64Gi", "500m", "1", or the number 1.
// +kubebuilder:validation:Type=""
// +kubebuilder:validation:XIntOrString
// +kubebuilder:validation:Pattern=`^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$`
type Quantity string

// UnmarshalJSON reads a string or a number.
func (q *Quantity) UnmarshalJSON(data []byte) error {
	var number json.Number
	if len(data) > 0 && data[0] != '"' && json.Unmarshal(data, &number) == nil {
		*q = Quantity(number)
		return nil
	}
	return json.Unmarshal(data, (*string)(q))
}

// ConditionStatus is the status of a condition.
// +kubebuilder:validation:Enum="True";"False";Unknown
type ConditionStatus string

// Attempts pace how often a Node is tried. After max attempts it is tried again each maxBackoff: a Node opens by itself when the fault ends.
type Attempts struct {
	// How many attempts there are before the Node counts as stuck; 5 by default. It is tried on. More suit checks that fail now and then.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Max *int `json:"max"`
	// The pause after the first attempt, which doubles with each; 10s by default. A longer one is for checks that cost much.
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+(\.[0-9]+)?(h|m|s|ms))+)$`
	Backoff string `json:"backoff"`
	// The longest pause, and the pause of a Node that is stuck; 5m by default. A shorter one opens a Node sooner once its fault has ended.
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+(\.[0-9]+)?(h|m|s|ms))+)$`
	MaxBackoff string `json:"maxBackoff"`
}

// OnTimeout defines what happens to a Node that is not verified at its deadline.
// +kubebuilder:validation:Enum=keep;release
type OnTimeout string

// The values of onTimeout.
const (
	Keep    OnTimeout = "keep"    // the taint stays and attempts go on (default)
	Release OnTimeout = "release" // the taint is removed; the label is not set
)

// Reverify defines when a Node that was open is checked again.
// +kubebuilder:validation:Enum=never;onReboot
type Reverify string

// The values of reverify.
const (
	NeverReverify Reverify = "never"    // not by itself (default)
	OnReboot      Reverify = "onReboot" // when its bootID has changed
)
