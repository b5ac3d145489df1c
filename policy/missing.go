package policy

import "k8s.io/apimachinery/pkg/util/validation"

// Occasion is when something is given back: it decides who is held responsible for the labels.
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

// Reason says why a remembered label is not given.
type Reason string

// The reasons.
const (
	NotKept       Reason = "not kept by the policy"
	NeverRestored Reason = "protected, and the policy says never"
	Conflict      Reason = "the Node brought another value"
	Invalid       Reason = "not a valid label"
	NotProved     Reason = "an isolation label, and not known to be the same machine"
)

// Restore is what a Node lacks of what is remembered, split by what can be done about it now.
type Restore struct {
	Add       map[string]string // to be put on the Node now
	Protected map[string]string // must wait for capture: NodeRestriction would reject the whole CREATE
	Withheld  map[string]Reason // remembered but not given
}

// Missing is the one merge: what a Node that has `have` should get of what is remembered, on this occasion.
// Everything in Add and Protected is a valid label.
func (p Policy) Missing(have, remembered Kept, occasion Occasion) Restore {
	restore := Restore{Add: map[string]string{}, Protected: map[string]string{}, Withheld: map[string]Reason{}}
	for key, value := range remembered.Items {
		current, present := have.Items[key]
		if present && current == value {
			continue
		}
		reason, withheld := p.withholds(key, value, present, occasion)
		if !withheld && IsNodeRestriction(key) && have.Machine.Compare(remembered.Machine) != SameMachine {
			reason, withheld = NotProved, true
		}
		if withheld {
			restore.Withheld[key] = reason
			continue
		}
		if occasion == CreateByKubelet && !AllowedForKubelet(key) {
			restore.Protected[key] = value
			continue
		}
		restore.Add[key] = value
	}
	return restore
}

func (p Policy) withholds(key, value string, present bool, occasion Occasion) (Reason, bool) {
	if !ValidLabel(key, value) {
		return Invalid, true
	}
	if keeps, _ := p.Keeps(key); !keeps {
		return NotKept, true
	}
	if present && (p.onConflict != RestoreStored || occasion == Live) {
		return Conflict, true
	}
	if p.protected == Never && !AllowedForKubelet(key) {
		return NeverRestored, true
	}
	return "", false
}

// ValidLabel reports whether the API server accepts key and value as a label; one that it does not would make it
// reject the whole Node (ValidateLabels of k8s.io/apimachinery).
func ValidLabel(key, value string) bool {
	return len(validation.IsQualifiedName(key)) == 0 && len(validation.IsValidLabelValue(value)) == 0
}
