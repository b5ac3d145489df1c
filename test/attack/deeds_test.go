package attack

import (
	"fmt"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/verify"
)

// deed is what a thief of a token may try: all of its requests have one outcome.
type deed struct {
	title    string
	requests []request
}

// The objects of the deeds.
const (
	busy     = "busy"    // a Node that takes workloads
	waiting  = "waiting" // a Node behind the gate, which was never verified
	selfTest = "nodekeep-self-test"
	stranger = "stranger" // a Node that does not exist
)

// requestsAs has a request sent as a kubelet.
func requestsAs(node string, groups []string, requests ...request) []request {
	for i := range requests {
		requests[i].user, requests[i].groups = "system:node:"+node, groups
	}
	return requests
}

// Taints of a Node that waits.
var (
	gate       = corev1.Taint{Key: "nodekeep.dev/restoring", Effect: corev1.TaintEffectNoSchedule}
	unverified = corev1.Taint{Key: verify.Taint, Effect: corev1.TaintEffectNoSchedule}
)

type object = map[string]any

func named(apiVersion, kind, name string) object {
	return object{"apiVersion": apiVersion, "kind": kind, "metadata": object{"name": name}}
}

func withField(o object, field string, value any) object {
	o[field] = value
	return o
}

// Paths of the API server.
const (
	core       = "/api/v1"
	nodes      = core + "/nodes"
	release    = core + "/namespaces/" + harness.Namespace
	checks     = core + "/namespaces/" + verify.Namespace
	admission  = "/apis/admissionregistration.k8s.io/v1"
	rbac       = "/apis/rbac.authorization.k8s.io/v1"
	leases     = "/apis/coordination.k8s.io/v1/namespaces/" + harness.Namespace + "/leases"
	nodeClaims = "/apis/karpenter.sh/v1/nodeclaims"
	machines   = "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/machines"
	policies   = "/apis/nodekeep.dev/v1alpha1/nodepolicies"
)

func get(paths ...string) (all []request) {
	for _, path := range paths {
		all = append(all, request{method: http.MethodGet, path: path})
	}
	return all
}

func post(path string, body any) request {
	return request{method: http.MethodPost, path: path, body: body}
}

// put writes an object that exists, as it is.
func put(path string) request { return request{method: http.MethodPut, path: path} }

func patch(path string, body any) request {
	return request{method: http.MethodPatch, path: path, body: body}
}

func remove(paths ...string) (all []request) {
	for _, path := range paths {
		all = append(all, request{method: http.MethodDelete, path: path})
	}
	return all
}

// condition returns a PATCH of one condition of a Node.
func condition(node, kind string) request {
	r := patch(nodes+"/"+node+"/status", object{"status": object{"conditions": []object{{"type": kind, "status": "False", "reason": "Thief"}}}})
	r.kind = "application/strategic-merge-patch+json"
	return r
}

// untaint removes a taint of the Node that waits.
func untaint(index int, taint corev1.Taint) request {
	path := fmt.Sprintf("/spec/taints/%d", index)
	r := patch(nodes+"/"+waiting, []object{{"op": "test", "path": path + "/key", "value": taint.Key}, {"op": "remove", "path": path}})
	r.kind = "application/json-patch+json"
	return r
}

// pod returns one that checks a Node, as far as the API server looks.
func pod(namespace, name string) object {
	return object{
		"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": name, "namespace": namespace},
		"spec": object{
			"nodeName": busy, "serviceAccountName": verify.Account, "automountServiceAccountToken": false,
			"securityContext": object{"runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": object{"type": "RuntimeDefault"}},
			"containers":      []object{restricted()},
		},
	}
}

// restricted returns a container that Pod Security lets pass in the namespace of the checks.
func restricted() object {
	return object{"name": "a", "image": "a", "securityContext": object{"allowPrivilegeEscalation": false, "capabilities": object{"drop": []string{"ALL"}}}}
}

// plain returns a Pod of a workload.
func plain(namespace, name string) object {
	return withField(withField(named("v1", "Pod", name), "metadata", object{"name": name, "namespace": namespace}), "spec", object{
		"automountServiceAccountToken": false, "containers": []object{{"name": "a", "image": "a"}},
	})
}

