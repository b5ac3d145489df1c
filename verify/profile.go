package verify

import "encoding/json"

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
	// Label is the label that a verified Node gets, with the value "true". It is never recorded or restored.
	Label    string    `json:"label"`
	Start    Start     `json:"start"`
	Limits   Limits    `json:"limits"`   // of removals
	Profiles []Profile `json:"profiles"` // the first that selects a Node decides
}

// Start bounds how many worker Pods start and run.
type Start struct {
	PerSecond int `json:"perSecond"` // Pods created a second; 10 by default, 100 at most
	InFlight  int `json:"inFlight"`  // Pods that exist at once; 200 by default, 2000 at most
}

// Profile defines what is asked of the Nodes that it selects.
type Profile struct {
	Name         string `json:"name"`
	NodeSelector string `json:"nodeSelector"` // as for kubectl -l; empty selects every Node
	// Taint is what keeps workloads away until the Node is verified, as KEY:EFFECT or KEY=VALUE:EFFECT with NoSchedule or NoExecute. It
	// implies a registration taint. nodekeep.dev/unverified:NoSchedule by default.
	Taint        string    `json:"taint"`
	Wait         Wait      `json:"wait"`
	Checks       []Check   `json:"checks"`       // one at least, 20 at most
	Timeout      string    `json:"timeout"`      // of all checks of an attempt, from the start of the worker's container; 30s by default
	StartTimeout string    `json:"startTimeout"` // from the creation of the worker Pod to the start of its container; 2m by default
	Attempts     Attempts  `json:"attempts"`
	Deadline     string    `json:"deadline"`  // from the creation of the Node; 14m by default
	OnTimeout    OnTimeout `json:"onTimeout"` // what happens at the deadline; keep by default
	Reverify     Reverify  `json:"reverify"`  // whether a Node that was open is checked again; never by default
	// OnFailure is what is removed when attempts.max attempts have failed; keep by default.
	OnFailure RemovalKind `json:"onFailure"`
}

// Wait is what the controller waits for before it starts a worker Pod. All of it must hold.
type Wait struct {
	Conditions  []WaitCondition     `json:"conditions"`
	DaemonSets  []string            `json:"daemonSets"`  // NAMESPACE/NAME: its Pod on the Node must be Ready
	Allocatable map[string]Quantity `json:"allocatable"` // resource to the quantity that the Node must have at least
}

// Quantity is an amount of a resource as Kubernetes writes it: "64Gi", "500m", "1", or the number 1.
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

// WaitCondition is a condition of the Node and the status that it must have.
type WaitCondition struct {
	Type      string    `json:"type"`
	Status    string    `json:"status"`    // True, False or Unknown
	IfMissing IfMissing `json:"ifMissing"` // wait by default
}

// IfMissing defines whether a condition that the Node does not have is waited for.
type IfMissing string

// The values of ifMissing.
const (
	WaitIfMissing IfMissing = "wait" // default
	PassIfMissing IfMissing = "pass"
)

// Attempts pace how often a Node is tried. After max attempts it is tried again each maxBackoff: a Node opens by itself when the fault ends.
type Attempts struct {
	Max        int    `json:"max"`        // attempts before the Node counts as stuck; 5 by default
	Backoff    string `json:"backoff"`    // after the first one; it doubles; 10s by default
	MaxBackoff string `json:"maxBackoff"` // 5m by default
}

// OnTimeout defines what happens to a Node that is not verified at its deadline.
type OnTimeout string

// The values of onTimeout.
const (
	Keep    OnTimeout = "keep"    // the taint stays and attempts go on (default)
	Release OnTimeout = "release" // the taint is removed; the label is not set
)

// Reverify defines when a Node that was open is checked again.
type Reverify string

// The values of reverify.
const (
	Never    Reverify = "never"    // not by itself (default)
	OnReboot Reverify = "onReboot" // when its bootID has changed
)

// Check is one question that the worker asks on the Node. Exactly one of its kinds is given.
type Check struct {
	Name     string `json:"name"`
	Required *bool  `json:"required,omitempty"` // true by default; the result of another check is reported only

	DNS       *DNS       `json:"dns,omitempty"`
	API       *API       `json:"api,omitempty"`
	Service   *Service   `json:"service,omitempty"`
	TCP       *TCP       `json:"tcp,omitempty"`
	HTTP      *HTTP      `json:"http,omitempty"`
	Container *Container `json:"container,omitempty"`
	Kubelet   *Kubelet   `json:"kubelet,omitempty"`
}

// ByWorker reports whether the worker asks a check. A container check is a container by itself, and the controller asks the kubelet.
func (c Check) ByWorker() bool { return c.Container == nil && c.Kubelet == nil }

// Kubelet has the API server read the worker's log from the kubelet. It finds unapproved serving certificates, and a kubelet that the API server
// cannot reach. With such a fault, kubectl logs and exec do not work for Pods on the Node. Webhooks behind the API server's tunnel do not work there
// either.
type Kubelet struct{}

// DNS resolves names. A name without a dot at its end is tried with the search domains of the Pod.
type DNS struct {
	Names   []string `json:"names"`
	Servers Servers  `json:"servers,omitempty"` // any by default
}

// Servers defines which DNS servers must answer.
type Servers string

// The values of servers.
const (
	AnyServer  Servers = "any"  // the Pod's own resolver
	EachServer Servers = "each" // every ready endpoint of the DNS Service besides: one good replica hides a broken path
)

// API asks the API server, over the ClusterIP of the Service kubernetes, who the worker is.
type API struct{}

// Service connects by TCP to a Service and to endpoints of it on other Nodes.
type Service struct {
	Name      string `json:"name"`                // NAMESPACE/NAME
	Port      int    `json:"port"`                // of the Service
	Endpoints int    `json:"endpoints,omitempty"` // how many endpoints on other Nodes; 0 is the Service alone
}

// TCP connects.
type TCP struct {
	Address string `json:"address"` // HOST:PORT
}

// HTTP asks a URL. The certificate of https is verified with CA, or with the roots of the worker's image.
type HTTP struct {
	URL    string `json:"url"`
	Status int    `json:"status,omitempty"` // 200 by default
	CA     string `json:"ca,omitempty"`     // PEM
}

// Container runs an image of the user's in the worker Pod, next to the worker. It passes with exit code 0.
type Container struct {
	Image   string              `json:"image"`
	Command []string            `json:"command,omitempty"`
	Args    []string            `json:"args,omitempty"`
	Limits  map[string]Quantity `json:"limits,omitempty"` // resource to quantity
}
