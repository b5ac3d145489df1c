package observe

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/record/history"
)

// hostileNodes returns Nodes as a client can send them by protobuf.
func hostileNodes() []*corev1.Node {
	change := func(change func(n *corev1.Node)) *corev1.Node {
		n := usualNode(7)
		change(n)
		return n
	}
	const claims = "cluster.x-k8s.io/labels-from-machine"
	return []*corev1.Node{
		{}, usualNode(7),
		change(func(n *corev1.Node) { n.Annotations[claims] = "a\xff, \xfe" }),
		change(func(n *corev1.Node) {
			n.Annotations[policy.StampAnnotation] = "{\"given\":{\"\xff\":{\"value\":\"\xfe\",\"since\":\"7\"},\"example.com/label-1\":{\"value\":\"value-7\"}}}"
		}),
		change(func(n *corev1.Node) {
			n.Annotations[policy.StampAnnotation] = `{"given":{},"brought":{"a:NoSchedule":"\u0000","example.com/label-1":"other"}}`
		}),
		change(func(n *corev1.Node) {
			n.Annotations[policy.StampAnnotation] = `{"given":{"a:NoSchedule":{"value":"1","since":"18446744073709551615"},"gone":null}}`
			n.Annotations[policy.TaintsAnnotation] = "a=1:NoSchedule,\xff=\xfe:\x00,,=:"
			n.Spec.Taints = []corev1.Taint{{Key: "a", Value: "1", Effect: "NoSchedule"}}
		}),
		change(func(n *corev1.Node) { n.Annotations = map[string]string{policy.StampAnnotation: "null"} }),
		change(func(n *corev1.Node) { n.ManagedFields[0].Manager = "kube\xff" }),
		change(func(n *corev1.Node) {
			n.Annotations = map[string]string{"a": "1", "x.a.io/\xff": "\xfe", "x.a.io/large": strings.Repeat("x", 9000), policy.StampAnnotation: `{"given":{"@a":{"value":"1"},"@@":{"value":"2"}}}`}
			n.ManagedFields = append(n.ManagedFields, metav1.ManagedFieldsEntry{Manager: "kubectl", FieldsV1: metav1.NewFieldsV1("{\"f:metadata\":{\"f:annotations\":{\"f:a\":{},\"f:x.a.io/\xff\":{}},\"f:labels\":{\"f:@a\":{}}}}")})
		}),
		change(func(n *corev1.Node) { n.ManagedFields[0].Manager = "a\x00b\x00" }),
		change(func(n *corev1.Node) {
			n.ManagedFields[0].Time = &metav1.Time{Time: time.Date(20_000, 1, 1, 0, 0, 0, 0, time.UTC)}
		}),
		change(func(n *corev1.Node) {
			n.ManagedFields[0].FieldsV1 = metav1.NewFieldsV1("{\"f:metadata\":{\"f:labels\":{\"f:a\xff\":{},\"f:a\xfe\":{}}}}")
		}),
		change(func(n *corev1.Node) { n.Spec.ProviderID = "p\x00s\x00m\x00amd64" }),
		change(func(n *corev1.Node) { n.Status.NodeInfo.SystemUUID, n.Status.NodeInfo.MachineID = "\xff", "a\x00" }),
		change(func(n *corev1.Node) {
			n.Status.NodeInfo.BootID, n.Annotations[policy.StampAnnotation] = "\xff\x00", "{\"boot\":\"\xfe\\u0000\"}"
		}),
		change(func(n *corev1.Node) {
			n.Labels["a\xff"], n.Labels["a\xfe"], n.Labels["b:NoSchedule"] = "\xff", "\x00", "c"
		}),
		change(func(n *corev1.Node) { n.Name, n.UID, n.ResourceVersion = "a\x00b", "\xff", "\xfe" }),
		change(func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{
				{Key: "a\xff", Value: "\x00", Effect: "No\xffSchedule"}, {Key: "b", Effect: "NoSchedule", TimeAdded: &metav1.Time{Time: time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC)}},
			}
		}),
	}
}

// readable returns what is read of a Node; an empty map is as good as none.
func readable(n *Node) Node {
	c := *n
	for _, m := range []*map[string]string{&c.Items, &c.annotations.stamp.Brought} {
		if len(*m) == 0 {
			*m = nil
		}
	}
	if len(c.annotations.stamp.Given) == 0 {
		c.annotations.stamp.Given = nil
	}
	return c
}

// decisive returns what decisions look at, without what is no difference of its own: versions, times and the order of taints. What the kubelet reports
// of the machine is compared by [CompactNode.SameKubeletReport].
func decisive(n *Node) Node {
	c := readable(n)
	c.ResourceVersion, c.Version, c.Fault, c.CreationTimestamp, c.AnnotationBytes, c.Taints, c.Writers = "", 0, nil, metav1.Time{}, 0, nil, nil
	c.Reported = Reported{}
	if n.Deleting() {
		c.DeletionTimestamp = &metav1.Time{}
	}
	for _, wrote := range n.Writers {
		wrote.Time = 0
		c.Writers = append(c.Writers, wrote)
	}
	return c
}