// configMap is a PATCH that sets data.
var configMap = object{"data": object{"a": "b"}}

// event is about a Node.
func event(namespace, name string) object {
	return withField(withField(named("v1", "Event", name), "involvedObject", object{"kind": "Node", "name": busy, "namespace": namespace}), "reason", "Thief")
}

// lease returns the heartbeat of a kubelet.
func lease(node string) request {
	return post("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", named("coordination.k8s.io/v1", "Lease", node))
}

// lives returns the calls by which a kubelet lives, in addition to the registration of its Node.
func lives(node string) []request {
	return append(get(nodes+"/"+node, core+"/services", core+"/pods?fieldSelector=spec.nodeName="+node),
		condition(node, "Ready"),
		patch(nodes+"/"+node, object{"metadata": object{"labels": object{"a": "b"}}}),
		lease(node),
		post(core+"/namespaces/default/events", event("default", "thief")),
		post(core+"/namespaces/default/pods", withField(pod("default", "mirror"), "metadata", object{"name": "mirror", "annotations": object{"kubernetes.io/config.mirror": "a"}})),
		post("/apis/certificates.k8s.io/v1/certificatesigningrequests", withField(named("certificates.k8s.io/v1", "CertificateSigningRequest", node), "spec", object{
			"request": []byte("a"), "signerName": "kubernetes.io/kube-apiserver-client-kubelet", "usages": []string{"client auth"},
		})),
		post(core+"/namespaces/default/serviceaccounts/default/token", object{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": object{}}),
	)
}

// governance returns the admission policies of policy.governance, and their bindings.
func governance() (paths []string) {
	for _, mode := range []string{"audit", "deny", "warn"} {
		for _, kind := range []string{"validatingadmissionpolicies", "validatingadmissionpolicybindings"} {
			paths = append(paths, admission+"/"+kind+"/nodekeep-governance-"+mode)
		}
	}
	return paths
}

// emergency is the name of the Role and the RoleBinding that declare an emergency.
const emergency = "nodekeep-emergency"

func declared(resource string) string {
	return rbac + "/namespaces/" + harness.Namespace + "/" + resource + "/" + emergency
}

// deeds returns those that rights of nodekeep's accounts allow, and those that matter most that none allows.
func deeds() []deed {
	kubelets := []string{"system:nodes"}
	register := post(nodes, named("v1", "Node", selfTest))
	stored := register
	stored.stored = true
	o := post(nodes, named("v1", "Node", stranger))
	log := get(checks + "/pods/check/log")
	log[0].unserved = true
	return []deed{
		{"read one Node", get(nodes + "/" + busy)},
		{"read every Node", get(nodes)},
		{"set labels, taints and annotations of a Node", []request{
			patch(nodes+"/"+busy, object{"metadata": object{"labels": object{"a": "b"}}}), patch(nodes+"/"+busy, object{"spec": object{"unschedulable": true}}),
		}},
		{"remove the gate of a Node", []request{untaint(1, gate)}},
		{"remove the taint of verification, so that a Node opens without its checks", []request{untaint(0, unverified)}},
		{"set the condition nodekeep.dev/Verified", []request{condition(busy, "nodekeep.dev/Verified")}},
		{"set any other condition of a Node", []request{condition(busy, "Ready")}},
		{"delete a Node that waits for its first verification", remove(nodes + "/" + waiting)},
		{"delete a Node that takes workloads", remove(nodes + "/" + busy)},
		{"create a Node, update one, reach a kubelet", append(get(nodes+"/"+busy+"/proxy/pods"), o, put(nodes+"/"+busy))},
		{"see what the API server makes of Node " + selfTest + ", by a dry run", requestsAs(selfTest, nil, register)},
		{"register Node " + selfTest, requestsAs(selfTest, nil, stored)},
		{"act as the kubelet of " + selfTest + " in another way", slices.Concat(requestsAs(selfTest, nil, lives(selfTest)...), requestsAs(selfTest, kubelets, lives(selfTest)...))},
		{"act as another kubelet, or register another Node", slices.Concat(requestsAs(busy, nil, lives(busy)...), requestsAs(busy, kubelets, lives(busy)...), requestsAs(selfTest, nil, o), requestsAs(selfTest, kubelets, o))},

		{"read the policy", get(policies + "/" + harness.PolicyName)},
		{"follow the policy", get(policies)},
		{"change what the status of the policy says", []request{patch(policies+"/"+harness.PolicyName+"/status", object{"status": object{"observedGeneration": 1}})}},
		{"read the policy that was accepted last", get(release + "/configmaps/nodekeep-accepted")},
		{"read records", get(release+"/configmaps", release+"/configmaps/node.record")},
		{"write records, and so label and taint Nodes that register", []request{post(release+"/configmaps", named("v1", "ConfigMap", "node.thief")), patch(release+"/configmaps/node.record", configMap)}},
		{"delete records", remove(release + "/configmaps/node.record")},
		{"change or delete the policy, or its kind", slices.Concat([]request{
			patch(policies+"/"+harness.PolicyName, object{"spec": object{"cordon": "keep"}}), put(policies + "/" + harness.PolicyName),
			patch("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodepolicies.nodekeep.dev", object{"metadata": object{"labels": object{"a": "b"}}}),
		}, remove(policies+"/"+harness.PolicyName, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodepolicies.nodekeep.dev"))},
		{"change another ConfigMap of the release namespace", []request{patch(release+"/configmaps/nodekeep-gate", configMap)}},
		{"change the certificates that Pods of the release namespace trust", []request{patch(release+"/configmaps/kube-root-ca.crt", configMap)}},
		{"write which policy, rules and inventories are accepted", []request{patch(release+"/configmaps/nodekeep-accepted", configMap), patch(release+"/configmaps/nodekeep-inventory", configMap)}},
		{"withdraw the policy and the rules that are accepted", remove(release + "/configmaps/nodekeep-accepted")},
		{"withdraw what of inventories is accepted", remove(release + "/configmaps/nodekeep-inventory")},
		{"read or write ConfigMaps elsewhere", append(get(core+"/namespaces/default/configmaps"), patch(core+"/namespaces/default/configmaps/foreign", configMap))},

		{"read and replace the webhook's certificate and key", append(get(release+"/secrets/nodekeep-webhook-tls"),
			put(release+"/secrets/nodekeep-webhook-tls"))},
		{"read any other Secret", get(release+"/secrets/other", release+"/secrets", core+"/secrets")},
		{"send reviews of the API server to a server of its own", []request{
			patch(admission+"/mutatingwebhookconfigurations/nodekeep", object{"metadata": object{"labels": object{"a": "b"}}}),
			patch(admission+"/validatingwebhookconfigurations/nodekeep", object{"metadata": object{"labels": object{"a": "b"}}}),
		}},
		{"read the webhook configurations", get(admission+"/mutatingwebhookconfigurations/nodekeep", admission+"/validatingwebhookconfigurations/nodekeep")},
		{"read the guard policies, and the UID of the cluster", get(admission+"/validatingadmissionpolicies/nodekeep-guard", admission+"/validatingadmissionpolicybindings/nodekeep-guard",
			admission+"/mutatingadmissionpolicies/nodekeep-strip", admission+"/mutatingadmissionpolicybindings/nodekeep-strip", core+"/namespaces/kube-system")},
		{"read the policies of governance", get(governance()...)},
		{"switch off the gate, the guard policies and the webhook", remove(rbac+"/namespaces/"+harness.Namespace+"/rolebindings/nodekeep-gate",
			admission+"/mutatingadmissionpolicybindings/nodekeep-gate", admission+"/mutatingadmissionpolicybindings/nodekeep-strip", admission+"/mutatingadmissionpolicies/nodekeep-strip",
			admission+"/validatingadmissionpolicies/nodekeep-guard", admission+"/validatingadmissionpolicybindings/nodekeep-guard", admission+"/mutatingwebhookconfigurations/nodekeep")},
		{"see whether an emergency is declared", get(declared("roles"), declared("rolebindings"))},
		{"follow whether an emergency is declared", get(rbac+"/namespaces/"+harness.Namespace+"/roles?fieldSelector=metadata.name="+emergency, rbac+"/namespaces/"+harness.Namespace+"/rolebindings?fieldSelector=metadata.name="+emergency)},
		{"declare an emergency, so that no Node is gated or verified", []request{
			post(rbac+"/namespaces/"+harness.Namespace+"/roles", withField(named("rbac.authorization.k8s.io/v1", "Role", emergency), "rules", []object{{"apiGroups": []string{"nodekeep.dev"}, "resources": []string{"closing"}, "verbs": []string{"stop"}}})),
			post(rbac+"/namespaces/"+harness.Namespace+"/rolebindings", withField(named("rbac.authorization.k8s.io/v1", "RoleBinding", emergency), "roleRef", object{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "nodekeep-gate"})),
			put(declared("roles")), put(declared("rolebindings")),
		}},
		{"end an emergency", remove(declared("roles"), declared("rolebindings"))},
		{"switch off the policies of governance", remove(governance()...)},
		{"switch off the policy that confines Node " + selfTest, append(remove(admission+"/validatingadmissionpolicies/"+selfTest, admission+"/validatingadmissionpolicybindings/"+selfTest),
			patch(admission+"/validatingadmissionpolicies/"+selfTest, object{"spec": object{"failurePolicy": "Ignore"}}))},

		{"keep another replica of capture from leading", []request{put(leases + "/nodekeep-capture")}},
		{"keep another replica of the verification controller from leading", []request{put(leases + "/nodekeep-verify")}},
		{"read a Lease by its name", get(leases + "/nodekeep-capture")},
		{"read the controller's Lease", get(leases + "/nodekeep-verify")},
		{"create Leases in the release namespace", []request{post(leases, named("coordination.k8s.io/v1", "Lease", "thief"))}},
		{"write Events about Nodes and the policy", []request{post(core+"/namespaces/default/events", event("default", "thief")), patch(core+"/namespaces/default/events/earlier", object{"message": "a"})}},
		{"write Events in the release namespace", []request{post(release+"/events", event(harness.Namespace, "thief")), patch(release+"/events/earlier", object{"message": "a"})}},

		{"run and delete Pods in " + verify.Namespace, append(remove(checks+"/pods/check"), post(checks+"/pods", pod(verify.Namespace, "thief")))},
		{"read Pods in " + verify.Namespace, append(get(checks+"/pods/check", checks+"/pods"), log...)},
		{"run Pods elsewhere", []request{post(core+"/namespaces/default/pods", pod("default", "thief"))}},
		{"list the Pods of the release namespace", get(release + "/pods")},
		{"read the Pods of all namespaces", get(core+"/pods", core+"/namespaces/agents/pods")},
		{"read the DaemonSets of all namespaces", get("/apis/apps/v1/daemonsets", "/apis/apps/v1/namespaces/agents/daemonsets")},
		{"forge reports of failed checks", append(append(get(checks+"/configmaps"), remove(checks+"/configmaps/report")...), post(checks+"/configmaps", named("v1", "ConfigMap", "thief")),
			put(checks+"/configmaps/report"))},
		{"read the ledger of removals", get(checks + "/configmaps/nodekeep-verify")},
		{"read Services and their endpoints in namespaces that profiles name", get(core+"/namespaces/shop/services/shop", core+"/namespaces/kube-system/services/kube-dns", core+"/namespaces/default/services/kubernetes",
			"/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices", "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices")},
		{"read a Pod by its name in namespaces that profiles name", get(core+"/namespaces/shop/pods/shop", core+"/namespaces/kube-system/pods/dns", core+"/namespaces/default/pods/foreign")},
		{"read and delete a NodeClaim that Karpenter has not initialized", append(get(nodeClaims+"/new"), remove(nodeClaims+"/new")...)},
		{"delete a NodeClaim that is initialized", remove(nodeClaims + "/old")},
		{"read a Machine, and have it remediated", append(get(machines+"/machine"), patch(machines+"/machine", object{"metadata": object{"annotations": object{"cluster.x-k8s.io/remediate-machine": ""}}}))},
		{"change a Machine in another way", []request{patch(machines+"/machine", object{"metadata": object{"annotations": object{"a": "b"}}})}},
		{"read ResourceSlices", get("/apis/resource.k8s.io/v1/resourceslices", "/apis/resource.k8s.io/v1/resourceslices/slice")},
		{"read NodeFeature objects", get("/apis/nfd.k8s-sigs.io/v1alpha1/nodefeatures", "/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/default/nodefeatures/node")},

		{"ask the API server who has a token, and what a user may", []request{
			post("/apis/authentication.k8s.io/v1/tokenreviews", withField(named("authentication.k8s.io/v1", "TokenReview", ""), "spec", object{"token": "a"})),
			post("/apis/authorization.k8s.io/v1/subjectaccessreviews", withField(named("authorization.k8s.io/v1", "SubjectAccessReview", ""), "spec", object{"user": "a", "nonResourceAttributes": object{"path": "/", "verb": "get"}})),
		}},
		{"mint tokens, or grant itself rights", []request{
			post(release+"/serviceaccounts/nodekeep-capture/token", object{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": object{}}),
			post(rbac+"/clusterrolebindings", withField(named("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "thief"), "roleRef", object{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"})),
			patch(rbac+"/clusterroles/nodekeep-webhook", object{"rules": nil}),
		}},
	}
}

// fixtures returns the objects that deeds are about.
func fixtures() []any {
	node := func(name string, taints ...corev1.Taint) object {
		return withField(named("v1", "Node", name), "spec", object{"taints": taints})
	}
	in := func(namespace string, o object) object {
		o["metadata"].(object)["namespace"] = namespace
		return o
	}
	claim := func(name, initialized string) object {
		return withField(withField(named("karpenter.sh/v1", "NodeClaim", name), "spec", object{
			"requirements": []any{}, "nodeClassRef": object{"group": "a.example.com", "kind": "A", "name": "a"},
		}), "status", object{"conditions": []object{{"type": "Initialized", "status": initialized, "reason": "a", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}}})
	}
	return []any{
		node(busy), node(waiting, unverified, gate),
		// The Role grants nothing: no emergency is declared while the deeds are tried.
		in(harness.Namespace, withField(named("rbac.authorization.k8s.io/v1", "Role", emergency), "rules", []object{})),
		in(harness.Namespace, withField(named("rbac.authorization.k8s.io/v1", "RoleBinding", emergency), "roleRef", object{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": emergency})),
		in(harness.Namespace, named("v1", "ConfigMap", "node.record")), in(harness.Namespace, named("v1", "ConfigMap", "kube-root-ca.crt")), in(harness.Namespace, named("v1", "ConfigMap", "nodekeep-accepted")), in(harness.Namespace, named("v1", "ConfigMap", "nodekeep-inventory")),
		in("default", named("v1", "ConfigMap", "foreign")), in(verify.Namespace, named("v1", "ConfigMap", "report")),
		in(harness.Namespace, named("v1", "Secret", "other")), in("default", event("default", "earlier")), in(harness.Namespace, event(harness.Namespace, "earlier")),
		in("shop", named("v1", "ServiceAccount", "default")), in(verify.Namespace, named("v1", "ServiceAccount", "default")), in("kube-system", named("v1", "ServiceAccount", "default")), in("default", named("v1", "ServiceAccount", "default")),
		plain("shop", "shop"), plain("kube-system", "dns"), plain("default", "foreign"),
		in(harness.Namespace, named("coordination.k8s.io/v1", "Lease", "nodekeep-capture")), in(harness.Namespace, named("coordination.k8s.io/v1", "Lease", "nodekeep-verify")),
		in("shop", withField(named("v1", "Service", "shop"), "spec", object{"ports": []object{{"port": 80}}})), in("kube-system", withField(named("v1", "Service", "kube-dns"), "spec", object{"ports": []object{{"port": 53}}})),
		in("default", named("nfd.k8s-sigs.io/v1alpha1", "NodeFeature", "node")),
		withField(named("resource.k8s.io/v1", "ResourceSlice", "slice"), "spec", object{"driver": "a.example.com", "nodeName": busy, "pool": object{"name": "a", "generation": 1, "resourceSliceCount": 1}}),
		claim("new", "False"), claim("old", "True"),
		in("default", withField(named("cluster.x-k8s.io/v1beta2", "Machine", "machine"), "spec", object{
			"clusterName": "a", "bootstrap": object{"dataSecretName": "a"}, "infrastructureRef": object{"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "A", "name": "a"},
		})),
	}
}
