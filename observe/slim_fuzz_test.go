package observe

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// hostileNodes are Nodes as a client can send them by protobuf.
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
			n.Annotations[policy.StampAnnotation] = "{\"restored\":[\"\xff\"],\"taints\":{}}"
		}),
		change(func(n *corev1.Node) {
			n.Annotations[policy.StampAnnotation] = `{"restored":[],"pending":null,"brought":{"a:NoSchedule":"\u0000"}}`
		}),
		change(func(n *corev1.Node) { n.ManagedFields[0].Manager = "kube\xff" }),
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

// comparable is what a plan looks at, without what is no difference of its own: versions, times and the order of taints.
func comparableNode(n *Node) Node {
	c := *n
	c.ResourceVersion, c.CreationTimestamp, c.AnnotationBytes, c.Taints, c.Writers = "", metav1.Time{}, 0, nil, nil
	if n.deleting() {
		c.DeletionTimestamp = &metav1.Time{}
	}
	for _, wrote := range n.Writers {
		wrote.At = 0
		c.Writers = append(c.Writers, wrote)
	}
	if len(c.Items) == 0 {
		c.Items = nil
	}
	return c
}

// FuzzSlimNode makes Nodes of bytes as the API server's protobuf does, so that each text may hold anything.
func FuzzSlimNode(f *testing.F) {
	for _, node := range hostileNodes() {
		data, err := node.Marshal()
		require.NoError(f, err)
		other, err := usualNode(7).Marshal()
		require.NoError(f, err)
		f.Add(data, other)
	}
	f.Fuzz(func(t *testing.T, data, other []byte) {
		var object, second corev1.Node
		if object.Unmarshal(data) != nil || second.Unmarshal(other) != nil {
			return
		}
		want := nodeOf(&object)
		slimmed, err := slim(&object)
		require.NoError(t, err)
		small := slimmed.(*slimNode)
		require.NoError(t, small.fault())
		got := small.node()
		require.Equal(t, want.Name, small.name())
		require.Equal(t, want.UID, small.uid())
		require.Equal(t, want.Taints, got.Taints)
		require.Equal(t, want.Writers, got.Writers)
		require.Equal(t, comparableNode(want), comparableNode(got))
		require.Equal(t, want.AnnotationBytes, got.AnnotationBytes)
		require.False(t, small.differs(slimOf(got)))

		further := slimOf(nodeOf(&second))
		same := reflect.DeepEqual(comparableNode(got), comparableNode(further.node()))
		require.Equal(t, !same, small.differs(further), "two Nodes differ if and only if a plan could")

		for _, text := range textsOf(want) {
			require.True(t, utf8.ValidString(text), "%q", text)
		}
		recordable(t, want)
	})
}

// textsOf are the texts that capture may write into records, Events and patches.
func textsOf(n *Node) []string {
	texts := []string{n.Machine.ProviderID, n.Machine.SystemUUID, n.Machine.MachineID, n.Stamp.String()}
	for item, value := range n.Items {
		texts = append(texts, item, value)
	}
	for _, wrote := range n.Writers {
		texts = append(texts, wrote.Manager)
	}
	return append(texts, n.Claimed...)
}

// recordable reads what capture writes of a Node back as it was written: otherwise it would write it again for ever.
func recordable(t *testing.T, seen *Node) {
	t.Helper()
	if seen.Name == "" || !utf8.ValidString(seen.Name) || !utf8.ValidString(string(seen.UID)) { // the API server makes these
		return
	}
	p := policy.Default()
	prev := store.Record{Version: store.Version, Node: seen.Name, UID: seen.UID, NodeResourceVersion: "1", Items: map[string]string{"was": "1"}}
	for _, known := range []*store.Record{nil, &prev} {
		next := plan(known, seen, Present, p, time.Unix(1_700_000_000, 0))
		if _, err := patchFor(seen, next, p.Gate()); err != nil {
			require.NoError(t, err)
		}
		if next.Write == nil {
			continue
		}
		data, err := store.Encode(*next.Write)
		if err != nil {
			continue // too large
		}
		back, err := store.Decode(data, seen.Name)
		require.NoError(t, err)
		assert.True(t, back.Same(*next.Write) || len(back.Items) != len(next.Write.Items), "%s", data) // an item that no Node can have is dropped
		assert.Len(t, back.History, len(next.Write.History))
	}
}

func TestAPatchOfAHostileNodeIsJSONThatTheAPIServerCanRead(t *testing.T) {
	for _, object := range hostileNodes() {
		seen := nodeOf(object)
		seen.Taints = append(seen.Taints, policy.DefaultGate.Taint())
		body, err := patchFor(seen, Plan{Step: Lift, LiftGate: true, Stamp: stampAfter(seen, map[string]string{"a": "1"}, nil)}, policy.DefaultGate)
		require.NoError(t, err)
		var patch corev1.Node
		require.NoError(t, json.Unmarshal(body, &patch), "%s", body)
		assert.True(t, utf8.Valid(body))
	}
}

func TestANulInAnIdentityMovesNoValueOfALabel(t *testing.T) {
	object := usualNode(7)
	object.Labels["tier"] = "bronze"
	object.Spec.ProviderID = "p\x00s\x00m\x00gold\x00gold\x00gold\x00gold\x00gold\x00gold"
	got := slimOf(nodeOf(object)).node()
	assert.Equal(t, object.Labels, got.Items)
	assert.Equal(t, object.Spec.ProviderID, got.Machine.ProviderID)
}