// FuzzCompactNode makes Nodes of bytes as the API server's protobuf does, so that each text may hold anything.
func FuzzCompactNode(f *testing.F) {
	for _, node := range hostileNodes() {
		data, err := node.Marshal()
		require.NoError(f, err)
		o, err := usualNode(7).Marshal()
		require.NoError(f, err)
		f.Add(data, o)
	}
	larger := usualNode(7)
	larger.Status.Capacity[corev1.ResourceCPU] = resource.MustParse("999")
	data, err := larger.Marshal()
	require.NoError(f, err)
	candidate, err := usualNode(7).Marshal()
	require.NoError(f, err)
	f.Add(data, candidate)
	f.Fuzz(func(t *testing.T, data, o []byte) {
		var object, second corev1.Node
		if object.Unmarshal(data) != nil || second.Unmarshal(o) != nil {
			return
		}
		want := FromNodeWithAnnotations(&object, policy.AnnotationsOf("*"))
		small := CompactNodeOf(want)
		require.NoError(t, small.fault())
		got := small.Node()
		require.Equal(t, want.Name, small.Name())
		require.Equal(t, want.UID, small.UID())
		require.Equal(t, want.ResourceVersion, small.Version())
		require.Equal(t, readable(want), readable(got))
		require.False(t, small.DecisionsDiffer(CompactNodeOf(got)))

		further := CompactNodeOf(FromNodeWithAnnotations(&second, policy.AnnotationsOf("*")))
		equal := reflect.DeepEqual(decisive(got), decisive(further.Node()))
		require.Equal(t, !equal, small.DecisionsDiffer(further), "two Nodes differ if and only if a decision could")
		require.Equal(t, want.Reported == FromNodeWithAnnotations(&second, policy.AnnotationsOf("*")).Reported, small.SameKubeletReport(further))

		for _, text := range textsOf(want) {
			require.True(t, utf8.ValidString(text), "%q", text)
		}
		recordable(t, want)
	})
}

// textsOf returns the texts that capture may write into records, Events and patches.
func textsOf(n *Node) []string {
	texts := []string{n.Machine.ProviderID, n.Machine.SystemUUID, n.Machine.MachineID, n.BootID, n.annotations.stamp.String(), policy.Shown(n.annotations.derived)}
	for item, value := range n.Items {
		texts = append(texts, item, value)
	}
	for _, wrote := range n.Writers {
		texts = append(texts, wrote.Manager)
	}
	return append(texts, n.Claimed...)
}

// recordable reads what is recorded of a Node back as it was written: otherwise it would be written again for ever.
func recordable(t *testing.T, n *Node) {
	t.Helper()
	if n.Name == "" || !utf8.ValidString(n.Name) || n.UID == "" || !utf8.ValidString(string(n.UID)) || n.Fault != nil { // the API server makes these
		return
	}
	p, err := policy.Load([]byte("apiVersion: nodekeep.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: default}\nspec:\n  annotations: ['*.a.io/*', a]"), policy.DefaultGate)
	require.NoError(t, err)
	prev := record.Merge(record.Record{Node: n.Name}, record.Observation{UID: "other", Version: 1, Items: map[string]record.Item{"was": {Value: "1"}, "kept:NoSchedule": {}, "@a": {Value: "1"}, "@not.read": {Value: "1"}}})
	for _, r := range []record.Record{{}, prev} {
		for _, guardInForce := range []bool{true, false} {
			o := n.Observation(r, p, guardInForce)
			next := n.Merge(r, o, p, time.Unix(1_700_000_000, 0))
			data, err := record.Encode(next)
			if errors.Is(err, record.ErrTooLarge) {
				continue
			}
			require.NoError(t, err)
			returned, err := record.Decode(data)
			require.NoError(t, err)
			reread := n.Merge(returned, n.Observation(returned, p, guardInForce), p, time.Unix(1_800_000_000, 0))
			for _, e := range next.Entries {
				if record.Valid(e.Key, e.Value) { // what no Node can have is dropped
					kept, ok := reread.Entry(e.Key)
					require.True(t, ok, "%s", data)
					require.Equal(t, e, kept, "%s", data)
				}
			}
			require.Equal(t, history.Changes(next), history.Changes(reread))
			record.WorthWriting(r, next, o, true)
			record.Missing(next, o)
			record.Stale(next, o)
			n.DerivedTaints(next, p, guardInForce)
		}
	}
}

func TestANulInAnIdentityMovesNoValueOfALabel(t *testing.T) {
	object := usualNode(7)
	object.Labels["tier"] = "bronze"
	object.Spec.ProviderID = "p\x00s\x00m\x00gold\x00gold\x00gold\x00gold\x00gold\x00gold"
	got := CompactNodeOf(FromNode(object)).Node()
	assert.Equal(t, object.Labels, got.Items)
	assert.Equal(t, object.Spec.ProviderID, got.Machine.ProviderID)
}
