package doctor

import (
	"testing"

	"github.com/stretchr/testify/assert"
	rbacv1 "k8s.io/api/rbac/v1"
)

func TestFindingsOfTheNamespacesThatProfilesName(t *testing.T) {
	const (
		role    = "verification: error: role/nodekeep-verify-lookup: in namespace "
		binding = "verification: error: rolebinding/nodekeep-verify-lookup: in namespace "
		so      = ": checks of profiles that look there do not pass, and Nodes with a verification taint keep it and take no workloads"
	)
	assert.Equal(t, []string{"default", "kube-system"}, healthy(t).LookupNamespaces(), "the Service that a check names, and the DNS Service")
	requireFindings(t, map[string]breakage{
		"the Role is not there":    {func(s *Seen) { s.Lookups[0].Role = Absent[*rbacv1.Role]() }, []string{role + "default it does not exist" + so}},
		"the binding is not there": {func(s *Seen) { s.Lookups[1].Binding = Absent[*rbacv1.RoleBinding]() }, []string{binding + "kube-system it does not exist" + so}},
		"the Role grants less": {
			func(s *Seen) { s.Lookups[1].Role.Value.Rules = s.Lookups[1].Role.Value.Rules[:1] },
			[]string{role + "kube-system it does not grant list endpointslices.discovery.k8s.io in namespace kube-system" + so},
		},
		"the binding is of another account": {
			func(s *Seen) { s.Lookups[0].Binding.Value.Subjects[0].Namespace = "elsewhere" },
			[]string{binding + "default it does not bind ServiceAccount nodekeep-verify" + so},
		},
		"the Role may not be read": {
			func(s *Seen) {
				s.Lookups[0].Role = NotKnown[*rbacv1.Role](Unknown{Why: "you may not get roles", Remedy: Remedy{Text: "An administrator can grant it:"}})
			},
			[]string{"verification: unknown: role/nodekeep-verify-lookup: you may not get roles"},
		},
	})

	seen := healthy(t)
	seen.setPolicy(profilesOf("name: gpu, wait: {daemonSets: [gpu-operator/device-plugin]}"))
	assert.Equal(t, []string{"gpu-operator"}, seen.LookupNamespaces())
	assert.Equal(t, "list pods in namespace gpu-operator", seen.lookupRights()[0].String())
}
