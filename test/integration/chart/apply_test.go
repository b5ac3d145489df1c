package chart

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"k8s.io/utils/ptr"
)

// The API server takes every object of every variant, hooks included, with no field that it does not know; those of cert-manager by
// the schema that cert-manager publishes.
func TestTheAPIServerTakesAllThatIsRendered(t *testing.T) {
	withPolicies(t)
	require.NoError(t, makeNamespace(t.Context(), namespace, nil)) // a dry run does not make the one that is rendered
	dry := newDryRun(t)
	kinds := map[string]int{}
	for name, v := range variants(t) {
		t.Run(name, func(t *testing.T) {
			for _, object := range render(t, v.args...) {
				kinds[object.GetKind()]++
				if object.GetNamespace() != "" { // profiles name namespaces that exist
					require.NoError(t, makeNamespace(t.Context(), object.GetNamespace(), nil))
				}
				assert.NoError(t, dry.apply(t.Context(), object), "%s %s", object.GetKind(), object.GetName())
			}
		})
	}
	t.Logf("applied: %v", kinds)
	for _, kind := range []string{"Certificate", "Issuer", "Job", "FlowSchema", "MutatingAdmissionPolicy", "ResourceQuota", "NetworkPolicy", "NodePolicy", "CustomResourceDefinition"} {
		assert.NotZero(t, kinds[kind], kind)
	}
}

// Or the test above would show nothing.
func TestADryRunFindsErrors(t *testing.T) {
	require.NoError(t, makeNamespace(t.Context(), namespace, nil))
	dry := newDryRun(t)
	r := render(t, set("certificates.mode=certManager")...)
	for name, c := range map[string]struct {
		kind, object string
		spoil        []string
		says         string
	}{
		"a field of cert-manager's that is misspelt": {"Certificate", "nodekeep-webhook", []string{"spec", "rotationPolicy"}, "rotationPolicy"},
		"an algorithm that is none":                  {"Certificate", "nodekeep-webhook", []string{"spec", "privateKey", "algorithm"}, "Unsupported value"},
		"a field of ours that is misspelt":           {"Deployment", "nodekeep-webhook", []string{"spec", "template", "spec", "hostNetworks"}, "hostNetworks"},
		"a webhook configuration's":                  {"MutatingWebhookConfiguration", "nodekeep", []string{"webhook"}, "webhook"},
	} {
		t.Run(name, func(t *testing.T) {
			spoilt := &unstructured.Unstructured{}
			for _, object := range r {
				if object.GetKind() == c.kind && object.GetName() == c.object {
					spoilt = object.DeepCopy()
				}
			}
			require.NoError(t, unstructured.SetNestedField(spoilt.Object, "wrong", c.spoil...))
			assert.ErrorContains(t, dry.apply(t.Context(), spoilt), c.says)
		})
	}
}

func TestPodsMeetTheRestrictedProfileUnlessTheyAreOnTheHostNetwork(t *testing.T) {
	for _, profile := range []string{"restricted", "baseline", "privileged"} {
		require.NoError(t, makeNamespace(t.Context(), "profile-"+profile, map[string]string{"pod-security.kubernetes.io/enforce": profile}))
	}
	host := func(t *testing.T, pod corev1.PodTemplateSpec) {
		require.ErrorContains(t, admit(t, "baseline", pod), "violates PodSecurity", "so the namespace must say privileged")
		require.NoError(t, admit(t, "privileged", pod))
		pod.Spec.HostNetwork = false
		for i := range pod.Spec.Containers {
			for p := range pod.Spec.Containers[i].Ports {
				pod.Spec.Containers[i].Ports[p].HostPort = 0
			}
		}
		assert.NoError(t, admit(t, "restricted", pod), "but for the host network it would meet the restricted profile")
	}
	restricted := func(t *testing.T, pod corev1.PodTemplateSpec) { assert.NoError(t, admit(t, "restricted", pod)) }
	for name, c := range map[string]struct {
		args []string
		want map[string]func(*testing.T, corev1.PodTemplateSpec)
	}{
		"the defaults":    {nil, map[string]func(*testing.T, corev1.PodTemplateSpec){"nodekeep-webhook": restricted, "nodekeep-capture": host, "nodekeep-uninstall": host}},
		"verification":    {profiles(oneProfile), map[string]func(*testing.T, corev1.PodTemplateSpec){"nodekeep-verify": restricted}},
		"no host network": {set("capture.hostNetwork=false", "certificates.mode=certManager"), map[string]func(*testing.T, corev1.PodTemplateSpec){"nodekeep-webhook": restricted, "nodekeep-capture": restricted, "nodekeep-uninstall": restricted}},
	} {
		t.Run(name, func(t *testing.T) {
			pods := render(t, c.args...).pods(t)
			for pod, want := range c.want {
				t.Run(pod, func(t *testing.T) { want(t, pods[pod]) })
			}
		})
	}
}

// admit returns what the API server says of the pod in a namespace with that profile.
func admit(t *testing.T, profile string, template corev1.PodTemplateSpec) error {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "admitted"}, Spec: *template.Spec.DeepCopy()}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: pod.Spec.ServiceAccountName}}
	if _, err := admin.CoreV1().ServiceAccounts("profile-"+profile).Create(t.Context(), account, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		require.NoError(t, err)
	}
	_, err := admin.CoreV1().Pods("profile-"+profile).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// dryRun applies objects without storing them.
type dryRun struct {
	client dynamic.Interface
	mapper meta.RESTMapper
}

func newDryRun(t *testing.T) dryRun {
	t.Helper()
	client, err := dynamic.NewForConfig(control.Admin())
	require.NoError(t, err)
	groups, err := restmapper.GetAPIGroupResources(admin.Discovery())
	require.NoError(t, err)
	return dryRun{client, restmapper.NewDiscoveryRESTMapper(groups)}
}

func (d dryRun) apply(ctx context.Context, object *unstructured.Unstructured) error {
	kind := object.GroupVersionKind()
	mapping, err := d.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	resource := dynamic.ResourceInterface(d.client.Resource(mapping.Resource))
	if object.GetNamespace() != "" {
		resource = d.client.Resource(mapping.Resource).Namespace(object.GetNamespace())
	}
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	_, err = resource.Patch(ctx, object.GetName(), types.ApplyPatchType, body, metav1.PatchOptions{
		FieldManager: "chart-test", FieldValidation: metav1.FieldValidationStrict, DryRun: []string{metav1.DryRunAll}, Force: ptr.To(true),
	})
	return err
}
