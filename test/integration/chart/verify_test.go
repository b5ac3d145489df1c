package chart

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/verify"
	"nodekeep.dev/nodekeep/verify/remove"
)

// profiles returns values that switch verification on, with these profiles as JSON.
func profiles(json string, values ...string) []string {
	return append(append(set("verify.enabled=true"), "--set-json", "policy.verify={\"profiles\": "+json+"}"), set(values...)...)
}

// oneProfile asks for DNS.
const oneProfile = `[{"name": "all", "checks": [{"name": "dns", "dns": {"names": ["example.com."]}}]}]`

// verification returns the variants in which Nodes are verified.
func verification() map[string]variant {
	return map[string]variant{
		"verification": {profiles(oneProfile), func(t *testing.T, r rendered) {
			pod := r.pods(t)["nodekeep-verify"]
			assert.False(t, pod.Spec.HostNetwork)
			assert.Equal(t, ptr.To[int32](2), get[appsv1.Deployment](t, r, "Deployment", "nodekeep-verify").Spec.Replicas)
			assert.Equal(t, "system-cluster-critical", pod.Spec.PriorityClassName)
			container := r.container(t, "nodekeep-verify")
			assert.Subset(t, container.Args, []string{"--image=" + container.Image, "--checks-namespace=nodekeep-checks", "--image-pull-policy=IfNotPresent"})
			for name, pod := range r.pods(t) {
				assert.True(t, tolerates(pod.Spec, verify.Taint), "%s must run on Nodes that are not verified", name)
			}
			assert.Equal(t, []string{"nodekeep-capture", "nodekeep-verify", "nodekeep-webhook"}, r.names("PodDisruptionBudget"))
			assert.Equal(t, []string{"nodekeep-verify", "nodekeep-webhook"}, r.names("NetworkPolicy"))
			for _, name := range []string{"nodekeep", "nodekeep-leader-election"} {
				subjects := get[flowcontrolv1.FlowSchema](t, r, "FlowSchema", name).Spec.Rules[0].Subjects
				assert.Equal(t, "nodekeep-verify", subjects[len(subjects)-1].ServiceAccount.Name, name)
			}

			assert.Equal(t, "restricted", get[corev1.Namespace](t, r, "Namespace", verify.Namespace).Labels["pod-security.kubernetes.io/enforce"])
			account := get[corev1.ServiceAccount](t, r, "ServiceAccount", verify.Account)
			assert.Equal(t, verify.Namespace, account.Namespace)
			assert.Equal(t, ptr.To(false), account.AutomountServiceAccountToken)
			for _, binding := range append(r.names("RoleBinding"), r.names("ClusterRoleBinding")...) {
				assert.NotContains(t, subjectsOf(t, r, binding), verify.Account, "it has no rights")
			}
			priority := get[schedulingv1.PriorityClass](t, r, "PriorityClass", "nodekeep-check")
			assert.Less(t, priority.Value, int32(2_000_000_000), "below what the system needs")
			assert.Equal(t, ptr.To(corev1.PreemptNever), priority.PreemptionPolicy)
			assert.False(t, priority.GlobalDefault)

			guard := get[admissionregistrationv1.ValidatingAdmissionPolicy](t, r, "ValidatingAdmissionPolicy", "nodekeep-verify")
			assert.Equal(t, ptr.To(admissionregistrationv1.Fail), guard.Spec.FailurePolicy)
			assert.Equal(t, []string{`["nodekeep.dev/unverified"]`, verify.Label}, guardValues(t, guard))
			assert.Equal(t, map[string][]string{"kube-system": {"endpointslices", "pods", "services"}}, lookups(t, r))
		}},
		"verification with everything": {profiles(`[
			{"name": "gpu", "nodeSelector": "gpu=yes", "taint": "example.com/unverified=gpu:NoExecute", "timeout": "1m", "startTimeout": "3m", "deadline": "30m", "onTimeout": "release",
				"attempts": {"max": 3, "backoff": "5s", "maxBackoff": "1m"},
				"wait": {"conditions": {"KernelDeadlock": "False"}, "daemonSets": ["kube-system/cilium", "gpu-operator/driver", "storage/*"], "allocatable": {"nvidia.com/gpu": "1", "cpu": 2}},
				"checks": [
					{"name": "dns", "dns": {"names": ["kubernetes.default.svc", "shop.front.svc.cluster.local.", "example.com"], "servers": "each"}},
					{"name": "api", "api": {}},
					{"name": "service", "required": false, "service": {"name": "monitoring/prometheus", "port": 9090, "endpoints": 3}},
					{"name": "kubelet", "kubelet": {}},
					{"name": "registry", "tcp": "registry.example.com:443"},
					{"name": "portal", "http": {"url": "https://portal.web.svc:8443/healthz", "status": 204}},
					{"name": "smi", "container": {"image": "example.com/smi:1", "command": ["nvidia-smi"], "args": ["-L"], "limits": {"nvidia.com/gpu": 1}}}]},
			{"name": "rest", "reverify": "onReboot", "checks": [{"name": "tcp", "tcp": "10.0.0.1:443"}]}]`,
			"policy.verify.label=example.com/verified"), func(t *testing.T, r rendered) {
			assert.True(t, tolerates(r.pods(t)["nodekeep-webhook"].Spec, "example.com/unverified"))
			guard := get[admissionregistrationv1.ValidatingAdmissionPolicy](t, r, "ValidatingAdmissionPolicy", "nodekeep-verify")
			assert.Equal(t, []string{`["example.com/unverified","nodekeep.dev/unverified"]`, "example.com/verified"}, guardValues(t, guard))
			assert.Equal(t, []string{"pods", "pods/log", "configmaps"}, checksRights(t, r))
			services := []string{"endpointslices", "pods", "services"}
			assert.Equal(t, map[string][]string{
				"kube-system": {"endpointslices", "pods", "services"}, "gpu-operator": {"pods"}, "storage": {"daemonsets", "pods"},
				"default": services, "front": services, "monitoring": services, "web": services,
			}, lookups(t, r))
			assert.False(t, r.contains("ClusterRole", "nodekeep-verify-lookup") || r.contains("ClusterRoleBinding", "nodekeep-verify-lookup"), "no profile says auto")
		}},
		// So that the taints of the last profile can be removed before verification is switched off.
		"verification without a profile any more": {set("verify.enabled=true"), func(t *testing.T, r rendered) {
			assert.NotContains(t, r.policy(t), "verify:")
			assert.Equal(t, []string{"pods", "configmaps"}, checksRights(t, r), "no check of kind kubelet")
			assert.True(t, tolerates(r.pods(t)["nodekeep-capture"].Spec, verify.Taint))
			assert.Empty(t, lookups(t, r))
		}},
		"verification in another way": {profiles(oneProfile, "verify.image=registry.example.com/worker@sha256:0", "image.pullSecrets[0]=registry", "image.pullPolicy=Always", "verify.checksNamespace=nodekeep-other",
			"verify.replicas=3", "verify.dnsService=openshift-dns/dns-default", "capture.hostNetwork=false", "namespace.create=true",
			"guards.enabled=false", "metrics.secure=true"), func(t *testing.T, r rendered) {
			assert.Equal(t, "restricted", get[corev1.Namespace](t, r, "Namespace", namespace).Labels["pod-security.kubernetes.io/enforce"])
			assert.Subset(t, r.container(t, "nodekeep-verify").Args, []string{"--image=registry.example.com/worker@sha256:0", "--checks-namespace=nodekeep-other", "--metrics-secure", "--image-pull-policy=Always"})
			account := get[corev1.ServiceAccount](t, r, "ServiceAccount", verify.Account)
			assert.Equal(t, "nodekeep-other", account.Namespace)
			assert.Equal(t, []corev1.LocalObjectReference{{Name: "registry"}}, account.ImagePullSecrets)
			assert.False(t, r.contains("ValidatingAdmissionPolicy", "nodekeep-verify"), "the cluster allows no further policies")
			assert.Equal(t, []string{"nodekeep-verify"}, subjectsOf(t, r, "nodekeep-verify-metrics"))
			assert.Equal(t, map[string][]string{"openshift-dns": {"endpointslices", "pods", "services"}}, lookups(t, r))
		}},
		"verification that waits for all DaemonSets": {profiles(`[{"name": "all", "wait": {"daemonSets": ["auto", "gpu/driver"]}}]`), func(t *testing.T, r rendered) {
			list := func(group, resource string) rbacv1.PolicyRule {
				return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{"list"}}
			}
			rules := get[rbacv1.ClusterRole](t, r, "ClusterRole", "nodekeep-verify-lookup").Rules
			assert.Equal(t, []rbacv1.PolicyRule{list("", "pods"), list("apps", "daemonsets")}, rules)
			bound := get[rbacv1.ClusterRoleBinding](t, r, "ClusterRoleBinding", "nodekeep-verify-lookup")
			assert.Equal(t, rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "nodekeep-verify-lookup"}, bound.RoleRef)
			assert.Equal(t, []rbacv1.Subject{{Kind: "ServiceAccount", Name: "nodekeep-verify", Namespace: namespace}}, bound.Subjects)
			assert.Equal(t, map[string][]string{"gpu": {"pods"}}, lookups(t, r), "no Role in a namespace auto")
		}},
		"verification that removes Nodes": {profiles(`[
			{"name": "karpenter", "nodeSelector": "a=b", "taint": "example.com/new:NoSchedule", "onFailure": "nodeClaim", "checks": [{"name": "api", "api": {}}]},
			{"name": "machines", "nodeSelector": "c=d", "onFailure": "machine", "checks": [{"name": "api", "api": {}}]},
			{"name": "rest", "onFailure": "node", "checks": [{"name": "api", "api": {}}]}]`,
			"policy.verify.limits.stopAbove=10%", "policy.verify.limits.deletionsPerHour=5"), func(t *testing.T, r rendered) {
			assert.Equal(t, []string{"pods", "nodes", "nodeclaims", "machines"}, resourcesOf(get[rbacv1.ClusterRole](t, r, "ClusterRole", "nodekeep-verify-removal").Rules))
			for _, rule := range get[rbacv1.ClusterRole](t, r, "ClusterRole", "nodekeep-verify").Rules {
				assert.NotContains(t, rule.Verbs, "delete")
			}
			guard := get[admissionregistrationv1.ValidatingAdmissionPolicy](t, r, "ValidatingAdmissionPolicy", "nodekeep-verify-removal")
			assert.Equal(t, "['example.com/new','nodekeep.dev/unverified']", guard.Spec.Variables[0].Expression)
		}},
		"verification that removes Nodes, unconfined": {profiles(`[{"name": "rest", "onFailure": "node", "checks": [{"name": "api", "api": {}}]}]`, "guards.enabled=false", "policy.verify.limits.stopAbove=0"), func(t *testing.T, r rendered) {
			assert.False(t, r.contains("ValidatingAdmissionPolicy", "nodekeep-verify-removal"), "the cluster allows no further policies")
			assert.True(t, r.contains("ClusterRoleBinding", "nodekeep-verify-removal"))
		}},
		"verification in a tight network": {profiles(oneProfile, "networkPolicy.egress[0].to[0].ipBlock.cidr=10.0.0.1/32"), func(t *testing.T, r rendered) {
			assert.Equal(t, []networkingv1.PolicyType{"Ingress", "Egress"}, get[networkingv1.NetworkPolicy](t, r, "NetworkPolicy", "nodekeep-verify").Spec.PolicyTypes)
			assert.Empty(t, r.names("NetworkPolicy")[2:], "none for the Pods that check a Node: the network is what they check")
		}},
	}
}

