package policy

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/record"
)

// maxMachineText is how long an identity may be. Real ones are far shorter. A kubelet chooses them, and one of 600 KiB would make
// the record too large to be written.
const maxMachineText = 1024

// MachineOf returns the machine behind a Node, by what the Node shows. An identity that is too long counts as unknown.
func MachineOf(providerID, systemUUID, machineID string) record.Machine {
	return record.Machine{ProviderID: identity(providerID), SystemUUID: identity(systemUUID), MachineID: identity(machineID)}
}

func identity(shown string) string {
	if shown = Text(shown); len(shown) > maxMachineText {
		return ""
	}
	return shown
}

// maxBootID is how long the ID of a boot may be. Real ones have 36 characters at most. A kubelet chooses it, and the stamp of its Node names it.
const maxBootID = 64

// BootOf returns the ID of the boot that a Node shows; empty: it is not known, or it is too long.
func BootOf(info corev1.NodeSystemInfo) string {
	if id := Text(info.BootID); len(id) <= maxBootID {
		return id
	}
	return ""
}

// OnMismatch says what happens when another machine registers under the name of a Node.
// +kubebuilder:validation:Enum=restore;quarantine;forget
type OnMismatch string

// The values of machine.onMismatch.
const (
	RestoreAnyway OnMismatch = "restore"    // the name is what counts (default)
	Quarantine    OnMismatch = "quarantine" // nothing is restored until an operator has decided
	Forget        OnMismatch = "forget"     // it begins with nothing; the record of the machine before comes with that machine again
)

// Transition is what happens to a record because a machine registers under its name.
type Transition int

// The turns.
const (
	Stays      Transition = iota // it is the machine's own, or the name is what counts
	Returns                      // the machine had the name before, and gets the record that it had then
	NewMachine                   // the machine begins with nothing, and the record is set aside
	Isolates                     // the record is quarantined
)

// Transition returns the record of a name once this machine registers. The version is that of the Node's state; 0 where it has none yet.
func (p Policy) Transition(seen record.Machine, r record.Record, version record.Version, now time.Time) (record.Record, Transition) {
	if !p.TellsMachinesApart() || seen.Compare(r.Machine) != record.OtherMachine {
		return r, Stays
	}
	floor := max(version, 1) - 1
	quarantined := r.WholeRecordQuarantined() && seen.Compare(r.Quarantined.Machine) == record.SameMachine
	unneeded := r.Blank() || p.onMismatch == Quarantine && r.Quarantined == nil && !p.restoresAny(r) // that is to be protected or kept
	if p.onMismatch == Forget || quarantined || unneeded {
		if returned, found := record.Returned(r, seen, floor, p.EarlierRetention(now)); found {
			return returned, Returns
		}
	}
	switch {
	case unneeded:
		r.Floor = max(r.Floor, floor) // what is observed late of the machine before is not this one's
		return r, Stays
	case p.onMismatch == Forget:
		return record.SetAside(r, seen, floor, p.EarlierRetention(now)), NewMachine
	default:
		return record.Isolate(r, seen, floor, p.EarlierRetention(now)), Isolates
	}
}

// TellsMachinesApart reports whether each machine of a name has only what it had itself, until an operator decides otherwise.
func (p Policy) TellsMachinesApart() bool {
	return p.onMismatch == Quarantine || p.onMismatch == Forget
}

// EarlierRetention returns what a record keeps of machines that had its name before.
func (p Policy) EarlierRetention(now time.Time) record.EarlierRetention {
	return record.EarlierRetention{Retention: p.retention, Now: now, Protected: isProtected}
}

func (p Policy) restoresAny(r record.Record) bool {
	return slices.ContainsFunc(r.Entries, func(e record.Entry) bool { return !e.Removed && p.Restores(e.Key) })
}

// Releases returns the record without a quarantine that the policy does not know any more. If there is none, ok is false.
func (p Policy) Releases(r record.Record, now time.Time) (released record.Record, ok bool) {
	switch {
	case !r.WholeRecordQuarantined():
		return r, false
	case p.onMismatch == Forget:
		return record.EndQuarantine(r, p.EarlierRetention(now)), true
	case p.onMismatch == RestoreAnyway:
		return record.Release(r), true
	default:
		return r, false
	}
}

// Follows reports whether a machine that registers under a new name gets what it had.
func (p Policy) Follows() bool { return p.follow }

// FollowsOnlyAccepted reports whether an item waits for an operator when a machine registers under a new name. Such an item is a label that
// no kubelet may set. A kubelet can claim another machine's identity, and only the old name proves such a label.
func FollowsOnlyAccepted(item string) bool { return isProtected(item) }

// WantsMachine reports whether any decision of the policy depends on the machine.
func (p Policy) WantsMachine() bool {
	return p.follow || p.onMismatch != RestoreAnyway || len(p.isolation()) > 0 || !p.labelRules.Empty() || p.rulesHeld
}

// SystemOf returns what rules see of a Node's software. A text that is too long counts as unknown.
func SystemOf(info corev1.NodeSystemInfo) classify.System {
	return classify.System{
		Arch: identity(info.Architecture), OS: identity(info.OperatingSystem), Kernel: identity(info.KernelVersion),
		Runtime: identity(info.ContainerRuntimeVersion), Kubelet: identity(info.KubeletVersion),
	}
}
