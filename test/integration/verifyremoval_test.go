package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"nodekeep.dev/nodekeep/test/harness"
	verification "nodekeep.dev/nodekeep/verify"
)

// RBAC lets the controller delete any Node where a profile has onFailure. The policy nodekeep-verify-removal says which.
func TestTheVerifiersAccountRemovesNoNodeThatWasOpen(t *testing.T) {
	require.NoError(t, nodekeep.ApplyCRDs(t.Context(), harness.KarpenterCRDs, harness.ClusterAPICRDs))
	asVerifier(t, func(client *kubernetes.Clientset) {
		require.NoError(t, nodekeep.GrantRemoval(t.Context(), verification.RemovalKinds()...))
		removesNoNodeThatWasOpen(t, client)
	})
}

func removesNoNodeThatWasOpen(t *testing.T, client *kubernetes.Clientset) {
	admin, err := dynamic.NewForConfig(nodekeep.Cluster.Admin())
	require.NoError(t, err)
	config, err := nodekeep.Cluster.ServiceAccount(t.Context(), harness.Namespace, "nodekeep-verify")
	require.NoError(t, err)
	account, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	dry := metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
	denied := func(t *testing.T, err error, says string) {
		t.Helper()
		require.True(t, apierrors.IsInvalid(err), "%v", err)
		require.ErrorContains(t, err, "ValidatingAdmissionPolicy 'nodekeep-verify-removal' with binding 'nodekeep-verify-removal' denied request: nodekeep-verify can "+says)
	}

	const reboots, retryHint = verification.Taint + "=reboot-1-2:NoSchedule", verification.Taint + "=recheck:NoSchedule"
	for name, taints := range map[string][]string{
		"removed-open":    nil,
		"removed-tenant":  {"tenant:NoSchedule"},
		"removed-reboots": {reboots},
		"removed-again":   {retryHint},
		"removed-new":     {verification.Taint + ":NoSchedule"},
		"removed-both":    {reboots, verification.Taint + ":NoExecute"},
	} {
		nodekeep.RegisterNode(t, tainted(name, taints...))
	}
	require.Eventually(t, func() bool {
		return apierrors.IsInvalid(client.CoreV1().Nodes().Delete(t.Context(), "removed-open", dry))
	}, settles, 50*time.Millisecond)
	for _, name := range []string{"removed-open", "removed-tenant", "removed-reboots", "removed-again"} {
		denied(t, client.CoreV1().Nodes().Delete(t.Context(), name, dry), "delete only Nodes that wait for their first verification")
		require.NoError(t, nodekeep.Admin.CoreV1().Nodes().Delete(t.Context(), name, dry), "the policy concerns nobody else")
	}
	for _, name := range []string{"removed-new", "removed-both"} {
		require.NoError(t, client.CoreV1().Nodes().Delete(t.Context(), name, dry), name)
	}

	claims := schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"}
	condition := func(kind, status string) map[string]any {
		return map[string]any{"type": kind, "status": status, "reason": "A", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
	}
	for name, row := range map[string]struct {
		conditions []any
		allowed    bool
	}{
		"claim-without":     {nil, true},
		"claim-registered":  {[]any{condition("Registered", "True"), condition("Initialized", "Unknown")}, true},
		"claim-initialized": {[]any{condition("Registered", "True"), condition("Initialized", "True")}, false},
	} {
		claim := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": map[string]any{"name": name},
			"spec": map[string]any{"requirements": []any{}, "nodeClassRef": map[string]any{"group": "example.com", "kind": "Class", "name": "c"}},
		}}
		made, err := admin.Resource(claims).Create(t.Context(), claim, metav1.CreateOptions{})
		require.NoError(t, err)
		if row.conditions != nil {
			require.NoError(t, unstructured.SetNestedSlice(made.Object, row.conditions, "status", "conditions"))
			_, err = admin.Resource(claims).UpdateStatus(t.Context(), made, metav1.UpdateOptions{})
			require.NoError(t, err)
		}
		err = account.Resource(claims).Delete(t.Context(), name, dry)
		if row.allowed {
			require.NoError(t, err, name)
			continue
		}
		denied(t, err, "delete only NodeClaims that Karpenter has not initialized")
		require.ErrorContains(t, err, "name the taint of the verification profile in startupTaints of the NodePool")
		require.NoError(t, admin.Resource(claims).Delete(t.Context(), name, dry))
	}

	machines := schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "machines"}
	_, err = admin.Resource(machines).Namespace("default").Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
		"metadata": map[string]any{"name": "machine", "namespace": "default", "annotations": map[string]any{"note": "x"}},
		"spec": map[string]any{
			"clusterName": "c", "bootstrap": map[string]any{"dataSecretName": "s"}, "providerID": "box://1",
			"infrastructureRef": map[string]any{"apiGroup": "example.com", "kind": "Box", "name": "b"},
		},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	for name, row := range map[string]struct {
		patch   string
		allowed bool
	}{
		"marks it":                     {`{"metadata":{"annotations":{"cluster.x-k8s.io/remediate-machine":""}}}`, true},
		"changes nothing":              {`{}`, true},
		"changes an annotation":        {`{"metadata":{"annotations":{"note":"y"}}}`, false},
		"removes an annotation":        {`{"metadata":{"annotations":{"note":null}}}`, false},
		"adds another annotation":      {`{"metadata":{"annotations":{"cluster.x-k8s.io/delete-machine":""}}}`, false},
		"adds a label":                 {`{"metadata":{"labels":{"a":"b"}}}`, false},
		"adds a finalizer":             {`{"metadata":{"finalizers":["example.com/a"]}}`, false},
		"adds an owner":                {`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"a","uid":"b"}]}}`, false},
		"changes what it is made of":   {`{"spec":{"providerID":"box://2"}}`, false},
		"changes how it is drained":    {`{"spec":{"deletion":{"nodeDrainTimeoutSeconds":1}}}`, false},
		"marks it and changes a label": {`{"metadata":{"annotations":{"cluster.x-k8s.io/remediate-machine":""},"labels":{"a":"b"}}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			options := metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}
			_, err := account.Resource(machines).Namespace("default").Patch(t.Context(), "machine", types.MergePatchType, []byte(row.patch), options)
			if row.allowed {
				require.NoError(t, err)
				return
			}
			denied(t, err, "change nothing of a Machine but add the annotation cluster.x-k8s.io/remediate-machine")
			_, err = admin.Resource(machines).Namespace("default").Patch(t.Context(), "machine", types.MergePatchType, []byte(row.patch), options)
			require.NoError(t, err, "the policy concerns nobody else")
		})
	}
}