// guardValues returns the keys of taints, as JSON, and the label that the policy nodekeep-verify lets through.
func guardValues(t *testing.T, guard *admissionregistrationv1.ValidatingAdmissionPolicy) []string {
	t.Helper()
	values := map[string]string{}
	for _, variable := range guard.Spec.Variables {
		values[variable.Name] = variable.Expression
	}
	return []string{strings.ReplaceAll(values["taints"], "'", `"`), strings.Trim(values["label"], "'")}
}

// checksRights returns the resources that verify may use in the namespace of worker Pods.
func checksRights(t *testing.T, r rendered) []string {
	t.Helper()
	return resourcesOf(get[rbacv1.Role](t, r, "Role", "nodekeep-verify-checks").Rules)
}

func resourcesOf(rules []rbacv1.PolicyRule) (resources []string) {
	for _, rule := range rules {
		resources = append(resources, rule.Resources...)
	}
	return resources
}

// lookups returns the resources that verify may read, by namespace.
func lookups(t *testing.T, r rendered) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, object := range r {
		if object.GetKind() != "Role" || object.GetName() != "nodekeep-verify-lookup" {
			continue
		}
		var role rbacv1.Role
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role))
		resources := map[string]bool{}
		for _, rule := range role.Rules {
			assert.Subset(t, []string{"get", "list"}, rule.Verbs)
			for _, resource := range rule.Resources {
				resources[resource] = true
			}
		}
		all[role.Namespace] = slices.Sorted(maps.Keys(resources))
	}
	return all
}

