package record

import "cmp"

// Machine identifies the machine behind a Node. All of it is the kubelet's or the cloud controller's claim.
type Machine struct {
	ProviderID string `json:"providerID,omitempty"` // spec.providerID
	SystemUUID string `json:"systemUUID,omitempty"` // status.nodeInfo.systemUUID
	MachineID  string `json:"machineID,omitempty"`  // status.nodeInfo.machineID
}

// Identity says whether two Nodes of one name are one machine.
type Identity int

// The identities.
const (
	UnknownMachine Identity = iota // no identifier is known on both sides
	SameMachine
	OtherMachine
)

// Compare reports whether two machines are one. The first of providerID, systemUUID and machineID that both sides know decides. So cloned
// images (same machineID) and reinstalled systems (other machineID) raise no false alarm.
func (m Machine) Compare(o Machine) Identity {
	for _, id := range [][2]string{{m.ProviderID, o.ProviderID}, {m.SystemUUID, o.SystemUUID}, {m.MachineID, o.MachineID}} {
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

// Contradicts reports whether an identifier that both sides know differs.
func (m Machine) Contradicts(o Machine) bool {
	for _, id := range [][2]string{{m.ProviderID, o.ProviderID}, {m.SystemUUID, o.SystemUUID}, {m.MachineID, o.MachineID}} {
		if id[0] != "" && id[1] != "" && id[0] != id[1] {
			return true
		}
	}
	return false
}

// Merge returns what is known of a machine when both sides are one: m, and where m says nothing, other.
func (m Machine) Merge(o Machine) Machine {
	return Machine{
		ProviderID: cmp.Or(m.ProviderID, o.ProviderID),
		SystemUUID: cmp.Or(m.SystemUUID, o.SystemUUID),
		MachineID:  cmp.Or(m.MachineID, o.MachineID),
	}
}
