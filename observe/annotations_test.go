package observe

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/record"
)

// annotated returns an object with these annotations.
func annotated(version record.Version, annotations labels) *corev1.Node {
	n := object("a", version, nil)
	n.Annotations = annotations
	return n
}

func TestOnlyAnnotationsThatThePolicyKeepsAreHeldInMemory(t *testing.T) {
	p := loaded(t, `annotations: ["a.io/*"]`)
	object := annotated(5, labels{"a.io/x": "1", "other.io/x": strings.Repeat("x", 1000), "a.io/large": strings.Repeat("x", record.MaxAnnotationBytes+1)})
	object.ManagedFields = append(object.ManagedFields, wrote("kubectl", 1, "label"), wrote("kubectl", 1, "@a.io/x", "@other.io/x"))
	read := FromNodeWithAnnotations(object, p.Annotations())
	assert.Equal(t, labels{"@a.io/x": "1"}, read.Items)
	assert.Equal(t, []string{"@a.io/large"}, read.TooLarge)
	assert.Equal(t, map[string][]string{"label": {"kubectl"}, "@a.io/x": {"kubectl"}}, read.Owners)
	small := CompactNodeOf(read)
	assert.Equal(t, read, small.Node(), "nothing of it is lost")
	assert.Less(t, len(small.text)+len(small.shape.Value()), 400)
	assert.Equal(t, labels{}, FromNode(object).Items)

	object.Annotations["a.io/x"] = "2"
	assert.True(t, small.DecisionsDiffer(CompactNodeOf(FromNodeWithAnnotations(object, p.Annotations()))))
	object.Annotations["a.io/x"], object.Annotations["other.io/x"] = "1", "2"
	object.Annotations["a.io/large"] += "y"
	match := FromNodeWithAnnotations(object, p.Annotations())
	match.AnnotationBytes = read.AnnotationBytes
	assert.False(t, small.DecisionsDiffer(CompactNodeOf(match)), "a heartbeat in an annotation that is not kept")
}

func TestWhatIsRecordedOfAnnotations(t *testing.T) {
	const keep, wide = `annotations: ["a.io/*"]`, `annotations: ["a.io/*", "b.io/*"]`
	long := strings.Repeat("x", record.MaxAnnotationBytes)
	for name, tt := range map[string]struct {
		read     string // the policy by which the Node was read
		now      string // the policy of now
		record   labels
		stamp    record.Stamp
		shows    labels
		managers []string // of every annotation
		want     labels
	}{
		"a client's annotation":                              {keep, keep, nil, record.Stamp{}, labels{"a.io/x": "1"}, []string{"kubectl"}, labels{"@a.io/x": "1"}},
		"an annotation without an owner":                     {keep, keep, nil, record.Stamp{}, labels{"a.io/x": "1"}, nil, labels{"@a.io/x": "1"}},
		"one that only the kubelet sets":                     {keep, keep, nil, record.Stamp{}, labels{"a.io/x": "1"}, []string{"kubelet"}, labels{}},
		"a client removed it":                                {keep, keep, labels{"@a.io/x": "1"}, record.Stamp{}, nil, nil, labels{}},
		"the policy no longer keeps it":                      {"", "", labels{"@a.io/x": "1"}, record.Stamp{}, labels{"a.io/x": "1"}, nil, labels{"@a.io/x": "1"}},
		"the policy keeps it, and the Node was read before":  {"", keep, labels{"@a.io/x": "1"}, record.Stamp{}, labels{"a.io/x": "1"}, nil, labels{"@a.io/x": "1"}},
		"it was read before, and the stamp lists it":         {"", keep, labels{"@a.io/x": "1"}, given(labels{"@a.io/x": "1"}), labels{"a.io/x": "1"}, nil, labels{"@a.io/x": "1"}},
		"the policy of now keeps less than when it was read": {wide, keep, labels{"@b.io/x": "old"}, record.Stamp{}, labels{"b.io/x": "new"}, nil, labels{"@b.io/x": "old"}},
		"it has grown too large":                             {keep, keep, labels{"@a.io/x": "1"}, record.Stamp{}, labels{"a.io/x": long + "x"}, []string{"kubectl"}, labels{}},
		"the kubelet has made it too large":                  {keep, keep, labels{"@a.io/x": "1"}, record.Stamp{}, labels{"a.io/x": long + "x"}, []string{"kubelet"}, labels{"@a.io/x": "1"}},
		"nodekeep has restored it":                           {keep, keep, labels{"@a.io/x": long}, given(labels{"@a.io/x": long}), labels{"a.io/x": long}, nil, labels{"@a.io/x": long}},
		"a client removed what nodekeep restored":            {keep, keep, labels{"@a.io/x": long}, given(labels{"@a.io/x": long}), nil, nil, labels{}},
	} {
		t.Run(name, func(t *testing.T) {
			object := stamped(annotated(9, labels{}), tt.stamp)
			for key, value := range tt.shows {
				object.Annotations[key] = value
				for _, manager := range tt.managers {
					object.ManagedFields = append(object.ManagedFields, wrote(manager, 1, record.AnnotationKey(key)))
				}
			}
			r := remembering("a", 5, tt.record)
			read := FromNodeWithAnnotations(object, loaded(t, tt.read).Annotations())
			for form, n := range map[string]*Node{"as it was read": read, "from memory": CompactNodeOf(read).Node()} {
				assert.Equal(t, tt.want, merged(t, r, n, loaded(t, tt.now)).Items(), form)
			}
		})
	}
}

// A Node shows other keys each time that it registers, under a policy that restores none of the old ones in time.
func TestARecordHoldsNoMoreAnnotationsThanTheLimit(t *testing.T) {
	p := loaded(t, `annotations: ["a.io/*"]`)
	r := record.Record{}
	for life := range record.Version(6) {
		node := object(types.UID(fmt.Sprint("life-", life)), 10*(life+1), nil)
		for i := range 8 {
			node.Annotations[fmt.Sprintf("a.io/%d-%d", life, i)] = strings.Repeat("x", 6000)
		}
		n := FromNodeWithAnnotations(node, p.Annotations())
		r = merged(t, r, n, p)
	}
	size := 0
	for key, value := range record.SplitAnnotations(r.Items()) {
		size += record.AnnotationSize(key, value)
	}
	assert.LessOrEqual(t, size, record.MaxAnnotationsBytes)
	assert.Positive(t, size)
}

func TestAnAnnotationHasACauseInTheHistory(t *testing.T) {
	p := loaded(t, `annotations: ["a.io/*"]`)
	object := annotated(9, labels{"a.io/x": "2"})
	object.ManagedFields = append(object.ManagedFields, wrote("kubectl-annotate", 1, "@a.io/x"))
	r := remembering("a", 5, labels{"@a.io/x": "1"})
	next := merged(t, r, FromNodeWithAnnotations(object, p.Annotations()), p)
	assert.Contains(t, string(next.History), `"actor":"kubectl-annotate","annotations":{"a.io/x":{"from":"1","to":"2"}}`)
}
