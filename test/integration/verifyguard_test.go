package integration

import (
	"fmt"
	"maps"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"nodekeep.dev/nodekeep/test/harness"
	verification "nodekeep.dev/nodekeep/verify"
)

// asVerifier does something with the identity of the controller once what nodekeep-verify.yaml adds is there, and the API server goes by the
// policy nodekeep-verify. No process runs.
func asVerifier(t *testing.T, fn func(client *kubernetes.Clientset)) {
	t.Helper()
	nodekeep.MustKubectl(t, "apply", "--server-side", "-f", filepath.Join(harness.Manifests(), harness.VerifyManifest), "-l", "app.kubernetes.io/component in (verify, checks, guards)")
	client := nodekeep.ClientFor(t, "nodekeep-verify")
	nodekeep.WithoutBoth(t, func() {
		nodekeep.Register(t, "verifier-probe")
		require.Eventually(t, func() bool {
			_, err := client.CoreV1().Nodes().Patch(t.Context(), "verifier-probe", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
			return apierrors.IsInvalid(err)
		}, settles, 50*time.Millisecond)
		nodekeep.DeleteNode(t, "verifier-probe")
		fn(client)
	})
}

// old is a Node as it may be after a while: with labels, annotations, taints and status of many writers.
func old(t *testing.T, name string) {
	t.Helper()
	nodekeep.RegisterNode(t, tainted(name, verification.Taint+":NoSchedule", "tenant=blue:NoExecute"))
	labels, annotations := map[string]any{"rack": "r1", harness.Worker: ""}, map[string]any{"example.com/note": "x"}
	for i := range 150 {
		labels[fmt.Sprintf("example.com/label-%d", i)], annotations[fmt.Sprintf("example.com/annotation-%d", i)] = "v", "v"
	}
	nodekeep.MergeNode(t, name, map[string]any{
		"metadata": map[string]any{"labels": labels, "annotations": annotations, "finalizers": []string{"example.com/finalizer"}},
	})
	node, err := nodekeep.Kubelet(t, name).CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}, {Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse}}
	for i := range 50 { // as many as a kubelet reports
		node.Status.Images = append(node.Status.Images, corev1.ContainerImage{Names: []string{fmt.Sprintf("registry.example.com/image-%d:1", i)}, SizeBytes: int64(i)})
	}
	_, err = nodekeep.Kubelet(t, name).CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
	require.NoError(t, err)
}

// RBAC lets the controller patch Nodes, and cannot say which fields. The policy nodekeep-verify does.
func TestTheVerifiersAccountMayChangeOfNodesOnlyWhatVerificationNeeds(t *testing.T) {
	asVerifier(t, func(client *kubernetes.Clientset) {
		mayChangeOnlyWhatVerificationNeeds(t, client)
		mayDoNothingElse(t, client)
	})
}

