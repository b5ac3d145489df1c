package verify

// Mode defines what the checks of a profile decide.
// +kubebuilder:validation:Enum=enforce;report
type Mode string

// The values of mode.
const (
	ModeEnforce Mode = "enforce" // a Node takes workloads once its checks have passed (default)
	ModeReport  Mode = "report"  // a Node takes workloads whatever its checks say; they are repeated, and shown by the condition
)

// ReportsOnly reports whether the profile closes no Node, and only shows what its checks say.
func (p Profile) ReportsOnly() bool { return p.Mode == ModeReport }
