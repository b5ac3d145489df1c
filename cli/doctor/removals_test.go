package doctor

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/verify"
)

// removing returns an installation whose profiles remove Nodes by these kinds, with the rights of all kinds.
func removing(t *testing.T, kinds ...verify.RemovalKind) func(s *Installation) {
	t.Helper()
	return func(s *Installation) {
		complete := inCluster(t, "complete.yaml")
		for i := range s.ComparedObjects {
			if name := s.ComparedObjects[i].Shipped.GetName(); name == removalName || s.ComparedObjects[i].Name() == "role/"+checksRole {
				s.ComparedObjects[i] = complete[i]
			}
		}
		var profiles []string
		for _, kind := range kinds {
			profiles = append(profiles, fmt.Sprintf("name: p-%s, nodeSelector: kind=%[1]s, onFailure: %[2]s", strings.ToLower(string(kind)), kind))
		}
		s.setPolicy(profilesOf(profiles...))
		s.APIGroups, s.Ledger = Found([]string{"apps", "karpenter.sh", "cluster.x-k8s.io"}), Absent[*corev1.ConfigMap]()
		s.grantLookups()
	}
}

func TestFindingsOfRemovals(t *testing.T) {
	const (
		check       = "verification: "
		role        = "clusterrole/" + removalName
		bound       = "clusterrolebinding/" + removalName
		consequence = ": Nodes that fail their checks are not removed, and wait with their taint"
	)
	ledger := func(data map[string]string) func(s *Installation) {
		return func(s *Installation) {
			removing(t, verify.RemoveNode)(s)
			s.Ledger = Found(&corev1.ConfigMap{Data: data})
		}
	}
	rest := func(kind verify.RemovalKind, object, patch string) func(s *Installation) {
		return func(s *Installation) {
			removing(t, kind)(s)
			s.patch(t, object, patch)
		}
	}
	onlyPods := `[{"op":"replace","path":"/rules","value":[{"apiGroups":[""],"resources":["pods"],"verbs":["list"]}]}]`
	requireFindings(t, map[string]breakage{
		"a NodeClaim is removed": {removing(t, verify.RemoveNodeClaim), nil},
		"a Machine is removed":   {removing(t, verify.RemoveMachine), nil},
		"a Node is removed":      {removing(t, verify.RemoveNode), nil},
		"no profile removes Nodes, and the rights are not there": {func(*Installation) {}, nil},
		"the rights are not there": {
			func(s *Installation) {
				removing(t, verify.RemoveNodeClaim)(s)
				s.remove(role, bound) // the emergency stop
			},
			[]string{
				check + "error: " + role + ": it does not exist: the controller lacks rights" + consequence,
				check + "error: " + bound + ": it does not exist: the controller lacks rights" + consequence,
			},
		},
		"only the rights of another kind are there": {
			rest(verify.RemoveMachine, role, onlyPods),
			[]string{check + "error: " + role + ": it does not grant get machines.cluster.x-k8s.io, patch machines.cluster.x-k8s.io: the controller lacks rights" + consequence},
		},
		"it may not read the ledger": {
			rest(verify.RemoveNode, "role/"+checksRole, `[{"op":"remove","path":"/rules/2"}]`),
			[]string{check + "warning: role/nodekeep-verify-checks: it does not grant get configmaps/nodekeep-verify in namespace nodekeep-checks: Nodes that fail their checks are not removed, and wait with their taint"},
		},
		"nothing confines it": {
			func(s *Installation) { removing(t, verify.RemoveNode)(s); s.remove(removalPolicyObject) },
			[]string{check + "warning: " + removalPolicyObject + ": it does not exist: a thief of the controller's token can remove Nodes that take workloads"},
		},
		"Karpenter is not installed": {
			func(s *Installation) { removing(t, verify.RemoveNodeClaim)(s); s.APIGroups = Found([]string{"apps"}) },
			[]string{check + "error: nodepolicy/default: profiles have onFailure: nodeClaim (p-nodeclaim), and the API server does not serve the API group karpenter.sh" + consequence},
		},
		"Cluster API is not installed": {
			func(s *Installation) {
				removing(t, verify.RemoveMachine)(s)
				s.APIGroups = Found([]string{"karpenter.sh"})
			},
			[]string{check + "error: nodepolicy/default: profiles have onFailure: machine (p-machine), and the API server does not serve the API group cluster.x-k8s.io" + consequence},
		},
		"neither is needed":      {func(s *Installation) { removing(t, verify.RemoveNode)(s); s.APIGroups = Found([]string{}) }, nil},
		"the ledger is readable": {ledger(map[string]string{verify.LedgerKey: `{"removals":[]}`}), nil},
		"the ledger is spoiled": {
			ledger(map[string]string{verify.LedgerKey: "{"}),
			[]string{check + "error: configmap/nodekeep-verify: in namespace nodekeep-checks it cannot be read (read removals: not a list of removals in JSON)" + consequence},
		},
		"the ledger has another content": {
			ledger(map[string]string{"other": "{}"}),
			[]string{check + "error: configmap/nodekeep-verify: in namespace nodekeep-checks it cannot be read (it has no key removals.json)" + consequence},
		},
		"the ledger may not be read": {
			func(s *Installation) {
				removing(t, verify.RemoveNode)(s)
				s.Ledger = NotKnown[*corev1.ConfigMap](Unknown{Reason: "you may not get configmaps", Remedy: Remedy{Text: "An administrator can grant it:"}})
			},
			[]string{check + "unknown: configmap/nodekeep-verify: you may not get configmaps"},
		},
	})
	assert.False(t, healthy(t).Removes())
}