func mayChangeOnlyWhatVerificationNeeds(t *testing.T, client *kubernetes.Clientset) {
	old(t, "verified")
	defer func() {
		nodekeep.MergeNode(t, "verified", map[string]any{"metadata": map[string]any{"finalizers": nil}})
		nodekeep.DeleteNode(t, "verified")
	}()
	const merge, patch = types.MergePatchType, types.JSONPatchType
	taints := nodekeep.Node(t, "verified").Spec.Taints
	require.Equal(t, "nodekeep.dev/restoring", taints[len(taints)-1].Key)
	for name, c := range map[string]struct {
		kind        types.PatchType
		body        string
		subresource string
		allowed     bool
	}{
		// What it does.
		"it sets its annotation":       {merge, `{"metadata":{"annotations":{"nodekeep.dev/check":"{\"attempts\":1}"}}}`, "", true},
		"it changes its annotation":    {merge, `{"metadata":{"annotations":{"nodekeep.dev/check":"{\"attempts\":2}"}}}`, "", true},
		"it sets its condition":        {types.StrategicMergePatchType, `{"status":{"conditions":[{"type":"nodekeep.dev/Verified","status":"False","reason":"Waiting"}]}}`, "status", true},
		"it changes its condition":     {types.StrategicMergePatchType, `{"status":{"conditions":[{"type":"nodekeep.dev/Verified","status":"Unknown","reason":"Running"}]}}`, "status", true},
		"it verifies the Node":         {patch, `[{"op":"test","path":"/spec/taints/0/key","value":"nodekeep.dev/unverified"},{"op":"remove","path":"/spec/taints/0"},{"op":"add","path":"/metadata/labels/nodekeep.dev~1verified","value":"true"}]`, "", true},
		"it holds a Node in a reboot":  {patch, `[{"op":"add","path":"/spec/taints/-","value":{"key":"nodekeep.dev/unverified","value":"reboot-1-2","effect":"NoExecute"}}]`, "", true},
		"it closes a Node to check it": {patch, `[{"op":"add","path":"/spec/taints/-","value":{"key":"nodekeep.dev/unverified","value":"recheck","effect":"NoExecute"}}]`, "", true},
		"it removes its label":         {merge, `{"metadata":{"labels":{"nodekeep.dev/verified":null}}}`, "", true},
		"it removes its annotation":    {merge, `{"metadata":{"annotations":{"nodekeep.dev/check":null}}}`, "", true},
		"it changes nothing":           {merge, `{}`, "", true},
		"it changes nothing of status": {merge, `{}`, "status", true},

		// Taints.
		"it lifts the gate":                      {merge, `{"spec":{"taints":[{"key":"nodekeep.dev/unverified","effect":"NoSchedule"},{"key":"tenant","value":"blue","effect":"NoExecute"}]}}`, "", false},
		"it removes all taints":                  {merge, `{"spec":{"taints":null}}`, "", false},
		"it removes an operator's taint":         {patch, `[{"op":"remove","path":"/spec/taints/1"}]`, "", false},
		"it changes an operator's taint":         {patch, `[{"op":"replace","path":"/spec/taints/1/value","value":"red"}]`, "", false},
		"it adds its taint as on a new Node":     {patch, `[{"op":"add","path":"/spec/taints/-","value":{"key":"nodekeep.dev/unverified","effect":"NoExecute"}}]`, "", false},
		"it adds its taint with another value":   {patch, `[{"op":"add","path":"/spec/taints/-","value":{"key":"nodekeep.dev/unverified","value":"mine","effect":"NoExecute"}}]`, "", false},
		"it adds its taint with a like value":    {patch, `[{"op":"add","path":"/spec/taints/-","value":{"key":"nodekeep.dev/unverified","value":"recheck-too","effect":"NoExecute"}}]`, "", false},
		"it asks for a check":                    {merge, `{"metadata":{"annotations":{"nodekeep.dev/check-request":"now"}}}`, "", false},
		"it changes the effect of its taint":     {patch, `[{"op":"replace","path":"/spec/taints/0/effect","value":"NoExecute"}]`, "", false},
		"it adds another taint":                  {patch, `[{"op":"add","path":"/spec/taints/-","value":{"key":"example.com/mine","effect":"NoExecute"}}]`, "", false},
		"it makes its taint an operator's":       {patch, `[{"op":"replace","path":"/spec/taints/0/key","value":"node.kubernetes.io/out-of-service"}]`, "", false},
		"it adds a taint with a key like its":    {patch, `[{"op":"add","path":"/spec/taints/-","value":{"key":"nodekeep.dev/unverified-too","effect":"NoExecute"}}]`, "", false},
		"it adds the taint of another component": {patch, `[{"op":"add","path":"/spec/taints/-","value":{"key":"node.kubernetes.io/unreachable","effect":"NoExecute"}}]`, "", false},

		// The spec.
		"it cordons":               {merge, `{"spec":{"unschedulable":true}}`, "", false},
		"it gives a providerID":    {merge, `{"spec":{"providerID":"cloud://2"}}`, "", false},
		"it gives Pods addresses":  {merge, `{"spec":{"podCIDR":"10.1.0.0/24","podCIDRs":["10.1.0.0/24"]}}`, "", false},
		"it empties the whole one": {merge, `{"spec":null}`, "", false},

		// Labels and annotations.
		"it adds a label":                        {merge, `{"metadata":{"labels":{"a":"b"}}}`, "", false},
		"it changes a label":                     {merge, `{"metadata":{"labels":{"rack":"r2"}}}`, "", false},
		"it removes a label":                     {merge, `{"metadata":{"labels":{"rack":null}}}`, "", false},
		"it removes a role":                      {merge, `{"metadata":{"labels":{"node-role.kubernetes.io/worker":null}}}`, "", false},
		"it removes all labels":                  {merge, `{"metadata":{"labels":null}}`, "", false},
		"it swaps a label":                       {merge, `{"metadata":{"labels":{"rack":null,"shelf":"r1"}}}`, "", false},
		"it sets its label to something else":    {merge, `{"metadata":{"labels":{"nodekeep.dev/verified":"false"}}}`, "", false},
		"it sets a label with a name like its":   {merge, `{"metadata":{"labels":{"nodekeep.dev/verified-too":"true"}}}`, "", false},
		"it forges the stamp":                    {merge, `{"metadata":{"annotations":{"nodekeep.dev/restored":"{}"}}}`, "", false},
		"it forges the list of taints":           {merge, `{"metadata":{"annotations":{"nodekeep.dev/taints":"{}"}}}`, "", false},
		"it changes an annotation":               {merge, `{"metadata":{"annotations":{"example.com/note":"y"}}}`, "", false},
		"it removes an annotation":               {merge, `{"metadata":{"annotations":{"example.com/note":null}}}`, "", false},
		"it removes all annotations":             {merge, `{"metadata":{"annotations":null}}`, "", false},
		"it changes a label through the status":  {merge, `{"metadata":{"labels":{"a":"b"}}}`, "status", false},
		"it adds a finalizer":                    {merge, `{"metadata":{"finalizers":["example.com/finalizer","example.com/mine"]}}`, "", false},
		"it removes a finalizer":                 {merge, `{"metadata":{"finalizers":null}}`, "", false},
		"it gives the Node an owner":             {merge, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"a","uid":"b"}]}}`, "", false},
		"it hides a change behind a right one":   {merge, `{"metadata":{"labels":{"nodekeep.dev/verified":"true","a":"b"}}}`, "", false},
		"it hides a right one behind the status": {types.StrategicMergePatchType, `{"metadata":{"labels":{"a":"b"}},"status":{"conditions":[{"type":"nodekeep.dev/Verified","status":"True"}]}}`, "status", false},

		// The status.
		"it makes the Node not ready":     {types.StrategicMergePatchType, `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`, "status", false},
		"it adds another condition":       {types.StrategicMergePatchType, `{"status":{"conditions":[{"type":"Mine","status":"True"}]}}`, "status", false},
		"it removes all conditions":       {merge, `{"status":{"conditions":null}}`, "status", false},
		"it changes allocatable":          {merge, `{"status":{"allocatable":{"cpu":"100"}}}`, "status", false},
		"it changes capacity":             {merge, `{"status":{"capacity":{"example.com/gpu":"100"}}}`, "status", false},
		"it changes addresses":            {merge, `{"status":{"addresses":[{"type":"InternalIP","address":"10.0.0.9"}]}}`, "status", false},
		"it changes the kubelet's port":   {merge, `{"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":1}}}}`, "status", false},
		"it removes images":               {merge, `{"status":{"images":null}}`, "status", false},
		"it removes the machine":          {merge, `{"status":{"nodeInfo":{"systemUUID":"x"}}}`, "status", false},
		"it empties the status":           {merge, `{"status":null}`, "status", false},
		"it takes a volume off the Node":  {merge, `{"status":{"volumesAttached":[{"name":"v","devicePath":"/dev/x"}]}}`, "status", false},
		"it changes all conditions a bit": {merge, `{"status":{"conditions":[{"type":"Ready","status":"True","reason":"Mine"},{"type":"DiskPressure","status":"False"}]}}`, "status", false},
	} {
		t.Run(name, func(t *testing.T) {
			var subresources []string
			if c.subresource != "" {
				subresources = []string{c.subresource}
			}
			_, err := client.CoreV1().Nodes().Patch(t.Context(), "verified", c.kind, []byte(c.body), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, subresources...)
			if c.allowed {
				require.NoError(t, err)
				return
			}
			require.True(t, apierrors.IsInvalid(err), "%v", err)
			require.ErrorContains(t, err, "ValidatingAdmissionPolicy 'nodekeep-verify' with binding 'nodekeep-verify' denied request: nodekeep-verify can")
			_, err = nodekeep.Admin.CoreV1().Nodes().Patch(t.Context(), "verified", c.kind, []byte(c.body), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, subresources...)
			assert.NoError(t, err, "the policy concerns nobody else")
		})
	}

	t.Run("one write after the other verifies a Node", func(t *testing.T) {
		nodes := client.CoreV1().Nodes()
		_, err := nodes.Patch(t.Context(), "verified", merge, []byte(`{"metadata":{"annotations":{"nodekeep.dev/check":"{}"}}}`), metav1.PatchOptions{})
		require.NoError(t, err)
		_, err = nodes.Patch(t.Context(), "verified", types.StrategicMergePatchType, []byte(`{"status":{"conditions":[{"type":"nodekeep.dev/Verified","status":"Unknown"}]}}`), metav1.PatchOptions{}, "status")
		require.NoError(t, err)
		node, err := nodes.Patch(t.Context(), "verified", patch, []byte(`[{"op":"remove","path":"/spec/taints/0"},{"op":"add","path":"/metadata/labels/nodekeep.dev~1verified","value":"true"}]`), metav1.PatchOptions{})
		require.NoError(t, err)
		assert.Equal(t, "true", node.Labels[verification.Label])
		assert.Equal(t, taints[1:], node.Spec.Taints)
	})
}

// mayDoNothingElse asserts what the account of the controller, and that of the Pods that it starts, may do with other objects.
func mayDoNothingElse(t *testing.T, client *kubernetes.Clientset) {
	allowed := map[string]access{
		"patch Nodes":                          {Verb: "patch", Resource: "nodes"},
		"watch Nodes":                          {Verb: "watch", Resource: "nodes"},
		"patch the status of Nodes":            {Verb: "patch", Resource: "nodes", Subresource: "status"},
		"start a Pod that checks a Node":       {Verb: "create", Resource: "pods", Namespace: verification.Namespace},
		"watch these Pods":                     {Verb: "watch", Resource: "pods", Namespace: verification.Namespace},
		"delete these Pods":                    {Verb: "delete", Resource: "pods", Namespace: verification.Namespace},
		"keep a failed report":                 {Verb: "create", Resource: "configmaps", Namespace: verification.Namespace},
		"take its Lease":                       {Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: harness.Namespace, Name: "nodekeep-verify"},
		"write Events about Nodes":             {Verb: "create", Resource: "events", Namespace: "default"},
		"read the Service that a check names":  {Verb: "get", Resource: "services", Namespace: "default", Name: "kubernetes"}, // kubernetes.default.svc
		"read the endpoints of the DNS server": {Verb: "list", Group: "discovery.k8s.io", Resource: "endpointslices", Namespace: "kube-system"},
		"follow the policy":                    {Verb: "watch", Group: "nodekeep.dev", Resource: "nodepolicies"},
		"read the policy accepted last":        {Verb: "get", Resource: "configmaps", Namespace: harness.Namespace, Name: "nodekeep-accepted"},
		"read the Pod of such an endpoint":     {Verb: "get", Resource: "pods", Namespace: "kube-system"},
	}
	denied := map[string]access{
		"watch Services":                     {Verb: "watch", Resource: "services", Namespace: "kube-system"},
		"read a report by its name":          {Verb: "get", Resource: "configmaps", Namespace: verification.Namespace},
		"write Events of the release":        {Verb: "create", Resource: "events", Namespace: harness.Namespace},
		"create Nodes":                       {Verb: "create", Resource: "nodes"},
		"update Nodes":                       {Verb: "update", Resource: "nodes"},
		"delete Nodes":                       {Verb: "delete", Resource: "nodes"},
		"reach kubelets":                     {Verb: "get", Resource: "nodes", Subresource: "proxy"},
		"read records":                       {Verb: "get", Resource: "configmaps", Namespace: harness.Namespace},
		"write records":                      {Verb: "create", Resource: "configmaps", Namespace: harness.Namespace},
		"change the policy":                  {Verb: "patch", Group: "nodekeep.dev", Resource: "nodepolicies", Name: harness.PolicyName},
		"create a policy":                    {Verb: "create", Group: "nodekeep.dev", Resource: "nodepolicies"},
		"delete the policy":                  {Verb: "delete", Group: "nodekeep.dev", Resource: "nodepolicies", Name: harness.PolicyName},
		"change what was accepted":           {Verb: "patch", Resource: "configmaps", Namespace: harness.Namespace, Name: "nodekeep-accepted"},
		"start Pods elsewhere":               {Verb: "create", Resource: "pods", Namespace: harness.Namespace},
		"read Pods of the release":           {Verb: "list", Resource: "pods", Namespace: harness.Namespace},
		"list all Pods":                      {Verb: "list", Resource: "pods"},
		"read Pods of the system":            {Verb: "list", Resource: "pods", Namespace: "kube-system"}, // no profile waits for a DaemonSet
		"read DaemonSets":                    {Verb: "list", Group: "apps", Resource: "daemonsets", Namespace: "kube-system"},
		"read Services elsewhere":            {Verb: "get", Resource: "services", Namespace: harness.Namespace},
		"run a command in a Pod":             {Verb: "create", Resource: "pods", Subresource: "exec", Namespace: verification.Namespace},
		"add a container to a Pod":           {Verb: "patch", Resource: "pods", Subresource: "ephemeralcontainers", Namespace: verification.Namespace},
		"change a Pod":                       {Verb: "patch", Resource: "pods", Namespace: verification.Namespace},
		"delete all Pods at once":            {Verb: "deletecollection", Resource: "pods", Namespace: verification.Namespace},
		"mint tokens":                        {Verb: "create", Resource: "serviceaccounts", Subresource: "token", Namespace: verification.Namespace},
		"read Secrets":                       {Verb: "get", Resource: "secrets", Namespace: verification.Namespace},
		"read the certificate":               {Verb: "get", Resource: "secrets", Namespace: harness.Namespace, Name: "nodekeep-webhook-tls"},
		"change the namespace":               {Verb: "patch", Resource: "namespaces", Name: verification.Namespace},
		"take capture's Lease":               {Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: harness.Namespace, Name: "nodekeep-capture"},
		"change the policy that confines it": {Verb: "patch", Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies", Name: "nodekeep-verify"},
		"delete that policy's binding":       {Verb: "delete", Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicybindings", Name: "nodekeep-verify"},
		"bind roles":                         {Verb: "create", Group: "rbac.authorization.k8s.io", Resource: "rolebindings", Namespace: verification.Namespace},
		"impersonate":                        {Verb: "impersonate", Resource: "users", Name: "system:admin"},
		"delete Machines":                    {Verb: "delete", Group: "cluster.x-k8s.io", Resource: "machines"},
		"delete NodeClaims":                  {Verb: "delete", Group: "karpenter.sh", Resource: "nodeclaims"},
	}
	config, err := nodekeep.Cluster.ServiceAccount(t.Context(), verification.Namespace, verification.Account)
	require.NoError(t, err)
	checker, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	for subject, attributes := range allowed {
		t.Run("it may "+subject, func(t *testing.T) { assert.True(t, mayAccess(t, client, attributes)) })
	}
	for subject, attributes := range denied {
		t.Run("it may not "+subject, func(t *testing.T) { assert.False(t, mayAccess(t, client, attributes)) })
	}
	maps.Copy(allowed, denied)
	for subject, attributes := range allowed {
		t.Run("the Pods' account may not "+subject, func(t *testing.T) { assert.False(t, mayAccess(t, checker, attributes)) })
	}
}
