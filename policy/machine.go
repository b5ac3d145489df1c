package policy

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Machine is what is known of the machine behind a Node; all of it is the kubelet's or the cloud controller's claim.
type Machine struct {
	ProviderID string // spec.providerID
	SystemUUID string // status.nodeInfo.systemUUID
	MachineID  string // status.nodeInfo.machineID
}

// maxMachineText is how long an identity may be. Real ones are far shorter. A kubelet chooses them, and one of 600 KiB would make
// the record too large to be written.
const maxMachineText = 1024

// MachineOf is the machine behind a Node, by what the Node shows. An identity that is too long counts as unknown.
func MachineOf(providerID, systemUUID, machineID string) Machine {
	return Machine{ProviderID: identity(providerID), SystemUUID: identity(systemUUID), MachineID: identity(machineID)}
}

func identity(shown string) string {
	if shown = Text(shown); len(shown) > maxMachineText {
		return ""
	}
	return shown
}

// Identity says whether two Nodes of one name are one machine.
type Identity int

// The identities.
const (
	UnknownMachine Identity = iota // nothing is known of both that could be compared
	SameMachine
	OtherMachine
)

// Compare tells whether two machines are one: the first of providerID, systemUUID and machineID that is known of both
// decides, so that cloned images (one machineID) and reinstalled systems (another) raise no false alarm.
func (m Machine) Compare(other Machine) Identity {
	for _, id := range [][2]string{{m.ProviderID, other.ProviderID}, {m.SystemUUID, other.SystemUUID}, {m.MachineID, other.MachineID}} {
		switch {
		case id[0] == "" || id[1] == "":
			continue
		case id[0] == id[1]:
			return SameMachine
		default:
			return OtherMachine
		}
	}
	return UnknownMachine
}

// Over is what is known when both are one machine: m, and where it says nothing, other.
func (m Machine) Over(other Machine) Machine {
	either := func(a, b string) string {
		if a != "" {
			return a
		}
		return b
	}
	return Machine{
		ProviderID: either(m.ProviderID, other.ProviderID),
		SystemUUID: either(m.SystemUUID, other.SystemUUID),
		MachineID:  either(m.MachineID, other.MachineID),
	}
}

// OnMismatch says what happens when another machine registers under the name of a Node.
type OnMismatch string

// The values of machine.onMismatch.
const (
	RestoreAnyway OnMismatch = "restore"    // the name is what counts (default)
	Quarantine    OnMismatch = "quarantine" // nothing is restored until a person has decided
)

// Quarantines reports whether a Node of which `seen` is known must not get what is remembered of `remembered`.
func (p Policy) Quarantines(seen, remembered Machine) bool {
	return p.onMismatch == Quarantine && seen.Compare(remembered) == OtherMachine
}

// WantsMachine reports whether any decision of the policy depends on the machine.
func (p Policy) WantsMachine() bool {
	return p.onMismatch == Quarantine || slices.ContainsFunc(p.named, func(pattern string) bool {
		return strings.HasSuffix(domainOf(pattern), corev1.LabelNamespaceNodeRestriction)
	})
}
