package webhook

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"

	"nodekeep.dev/nodekeep/policy"
)

// FuzzDecode holds the partial decoding to the full one of the API server, on objects that both can read.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		``, `null`, `{}`, `[]`, `"Node"`, `7`, `{"metadata":null}`, `{"metadata":{"name":""}}`, `{"metadata":{"generateName":"n-"}}`,
		`{"metadata":{"name":"n"}}`,
		`{"metadata":{"name":"n"}} `,
		`{"metadata":{"name":"n"}}{}`,
		`{"metadata":{"name":"n","labels":null,"annotations":null},"spec":null,"status":null}`,
		`{"metadata":{"name":"n","labels":{},"annotations":{}},"spec":{"taints":[]}}`,
		`{"metadata":{"name":"n","labels":["a"]}}`,
		`{"metadata":{"name":"n","labels":{"a":null,"b":"\u0000\ud800"}}}`,
		`{"metadata":{"name":"n","labels":{"a":7}}}`,
		`{"metadata":{"name":"n"},"spec":{"taints":[null,{},{"key":"a","effect":"NoSchedule","timeAdded":"2026-03-02T09:30:00Z"}]}}`,
		`{"metadata":{"name":"n"},"spec":{"taints":[{"key":"a","effect":"NoSchedule","timeAdded":null}]}}`,
		`{"metadata":{"name":"n"},"spec":{"taints":[{"key":"a","timeAdded":"yesterday"}]}}`,
		`{"metadata":{"name":"n"},"spec":{"taints":{"key":"a"}}}`,
		`{"metadata":{"name":"n","labels":{"a":"1"},"labels":{"b":"2"}}}`,
		`{"metadata":{"name":"n"},"spec":{},"metadata":{"name":"m"}}`, `{"spec":{},"spec":null,"metadata":{"name":"n"}}`,
		`{"status":{"images":[{"names":["a"]}],"nodeInfo":{"machineID":"m"}},"spec":{"providerID":"p"},"metadata":{"name":"\ud800"}}`,
		`{"status":{"capacity":{"cpu":16,"memory":"1Gi","nvidia.com/gpu":" 2 "},"allocatable":{"memory":null,"cpu":{}},"nodeInfo":[],"images":7},"spec":{},"metadata":{"name":"n"}}`,
		`{"metadata":{"name":"n"},"spec":{},"status":{"capacity":["nodeInfo",{"machineID":"m"}],"allocatable":{"memory":["1"]},"nodeInfo":{"machineID":{},"systemUUID":["s"],"kubeletVersion":"v1"}}}`,
		`{"metadata":{"name":"n"},"spec":{},"status":[{"nodeInfo":{"machineID":"m"}}]}`,
		`{"metadata":{"Name":"n","LABELS":{"a":"1"}},"Spec":{}}`,
		`{"metadata":{"name":"n"},"spec":{},"status":{"declaredFeatures":["Resize","Other","Resize"],"nodeInfo":{"kubeletVersion":"v1"},"capacity":{"cpu":"1"},"allocatable":{}}}`,
		`{"metadata":{"name":"n"},"spec":{},"status":{"declaredFeatures":[7,null,["Resize"],{"Resize":[]},"Resize"],"images":[]}}`,
		`{"metadata":{"name":"n"},"spec":{},"status":{"declaredFeatures":{"Resize":"Resize"}}}`,
		`{"metadata":{"name":"n"},"spec":{},"status":{"declaredFeatures":["A","B"]}}`,
		`{"metadata":{"name":"n"},"status":{"images":[{"names":["a"],"sizeBytes":1e3}],"capacity":{"cpu":"16"}}}`,
		`{"kind":"Node","apiVersion":"v1","metadata":{"name":"worker-1","labels":{"kubernetes.io/hostname":"worker-1"},"annotations":{"nodekeep.dev/restored":"{\"restored\":[],\"pending\":[]}"}},"spec":{"providerID":"aws:///eu-1a/i-0","taints":[{"key":"node.kubernetes.io/not-ready","effect":"NoSchedule"},{"key":"nodekeep.dev/restoring","effect":"NoSchedule"}]}}`,
	} {
		f.Add([]byte(seed))
	}
	p := looking(f)
	f.Fuzz(func(t *testing.T, object []byte) {
		body := append(append([]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"operation":"CREATE","kind":{"kind":"Node","version":"v1"},"object":`), object...), `}}`...)
		review, err := DecodeReview(body)
		if err != nil || review.Request.SubResource != "" || review.Request.Operation != admissionv1.Create { // or the object ends early and says something of the request
			return
		}
		in, err := decode(review.Request, p)
		if err != nil {
			assert.Zero(t, in)
			return
		}
		require.NotEmpty(t, in.node)
		if !jsontext.Value(review.Request.Object.Raw).IsValid(jsontext.AllowInvalidUTF8(true)) {
			return // the API server repeats no name of a field
		}
		var node corev1.Node
		if kjson.UnmarshalCaseSensitivePreserveInts(review.Request.Object.Raw, &node) != nil {
			return
		}
		assert.Equal(t, node.Name, in.node)
		assert.Equal(t, node.Labels, in.labels)
		assert.Equal(t, node.Annotations, in.annotations)
		assert.Equal(t, node.Spec.Taints, in.taints)
		assert.True(t, in.hasSpec || in.taints == nil)
		assert.Equal(t, policy.MachineOf(node.Spec.ProviderID, node.Status.NodeInfo.SystemUUID, node.Status.NodeInfo.MachineID), in.machine)
		assert.Equal(t, policy.SystemOf(node.Status.NodeInfo), in.facts.System)
		assert.Equal(t, policy.BootOf(node.Status.NodeInfo), in.bootID)
		for name, amount := range in.facts.Capacity {
			assert.Contains(t, []corev1.ResourceName{"cpu", "nvidia.com/gpu"}, name, "no rule looks at others")
			assert.Zero(t, amount.Cmp(node.Status.Capacity[name]), name)
		}
		assert.Equal(t, slices.Contains(node.Status.DeclaredFeatures, "Resize"), slices.Contains(in.facts.Declared, "Resize"))
		assert.LessOrEqual(t, len(in.facts.Declared), 2, "no rule looks at others; one of them shows that there are some")
		for _, name := range in.facts.Declared {
			assert.Contains(t, node.Status.DeclaredFeatures, name)
		}
		rest := slices.ContainsFunc(node.Status.DeclaredFeatures, func(name string) bool { return name != "" })
		assert.True(t, !rest || len(in.facts.Declared) > 0)
		assert.Zero(t, in.facts.Allocatable.Memory().Cmp(*node.Status.Allocatable.Memory()))
	})
}

// FuzzDecodeProtobuf sends Nodes through the decoder that a client made by protobuf, where each text may hold any bytes, in the
// JSON that the API server makes of them.
func FuzzDecodeProtobuf(f *testing.F) {
	for _, change := range []func(n *corev1.Node){
		func(*corev1.Node) {},
		func(n *corev1.Node) {
			n.Annotations = map[string]string{"cluster.x-k8s.io/labels-from-machine": "a\xff"}
		},
		func(n *corev1.Node) {
			n.Annotations = map[string]string{policy.StampAnnotation: "{\"restored\":[\"\xff\"]}"}
		},
		func(n *corev1.Node) {
			n.Labels = map[string]string{"a\xff": "\xfe", "a\xfe": "\x00", "b:NoSchedule": ""}
		},
		func(n *corev1.Node) {
			n.Spec.ProviderID, n.Status.NodeInfo.SystemUUID, n.Status.NodeInfo.MachineID, n.Status.NodeInfo.BootID = "p\x00s", "\xff", "m\x00\xff", "b\xff\x00"
		},
		func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "a\xff", Value: "\x00", Effect: "\xff"}} },
		func(n *corev1.Node) { n.Status.Capacity = corev1.ResourceList{"a\xff": {}, "a\xfe": {}} },
		func(n *corev1.Node) {
			n.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "a\xff", FieldsV1: metav1.NewFieldsV1("{\"f:a\xff\":{},\"f:a\xfe\":{}}")}}
		},
	} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
		change(node)
		data, err := node.Marshal()
		require.NoError(f, err)
		f.Add(data)
	}
	p := looking(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		var node corev1.Node
		if node.Unmarshal(data) != nil || node.Name == "" {
			return
		}
		object, err := json.Marshal(&node)
		if err != nil {
			return // a time that the API server cannot send either
		}
		body, err := json.Marshal(&admissionv1.AdmissionReview{
			TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
			Request: &admissionv1.AdmissionRequest{
				Operation: admissionv1.Create, Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Node"}, Object: runtime.RawExtension{Raw: object},
			},
		})
		if err != nil {
			return // managedFields that the API server refuses: they are no JSON
		}
		review, err := DecodeReview(body)
		require.NoError(t, err)
		var sent corev1.Node
		if json.Unmarshal(object, &sent) != nil { // a time or a quantity that nobody can read
			_, _ = decode(review.Request, p)
			return
		}
		in, err := decode(review.Request, p)
		require.NoError(t, err)
		assert.Equal(t, sent.Name, in.node)
		assert.Equal(t, sent.Labels, in.labels)
		assert.Equal(t, sent.Annotations, in.annotations)
		assert.Equal(t, sent.Spec.Taints, in.taints)
		assert.Equal(t, policy.MachineOf(node.Spec.ProviderID, node.Status.NodeInfo.SystemUUID, node.Status.NodeInfo.MachineID), in.machine,
			"webhook and capture see the same machine")
		assert.Equal(t, policy.BootOf(node.Status.NodeInfo), in.bootID, "and the same boot")
		d := decide(in, known{current: true}, p)
		_, err = encode(patch(in, d))
		require.NoError(t, err)
	})
}

// looking returns a policy that looks at machines and at facts of every kind.
func looking(t testing.TB) policy.Policy {
	t.Helper()
	return load(t, `machine: {onMismatch: quarantine}
taints: {register: [{taint: "a:NoSchedule", onReboot: true}]}
labels: {rules: [
  {name: one, when: {capacity: {cpu: ">=16", nvidia.com/gpu: ">=1"}, kernel: ">=6.1", kubelet: v1*, features: {Resize: "*"}}, set: {size: large}}]}`)
}