// subjectsOf returns the accounts of the bindings with this name.
func subjectsOf(t *testing.T, r rendered, binding string) (names []string) {
	t.Helper()
	for _, object := range r {
		if object.GetName() != binding || object.GetKind() != "RoleBinding" && object.GetKind() != "ClusterRoleBinding" {
			continue
		}
		content, err := json.Marshal(object.Object["subjects"])
		require.NoError(t, err)
		var subjects []rbacv1.Subject
		require.NoError(t, json.Unmarshal(content, &subjects))
		for _, subject := range subjects {
			names = append(names, subject.Name)
		}
	}
	return names
}

// Without verification nothing of it is there, not even in other objects. Only the roles for users name it: doctor looks whether it is there.
func TestVerificationIsOffByDefault(t *testing.T) {
	out, err := harness.Template(t.Context(), namespace, "--set", "crd.create=false") // the kind has all fields
	require.NoError(t, err)
	var objects []string
	for _, object := range strings.Split(string(out), "\n---\n") {
		if !strings.Contains(object, "templates/access.yaml") && !strings.Contains(object, "templates/governance.yaml") { // which exempts its account
			objects = append(objects, object)
		}
	}
	out = []byte(strings.Join(objects, "\n---\n"))
	for _, trace := range []string{"nodekeep-verify", "nodekeep-check", verify.Taint, verify.Label, "verify:"} {
		assert.NotContains(t, string(out), trace)
	}
}

func TestProfilesThatNothingWouldActOnAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"profiles without the controller": {
			append(profiles(oneProfile), set("verify.enabled=false")...),
			"policy.verify.profiles: Nodes would get a taint that nothing removes, since verify.enabled is false; set verify.enabled=true, or remove the profiles",
		},
		"Pods in the namespace of the records": {
			profiles(oneProfile, "verify.checksNamespace="+namespace),
			"verify.checksNamespace: the Pods that check Nodes need a namespace of their own",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := harness.Template(t.Context(), namespace, c.args...)
			assert.ErrorContains(t, err, c.want)
		})
	}
}

func TestTheRightsToRemoveNodesAreThoseOfTheKindsThatProfilesUse(t *testing.T) {
	rights := func(kinds ...string) (rules []string) {
		var profiles []string
		for i, kind := range kinds {
			profiles = append(profiles, fmt.Sprintf(`{"name":"p%d","onFailure":%q,"checks":[{"name":"a","api":{}}]}`, i, kind))
		}
		r := render(t, "--set", "verify.enabled=true", "--set-json", `policy.verify={"profiles":[`+strings.Join(profiles, ",")+`]}`)
		if !r.contains("ClusterRole", "nodekeep-verify-removal") {
			assert.Len(t, checksRights(t, r), 2)
			for _, kind := range []string{"ClusterRoleBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"} {
				assert.False(t, r.contains(kind, "nodekeep-verify-removal"), kind)
			}
			return nil
		}
		guard := get[admissionregistrationv1.ValidatingAdmissionPolicy](t, r, "ValidatingAdmissionPolicy", "nodekeep-verify-removal")
		assert.Equal(t, ptr.To(admissionregistrationv1.Fail), guard.Spec.FailurePolicy)
		binding := get[admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, r, "ValidatingAdmissionPolicyBinding", "nodekeep-verify-removal")
		assert.Equal(t, []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}, binding.Spec.ValidationActions)
		assert.Equal(t, []string{"nodekeep-verify"}, subjectsOf(t, r, "nodekeep-verify-removal"))
		for _, rule := range append(get[rbacv1.ClusterRole](t, r, "ClusterRole", "nodekeep-verify-removal").Rules, get[rbacv1.Role](t, r, "Role", "nodekeep-verify-checks").Rules[2:]...) {
			rules = append(rules, strings.Join(append(append(append(rule.APIGroups, rule.Resources...), rule.ResourceNames...), rule.Verbs...), " "))
		}
		return rules
	}
	pods, ledger := " pods list", " configmaps nodekeep-verify get"
	assert.Empty(t, rights("keep"))
	assert.Equal(t, []string{pods, " nodes delete", ledger}, rights("keep", "node"))
	assert.Equal(t, []string{pods, "karpenter.sh nodeclaims get delete", ledger}, rights("nodeClaim"))
	assert.Equal(t, []string{pods, "cluster.x-k8s.io machines get patch", ledger}, rights("machine"))
}

