package capture

import (
	"maps"
	"slices"
	"strings"
	"unique"

	"github.com/go-json-experiment/json"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/policy"
)

// slimNode is a [Node] in little memory, for the 100,000 that the informer holds: its own values stand in one string, and
// what it has in common with many others, the keys of its labels, who owns them and its stamp, in one for all of them.
type slimNode struct {
	version string // resourceVersion
	text    string
	shape   unique.Handle[string]
	taints  []corev1.Taint
	written []int64 // when the writers in the shape last changed something, in seconds since 1970

	created, deleted metav1.Time
	annotationBytes  int
}

// nodeShape is what many Nodes have in common.
type nodeShape struct {
	Keys       []string     `json:"keys,omitempty"`
	Writers    []writer     `json:"writers,omitempty"`
	Stamp      policy.Stamp `json:"stamp"`
	Stamped    bool         `json:"stamped,omitempty"`
	Registered bool         `json:"registered,omitempty"`
	Claimed    []string     `json:"claimed,omitempty"`
}

// separator parts the values. The API server has no names, label values and machines with it in them.
const separator = "\x00"

// slimOf makes a Node small; [slimNode.node] reverses it.
func slimOf(n *Node) *slimNode {
	labels := maps.Clone(n.Items)
	maps.DeleteFunc(labels, func(item, _ string) bool { return policy.IsTaint(item) }) // they stand among the taints
	keys := slices.Sorted(maps.Keys(labels))
	texts := []string{n.Name, string(n.UID), n.Machine.ProviderID, n.Machine.SystemUUID, n.Machine.MachineID}
	for _, key := range keys {
		texts = append(texts, labels[key])
	}
	shape, err := json.Marshal(nodeShape{Keys: keys, Writers: n.Writers, Stamp: n.Stamp, Stamped: n.Stamped, Registered: n.Registered, Claimed: n.Claimed}, json.Deterministic(true), json.FormatNilSliceAsNull(true))
	if err != nil {
		panic("marshal strings: " + err.Error()) // cannot happen
	}
	s := &slimNode{
		version: strings.Clone(n.ResourceVersion), text: strings.Join(texts, separator), shape: unique.Make(string(shape)), taints: n.Taints,
		created: n.CreationTimestamp, annotationBytes: n.AnnotationBytes,
	}
	for _, wrote := range n.Writers {
		s.written = append(s.written, wrote.At)
	}
	if n.deleting() {
		s.deleted = *n.DeletionTimestamp
	}
	return s
}

// node is what was made small.
func (s *slimNode) node() *Node {
	var shape nodeShape
	if err := json.Unmarshal([]byte(s.shape.Value()), &shape); err != nil {
		panic("unmarshal what was marshalled: " + err.Error()) // cannot happen
	}
	for i := range shape.Writers {
		shape.Writers[i].At = s.written[i]
	}
	n := &Node{
		Taints: s.taints, Stamp: shape.Stamp, Stamped: shape.Stamped, Registered: shape.Registered,
		Owners: ownersOf(shape.Writers), Writers: shape.Writers, Claimed: shape.Claimed, AnnotationBytes: s.annotationBytes,
	}
	var uid string
	text := s.text
	for _, field := range []*string{&n.Name, &uid, &n.Machine.ProviderID, &n.Machine.SystemUUID, &n.Machine.MachineID} {
		*field, text, _ = strings.Cut(text, separator)
	}
	n.UID, n.ResourceVersion, n.CreationTimestamp = types.UID(uid), s.version, s.created
	if !s.deleted.IsZero() {
		n.DeletionTimestamp = &s.deleted
	}
	labels := make(map[string]string, len(shape.Keys))
	for _, key := range shape.Keys {
		labels[key], text, _ = strings.Cut(text, separator)
	}
	n.Items = policy.Items(labels, s.taints)
	return n
}

// name is the Node's.
func (s *slimNode) name() string {
	name, _, _ := strings.Cut(s.text, separator)
	return name
}

// uid is the Node object's.
func (s *slimNode) uid() types.UID {
	_, rest, _ := strings.Cut(s.text, separator)
	uid, _, _ := strings.Cut(rest, separator)
	return types.UID(uid)
}

// differs reports whether anything that a plan looks at is different. A heartbeat differs in nothing, and when somebody last
// changed something is no difference of its own.
func (s *slimNode) differs(other *slimNode) bool {
	return s.text != other.text || s.shape != other.shape || s.deleted.IsZero() != other.deleted.IsZero() ||
		!maps.Equal(policy.Items(nil, s.taints), policy.Items(nil, other.taints))
}

// GetObjectMeta is for the informer.
func (s *slimNode) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Name: s.name(), UID: s.uid(), ResourceVersion: s.version}
}
