package policy

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/record"
)

// Policy says what is remembered of a Node and how it is given back. The zero value keeps nothing; start from
// [Default] or [Load]. A Policy is immutable and safe for concurrent use.
type Policy struct {
	labels         section
	taints         section     // over taint keys
	deferred       patterns    // labels.defer
	register       []taintRule // taints.register
	rules          []taintRule // taints.rules
	former         []taintRule // rules that were in force before
	ignoreManagers patterns
	onConflict     OnConflict
	protected      Protected
	onMismatch     OnMismatch
	retention      time.Duration // 0: for ever
	gate           Gate
}

// OnConflict says what happens to a stored label whose key the registering Node already has with another value.
type OnConflict string

// The values of labels.onConflict.
const (
	KeepNode      OnConflict = "keepNode"      // the Node's value stays (default)
	RestoreStored OnConflict = "restoreStored" // the stored value replaces it, at CREATE only
)

// Protected says what happens to labels that a kubelet may not carry in its own CREATE, see [AllowedForKubelet].
type Protected string

// The values of labels.protected.
const (
	Deferred Protected = "deferred" // the gate goes on and capture gives them back (default)
	Inline   Protected = "inline"   // restored in the CREATE itself where that is proved to work, else deferred
	Never    Protected = "never"    // remembered and reported, not restored
)

// RestoresInline reports whether protected labels are to be restored in the CREATE itself.
func (p Policy) RestoresInline() bool { return p.protected == Inline }

// Retention is how long the record of a deleted Node is kept; 0 is for ever.
func (p Policy) Retention() time.Duration { return p.retention }

// Gate is the taint that the policy's Nodes wait behind.
func (p Policy) Gate() Gate { return p.gate }

// WithGate is the policy with another gate; key must be a valid taint key.
func (p Policy) WithGate(key Gate) Policy {
	p.gate = key
	return p
}

// WithProtected is the policy with another value of labels.protected.
func (p Policy) WithProtected(protected Protected) Policy {
	p.protected = protected
	return p
}

// Metadata is what the policy looks at in a Node.
type Metadata struct {
	// Items are its labels and taints.
	Items map[string]string
	// Owners holds, for each label key, the managers that own it by metadata.managedFields.
	// A key without an entry has no owner.
	Owners map[string][]string
	// Claimed lists the keys that annotations claim for other components, see [Claimed].
	Claimed []string
	// RuleTaints are the taints that our rules put there; they are derived, not remembered.
	RuleTaints []corev1.Taint
	Machine    record.Machine
}

// Kept is what nodekeep remembers of a Node.
type Kept struct {
	// Items are labels and taints.
	Items   map[string]string
	Machine record.Machine
}

// section is what a section of the policy file keeps.
type section struct {
	name         string // labels or taints
	keep, ignore patterns
	owners       owners
}

// keeps reports whether the section keeps a key, and why. A key that keep names in full is kept whoever owns it.
func (s section) keeps(key string) (keeps bool, why string) {
	if pattern, ignored := s.ignore.match(key); ignored {
		return false, s.name + ".ignore has " + pattern
	}
	if slices.Contains(s.keep, key) {
		return true, s.name + ".keep names it"
	}
	if owner, owned := s.owners.of(key); owned {
		return false, "it belongs to " + owner
	}
	if pattern, kept := s.keep.match(key); kept {
		return true, s.name + ".keep has " + pattern
	}
	return false, s.name + ".keep does not select it"
}

// Keeps reports whether the policy remembers the item at all, and why, in words that complete "kept because ..." or "left
// out because ...". A taint that a rule added looks like any other; who remembers must know and leave it out.
func (p Policy) Keeps(item string) (keeps bool, why string) {
	taint := record.Taint(item, "")
	switch {
	case !record.IsTaint(item) && IsNodeRestriction(item):
		return p.keepsIsolation(item)
	case !record.IsTaint(item):
		return p.labels.keeps(item)
	case p.gate.Is(taint):
		return false, "it is the gate"
	case p.Registers(item):
		return false, "taints.register puts it on once"
	}
	return p.taints.keeps(taint.Key)
}

// keepsIsolation is [Policy.Keeps] for an isolation label.
func (p Policy) keepsIsolation(key string) (keeps bool, why string) {
	if pattern, ignored := p.labels.ignore.match(key); ignored {
		return false, "labels.ignore has " + pattern
	}
	if pattern, named := p.isolation().match(key); named {
		return true, "labels.keep names " + pattern
	}
	return false, "it is an isolation boundary, kept only if labels.keep names " + corev1.LabelNamespaceNodeRestriction
}

// isolation are the keep patterns that name node-restriction.kubernetes.io in full; a wildcard that merely covers it is no decision
// to give an isolation label to whatever machine registers under the name.
func (p Policy) isolation() (named patterns) {
	for _, pattern := range p.labels.keep {
		if strings.HasSuffix(domainOf(pattern), corev1.LabelNamespaceNodeRestriction) {
			named = append(named, pattern)
		}
	}
	return named
}

// ownedByOthers reports whether the managers of a label are only such as set it again by themselves.
// No manager at all is not "only such managers": labels that a webhook adds at CREATE have none.
func (p Policy) ownedByOthers(managers []string) bool {
	return len(managers) > 0 && !slices.ContainsFunc(managers, func(manager string) bool {
		_, ignored := p.ignoreManagers.match(manager)
		return !ignored
	})
}

// IsNodeRestriction reports whether a label key is an isolation boundary (node-restriction.kubernetes.io and what is under
// it): it goes only to the machine that had it.
func IsNodeRestriction(key string) bool {
	return !record.IsTaint(key) && isOrUnder(domainOf(key), corev1.LabelNamespaceNodeRestriction)
}

// OwnedByPeople reports whether any of a label's managers is one that does not set it again by itself.
func (p Policy) OwnedByPeople(managers []string) bool {
	return len(managers) > 0 && !p.ownedByOthers(managers)
}
