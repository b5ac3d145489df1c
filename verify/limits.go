package verify

import (
	"regexp"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Limits are the brakes of removals, of all profiles together but for StopAbove.
type Limits struct {
	// Removals are held while more Nodes of the profile than this fail or were removed within 24 hours. It is a percentage or a number; 20% by
	// default.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^(100|[1-9]?[0-9])%$`
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 0",message="must not be negative"
	StopAbove *intstr.IntOrString `json:"stopAbove"`
	// How many removals an hour there are at most; 3 by default. If it is 0, there are none. In a small cluster it is a tenth of the Nodes that
	// profiles select, and one at least. A larger number is for clusters that replace many Nodes a day.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=50
	DeletionsPerHour *int `json:"deletionsPerHour"`
}

// CompiledLimits are limits that were checked.
type CompiledLimits struct {
	StopAbove        intstr.IntOrString
	DeletionsPerHour int
	Percent          int           // of the Nodes that profiles select, and one Node at least
	Spread           time.Duration // over which the removals of an hour are spread
}

// RemovalKind defines what is removed when a Node fails for good.
// +kubebuilder:validation:Enum=keep;nodeClaim;machine;node
type RemovalKind string

// The values of onFailure.
const (
	KeepNode        RemovalKind = "keep"      // nothing; attempts go on (default)
	RemoveNodeClaim RemovalKind = "nodeClaim" // Karpenter's NodeClaim is deleted
	RemoveMachine   RemovalKind = "machine"   // Cluster API's Machine is marked for remediation
	RemoveNode      RemovalKind = "node"      // the Node object is deleted; its machine stays
)

// RemovalKinds returns the kinds that remove something.
func RemovalKinds() []RemovalKind {
	return []RemovalKind{RemoveNodeClaim, RemoveMachine, RemoveNode}
}

// maxDeletions bounds the ledger: the removals of 24 hours fit into one ConfigMap.
const maxDeletions = 50

// limits checks limits; those that are not given are the defaults.
func (c *compiler) limits(limits Limits, path *field.Path) CompiledLimits {
	return CompiledLimits{
		StopAbove:        c.share(limits.StopAbove, path.Child("stopAbove")),
		DeletionsPerHour: c.number(limits.DeletionsPerHour, 3, 0, maxDeletions, path.Child("deletionsPerHour")),
		Percent:          10,
		Spread:           45 * time.Minute,
	}
}

var percentage = regexp.MustCompile(`^([1-9]?[0-9]|100)%$`)

// share reads a number of Nodes or a percentage; 0 and 0% stop every removal.
func (c *compiler) share(share *intstr.IntOrString, path *field.Path) intstr.IntOrString {
	if share == nil {
		return intstr.FromString("20%")
	}
	if share.Type == intstr.Int {
		if share.IntVal < 0 {
			c.invalid(path, share.IntVal, "must not be negative")
		}
		return *share
	}
	if !percentage.MatchString(share.StrVal) {
		c.invalid(path, share.StrVal, "must be a number of Nodes, or a percentage from 0% to 100%")
		return intstr.FromInt32(0)
	}
	return *share
}

// allows returns how many of so many Nodes StopAbove lets fail, rounded down.
func (l CompiledLimits) allows(nodes int) int {
	count, err := intstr.GetScaledValueFromIntOrPercent(&l.StopAbove, nodes, false)
	if err != nil { // it was checked
		return 0
	}
	return count
}

// budget returns how many removals fit into an hour in a cluster with so many Nodes that profiles select.
func (l CompiledLimits) budget(nodes int) int {
	return min(l.DeletionsPerHour, max(1, nodes*l.Percent/100))
}

// Pause returns how long after a removal no other one is made.
func (l CompiledLimits) Pause(nodes int) time.Duration {
	return l.Spread / time.Duration(max(1, l.budget(nodes)))
}
