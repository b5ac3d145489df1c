package capture

// Reasons of the Events that capture creates for Nodes.
const (
	LabelsRestored   = "LabelsRestored"   // labels were restored: by admission in the CREATE of this Node object, or by capture later
	LabelsCorrected  = "LabelsCorrected"  // labels that came from a stale record were corrected
	LabelRefused     = "LabelRefused"     // the API server would not have a label
	GateLifted       = "GateLifted"       // nothing is left to give
	RecordInvalid    = "RecordInvalid"    // the record cannot be read
	RecordNearlyFull = "RecordNearlyFull" // the record has most of the bytes that it may have
	RecordVanished   = "RecordVanished"   // a client took the record away, or put an older one in its place
	RecordReset      = "RecordReset"      // the versions of a record were dropped: they can never have been right
	MachineMismatch  = "MachineMismatch"  // another machine registered under the name
	QuarantineEnded  = "QuarantineEnded"  // the policy has no quarantine any more
	MachineChanged   = "MachineChanged"   // another machine registered under the name, and begins with nothing
	MachineReturned  = "MachineReturned"  // the machine had the name before, and gets the record that it had

	MachineFollowed  = "MachineFollowed"  // the machine had another name before, whose record is followed
	MachineAmbiguous = "MachineAmbiguous" // the machine may have had several names, so nothing is followed

	TaintsFollowed   = "TaintsFollowed"   // taints were added or removed because the labels or the rules changed
	TaintsRegistered = "TaintsRegistered" // a new Node got what the policy says at registration
	RuleTaintTaken   = "RuleTaintTaken"   // another client's taint has the key and effect that a rule wants
	ItemPaused       = "ItemPaused"       // another client undoes a label or taint that nodekeep sets, so nodekeep waits before it sets it again

	LabelsFollowed    = "LabelsFollowed"    // rules set or removed labels
	RuleLabelTaken    = "RuleLabelTaken"    // a label that a rule would set is there with another value
	RuleLabelInvalid  = "RuleLabelInvalid"  // a rule makes a value that no label can have
	MigrationConflict = "MigrationConflict" // both keys of a migration have a value of their own

	FeaturesUnknown = "FeaturesUnknown" // rules use features, and the NodeFeature objects must not be read; on the NodePolicy
	DevicesUnknown  = "DevicesUnknown"  // rules use devices, and the ResourceSlices cannot be read; on the NodePolicy

	GovernanceViolated = "GovernanceViolated" // labels break rules of governance
	InventoryWrong     = "InventoryWrong"     // a source of the inventory lists another machine or unusable attributes for the Node

	PolicyInvalid = "PolicyInvalid" // the NodePolicy cannot be used, or was deleted; on the NodePolicy
)
