package policy

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// StampAnnotation is the Node annotation that says what nodekeep did for this very Node object.
const StampAnnotation = "nodekeep.dev/restored"

// totalAnnotationsLimit is what the annotations of an object may have together, in bytes
// (TotalAnnotationSizeLimitB of k8s.io/apimachinery); beyond it the API server rejects the Node.
const totalAnnotationsLimit = 256 << 10

// TaintsAnnotation is the Node annotation that shows people which taints our rules put on. A kubelet can write it, so
// nothing is decided by it.
const TaintsAnnotation = "nodekeep.dev/taints"

// Stamp tells a removal from a loss: what it lists was on this very object once, so its absence today is somebody's
// decision. A kubelet can write annotations, so a stamp is a claim; see [Stamp.Proves]. Taints are listed with their
// values, by [TaintItem]: no managedFields say who changed one.
type Stamp struct {
	Restored []string `json:"restored"` // labels that the object carried from its CREATE or a give-back on, sorted
	Pending  []string `json:"pending"`  // labels that were left for capture, sorted

	Taints     map[string]string `json:"taints,omitempty"`     // taints that were given back
	Brought    map[string]string `json:"brought,omitempty"`    // remembered taints that the object brought itself
	RuleTaints map[string]string `json:"ruleTaints,omitempty"` // taints that rules put on in the CREATE
}

// NewStamp makes a stamp of label keys; the slices are sorted and never nil, so that equal stamps have equal bytes.
func NewStamp(restored, pending []string) Stamp {
	return Stamp{Restored: sortedKeys(restored), Pending: sortedKeys(pending)}
}

// ParseStamp reads the value of [StampAnnotation]. What cannot be read counts as no stamp: ok is false.
func ParseStamp(value string) (stamp Stamp, ok bool) {
	if err := json.Unmarshal([]byte(value), &stamp); err != nil {
		return Stamp{}, false
	}
	return stamp, true
}

// String is the value for [StampAnnotation].
func (s Stamp) String() string {
	s.Restored, s.Pending = sortedKeys(s.Restored), sortedKeys(s.Pending)
	value, err := json.Marshal(s)
	if err != nil {
		panic("marshal a stamp of strings: " + err.Error()) // cannot happen: slices and maps of strings
	}
	return string(value)
}

// AnnotationBytes is the size of an object's annotations, keys and values, without the stamp.
func AnnotationBytes(annotations map[string]string) (bytes int) {
	for key, value := range annotations {
		if key != StampAnnotation {
			bytes += len(key) + len(value)
		}
	}
	return bytes
}

// RoomFor reports whether an object with so many bytes of annotations, the stamp's included, has room for [TaintsAnnotation]
// with this value. It is generous: half of what there is stays free for others.
func RoomFor(others int, shown string) bool {
	return others+len(TaintsAnnotation)+len(shown) <= totalAnnotationsLimit/2
}

// Shown is the value of [TaintsAnnotation]: the taints as kubectl taint writes them, separated by commas.
func Shown(ruleTaints []corev1.Taint) string {
	written := make([]string, len(ruleTaints))
	for i, taint := range ruleTaints {
		written[i] = taint.ToString()
	}
	return strings.Join(written, ",")
}

// Fits reports whether an object with so many bytes of other annotations has room for the stamp. A Node without a stamp
// is better than no Node: a removal on it may be taken for a loss, and undone once.
func (s Stamp) Fits(others int) bool {
	return others+len(StampAnnotation)+len(s.String()) <= totalAnnotationsLimit
}

// Given is the stamp after the items were put on the object.
func (s Stamp) Given(items map[string]string) Stamp {
	given := s.clone()
	restored, pending := given.Restored, given.Pending
	for item, value := range items {
		if !IsTaint(item) {
			restored = append(restored, item)
			pending = slices.DeleteFunc(pending, func(key string) bool { return key == item })
			continue
		}
		if given.Taints == nil {
			given.Taints = map[string]string{}
		}
		given.Taints[item] = value
	}
	given.Restored, given.Pending = sortedKeys(restored), sortedKeys(pending)
	return given
}

// Without is the stamp after the items were taken off because they should not have been given.
func (s Stamp) Without(items []string) Stamp {
	taken := s.clone()
	taken.Restored = sortedKeys(slices.DeleteFunc(taken.Restored, func(key string) bool { return slices.Contains(items, key) }))
	for _, item := range items {
		delete(taken.Taints, item)
	}
	return taken
}

// Lists reports whether the stamp says that the item was on the object.
func (s Stamp) Lists(item string) bool {
	if IsTaint(item) {
		_, listed := s.TaintValue(item)
		return listed
	}
	return slices.Contains(s.Restored, item)
}

// TaintValue is the value with which the stamp says a taint was on the object.
func (s Stamp) TaintValue(item string) (value string, listed bool) {
	if value, listed = s.Taints[item]; !listed {
		value, listed = s.Brought[item]
	}
	return value, listed
}

// ByRule reports whether the stamp says that a rule put this very taint on.
func (s Stamp) ByRule(taint corev1.Taint) bool {
	value, listed := s.RuleTaints[TaintItem(taint)]
	return listed && value == taint.Value
}

// Proves reports whether the stamp is enough to believe that the item was on the object: for labels which the kubelet may
// set anyway. For a protected label or a taint it is not, or a kubelet could make nodekeep forget one by claiming it.
func (s Stamp) Proves(item string) bool {
	return !IsTaint(item) && AllowedForKubelet(item) && s.Lists(item)
}

// Equal reports whether two stamps say the same.
func (s Stamp) Equal(other Stamp) bool {
	return slices.Equal(s.Restored, other.Restored) && slices.Equal(s.Pending, other.Pending) &&
		maps.Equal(s.Taints, other.Taints) && maps.Equal(s.Brought, other.Brought) && maps.Equal(s.RuleTaints, other.RuleTaints)
}

// clone is a stamp that shares nothing with this one.
func (s Stamp) clone() Stamp {
	s.Restored, s.Pending = slices.Clone(s.Restored), slices.Clone(s.Pending)
	s.Taints, s.Brought, s.RuleTaints = maps.Clone(s.Taints), maps.Clone(s.Brought), maps.Clone(s.RuleTaints)
	return s
}

func sortedKeys(keys []string) []string {
	sorted := slices.Clone(keys)
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	if sorted == nil {
		return []string{}
	}
	return sorted
}
