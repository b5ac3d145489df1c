package policy

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/record"
)

// maxMachineText is how long an identity may be. Real ones are far shorter. A kubelet chooses them, and one of 600 KiB would make
// the record too large to be written.
const maxMachineText = 1024

// MachineOf is the machine behind a Node, by what the Node shows. An identity that is too long counts as unknown.
func MachineOf(providerID, systemUUID, machineID string) record.Machine {
	return record.Machine{ProviderID: identity(providerID), SystemUUID: identity(systemUUID), MachineID: identity(machineID)}
}

func identity(shown string) string {
	if shown = Text(shown); len(shown) > maxMachineText {
		return ""
	}
	return shown
}

// OnMismatch says what happens when another machine registers under the name of a Node.
// +kubebuilder:validation:Enum=restore;quarantine
type OnMismatch string

// The values of machine.onMismatch.
const (
	RestoreAnyway OnMismatch = "restore"    // the name is what counts (default)
	Quarantine    OnMismatch = "quarantine" // nothing is restored until an operator has decided
)

// Quarantines reports whether a machine must not get a record, because it is another machine's. A record that has nothing to restore is not
// protected from anybody.
func (p Policy) Quarantines(seen record.Machine, of record.Record) bool {
	return p.onMismatch == Quarantine && seen.Compare(of.Machine) == record.OtherMachine && (of.Quarantined != nil || p.restoresAny(of))
}

func (p Policy) restoresAny(r record.Record) bool {
	return slices.ContainsFunc(r.Entries, func(e record.Entry) bool { return !e.Removed && p.Restores(e.Key) })
}

// Releases reports whether a record is in a quarantine that the policy does not know any more.
func (p Policy) Releases(r record.Record) bool { return r.Isolated() && p.onMismatch == RestoreAnyway }

// Follows reports whether a machine that registers under a new name gets what it had.
func (p Policy) Follows() bool { return p.follow }

// FollowsOnlyAccepted reports whether an item waits for an operator when a machine registers under a new name. Such an item is a label that
// no kubelet may set. A kubelet can claim another machine's identity, and only the old name proves such a label.
func FollowsOnlyAccepted(item string) bool { return isProtected(item) }

// WantsMachine reports whether any decision of the policy depends on the machine.
func (p Policy) WantsMachine() bool {
	return p.follow || p.onMismatch == Quarantine || len(p.isolation()) > 0 || !p.labelRules.Empty() || p.held
}

// SystemOf is what rules see of a Node's software. A text that is too long counts as unknown.
func SystemOf(info corev1.NodeSystemInfo) classify.System {
	return classify.System{
		Arch: identity(info.Architecture), OS: identity(info.OperatingSystem), Kernel: identity(info.KernelVersion),
		Runtime: identity(info.ContainerRuntimeVersion), Kubelet: identity(info.KubeletVersion),
	}
}
