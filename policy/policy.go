package policy

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/governance"
	"nodekeep.dev/nodekeep/inventory"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/verify"
)

// Policy says what is recorded of a Node and how it is restored. The zero value keeps nothing; start from
// [Default] or [Load]. A Policy is immutable and safe for concurrent use.
type Policy struct {
	labels         section
	taints         section   // over taint keys
	ends           catalogue // over keys of taints that a Node has before its end
	annotations    Annotations
	deferred       patterns    // labels.defer
	register       []taintRule // taints.register
	rules          []taintRule // taints.rules
	labelRules     classify.Rules
	rulesHash      string // of labelRules and migrations
	accept         string // the hash of those that are accepted
	migrations     []Migration
	rulesHeld      bool             // labelRules must only add labels
	formerLabels   sets.Set[string] // keys that rules set which were in force before
	former         []taintRule      // rules that were in force before
	ignoreManagers patterns
	operators      patterns // further managers of operators' clients
	onConflict     OnConflict
	protected      Protected
	cordon         OnCordon
	onMismatch     OnMismatch
	follow         bool
	verify         verify.Profiles
	inventory      []inventory.Source
	formerVerify   sets.Set[string] // keys of labels and taints that verification used before
	retention      time.Duration    // 0: for ever
	governance     governance.Rules
	gate           Gate
	spec           *Spec // what all of this was made of; nil: the zero value
	inEmergency    bool  // an emergency is declared
}

// OnConflict says what happens to a stored label whose key the registering Node already has with another value.
// +kubebuilder:validation:Enum=keepNode;restoreStored
type OnConflict string

// The values of labels.onConflict.
const (
	KeepNode      OnConflict = "keepNode"      // the Node's value stays (default)
	RestoreStored OnConflict = "restoreStored" // the stored value replaces it, at CREATE only
)

// Protected says what happens to labels that a kubelet may not carry in its own CREATE, see [AllowedForKubelet].
// +kubebuilder:validation:Enum=deferred;inline;never
type Protected string

// The values of labels.protected.
const (
	Deferred       Protected = "deferred" // the gate goes on and capture gives them back (default)
	Inline         Protected = "inline"   // restored in the CREATE itself where that is proved to work, else deferred
	NeverProtected Protected = "never"    // remembered and reported, not restored
)

// RestoresInline reports whether protected labels are to be restored in the CREATE itself.
func (p Policy) RestoresInline() bool { return p.protected == Inline }

// Retention returns how long the record of a deleted Node is kept; 0 is for ever.
func (p Policy) Retention() time.Duration { return p.retention }

// Gate returns the taint that the policy's Nodes wait behind.
func (p Policy) Gate() Gate { return p.gate }

// WithGate returns the policy with another gate; key must be a valid taint key.
func (p Policy) WithGate(key Gate) Policy {
	p.gate = key
	return p
}

// WithEmergency returns the policy during an emergency, or without one. During an emergency it closes no Node. No gate is kept, and no Node is
// verified or gets taints at its registration. What is kept and restored stays the same.
func (p Policy) WithEmergency(emergency bool) Policy {
	p.inEmergency, p.verify.Suspended = emergency, emergency
	return p
}

// InEmergency reports whether an emergency is declared; see [Policy.WithEmergency].
func (p Policy) InEmergency() bool { return p.inEmergency }

// WithProtected returns the policy with another value of labels.protected.
func (p Policy) WithProtected(protected Protected) Policy {
	p.protected = protected
	return p
}

// Metadata is what the policy uses in a Node.
type Metadata struct {
	// Items are its labels and taints, and the annotations that the policy keeps.
	Items map[string]string
	// Owners holds, for the key of each label and annotation, the managers that own it by metadata.managedFields.
	// A key without an entry has no owner.
	Owners map[string][]string
	// Marks are items that a client has set while the Node was being taken away, each with that client. It is no operator's.
	Marks map[string]record.Mark
	// Claimed lists the keys that annotations claim for other components, see [Claimed].
	Claimed []string
	// RuleTaints are the taints that our rules put there; they are derived, not remembered.
	RuleTaints []corev1.Taint
	// RuleLabels are the labels that our rules have set, and the items that they have removed. An item that differs now is a client's.
	RuleLabels map[string]record.RuleLabel
	// Record is the record of the Node so far.
	Record  record.Record
	Machine record.Machine
}

// KeptItems is what a Node has of the kinds that nodekeep keeps: by its record, or as it is now.
type KeptItems struct {
	// Items are labels, taints and annotations.
	Items   map[string]string
	Machine record.Machine
	// AnnotationBytes is the [AnnotationBytes] of a Node.
	AnnotationBytes int
}

// section is what a section of the policy file keeps.
type section struct {
	name         string // labels or taints
	keep, ignore patterns
	catalogue    catalogue
}

// ruling is what the name of an item alone decides.
type ruling int

