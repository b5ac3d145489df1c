package doctor

import (
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"nodekeep.dev/nodekeep/verify"
)

// LookupRole lets the verification controller look into a namespace that profiles name. Where a profile waits for all DaemonSets, a
// ClusterRole of that name lets it look into all namespaces. Their bindings have that name, too.
const LookupRole = "nodekeep-verify-lookup"

// defaultDNS is the DNS Service of the cluster where the Deployment does not name one.
const defaultDNS = "kube-system/kube-dns"

// lookupRights returns what the profiles in force make the controller look at, by namespace. Those under the empty name are for all namespaces.
func (s Installation) lookupRights() map[string][]rbacv1.PolicyRule {
	dns := DNSServiceOf(s.verifyDeployment())
	rights := map[string][]rbacv1.PolicyRule{}
	need := func(namespace, verb, group, resource string) {
		rule := rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{group}, Resources: []string{resource}}
		if !slices.ContainsFunc(rights[namespace], func(rule rbacv1.PolicyRule) bool { return rule.Resources[0] == resource && rule.Verbs[0] == verb }) {
			rights[namespace] = append(rights[namespace], rule)
		}
	}
	for _, profile := range s.Profiles().All() {
		for _, daemonSet := range profile.Wait.DaemonSets {
			namespace, all := verify.DaemonSetsOf(daemonSet)
			need(namespace, "list", "", "pods")
			if all {
				need(namespace, "list", "apps", "daemonsets")
			}
		}
		for _, service := range profile.Services(dns) {
			namespace, _, _ := strings.Cut(service, "/")
			need(namespace, "get", "", "services")
			need(namespace, "list", "discovery.k8s.io", "endpointslices")
			need(namespace, "get", "", "pods")
		}
	}
	return rights
}

// LookupRoles returns the Roles that the profiles in force need, and their RoleBindings, by namespace. They begin with the ClusterRole, if one is needed. The
// chart renders them for each profile, so the manifests do not have them.
func (s Installation) LookupRoles() (objects []Object) {
	rights := s.lookupRights()
	for _, namespace := range slices.Sorted(maps.Keys(rights)) {
		meta, kind := metav1.ObjectMeta{Namespace: namespace, Name: LookupRole}, "Role"
		if namespace == metav1.NamespaceAll {
			kind = "ClusterRole"
		}
		for _, object := range []any{ // both kinds have the same fields
			&rbacv1.Role{TypeMeta: rbacType(kind), ObjectMeta: meta, Rules: rights[namespace]},
			&rbacv1.RoleBinding{
				TypeMeta: rbacType(kind + "Binding"), ObjectMeta: meta,
				RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: LookupRole},
				Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: VerifyDeployment, Namespace: s.Namespace}},
			},
		} {
			if content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object); err == nil { // as of any type of the API
				objects = append(objects, Object{Shipped: unstructured.Unstructured{Object: content}})
			}
		}
	}
	return objects
}

func rbacType(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}

// namespaceText shows which of the objects of one name it is.
func (o Object) namespaceText() string {
	if o.Shipped.GetName() != LookupRole || o.Shipped.GetNamespace() == "" {
		return ""
	}
	return "in namespace " + o.Shipped.GetNamespace() + " "
}
