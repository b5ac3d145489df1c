package chart

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"
)

// variant is some values and what must come of them, in addition to what must come of all.
type variant struct {
	args []string
	want func(t *testing.T, r rendered)
}

func set(values ...string) (args []string) {
	for _, value := range values {
		args = append(args, "--set", value)
	}
	return args
}

// variants returns those that operators will use, and those that reach every branch of the templates.
func variants(t *testing.T) map[string]variant {
	t.Helper()
	pem, _, err := certutil.GenerateSelfSignedCertKey("ours", nil, nil)
	require.NoError(t, err)
	authority := string(pem)
	all := map[string]variant{
		"users of the commands": {set("access.viewers[0].kind=Group", "access.viewers[0].name=devs", "access.viewers[0].apiGroup=rbac.authorization.k8s.io"), func(t *testing.T, r rendered) {
			binding := get[rbacv1.ClusterRoleBinding](t, r, "ClusterRoleBinding", "nodekeep-viewer")
			assert.Equal(t, rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "nodekeep-viewer"}, binding.RoleRef)
			assert.Equal(t, []rbacv1.Subject{{Kind: "Group", Name: "devs", APIGroup: rbacv1.GroupName}}, binding.Subjects)
			in := map[string]string{}
			for _, object := range r {
				if role, _, _ := unstructured.NestedString(object.Object, "roleRef", "name"); object.GetKind() == "RoleBinding" && strings.HasPrefix(role, "nodekeep-viewer-") {
					in[object.GetNamespace()] = role
				}
			}
			assert.Equal(t, map[string]string{namespace: "nodekeep-viewer-namespaced", "default": "nodekeep-viewer-events"}, in)
			assert.False(t, r.contains("ClusterRoleBinding", "nodekeep-operator"), "nobody was named")
		}},
		"the defaults": {want: func(t *testing.T, r rendered) {
			assert.True(t, gated(r))
			assert.True(t, guarded(r) && stripped(r))
			mutating, validating := r.hooks(t)
			assert.Len(t, mutating, 1)
			assert.Equal(t, []string{"policy.nodekeep.dev", "deletion.nodekeep.dev"}, []string{validating[0].Name, validating[1].Name})
			assert.Equal(t, []string{"nodekeep-webhook"}, r.names("NetworkPolicy"), "one does nothing for pods on the host network")
			assert.Equal(t, []string{"nodekeep-capture", "nodekeep-webhook"}, r.names("PodDisruptionBudget"))
			assert.Equal(t, []string{"nodekeep", "nodekeep-leader-election"}, r.names("FlowSchema"))
			assert.Empty(t, r.names("Namespace"))
			assert.Empty(t, r.names("ResourceQuota"))
			assert.Empty(t, r.names("Certificate"))
			assert.NotContains(t, strings.Join(r.container(t, "nodekeep-webhook").Args, " "), "--cert-dir", "nodekeep issues its certificate")
			assert.Empty(t, impersonation(get[rbacv1.ClusterRole](t, r, "ClusterRole", "nodekeep-webhook").Rules), "only where protected labels are inline")
			for _, rule := range r.rules(t) {
				assert.NotContains(t, rule.Resources, "resourceslices", "only with rules.devices")
				assert.NotContains(t, rule.Resources, "nodefeatures", "only with rules.features")
			}
			webhook, capture := r.pods(t)["nodekeep-webhook"], r.pods(t)["nodekeep-capture"]
			assert.False(t, webhook.Spec.HostNetwork)
			assert.True(t, capture.Spec.HostNetwork)
			assert.Empty(t, capture.Spec.Containers[0].Ports, "or the API server makes host ports of them, and one Node has room for one replica")
			assert.EqualValues(t, 40, *webhook.Spec.TerminationGracePeriodSeconds, "more than --drain=10s and the last requests")
			assert.Equal(t, ptr.To[int32](3), get[appsv1.Deployment](t, r, "Deployment", "nodekeep-webhook").Spec.Replicas)
			for _, pod := range []corev1.PodTemplateSpec{webhook, capture} {
				assert.Equal(t, "system-cluster-critical", pod.Spec.PriorityClassName)
				assert.Equal(t, corev1.LabelHostname, pod.Spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].PodAffinityTerm.TopologyKey)
				assert.Equal(t, corev1.LabelTopologyZone, pod.Spec.TopologySpreadConstraints[0].TopologyKey)
			}
			for _, early := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeNetworkUnavailable, "node.cloudprovider.kubernetes.io/uninitialized"} {
				assert.True(t, tolerates(capture.Spec, early), early)
			}
			assert.Equal(t, "workload-high", get[flowcontrolv1.FlowSchema](t, r, "FlowSchema", "nodekeep").Spec.PriorityLevelConfiguration.Name)
		}},
		"a file for kubectl": {set("namespace.create=true"), func(t *testing.T, r rendered) {
			labels := get[corev1.Namespace](t, r, "Namespace", namespace).Labels
			assert.Equal(t, "privileged", labels["pod-security.kubernetes.io/enforce"])
			assert.Equal(t, "keep", get[corev1.Namespace](t, r, "Namespace", namespace).Annotations["helm.sh/resource-policy"], "or `helm uninstall` would delete the records")
		}},
		"certificates by cert-manager": {set("certificates.mode=certManager"), func(t *testing.T, r rendered) {
			assert.Equal(t, []string{"nodekeep-ca", "nodekeep-webhook"}, r.names("Certificate"))
			assert.Equal(t, []string{"nodekeep-ca", "nodekeep-self-signed"}, r.names("Issuer"))
			injectedFrom(t, r, namespace+"/nodekeep-webhook")
			mountsCertificate(t, r, "nodekeep-webhook-certificate")
		}},
		"certificates by an issuer of yours": {set("certificates.mode=certManager", "certificates.certManager.issuerRef.name=corporate", "certificates.certManager.issuerRef.kind=ClusterIssuer"), func(t *testing.T, r rendered) {
			assert.Equal(t, []string{"nodekeep-webhook"}, r.names("Certificate"))
			assert.Empty(t, r.names("Issuer"))
			issuer := get[certificate](t, r, "Certificate", "nodekeep-webhook").Spec.IssuerRef
			assert.Equal(t, map[string]string{"name": "corporate", "kind": "ClusterIssuer"}, issuer)
			injectedFrom(t, r, namespace+"/nodekeep-webhook")
		}},
		"a certificate of yours": {set("certificates.mode=secret", "certificates.secret.name=ours", "certificates.secret.caBundle="+authority), func(t *testing.T, r rendered) {
			mountsCertificate(t, r, "ours")
			mutating, validating := r.hooks(t)
			assert.Equal(t, authority, string(mutating[0].ClientConfig.CABundle))
			assert.Equal(t, authority, string(validating[0].ClientConfig.CABundle))
		}},
		"protected labels inline": {set("policy.labels.protected=inline"), func(t *testing.T, r rendered) {
			mutating, _ := r.hooks(t)
			require.Len(t, mutating, 2)
			assert.Equal(t, "restore-protected.nodekeep.dev", mutating[0].Name, "the order matters")
			assert.Equal(t, ptr.To(admissionregistrationv1.IfNeededReinvocationPolicy), mutating[0].ReinvocationPolicy)
			rules := get[rbacv1.ClusterRole](t, r, "ClusterRole", "nodekeep-webhook").Rules
			assert.Equal(t, []string{"impersonate:arbitrary-node nodekeep-self-test", "impersonate-on:arbitrary-node:create"}, impersonation(rules))
			assert.True(t, r.contains("ValidatingAdmissionPolicy", "nodekeep-self-test") && r.contains("ValidatingAdmissionPolicyBinding", "nodekeep-self-test"))
		}},
		"protected labels inline on an older cluster": {append(set("policy.labels.protected=inline"), "--kube-version", "1.35"), func(t *testing.T, r rendered) {
			rules := get[rbacv1.ClusterRole](t, r, "ClusterRole", "nodekeep-webhook").Rules
			assert.Equal(t, []string{"impersonate system:node:nodekeep-self-test", "impersonate system:nodes"}, impersonation(rules))
			assert.True(t, r.contains("ValidatingAdmissionPolicy", "nodekeep-self-test") && r.contains("ValidatingAdmissionPolicyBinding", "nodekeep-self-test"))
		}},
		"rules about devices": {set("rules.devices=true"), func(t *testing.T, r rendered) {
			slices := rbacv1.PolicyRule{APIGroups: []string{"resource.k8s.io"}, Resources: []string{"resourceslices"}, Verbs: []string{"get", "list", "watch"}}
			assert.Contains(t, get[rbacv1.ClusterRole](t, r, "ClusterRole", "nodekeep-capture").Rules, slices)
			assert.NotContains(t, get[rbacv1.ClusterRole](t, r, "ClusterRole", "nodekeep-webhook").Rules, slices)
		}},
		"rules about features": {set("rules.features=true"), func(t *testing.T, r rendered) {
			features := rbacv1.PolicyRule{APIGroups: []string{"nfd.k8s-sigs.io"}, Resources: []string{"nodefeatures"}, Verbs: []string{"get", "list", "watch"}}
			assert.Contains(t, get[rbacv1.ClusterRole](t, r, "ClusterRole", "nodekeep-capture").Rules, features)
			assert.NotContains(t, get[rbacv1.ClusterRole](t, r, "ClusterRole", "nodekeep-webhook").Rules, features)
		}},
		"protected labels never": {set("policy.labels.protected=never"), func(t *testing.T, r rendered) {
			mutating, _ := r.hooks(t)
			assert.Len(t, mutating, 1)
		}},
		"no gate": {set("gate.policy=disabled"), func(t *testing.T, r rendered) {
			assert.False(t, gated(r))
			assert.True(t, guarded(r) && stripped(r))
		}},
		"no guard policies": {set("guards.enabled=false"), func(t *testing.T, r rendered) {
			assert.False(t, guarded(r) || stripped(r))
			assert.True(t, gated(r))
		}},
		"a guard and no strip": {set("guards.strip=disabled"), func(t *testing.T, r rendered) { assert.True(t, gated(r) && guarded(r) && !stripped(r)) }},
		"the strip in any case": {append(set("guards.strip=enabled"), "--kube-version", "1.33"), func(t *testing.T, r rendered) {
			assert.True(t, !gated(r) && guarded(r) && stripped(r))
		}},
		"a cluster without strips":                             {[]string{"--kube-version", "1.30"}, func(t *testing.T, r rendered) { assert.True(t, guarded(r) && !stripped(r)) }},
		"a cluster that does not serve the gate's kinds":       {[]string{"--kube-version", "1.33"}, func(t *testing.T, r rendered) { assert.False(t, gated(r)) }},
		"a newer cluster that does not serve the gate's kinds": {[]string{"--api-versions", "apps/v1/Deployment"}, func(t *testing.T, r rendered) { assert.False(t, gated(r)) }},
		"an older cluster that does": {[]string{"--kube-version", "1.33", "--api-versions", "apps/v1/Deployment,admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"}, func(t *testing.T, r rendered) {
			assert.True(t, gated(r))
		}},
		"the gate in any case": {append(set("gate.policy=enabled"), "--kube-version", "1.33"), func(t *testing.T, r rendered) {
			assert.True(t, gated(r) && guarded(r) && !stripped(r))
		}},
		"a policy for a cluster that serves its kind": {append(set("policy.cordon=keep"), "--api-versions", "nodekeep.dev/v1alpha1/NodePolicy"), func(t *testing.T, r rendered) {
			assert.NotContains(t, r.policy(t), "helm.sh/hook", "the object is part of the release")
			assert.Contains(t, r.policy(t), "helm.sh/resource-policy: keep")
		}},
		"the kind of the policy is there already": {set("crd.create=false"), func(t *testing.T, r rendered) {
			assert.Empty(t, r.names("CustomResourceDefinition"))
		}},
		"another gate": {set("gate.key=example.com/gate"), func(t *testing.T, r rendered) {
			for name, pod := range r.pods(t) {
				assert.Contains(t, pod.Spec.Containers[0].Args, "--gate-key=example.com/gate", name)
				assert.True(t, tolerates(pod.Spec, "example.com/gate"), name)
			}
			assert.Contains(t, get[admissionregistrationv1.MutatingAdmissionPolicy](t, r, "MutatingAdmissionPolicy", "nodekeep-gate").Spec.Mutations[0].JSONPatch.Expression, "key: 'example.com/gate'")
			assert.Equal(t, "example.com/gate", get[corev1.ConfigMap](t, r, "ConfigMap", "nodekeep-gate").Data["gate-key"])
		}},
		"deletions unseen": {set("losslessDeletes.enabled=false"), func(t *testing.T, r rendered) {
			_, validating := r.hooks(t)
			require.Len(t, validating, 1)
			assert.Equal(t, "policy.nodekeep.dev", validating[0].Name)
			assert.Equal(t, []string{"get", "list", "watch"}, get[rbacv1.Role](t, r, "Role", "nodekeep-webhook").Rules[0].Verbs, "then the webhook writes nothing")
			for _, rule := range get[rbacv1.ClusterRole](t, r, "ClusterRole", "nodekeep-webhook").Rules {
				assert.NotContains(t, rule.Resources, "nodes", "and reads no Node")
			}
		}},
		"nothing on the host network": {set("capture.hostNetwork=false", "namespace.create=true"), func(t *testing.T, r rendered) {
			assert.Equal(t, []corev1.ContainerPort{{Name: "metrics", ContainerPort: 9641}}, r.container(t, "nodekeep-capture").Ports)
			assert.Equal(t, []string{"nodekeep-capture", "nodekeep-webhook"}, r.names("NetworkPolicy"))
			assert.Equal(t, "restricted", get[corev1.Namespace](t, r, "Namespace", namespace).Labels["pod-security.kubernetes.io/enforce"])
		}},
		"everything on the host network": {set("webhook.hostNetwork=true", "webhook.ports.webhook=9643"), func(t *testing.T, r rendered) {
			assert.Empty(t, r.names("NetworkPolicy"))
			assert.True(t, tolerates(r.pods(t)["nodekeep-webhook"].Spec, corev1.TaintNodeNotReady))
			assert.Contains(t, r.container(t, "nodekeep-webhook").Args, "--bind-address=:9643")
			assert.EqualValues(t, 0, get[appsv1.Deployment](t, r, "Deployment", "nodekeep-webhook").Spec.Strategy.RollingUpdate.MaxSurge.IntVal, "its port is taken")
		}},
		"metrics for those who may get them": {set("metrics.secure=true"), func(t *testing.T, r rendered) {
			assert.Equal(t, "system:auth-delegator", get[rbacv1.ClusterRoleBinding](t, r, "ClusterRoleBinding", "nodekeep-metrics").RoleRef.Name)
			assert.Contains(t, r.container(t, "nodekeep-capture").Args, "--metrics-secure")
		}},
		"no metrics": {set("metrics.enabled=false"), func(t *testing.T, r rendered) {
			assert.Contains(t, r.container(t, "nodekeep-capture").Args, "--metrics-bind-address=0")
			assert.Len(t, get[networkingv1.NetworkPolicy](t, r, "NetworkPolicy", "nodekeep-webhook").Spec.Ingress, 1)
		}},
		"a tight network": {set("networkPolicy.webhookFrom[0].ipBlock.cidr=10.0.0.0/28", "networkPolicy.metricsFrom[0].podSelector.matchLabels.app=prometheus",
			"networkPolicy.egress[0].to[0].ipBlock.cidr=10.0.0.1/32", "networkPolicy.egress[0].ports[0].port=6443", "capture.hostNetwork=false"), func(t *testing.T, r rendered) {
			policy := get[networkingv1.NetworkPolicy](t, r, "NetworkPolicy", "nodekeep-webhook").Spec
			assert.Equal(t, "10.0.0.0/28", policy.Ingress[0].From[0].IPBlock.CIDR)
			assert.Equal(t, "prometheus", policy.Ingress[1].From[0].PodSelector.MatchLabels["app"])
			assert.Equal(t, []networkingv1.PolicyType{"Ingress", "Egress"}, policy.PolicyTypes)
		}},
		"only the API server may call": {set("webhook.clientAuthority.configMap=api-server-ca", "webhook.clientAuthority.names={kube-apiserver,another}"), func(t *testing.T, r rendered) {
			assert.Contains(t, r.container(t, "nodekeep-webhook").Args, "--client-ca-file=/etc/nodekeep-clients/ca.crt")
			assert.Contains(t, r.container(t, "nodekeep-webhook").Args, "--client-name=kube-apiserver,another")
			volumes := r.pods(t)["nodekeep-webhook"].Spec.Volumes
			assert.Equal(t, "api-server-ca", volumes[len(volumes)-1].ConfigMap.Name)
		}},
		"only the API server may call, by a Secret": {set("webhook.clientAuthority.secret=api-server-ca"), func(t *testing.T, r rendered) {
			assert.Contains(t, r.container(t, "nodekeep-webhook").Args, "--client-ca-file=/etc/nodekeep-clients/ca.crt")
			volumes := r.pods(t)["nodekeep-webhook"].Spec.Volumes
			assert.Equal(t, "api-server-ca", volumes[len(volumes)-1].Secret.SecretName)
		}},
		"an open network":              {set("networkPolicy.enabled=false"), func(t *testing.T, r rendered) { assert.Empty(t, r.names("NetworkPolicy")) }},
		"no flow control":              {set("flowControl.enabled=false"), func(t *testing.T, r rendered) { assert.Empty(t, r.names("FlowSchema")) }},
		"GKE":                          {[]string{"--kube-version", "v1.36.1-gke.100"}, func(t *testing.T, r rendered) { assert.True(t, r.contains("ResourceQuota", "nodekeep-critical-pods")) }},
		"no priority":                  {set("priorityClassName=", "priorityClassQuota=enabled"), func(t *testing.T, r rendered) { assert.Empty(t, r.names("ResourceQuota")) }},
		"no hook before the uninstall": {set("uninstall.hook=false"), func(t *testing.T, r rendered) { assert.Empty(t, r.names("Job")) }},
		"a policy with taints": {set("policy.taints.register[0].taint=example.com/unverified=true:NoSchedule", "policy.taints.register[0].nodeSelector=gpu=yes",
			"policy.taints.rules[0].selector=a=b", "policy.taints.rules[0].taint=dedicated=ci:NoExecute", "policy.retention=0", "policy.machine.onMismatch=quarantine"), func(t *testing.T, r rendered) {
			for name, pod := range r.pods(t) {
				assert.True(t, tolerates(pod.Spec, "example.com/unverified"), name)
			}
		}},
		"an image of yours": {set("image.repository=registry.example.com/nodekeep", "image.digest=sha256:0000000000000000000000000000000000000000000000000000000000000000", "image.pullSecrets[0]=registry", "image.pullPolicy=Always"), func(t *testing.T, r rendered) {
			for name, pod := range r.pods(t) {
				assert.Equal(t, "registry.example.com/nodekeep@sha256:0000000000000000000000000000000000000000000000000000000000000000", pod.Spec.Containers[0].Image, name)
				assert.Equal(t, "registry", pod.Spec.ImagePullSecrets[0].Name, name)
			}
		}},
		"everything for pods": {profiles(oneProfile, "pods.tolerations[0].key=x", "pods.tolerations[0].operator=Exists", "pods.nodeSelector.pool=infra", "pods.labels.team=infra", "pods.annotations.note=yes",
			"pods.annotations.port=all", "webhook.annotations.port=own", "capture.annotations.more=x", "verify.annotations.port=another",
			"pods.env[0].name=KUBERNETES_SERVICE_HOST", "pods.env[0].value=10.0.0.1", "pods.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight=1",
			"pods.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].key=x", "pods.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].operator=Exists",
			"webhook.extraArgs[0]=--cert-names=a.example.com\\,10.0.0.1", "capture.extraArgs[0]=--pprof-bind-address=127.0.0.1:6060", "verify.extraArgs[0]=--workers=1"), func(t *testing.T, r rendered) {
			assert.Len(t, r.pods(t), 4, "the Job of helm uninstall, too")
			for name, pod := range r.pods(t) {
				assert.True(t, tolerates(pod.Spec, "x"), name)
				assert.Equal(t, "infra", pod.Spec.NodeSelector["pool"], name)
				assert.Equal(t, "infra", pod.Labels["team"], name)
				assert.Equal(t, "yes", pod.Annotations["note"], name)
				assert.Contains(t, pod.Spec.Containers[0].Env, corev1.EnvVar{Name: "KUBERNETES_SERVICE_HOST", Value: "10.0.0.1"}, name)
			}
			for _, process := range []string{"webhook", "capture", "verify"} {
				pod := r.pods(t)["nodekeep-"+process]
				assert.Nil(t, pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution, process)
				assert.Len(t, pod.Spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution, 1, "%s: replicas stay apart", process)
			}
			ports := map[string]string{}
			for name, pod := range r.pods(t) {
				ports[name] = pod.Annotations["port"]
			}
			assert.Equal(t, map[string]string{"nodekeep-webhook": "own", "nodekeep-capture": "all", "nodekeep-verify": "another", "nodekeep-uninstall": "all"}, ports, "an annotation of the process wins")
			assert.Equal(t, "x", r.pods(t)["nodekeep-capture"].Annotations["more"])
			assert.Contains(t, r.container(t, "nodekeep-webhook").Args, "--cert-names=a.example.com,10.0.0.1")
			assert.Contains(t, r.container(t, "nodekeep-verify").Args, "--workers=1")
		}},
		"replicas apart in your own way": {set("pods.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight=1",
			"pods.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.topologyKey=rack"), func(t *testing.T, r rendered) {
			for _, process := range []string{"webhook", "capture"} {
				affinity := r.pods(t)["nodekeep-"+process].Spec.Affinity
				require.Len(t, affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution, 1, process)
				assert.Equal(t, "rack", affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].PodAffinityTerm.TopologyKey, process)
				assert.NotNil(t, affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution, "%s: off virtual Nodes", process)
			}
		}},
		"large numbers": {set("capture.workers=10000000", "webhook.drainSeconds=600", "uninstall.timeoutSeconds=10000000"), func(t *testing.T, r rendered) {
			assert.Contains(t, r.container(t, "nodekeep-capture").Args, "--workers=10000000")
			assert.EqualValues(t, 630, *r.pods(t)["nodekeep-webhook"].Spec.TerminationGracePeriodSeconds)
		}},
		"flags": {set("log.format=json", "log.level=debug", "capture.extraArgs={--resync=0,--retention-sweep=1h30m,--retention-fraction=0}"), func(t *testing.T, r rendered) {
			assert.Subset(t, r.container(t, "nodekeep-capture").Args, []string{"--log-format=json", "--log-level=debug", "--resync=0", "--retention-sweep=1h30m", "--retention-fraction=0"})
		}},
		"labels on webhook configurations": {set("webhookConfigurations.labels.a=b", "certificates.mode=certManager"), func(t *testing.T, r rendered) {
			injectedFrom(t, r, namespace+"/nodekeep-webhook")
			configuration := get[admissionregistrationv1.ValidatingWebhookConfiguration](t, r, "ValidatingWebhookConfiguration", "nodekeep")
			assert.Equal(t, "b", configuration.Labels["a"])
		}},
	}
	maps.Copy(all, verification())
	return all
}

