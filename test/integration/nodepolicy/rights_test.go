package nodepolicy

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"nodekeep.dev/nodekeep/test/harness"
)

func TestNeitherAKubeletNorNodekeepItselfMayWriteThePolicy(t *testing.T) {
	kubelet := nodekeep.Cluster.Kubelet("writes-policies")
	nodekeep.Register(t, "writes-policies")
	clients := map[string]*rest.Config{"a kubelet": kubelet}
	for _, account := range []string{"nodekeep-webhook", "nodekeep-capture", "nodekeep-verify"} {
		config, err := nodekeep.Cluster.ServiceAccount(t.Context(), harness.Namespace, account)
		require.NoError(t, err)
		clients[account] = config
	}
	kinds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	resource := schema.GroupVersionResource{Group: "nodekeep.dev", Version: "v1alpha1", Resource: "nodepolicies"}
	dry := []string{metav1.DryRunAll}
	for name, config := range clients {
		client, err := dynamic.NewForConfig(config)
		require.NoError(t, err)
		policies := client.Resource(resource)
		current, err := policies.Get(t.Context(), harness.PolicyName, metav1.GetOptions{})
		if name == "a kubelet" {
			require.True(t, apierrors.IsForbidden(err), "a kubelet may not even read it: %v", err)
			current = &unstructured.Unstructured{Object: map[string]any{"apiVersion": "nodekeep.dev/v1alpha1", "kind": "NodePolicy", "metadata": map[string]any{"name": harness.PolicyName}}}
		} else {
			require.NoError(t, err, "each process reads it")
		}
		patch := []byte(`{"spec":{"cordon":"keep"}}`)
		for subject, fn := range map[string]func() error{
			"patch it": func() error {
				_, err := policies.Patch(t.Context(), harness.PolicyName, types.MergePatchType, patch, metav1.PatchOptions{DryRun: dry})
				return err
			},
			"patch its status": func() error {
				_, err := policies.Patch(t.Context(), harness.PolicyName, types.MergePatchType, []byte(`{"status":{"observedGeneration":1}}`), metav1.PatchOptions{DryRun: dry}, "status")
				return err
			},
			"update it": func() error {
				_, err := policies.Update(t.Context(), current, metav1.UpdateOptions{DryRun: dry})
				return err
			},
			"create it": func() error {
				_, err := policies.Create(t.Context(), current, metav1.CreateOptions{DryRun: dry})
				return err
			},
			"delete it": func() error {
				return policies.Delete(t.Context(), harness.PolicyName, metav1.DeleteOptions{DryRun: dry})
			},
			"delete all": func() error {
				return policies.DeleteCollection(t.Context(), metav1.DeleteOptions{DryRun: dry}, metav1.ListOptions{})
			},
			"change its kind": func() error {
				_, err := client.Resource(kinds).Patch(t.Context(), "nodepolicies.nodekeep.dev", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{DryRun: dry})
				return err
			},
			"delete its kind": func() error {
				return client.Resource(kinds).Delete(t.Context(), "nodepolicies.nodekeep.dev", metav1.DeleteOptions{DryRun: dry})
			},
		} {
			if name != "a kubelet" && subject == "patch its status" {
				continue
			}
			err := fn()
			assert.True(t, apierrors.IsForbidden(err), "%s may not %s: %v", name, subject, err)
		}
	}
}
