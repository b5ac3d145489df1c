package governance

// Every field of a policy is optional, unless its comment says otherwise.
// +kubebuilder:validation:Optional

// Settings is the section governance of the policy.
type Settings struct {
	// What holds of which label.
	// +kubebuilder:validation:MaxItems=100
	Keys []Key `json:"keys"`
	// Patterns over whole keys. Of the keys that they match, only those in keys may be added.
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MinLength=1
	Reserved []string `json:"reserved"`
	// The taint of Nodes that break a rule of mode warn or deny. It is for clusters whose workloads must not start on such a Node.
	Noncompliant Noncompliant `json:"noncompliant"`
}

// Key says what holds of one label.
// +kubebuilder:validation:XValidation:rule="!(has(self.values) && size(self.values) > 0 && has(self.pattern) && size(self.pattern) > 0)",message="must have values or a pattern, not both"
type Key struct {
	// The key of the label.
	// +required
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$`
	Key string `json:"key"`
	// The label has one of these values. Without them, it may have any.
	// +kubebuilder:validation:MaxItems=250
	// +kubebuilder:validation:items:MaxLength=63
	Values []string `json:"values"`
	// An expression (RE2) that the whole value must match.
	// +kubebuilder:validation:MaxLength=256
	Pattern string `json:"pattern"`
	// Every Node has the label. It is for labels by which costs or workloads are assigned.
	Required bool `json:"required"`
	// Once set, the label is neither changed nor removed, such as that of a rack.
	Immutable bool `json:"immutable"`
	// Keys that a Node with this label has, too, such as the model of a GPU besides their number.
	// +kubebuilder:validation:MaxItems=20
	Requires []string `json:"requires"`
	// Who may change the label: user:NAME, group:NAME or serviceaccount:NAMESPACE/NAME. A * at the end stands for any characters. Without
	// owners, all may.
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MaxLength=300
	// +kubebuilder:validation:items:Pattern=`^((user|group):.+|serviceaccount:[^/]+/.+)$`
	Owners []string `json:"owners"`
	// What happens to a request that breaks a rule: audit (the default), warn or deny.
	Mode Mode `json:"mode"`
}

// Mode says what happens to a request that breaks a rule.
// +kubebuilder:validation:Enum=audit;warn;deny
type Mode string

// The values of mode.
const (
	Audit Mode = "audit" // the audit log of the API server has it (default)
	Warn  Mode = "warn"  // the client gets a warning, too
	Deny  Mode = "deny"  // the API server refuses an UPDATE
)

// Noncompliant is the taint of Nodes that break a rule of mode warn or deny.
type Noncompliant struct {
	// KEY:EFFECT or KEY=VALUE:EFFECT. Without it, there is no such taint.
	// +kubebuilder:validation:Pattern=`^([^=:]+(=[^:]*)?:(NoSchedule|PreferNoSchedule|NoExecute))?$`
	Taint string `json:"taint"`
	// How long a Node breaks a rule before it gets the taint, such as 1h, in which an operator can mend a slip. The default is 0: it gets the taint at once.
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+(\.[0-9]+)?(h|m|s|ms))+)$`
	Delay string `json:"after"`
}

// Kind says which rule is broken.
type Kind string

// The kinds of violations that labels alone show. The API server also knows those of changes: immutable and owners.
const (
	Required Kind = "required" // a required label is missing
	Value    Kind = "value"    // the value is not one of the list
	Pattern  Kind = "pattern"  // the value does not match the pattern
	Requires Kind = "requires" // the label needs another one, which is missing
	Reserved Kind = "reserved" // the key is reserved, and not listed
)

// Violation is one rule that labels break.
type Violation struct {
	Rule string // the key of the rule; of a reserved key, the glob
	Kind Kind
	Mode Mode
	Key  string // of the label
	// Value is that of the label; of kind requires, the key that is missing.
	Value string
}
