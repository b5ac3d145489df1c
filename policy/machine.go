package policy

import (
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
type OnMismatch string

// The values of machine.onMismatch.
const (
	RestoreAnyway OnMismatch = "restore"    // the name is what counts (default)
	Quarantine    OnMismatch = "quarantine" // nothing is restored until a person has decided
)

// Quarantines reports whether a Node of which `seen` is known must not get what is remembered of `remembered`.
func (p Policy) Quarantines(seen, remembered record.Machine) bool {
	return p.onMismatch == Quarantine && seen.Compare(remembered) == record.OtherMachine
}

// WantsMachine reports whether any decision of the policy depends on the machine.
func (p Policy) WantsMachine() bool {
	return p.onMismatch == Quarantine || len(p.isolation()) > 0
}
