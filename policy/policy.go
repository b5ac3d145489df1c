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
	keep           patternSet
	named          []string // the keep patterns as written, for keys that must be named explicitly
	ignore         patternSet
	deferred       patternSet // labels.defer
	ignoreManagers []string
	owned          patternSet
	forPeople      patternSet
	onConflict     OnConflict
	protected      Protected
	onMismatch     OnMismatch
	retention      time.Duration // 0: for ever
	taints         taintPolicy
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

// Keep selects from a Node what is ours to remember: the labels and taints that the policy keeps, less those that other
// components own, by the built-in catalogue or by live evidence in managedFields and annotations. [Policy.Judge] says why.
func (p Policy) Keep(node Metadata) Kept {
	items := map[string]string{}
	for item, value := range node.Items {
		if p.Judge(node, item).Keeps {
			items[item] = value
		}
	}
	return Kept{Items: items, Machine: node.Machine}
}

// Keeps reports whether the policy remembers the item at all, and why, in words that complete "kept because ..." or "left
// out because ...".
func (p Policy) Keeps(item string) (keeps bool, why string) {
	if record.IsTaint(item) {
		return p.keepsTaint(item)
	}
	return p.keepsLabel(item)
}

func (p Policy) keepsLabel(key string) (keeps bool, why string) {
	if pattern, ignored := p.ignore.match(key); ignored {
		return false, "labels.ignore has " + pattern
	}
	if _, exactly := p.keep.exact[key]; exactly {
		return true, "labels.keep names it"
	}
	if IsNodeRestriction(key) {
		pattern, named := p.namesNodeRestriction(key)
		if !named {
			return false, "it is an isolation boundary, kept only if labels.keep names node-restriction.kubernetes.io"
		}
		return true, "labels.keep names " + pattern
	}
	if _, people := p.forPeople.match(key); !people {
		if owner, owned := p.owned.match(key); owned {
			return false, "it belongs to " + owner
		}
	}
	if pattern, kept := p.keep.match(key); kept {
		return true, "labels.keep has " + pattern
	}
	return false, "labels.keep does not select it"
}

// ownedByOthers reports whether the managers of a label are only such as set it again by themselves.
// No manager at all is not "only such managers": labels that a webhook adds at CREATE have none.
func (p Policy) ownedByOthers(managers []string) bool {
	return len(managers) > 0 && !slices.ContainsFunc(managers, func(manager string) bool {
		return !p.ignoresManager(manager)
	})
}

func (p Policy) ignoresManager(manager string) bool {
	return slices.ContainsFunc(p.ignoreManagers, func(pattern string) bool { return matchGlob(pattern, manager) })
}

// IsNodeRestriction reports whether a label key is an isolation boundary (node-restriction.kubernetes.io and what is under
// it): it goes only to the machine that had it.
func IsNodeRestriction(key string) bool {
	return !record.IsTaint(key) && isOrUnder(domainOf(key), corev1.LabelNamespaceNodeRestriction)
}

// namesNodeRestriction finds a keep pattern that spells node-restriction.kubernetes.io out; a wildcard that merely
// covers it is no decision to hand an isolation label to whatever machine registers under the name.
func (p Policy) namesNodeRestriction(key string) (pattern string, named bool) {
	for _, pattern := range p.named {
		if strings.HasSuffix(domainOf(pattern), corev1.LabelNamespaceNodeRestriction) && matchGlob(pattern, key) {
			return pattern, true
		}
	}
	return "", false
}

// OwnedByPeople reports whether any of a label's managers is one that does not set it again by itself.
func (p Policy) OwnedByPeople(managers []string) bool {
	return len(managers) > 0 && !p.ownedByOthers(managers)
}
