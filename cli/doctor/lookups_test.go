package doctor

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestFindingsOfTheNamespacesThatProfilesName(t *testing.T) {
	const (
		role        = "role/" + LookupRole
		binding     = "rolebinding/" + LookupRole
		begin       = "verification: error: "
		consequence = ": checks of profiles that look there do not pass, and Nodes with a verification taint keep it and take no workloads"
	)
	namespaces := slices.Sorted(maps.Keys(healthy(t).lookupRights()))
	assert.Equal(t, []string{"default", "kube-system"}, namespaces, "the Service that a check names, and the DNS Service")
	in := func(namespace, object string, change func(*Object)) func(*Installation) {
		return func(s *Installation) {
			for i := range s.ComparedObjects {
				if s.ComparedObjects[i].Name() == object && s.ComparedObjects[i].Shipped.GetNamespace() == namespace {
					change(&s.ComparedObjects[i])
				}
			}
		}
	}
	gone := func(o *Object) { o.Live = Absent[*unstructured.Unstructured]() }
	requireFindings(t, map[string]breakage{
		"the Role is not there":    {in("default", role, gone), []string{begin + role + ": in namespace default it does not exist" + consequence}},
		"the binding is not there": {in("kube-system", binding, gone), []string{begin + binding + ": in namespace kube-system it does not exist" + consequence}},
		"the Role grants less": {
			in("kube-system", role, func(o *Object) { o.Live.Value.Object["rules"] = o.Live.Value.Object["rules"].([]any)[:1] }),
			[]string{begin + role + ": in namespace kube-system it does not grant list endpointslices.discovery.k8s.io in namespace kube-system, get pods in namespace kube-system" + consequence},
		},
		"the binding is of another account": {
			in("default", binding, func(o *Object) { mapsIn(o.Live.Value.Object, "subjects")[0]["namespace"] = "elsewhere" }),
			[]string{begin + binding + ": in namespace default subjects[nodekeep-verify].namespace is elsewhere, and nodekeep ships nodekeep-system" + consequence},
		},
		"the Role may not be read": {
			in("default", role, func(o *Object) {
				o.Live = NotKnown[*unstructured.Unstructured](Unknown{Reason: "you may not get roles", Remedy: Remedy{Text: "An administrator can grant it:"}})
			}),
			[]string{"verification: unknown: " + role + ": you may not get roles"},
		},
	})

	seen := healthy(t)
	seen.setPolicy(profilesOf("name: gpu, wait: {daemonSets: [gpu-operator/device-plugin]}"))
	assert.Equal(t, map[string][]rbacv1.PolicyRule{
		"gpu-operator": {{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"pods"}}},
	}, seen.lookupRights())

	seen.setPolicy(profilesOf("name: gpu, wait: {daemonSets: [gpu-operator/*]}"))
	assert.Equal(t, map[string][]rbacv1.PolicyRule{
		"gpu-operator": {
			{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"pods"}},
			{Verbs: []string{"list"}, APIGroups: []string{"apps"}, Resources: []string{"daemonsets"}},
		},
	}, seen.lookupRights())
}

func TestFindingsOfAllNamespacesWhereAProfileWaitsForAllDaemonSets(t *testing.T) {
	const (
		role        = "clusterrole/" + LookupRole
		binding     = "clusterrolebinding/" + LookupRole
		begin       = "verification: error: "
		consequence = ": the controller lacks rights: Nodes with a verification taint keep it and take no workloads"
	)
	list := []rbacv1.PolicyRule{
		{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"pods"}},
		{Verbs: []string{"list"}, APIGroups: []string{"apps"}, Resources: []string{"daemonsets"}},
	}
	waits := func(s *Installation) {
		s.setPolicy(profilesOf("name: gpu, wait: {daemonSets: [auto, gpu-operator/driver]}"))
		s.grantLookups()
	}
	seen := healthy(t)
	waits(&seen)
	assert.Equal(t, map[string][]rbacv1.PolicyRule{"": list, "gpu-operator": list[:1]}, seen.lookupRights(), "what is named is granted as ever")

	change := func(object string, change func(*Object)) func(*Installation) {
		return func(s *Installation) {
			waits(s)
			for i := range s.ComparedObjects {
				if s.ComparedObjects[i].Name() == object {
					change(&s.ComparedObjects[i])
				}
			}
		}
	}
	gone := func(o *Object) { o.Live = Absent[*unstructured.Unstructured]() }
	requireFindings(t, map[string]breakage{
		"all is granted":           {waits, nil},
		"the role is not there":    {change(role, gone), []string{begin + role + ": it does not exist" + consequence}},
		"the binding is not there": {change(binding, gone), []string{begin + binding + ": it does not exist" + consequence}},
		"the role grants less": {
			change(role, func(o *Object) { o.Live.Value.Object["rules"] = o.Live.Value.Object["rules"].([]any)[:1] }),
			[]string{begin + role + ": it does not grant list daemonsets.apps" + consequence},
		},
	})
}
