package policy

import (
	"encoding/json"
	"slices"
)

// StampAnnotation is the Node annotation that says what nodekeep did for this very Node object.
const StampAnnotation = "nodekeep.dev/restored"

// totalAnnotationsLimit is what the annotations of an object may have together, in bytes
// (TotalAnnotationSizeLimitB of k8s.io/apimachinery); beyond it the API server rejects the Node.
const totalAnnotationsLimit = 256 << 10

// Stamp tells a removal from a loss: a key listed in Restored was on this very object once, so its absence today is
// somebody's decision. A kubelet can write annotations, so a stamp is a claim; see [Stamp.Proves].
type Stamp struct {
	Restored []string `json:"restored"` // keys that the object carried from its CREATE or a give-back on, sorted
	Pending  []string `json:"pending"`  // keys that were left for capture, sorted
}

// NewStamp makes a stamp of the keys; the slices are sorted and never nil, so that equal stamps have equal bytes.
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
	value, err := json.Marshal(NewStamp(s.Restored, s.Pending))
	if err != nil {
		panic("marshal a stamp of strings: " + err.Error()) // cannot happen: two slices of strings
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

// Fits reports whether an object with so many bytes of other annotations has room for the stamp. A Node without a stamp
// is better than no Node: a removal on it may be taken for a loss, and undone once.
func (s Stamp) Fits(others int) bool {
	return others+len(StampAnnotation)+len(s.String()) <= totalAnnotationsLimit
}

// Given is the stamp after the keys were put on the object.
func (s Stamp) Given(keys []string) Stamp {
	pending := slices.DeleteFunc(slices.Clone(s.Pending), func(key string) bool { return slices.Contains(keys, key) })
	return NewStamp(slices.Concat(s.Restored, keys), pending)
}

// Lists reports whether the stamp says that key was on the object.
func (s Stamp) Lists(key string) bool { return slices.Contains(s.Restored, key) }

// Proves reports whether the stamp is enough to believe that key was on the object: for labels which the kubelet
// may set anyway. For a protected label it is not, or a kubelet could make nodekeep forget one by claiming it.
func (s Stamp) Proves(key string) bool { return AllowedForKubelet(key) && s.Lists(key) }

func sortedKeys(keys []string) []string {
	sorted := slices.Clone(keys)
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	if sorted == nil {
		return []string{}
	}
	return sorted
}
