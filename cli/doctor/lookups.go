package doctor

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// LookupRole lets the verification controller look into a namespace that profiles name.
const LookupRole = "nodekeep-verify-lookup"

// Lookup is that Role in one namespace, and its RoleBinding.
type Lookup struct {
	Namespace string
	Role      Read[*rbacv1.Role]
	Binding   Read[*rbacv1.RoleBinding]
}

// LookupNamespaces are the namespaces that the profiles in force make the controller look into, in order.
func (s Seen) LookupNamespaces() (namespaces []string) {
	for _, right := range s.lookupRights() {
		namespaces = append(namespaces, right.Namespace)
	}
	slices.Sort(namespaces)
	return slices.Compact(namespaces)
}

// lookupRights are what the controller needs there.
func (s Seen) lookupRights() (rights []Right) {
	dns := defaultDNS
	if given, ok := flagOf(s.verify(), "dns-service"); ok {
		dns = given
	}
	for _, profile := range s.Profiles().All() {
		for _, name := range profile.Wait.DaemonSets {
			rights = append(rights, Right{Verb: "list", Resource: "pods", Namespace: namespaceOf(name)})
		}
		for _, name := range profile.Services(dns) {
			rights = append(rights,
				Right{Verb: "get", Resource: "services", Namespace: namespaceOf(name)},
				Right{Verb: "list", Group: "discovery.k8s.io", Resource: "endpointslices", Namespace: namespaceOf(name)})
		}
	}
	return rights
}

// defaultDNS is the DNS Service of the cluster where the Deployment does not name one.
const defaultDNS = "kube-system/kube-dns"

// namespaceOf is that of NAMESPACE/NAME.
func namespaceOf(name string) string {
	namespace, _, _ := strings.Cut(name, "/")
	return namespace
}

// judgeLookups judges whether the controller may look into the namespaces that profiles name.
func (s Seen) judgeLookups(a *answer) {
	remedy := expectation{check: checkVerification}.remedy(reinstall())
	for _, in := range s.Lookups {
		object := "role/" + LookupRole
		find := func(object, what string) {
			a.add(Finding{
				Severity: Error, Object: object,
				What:   "in namespace " + in.Namespace + " " + what + ": checks of profiles that look there do not pass, and " + unverified,
				Remedy: remedy,
			})
		}
		lacks(a, object, in.Role)
		lacks(a, object, in.Binding)
		var lacking []string
		for _, right := range s.lookupRights() {
			granted := in.Role.Found && slices.ContainsFunc(in.Role.Value.Rules, func(rule rbacv1.PolicyRule) bool { return grants(rule, right) })
			if right.Namespace == in.Namespace && !granted && !slices.Contains(lacking, right.String()) {
				lacking = append(lacking, right.String())
			}
		}
		switch {
		case in.Role.Absent:
			find(object, "it does not exist")
		case in.Role.Found && len(lacking) > 0:
			find(object, "it does not grant "+strings.Join(lacking, ", "))
		}
		switch account := (rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: VerifyDeployment, Namespace: s.Namespace}); {
		case in.Binding.Absent:
			find("rolebinding/"+LookupRole, "it does not exist")
		case in.Binding.Found && (in.Binding.Value.RoleRef.Name != LookupRole || !slices.Contains(in.Binding.Value.Subjects, account)):
			find("rolebinding/"+LookupRole, "it does not bind ServiceAccount "+VerifyDeployment)
		}
	}
}