func TestHelmDeletesTheLedgerOfRemovalsAndTheReportsWithTheirNamespace(t *testing.T) {
	current := harness.ForTest(t, harness.Options{ControllerManager: true}) // which deletes what is in a namespace
	file := filepath.Join(current.Dir(), "helm.kubeconfig")
	require.NoError(t, harness.WriteKubeconfig(file, current.Admin()))
	helm := func(args ...string) {
		out, err := harness.RunHelm(t.Context(), append(args, "--namespace", harness.Namespace, "--kubeconfig", file)...)
		require.NoError(t, err, "%s", out)
	}
	client, err := kubernetes.NewForConfig(current.Admin())
	require.NoError(t, err)
	install := []string{"install", "nodekeep", harness.Chart(), "--create-namespace", "--set", "verify.enabled=true"}
	helm(install...)
	config, err := current.ServiceAccount(t.Context(), harness.Namespace, "nodekeep-verify")
	require.NoError(t, err)
	controller, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		forged := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: verify.LedgerMap}}
		_, err := client.CoreV1().ConfigMaps(verify.Namespace).Create(t.Context(), forged, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil && strings.Contains(err.Error(), "ValidatingAdmissionPolicy 'nodekeep-checks'")
	}, settles, 100*time.Millisecond, "nobody else writes it")
	removal := verify.Removal{Node: "n1", UID: "u1", Kind: verify.RemoveNode, Profile: "gpu", Time: time.Now()}
	report := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: verify.ReportName("n1")}}
	ledger := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: verify.LedgerMap}, Data: map[string]string{verify.LedgerKey: verify.Ledger{Removals: []verify.Removal{removal}}.String()},
	}
	for _, written := range []*corev1.ConfigMap{report, ledger} {
		_, err = controller.CoreV1().ConfigMaps(verify.Namespace).Create(t.Context(), written, metav1.CreateOptions{})
		require.NoError(t, err)
	}

	helm("uninstall", "nodekeep", "--no-hooks")
	require.Eventually(t, func() bool {
		_, err := client.CoreV1().Namespaces().Get(t.Context(), verify.Namespace, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}, settles, 100*time.Millisecond)
	helm(install...)
	_, err = client.CoreV1().ConfigMaps(verify.Namespace).Get(t.Context(), report.Name, metav1.GetOptions{})
	assert.True(t, apierrors.IsNotFound(err), "%v", err)
	stored, err := remove.NewStore(client, verify.Namespace).Read(t.Context())
	require.NoError(t, err)
	assert.Empty(t, stored.Ledger.Removals)
}
