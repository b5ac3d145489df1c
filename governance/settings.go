package governance

// Settings is the section governance of the policy file.
type Settings struct {
	Keys []Key `json:"keys"`
	// Reserved are globs over whole keys. Of the keys that they match, only those in Keys may be added.
	Reserved     []string     `json:"reserved"`
	Noncompliant Noncompliant `json:"noncompliant"`
}

// Key says what holds of one label.
type Key struct {
	Key         string   `json:"key"`
	Description string   `json:"description"` // a sentence for readers; reports show it
	Values      []string `json:"values"`      // the label has one of them; empty: any
	Pattern     string   `json:"pattern"`     // RE2; the whole value must match
	Required    bool     `json:"required"`    // every Node has the label
	Immutable   bool     `json:"immutable"`   // once set, it is neither changed nor removed
	Requires    []string `json:"requires"`    // keys that a Node with this label has, too
	Owners      []string `json:"owners"`      // user:NAME, group:NAME, serviceaccount:NAMESPACE/NAME; only these change the label; empty: all
	Mode        Mode     `json:"mode"`
}

// Mode says what happens to a request that breaks a rule.
type Mode string

// The values of mode.
const (
	Audit Mode = "audit" // the audit log of the API server has it (default)
	Warn  Mode = "warn"  // the client gets a warning, too
	Deny  Mode = "deny"  // the API server refuses an UPDATE
)

// Noncompliant is the taint of Nodes that break a rule of mode warn or deny.
type Noncompliant struct {
	Taint string `json:"taint"` // KEY:EFFECT or KEY=VALUE:EFFECT; empty: none
	After string `json:"after"` // for how long a Node breaks a rule before it gets the taint
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
