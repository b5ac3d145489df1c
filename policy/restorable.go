package policy

import "nodekeep.dev/nodekeep/record"

// Occasion is when items are restored: it decides who is held responsible for the labels.
type Occasion int

// The occasions.
const (
	// CreateByKubelet is the CREATE of a Node by its own kubelet: NodeRestriction judges our labels as the kubelet's.
	CreateByKubelet Occasion = iota
	// CreateByOther is the CREATE of a Node by anyone else.
	CreateByOther
	// Live is a Node that exists; capture acts under its own identity.
	Live
)

// Reason says why a remembered item is not given.
type Reason string

// The reasons.
const (
	NotKept        Reason = "not kept by the policy"
	NeverRestored  Reason = "protected, and the policy says never"
	Conflict       Reason = "the Node brought another value"
	Invalid        Reason = "not a valid label, taint or annotation"
	NotSameMachine Reason = "an isolation label, and not known to be the same machine"
	NoRoom         Reason = "no room for it among the annotations of the Node"
)

// Restore is what a Node lacks of its record, split by what can be done about it now.
type Restore struct {
	Add      map[string]string // to be set on the Node now
	Deferred map[string]string // waits for capture, see [Policy.DeferPattern]
	Withheld map[string]Reason // recorded and not restored now
}

// Restorable returns what a Node should get of its record by this policy, on this occasion. The parameter shown is what the Node has, and remembered is what
// its record has. Everything in Add and Protected is valid. Only labels are deferred: the API server checks a kubelet's taints on UPDATE only.
func (p Policy) Restorable(shown, remembered KeptItems, occasion Occasion) Restore {
	restore := Restore{Add: map[string]string{}, Deferred: map[string]string{}, Withheld: map[string]Reason{}}
	for key, value := range remembered.Items {
		current, present := shown.Items[key]
		if present && current == value {
			continue
		}
		reason := p.withholds(key, value, present, occasion)
		if reason == "" && IsNodeRestriction(key) && shown.Machine.Compare(remembered.Machine) != record.SameMachine {
			reason = NotSameMachine
		}
		switch _, deferred := p.DeferPattern(key); {
		case reason != "":
			restore.Withheld[key] = reason
		case occasion == CreateByKubelet && deferred:
			restore.Deferred[key] = value
		default:
			restore.Add[key] = value
		}
	}
	restore.annotationsFit(shown)
	return restore
}

// withholds returns why an item is not given; empty: it is.
func (p Policy) withholds(key, value string, present bool, occasion Occasion) Reason {
	switch {
	case !record.Valid(key, value):
		return Invalid
	case !p.Restores(key):
		return NotKept
	case present && (occasion == Live || p.keepsBrought(key, occasion)):
		return Conflict
	case p.protected == NeverProtected && isProtected(key):
		return NeverRestored
	}
	return ""
}

// keepsBrought reports whether the value that a registering Node brings stays. A deferred label is not in the CREATE, the
// only occasion on which a stored value replaces another one.
func (p Policy) keepsBrought(key string, occasion Occasion) bool {
	if p.onConflict != RestoreStored || record.IsAnnotation(key) { // labels.onConflict is for labels and taints
		return true
	}
	_, deferred := p.DeferPattern(key)
	return occasion == CreateByKubelet && deferred
}

// DeferPattern reports whether a label waits for capture when its Node's kubelet registers. The label is protected, or a pattern of labels.defer
// selects it. For a label that is only protected, pattern is empty. The gate stays on the Node, and capture adds the label under its own
// identity.
func (p Policy) DeferPattern(item string) (pattern string, deferred bool) {
	if !record.IsLabel(item) {
		return "", false
	}
	if pattern, deferred = p.deferred.match(item); deferred {
		return pattern, true
	}
	return "", isProtected(item)
}

// InlineOf selects from deferred labels those that the second pass of the inline route may put into a kubelet's CREATE. A rule
// of the cluster judges that CREATE after the second pass too, so labels.defer keeps its labels out.
func (p Policy) InlineOf(deferred map[string]string) (inline, later map[string]string) {
	inline, later = map[string]string{}, map[string]string{}
	for key, value := range deferred {
		if pattern, _ := p.DeferPattern(key); p.RestoresInline() && pattern == "" {
			inline[key] = value
		} else {
			later[key] = value
		}
	}
	return inline, later
}

// isProtected reports whether an item is a label that a kubelet may not carry in its CREATE.
func isProtected(item string) bool { return record.IsLabel(item) && !AllowedForKubelet(item) }
