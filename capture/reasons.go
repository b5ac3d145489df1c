package capture

import (
	"nodekeep.dev/nodekeep/capture/inventories"
	"nodekeep.dev/nodekeep/capture/rollout"
)

// Reasons of the Events that capture creates for Nodes.
const (
	LabelsRestored   = "LabelsRestored"   // labels were restored: by admission in the CREATE of this Node object, or by capture later, also over those of a stale record
	LabelRefused     = "LabelRefused"     // the API server would not have a label
	GateLifted       = "GateLifted"       // the gate's taint was removed
	RecordInvalid    = "RecordInvalid"    // the record cannot be read
	RecordNearlyFull = "RecordNearlyFull" // the record has most of the bytes that it may have
	RecordVanished   = "RecordVanished"   // a client took the record away, or put an older one in its place
	RecordReset      = "RecordReset"      // the versions of a record were dropped: they can never have been right
	MachineMismatch  = "MachineMismatch"  // another machine registered under the name, and an operator must decide
	MachineChanged   = "MachineChanged"   // which record a machine has under the name: a new one, its own again, or that of its name before
	MachineAmbiguous = "MachineAmbiguous" // the machine may have had several names, so nothing is followed

	RulesApplied     = "RulesApplied"     // labels and taints were set or removed by the policy
	RuleLabelInvalid = "RuleLabelInvalid" // a rule makes a value that no label can have
	ItemTaken        = "ItemTaken"        // a label or taint that the policy would set is there already, from another client, and is left alone
	ItemPaused       = "ItemPaused"       // another client undoes a label or taint that nodekeep sets, so nodekeep waits before it sets it again

	// ChangesHeld on the NodePolicy: corrections by records, rules or a snapshot of an inventory would change many Nodes, and wait for an operator.
	ChangesHeld = rollout.ChangesHeld
	// FactsUnknown: rules use facts that cannot be read (on the NodePolicy), or that an inventory has wrong for a Node (on the Node).
	FactsUnknown = inventories.FactsUnknown

	GovernanceViolated = "GovernanceViolated" // labels break rules of governance

	PolicyInvalid = "PolicyInvalid" // the NodePolicy cannot be used, or was deleted; on the NodePolicy
)
