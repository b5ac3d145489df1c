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

// LookupRole lets the verification controller look into a namespace that profiles name. Its RoleBinding has that name, too.
const LookupRole = "nodekeep-verify-lookup"

// defaultDNS is the DNS Service of the cluster where the Deployment does not name one.
const defaultDNS = "kube-system/kube-dns"

// lookupRights are what the profiles in force make the controller look at, by namespace.
func (s Seen) lookupRights() map[string][]rbacv1.PolicyRule {
	dns := DNSServiceOf(s.verify())
	rights := map[string][]rbacv1.PolicyRule{}
	need := func(object, verb, group, resource string) {
		namespace, _, _ := strings.Cut(object, "/")
		rule := rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{group}, Resources: []string{resource}}
		if !slices.ContainsFunc(rights[namespace], func(one rbacv1.PolicyRule) bool { return one.Resources[0] == resource && one.Verbs[0] == verb }) {
			rights[namespace] = append(rights[namespace], rule)
		}
	}
	for _, profile := range s.Profiles().All() {
		for _, daemonSet := range profile.Wait.DaemonSets {
			need(daemonSet, "list", "", "pods")
			if _, every := verify.EveryOf(daemonSet); every {
				need(daemonSet, "list", "apps", "daemonsets")
			}
		}
		for _, service := range profile.Services(dns) {
			need(service, "get", "", "services")
			need(service, "list", "discovery.k8s.io", "endpointslices")
			need(service, "get", "", "pods")
		}
	}
	return rights
}

func (s Seen) lookupNamespaces() []string { return slices.Sorted(maps.Keys(s.lookupRights())) }

// Lookups are the Roles that the profiles in force need, and their RoleBindings, by namespace. The manifests cannot hold them, so they are made here as
// the chart renders them.
func (s Seen) Lookups() (objects []Object) {
	rights := s.lookupRights()
	for _, namespace := range s.lookupNamespaces() {
		of := metav1.ObjectMeta{Namespace: namespace, Name: LookupRole}
		for _, object := range []any{
			&rbacv1.Role{TypeMeta: rbacType("Role"), ObjectMeta: of, Rules: rights[namespace]},
			&rbacv1.RoleBinding{
				TypeMeta: rbacType("RoleBinding"), ObjectMeta: of,
				RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: LookupRole},
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

// where shows which of the objects of one name it is.
func (o Object) where() string {
	if o.Shipped.GetName() != LookupRole {
		return ""
	}
	return "in namespace " + o.Shipped.GetNamespace() + " "
}
