package doctor

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// What the manifests grant and what the check asks for are the same rights, no fewer and no more.
func TestTheRightsOfTheProcessesAreThoseOfTheManifests(t *testing.T) {
	seen := healthy(t)
	var asked []HeldRight
	for _, right := range AccountRights(seen) {
		asked = append(asked, HeldRight{Right: right.Right, Account: right.Account})
	}
	assert.ElementsMatch(t, granted(t, shipped(t)), asked)
}

// granted are the rights that the manifests give to ServiceAccounts.
func granted(t *testing.T, objects []runtime.Object) (rights []HeldRight) {
	t.Helper()
	add := func(subjects []rbacv1.Subject, rules []rbacv1.PolicyRule, namespace string) {
		for _, subject := range subjects {
			for _, rule := range rules {
				for _, right := range expand(rule, namespace) {
					rights = append(rights, HeldRight{Right: right, Account: subject.Name})
				}
			}
		}
	}
	for _, object := range objects {
		switch binding := object.(type) {
		case *rbacv1.RoleBinding:
			roles := slices.DeleteFunc(slices.Clone(objects), func(object runtime.Object) bool {
				role, is := object.(*rbacv1.Role)
				return is && role.Namespace != binding.Namespace
			})
			add(binding.Subjects, one[*rbacv1.Role](t, roles, binding.RoleRef.Name).Rules, binding.Namespace)
		case *rbacv1.ClusterRoleBinding:
			add(binding.Subjects, one[*rbacv1.ClusterRole](t, objects, binding.RoleRef.Name).Rules, "")
		}
	}
	return rights
}

func TestTheRightsThatAreAskedForFollowTheInstallation(t *testing.T) {
	asks := func(change func(*Seen), account, right string) bool {
		seen := healthy(t)
		change(&seen)
		return slices.ContainsFunc(AccountRights(seen), func(r HeldRight) bool { return r.Account == account && r.String() == right })
	}
	asShipped := func(*Seen) {}
	inline := func(s *Seen) { s.Policy.Value.Data[policyKey] = policyFile + "labels: {protected: inline}\n" }
	byFiles := func(s *Seen) {
		pod := &s.Webhook.Value.Spec.Template.Spec
		pod.Containers[0].Args = []string{"--cert-dir=/certs"}
		pod.Containers[0].VolumeMounts = append(pod.Containers[0].VolumeMounts, mount("certs", "/certs"))
		pod.Volumes = append(pod.Volumes, secretVolume("certs", "mine"))
	}
	secure := func(s *Seen) {
		container := &s.Capture.Value.Spec.Template.Spec.Containers[0]
		container.Args = append(container.Args, "--metrics-secure")
	}
	const update, impersonate, review = "update secrets/nodekeep-webhook-tls in namespace nodekeep-system", "impersonate users/system:node:nodekeep-self-test", "create tokenreviews.authentication.k8s.io"
	assert.True(t, asks(asShipped, "nodekeep-webhook", update))
	assert.False(t, asks(byFiles, "nodekeep-webhook", update))
	assert.False(t, asks(asShipped, "nodekeep-webhook", impersonate))
	assert.True(t, asks(inline, "nodekeep-webhook", impersonate))
	assert.False(t, asks(asShipped, "nodekeep-capture", review))
	assert.True(t, asks(secure, "nodekeep-capture", review))
	assert.False(t, asks(secure, "nodekeep-webhook", review))
	assert.False(t, asks(func(s *Seen) { s.Validating.Found = false }, "nodekeep-webhook", "create configmaps in namespace nodekeep-system"))
}

func TestFindingsOfRights(t *testing.T) {
	lose := func(rights Read[[]HeldRight], names ...string) {
		for i, right := range rights.Value {
			rights.Value[i].Held = !slices.Contains(names, right.String())
		}
	}
	requireFindings(t, map[string]breakage{
		"a process lacks rights": {
			func(s *Seen) {
				lose(s.Accounts, "patch nodes", "create leases.coordination.k8s.io in namespace nodekeep-system")
			},
			[]string{"account-rights: error: serviceaccount/nodekeep-capture: it may not create leases.coordination.k8s.io in namespace nodekeep-system, patch nodes"},
		},
		"you may not see everything": {
			func(s *Seen) {
				lose(s.Yours, "list nodes")
				s.Yours.Value[1].Lacking = Unknown{Why: "you may not list nodes", Remedy: Remedy{Text: "An administrator can grant it:"}}
			},
			[]string{"your-rights: unknown: : you may not list nodes"},
		},
		"you may not change everything, which is no fault": {func(s *Seen) { lose(s.Yours, "patch nodes", "delete configmaps in namespace nodekeep-system") }, nil},
	})
	seen := healthy(t)
	lose(seen.Yours, "patch nodes")
	assert.Equal(t, "jane may see everything, and not patch nodes", resultOf(t, Judge(seen, nil), "your-rights").What)
}