const (
	leftOut  ruling = iota
	selected        // kept, unless the Node shows that a component sets it again by itself
	doubtful        // a component usually sets it: kept where the Node or the record shows that an operator did
	marked          // the same, but what a component sets there marks the end of one machine: an operator's value stays recorded
)

// sentences is why something is decided, in parts. They are joined only for who asks.
type sentences [3]string

func (b sentences) String() string { return b[0] + b[1] + b[2] }

// rule decides on a key, and why. A key that keep names in full is kept whatever its owner.
func (s section) rule(key string) (ruling ruling, reason sentences) {
	if pattern, ignored := s.ignore.match(key); ignored {
		return leftOut, sentences{s.name, ".ignore has ", pattern}
	}
	if slices.Contains(s.keep, key) {
		return selected, sentences{s.name, ".keep names it"}
	}
	owner, owned, kind := s.catalogue.owner(key)
	pattern, kept := s.keep.match(key)
	switch {
	case owned && kind == state:
		return leftOut, sentences{"it belongs to ", owner}
	case !kept:
		return leftOut, sentences{s.name, ".keep does not select it"}
	case owned && kind == mark:
		return marked, sentences{"it belongs to ", owner}
	case owned:
		return doubtful, sentences{"it belongs to ", owner}
	}
	return selected, sentences{s.name, ".keep has ", pattern}
}

// rule returns what the name of an item alone decides. A taint that a rule added looks like any other; who remembers must know and leave it out.
func (p Policy) rule(item string) (ruling ruling, reason sentences) {
	if annotation, ok := record.Annotation(item); ok {
		keeps, cause := p.annotations.Keeps(annotation)
		if keeps {
			return selected, sentences{cause}
		}
		return leftOut, sentences{cause}
	}
	taint := record.Taint(item, "")
	switch {
	case p.verifies(item):
		return leftOut, sentences{"verification sets and removes it"}
	case IsNodeRestriction(item):
		return p.ruleIsolation(item)
	case record.IsLabel(item):
		return p.labels.rule(item)
	case item == Cordon && p.cordon == KeepCordon:
		return selected, sentences{"cordon says keep"}
	case p.gate.Matches(taint):
		return leftOut, sentences{"it is the gate"}
	case p.AddsAtRegistration(item):
		return leftOut, sentences{"taints.register puts it on"}
	}
	ruling, reason = p.taints.rule(taint.Key)
	if ruling == leftOut && item == Cordon {
		reason = sentences{"cordon says ", string(p.cordon)} // the component that owns the taint does not bring a cordon back
	}
	return ruling, reason
}

// Keeps reports whether the policy remembers an item of which only the name is known, and why. The reason completes "kept because ..." or
// "left out because ...".
func (p Policy) Keeps(item string) (keeps bool, reason string) {
	ruling, parts := p.rule(item)
	return ruling == selected, parts.String()
}

// Selects is [Policy.Keeps] without the reason.
func (p Policy) Selects(item string) bool {
	ruling, _ := p.rule(item)
	return ruling == selected
}

// Names reports whether the policy names a label or taint in full, or an annotation. Of annotations it keeps none by default.
func (p Policy) Names(item string) bool {
	if record.IsTaint(item) {
		return slices.Contains(p.taints.keep, record.Taint(item, "").Key)
	}
	return record.IsAnnotation(item) || slices.Contains(p.labels.keep, item)
}

// Restores reports whether the policy restores an item that the record has. The record has what a component usually sets only where an
// operator has set it.
func (p Policy) Restores(item string) bool {
	ruling, _ := p.rule(item)
	return ruling != leftOut
}

// ruleIsolation is [Policy.rule] for an isolation label.
func (p Policy) ruleIsolation(key string) (ruling ruling, reason sentences) {
	if pattern, ignored := p.labels.ignore.match(key); ignored {
		return leftOut, sentences{"labels.ignore has ", pattern}
	}
	if pattern, named := p.isolation().match(key); named {
		return selected, sentences{"labels.keep names ", pattern}
	}
	return leftOut, sentences{"it is an isolation boundary, kept only if labels.keep names ", corev1.LabelNamespaceNodeRestriction}
}

// isolation returns the keep patterns that name node-restriction.kubernetes.io in full. A wildcard that merely covers it is not enough. An
// isolation label must not go to any machine that registers under the name.
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

// IsNodeRestriction reports whether a label key is an isolation boundary: node-restriction.kubernetes.io or a domain under it. Such a label
// goes only to the machine that had it.
func IsNodeRestriction(key string) bool {
	return record.IsLabel(key) && isOrUnder(domainOf(key), corev1.LabelNamespaceNodeRestriction)
}

// OwnedByPeople reports whether any of a label's managers is one that does not set it again by itself.
func (p Policy) OwnedByPeople(managers []string) bool {
	return len(managers) > 0 && !p.ownedByOthers(managers)
}