// certificate is what these tests read of cert-manager's kind.
type certificate struct {
	Spec struct {
		SecretName  string            `json:"secretName"`
		DNSNames    []string          `json:"dnsNames"`
		IsCA        bool              `json:"isCA"`
		CommonName  string            `json:"commonName"`
		Duration    string            `json:"duration"`
		RenewBefore string            `json:"renewBefore"`
		Usages      []string          `json:"usages"`
		PrivateKey  map[string]any    `json:"privateKey"`
		IssuerRef   map[string]string `json:"issuerRef"`
	} `json:"spec"`
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   map[string]any `json:"metadata"`
}

func guarded(r rendered) bool {
	return r.contains("ValidatingAdmissionPolicy", "nodekeep-guard") && r.contains("ValidatingAdmissionPolicyBinding", "nodekeep-guard")
}

func stripped(r rendered) bool {
	return r.contains("MutatingAdmissionPolicy", "nodekeep-strip") && r.contains("MutatingAdmissionPolicyBinding", "nodekeep-strip")
}

func gated(r rendered) bool {
	return r.contains("MutatingAdmissionPolicy", "nodekeep-gate") && r.contains("MutatingAdmissionPolicyBinding", "nodekeep-gate") && r.contains("RoleBinding", "nodekeep-gate") && r.contains("Role", "nodekeep-gate")
}

