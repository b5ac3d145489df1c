package chart

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"

	"nodekeep.dev/nodekeep/policy/policytest"
	"nodekeep.dev/nodekeep/test/harness"
)

// namespace is that of the releases that are only rendered.
const namespace = "nodekeep-system"

// rendered is what `helm template` makes of some values, hooks included.
type rendered []*unstructured.Unstructured

// render renders the chart as for the control plane of these tests; args win.
func render(t *testing.T, args ...string) rendered {
	t.Helper()
	out, err := harness.Template(t.Context(), namespace, append([]string{"--no-hooks=false"}, args...)...)
	require.NoError(t, err)
	return parse(t, out)
}

func parse(t *testing.T, documents []byte) (all rendered) {
	t.Helper()
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(documents), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		if len(object.Object) > 0 {
			all = append(all, object)
		}
	}
}

// contains reports whether there is such an object.
func (r rendered) contains(kind, name string) bool {
	return slices.ContainsFunc(r, func(o *unstructured.Unstructured) bool { return o.GetKind() == kind && o.GetName() == name })
}

// names returns the names of the objects of a kind.
func (r rendered) names(kind string) (names []string) {
	for _, object := range r {
		if object.GetKind() == kind {
			names = append(names, object.GetName())
		}
	}
	slices.Sort(names)
	return names
}

// get returns the object of that kind and name, which must be there.
func get[T any](t *testing.T, r rendered, kind, name string) *T {
	t.Helper()
	for _, object := range r {
		if object.GetKind() == kind && object.GetName() == name {
			var typed T
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, &typed, true))
			return &typed
		}
	}
	require.Failf(t, "not rendered", "%s %s", kind, name)
	return nil
}

// pods returns the pod templates by the name of what makes them.
func (r rendered) pods(t *testing.T) map[string]corev1.PodTemplateSpec {
	t.Helper()
	pods := map[string]corev1.PodTemplateSpec{}
	for _, name := range r.names("Deployment") {
		pods[name] = get[appsv1.Deployment](t, r, "Deployment", name).Spec.Template
	}
	for _, name := range r.names("Job") {
		pods[name] = get[batchv1.Job](t, r, "Job", name).Spec.Template
	}
	return pods
}

// container returns the only container of the pods of that name.
func (r rendered) container(t *testing.T, name string) corev1.Container {
	t.Helper()
	pod, ok := r.pods(t)[name]
	require.True(t, ok, name)
	require.Len(t, pod.Spec.Containers, 1)
	return pod.Spec.Containers[0]
}

// rules returns all that a ServiceAccount of the release may do in some namespace.
func (r rendered) rules(t *testing.T) (rules []rbacv1.PolicyRule) {
	t.Helper()
	for _, name := range r.names("ClusterRole") {
		if slices.ContainsFunc([]string{"nodekeep-viewer", "nodekeep-operator", "nodekeep-policy-"}, func(users string) bool { return strings.HasPrefix(name, users) }) {
			continue // for users
		}
		rules = append(rules, get[rbacv1.ClusterRole](t, r, "ClusterRole", name).Rules...)
	}
	for _, object := range r {
		if object.GetKind() == "Role" {
			var role rbacv1.Role
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role))
			rules = append(rules, role.Rules...)
		}
	}
	return rules
}

// hooks returns the webhooks of both configurations.
func (r rendered) hooks(t *testing.T) (mutating []admissionregistrationv1.MutatingWebhook, validating []admissionregistrationv1.ValidatingWebhook) {
	t.Helper()
	if r.contains("ValidatingWebhookConfiguration", "nodekeep") {
		validating = get[admissionregistrationv1.ValidatingWebhookConfiguration](t, r, "ValidatingWebhookConfiguration", "nodekeep").Webhooks
	}
	return get[admissionregistrationv1.MutatingWebhookConfiguration](t, r, "MutatingWebhookConfiguration", "nodekeep").Webhooks, validating
}

// policy returns the manifest of the NodePolicy. Without one, it is that of a policy that says nothing.
func (r rendered) policy(t *testing.T) string {
	t.Helper()
	i := slices.IndexFunc(r, func(o *unstructured.Unstructured) bool { return o.GetKind() == "NodePolicy" })
	if i < 0 {
		return policytest.Head
	}
	content, err := sigsyaml.Marshal(r[i].Object)
	require.NoError(t, err)
	return string(content)
}
