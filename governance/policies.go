package governance

// Names of the admission policies that the chart ships, and of their bindings: one for each mode. They read the rules from the NodePolicy.
const (
	DenyPolicy  = "nodekeep-governance-deny"
	WarnPolicy  = "nodekeep-governance-warn"
	AuditPolicy = "nodekeep-governance-audit"
)

// PolicyNames returns those of all admission policies and bindings.
func PolicyNames() []string { return []string{DenyPolicy, WarnPolicy, AuditPolicy} }