// impersonation returns what the rules let a process do as another user.
func impersonation(rules []rbacv1.PolicyRule) (rights []string) {
	for _, rule := range rules {
		for _, verb := range rule.Verbs {
			if strings.HasPrefix(verb, "impersonate") {
				rights = append(rights, strings.TrimSpace(verb+" "+strings.Join(rule.ResourceNames, ",")))
			}
		}
	}
	return rights
}

func tolerates(pod corev1.PodSpec, key string) bool {
	for _, toleration := range pod.Tolerations {
		if toleration.Key == key && toleration.Operator == corev1.TolerationOpExists && toleration.Effect == "" {
			return true
		}
	}
	return false
}

func injectedFrom(t *testing.T, r rendered, certificate string) {
	t.Helper()
	for _, object := range r {
		if kind := object.GetKind(); kind == "MutatingWebhookConfiguration" || kind == "ValidatingWebhookConfiguration" {
			assert.Equal(t, certificate, object.GetAnnotations()["cert-manager.io/inject-ca-from"], kind)
		}
	}
}

// mountsCertificate checks that the webhook has its certificate from a Secret, and no rights on that or any other.
func mountsCertificate(t *testing.T, r rendered, secret string) {
	t.Helper()
	assert.Empty(t, r.names("Secret"))
	volumes := r.pods(t)["nodekeep-webhook"].Spec.Volumes
	assert.Equal(t, secret, volumes[len(volumes)-1].Secret.SecretName)
	args := r.container(t, "nodekeep-webhook").Args
	assert.Contains(t, args, "--cert-dir=/etc/nodekeep-certificate")
	for _, rule := range r.rules(t) {
		assert.NotContains(t, rule.Resources, "secrets")
	}
	for _, rule := range slices.Concat(get[rbacv1.ClusterRole](t, r, "ClusterRole", "nodekeep-webhook").Rules, get[rbacv1.Role](t, r, "Role", "nodekeep-webhook").Rules) {
		for _, configurations := range []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations", "*"} {
			assert.NotContains(t, rule.Resources, configurations, "caBundle has another owner, and the right to change webhooks is as good as cluster-admin")
		}
	}
}
