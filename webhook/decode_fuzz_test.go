package webhook

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// FuzzDecode holds the partial decoding to the full one, on objects that both can read.
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
		`{"metadata":{"Name":"n","LABELS":{"a":"1"}},"Spec":{}}`,
		`{"metadata":{"name":"n"},"status":{"images":[{"names":["a"],"sizeBytes":1e3}],"capacity":{"cpu":"16"}}}`,
		`{"kind":"Node","apiVersion":"v1","metadata":{"name":"worker-1","labels":{"kubernetes.io/hostname":"worker-1"},"annotations":{"nodekeep.dev/restored":"{\"restored\":[],\"pending\":[]}"}},"spec":{"providerID":"aws:///eu-1a/i-0","taints":[{"key":"node.kubernetes.io/not-ready","effect":"NoSchedule"},{"key":"nodekeep.dev/restoring","effect":"NoSchedule"}]}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, object []byte) {
		in, err := decode(&admissionv1.AdmissionRequest{
			Operation: admissionv1.Create,
			Kind:      metav1.GroupVersionKind{Version: "v1", Kind: "Node"},
			Object:    runtime.RawExtension{Raw: object},
		})
		if err != nil {
			assert.Zero(t, in)
			return
		}
		require.NotEmpty(t, in.node)
		assert.Equal(t, len(object), in.size)
		var node corev1.Node
		if json.Unmarshal(object, &node) != nil || ambiguous(t, object) {
			return
		}
		assert.Equal(t, node.Name, in.node)
		assert.Equal(t, node.Labels, in.labels)
		assert.Equal(t, node.Annotations, in.annotations)
		assert.Equal(t, node.Spec.Taints, in.taints)
		assert.True(t, in.hasSpec || in.taints == nil)
	})
}

// ambiguous reports whether an object has a field that only encoding/json takes for one of ours: it ignores the case of names,
// the API server does not.
func ambiguous(t *testing.T, object []byte) bool {
	t.Helper()
	var value any
	require.NoError(t, json.Unmarshal(object, &value))
	return anyName(value, func(name string) bool {
		return slices.ContainsFunc(
			[]string{"metadata", "name", "labels", "annotations", "spec", "taints", "key", "value", "effect", "timeAdded"},
			func(ours string) bool { return name != ours && strings.EqualFold(name, ours) },
		)
	})
}

func anyName(value any, is func(string) bool) bool {
	switch value := value.(type) {
	case []any:
		return slices.ContainsFunc(value, func(element any) bool { return anyName(element, is) })
	case map[string]any:
		for name, field := range value {
			if is(name) || anyName(field, is) {
				return true
			}
		}
	}
	return false
}
