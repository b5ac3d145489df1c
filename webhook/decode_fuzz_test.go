package webhook

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
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
		`{"metadata":{"Name":"n","LABELS":{"a":"1"}},"Spec":{}}`,
		`{"metadata":{"name":"n"},"status":{"images":[{"names":["a"],"sizeBytes":1e3}],"capacity":{"cpu":"16"}}}`,
		`{"kind":"Node","apiVersion":"v1","metadata":{"name":"worker-1","labels":{"kubernetes.io/hostname":"worker-1"},"annotations":{"nodekeep.dev/restored":"{\"restored\":[],\"pending\":[]}"}},"spec":{"providerID":"aws:///eu-1a/i-0","taints":[{"key":"node.kubernetes.io/not-ready","effect":"NoSchedule"},{"key":"nodekeep.dev/restoring","effect":"NoSchedule"}]}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, object []byte) {
		body := append(append([]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"operation":"CREATE","kind":{"kind":"Node","version":"v1"},"object":`), object...), `}}`...)
		review, _, err := readReview(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body)))
		if err != nil || review.Request.SubResource != "" || review.Request.Operation != admissionv1.Create { // or the object ends early and says something of the request
			return
		}
		in, err := decode(review.Request)
		if err != nil {
			assert.Zero(t, in)
			return
		}
		require.NotEmpty(t, in.node)
		var node corev1.Node
		if kjson.UnmarshalCaseSensitivePreserveInts(review.Request.Object.Raw, &node) != nil {
			return
		}
		assert.Equal(t, node.Name, in.node)
		assert.Equal(t, node.Labels, in.labels)
		assert.Equal(t, node.Annotations, in.annotations)
		assert.Equal(t, node.Spec.Taints, in.taints)
		assert.True(t, in.hasSpec || in.taints == nil)
		assert.Equal(t, policy.Machine{ProviderID: node.Spec.ProviderID, SystemUUID: node.Status.NodeInfo.SystemUUID, MachineID: node.Status.NodeInfo.MachineID}, machineOf(review.Request))
	})
}
