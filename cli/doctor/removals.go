package doctor

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"nodekeep.dev/nodekeep/verify"
)

// What lets the verification controller remove Nodes, and what confines it.
const (
	removalName         = VerifyDeployment + "-removal"
	removalPolicyObject = "validatingadmissionpolicy/" + removalName
	checksRole          = VerifyDeployment + "-checks"
)

// unremovedEffect is what follows where Nodes that fail are not removed.
const unremovedEffect = "Nodes that fail their checks are not removed, and wait with their taint"

// profilesByRemoval returns the kinds of removal that profiles in force use, and the profiles, in the order of the policy.
func (s Installation) profilesByRemoval() (kinds map[verify.RemovalKind][]string) {
	kinds = map[verify.RemovalKind][]string{}
	for _, profile := range s.Profiles().All() {
		if profile.Removes() {
			kinds[profile.OnFailure] = append(kinds[profile.OnFailure], profile.Name)
		}
	}
	return kinds
}

// Removes reports whether a profile in force removes Nodes.
func (s Installation) Removes() bool { return len(s.profilesByRemoval()) > 0 }

// removedResource returns the objects that a kind of removal deletes.
func removedResource(kind verify.RemovalKind) schema.GroupResource {
	switch kind {
	case verify.RemoveNodeClaim:
		return schema.GroupResource{Group: "karpenter.sh", Resource: "nodeclaims"}
	case verify.RemoveMachine:
		return schema.GroupResource{Group: "cluster.x-k8s.io", Resource: "machines"}
	default:
		return schema.GroupResource{Resource: "nodes"} // which are always served
	}
}

// needsRemoval reports whether the controller needs a right of its ClusterRole for removals. It needs the other rights for removals of any kind.
func (s Installation) needsRemoval(right Right) bool {
	kinds := s.profilesByRemoval()
	for _, kind := range verify.RemovalKinds() {
		if right.Resource == removedResource(kind).Resource {
			return len(kinds[kind]) > 0
		}
	}
	return len(kinds) > 0
}

// judgeRemovals judges whether Nodes that fail can be removed. The rights are compared with the shipped ones elsewhere.
func (s Installation) judgeRemovals(a *answer) {
	if !s.Removes() {
		return
	}
	addUnknown(a, policyObject, s.APIGroups)
	for _, kind := range verify.RemovalKinds() {
		profiles, group := s.profilesByRemoval()[kind], removedResource(kind).Group
		if len(profiles) == 0 || group == "" || !s.APIGroups.Found || slices.Contains(s.APIGroups.Value, group) {
			continue
		}
		a.add(Error, policyObject, newRemedy("Install the CustomResourceDefinitions of that group, or change onFailure of these profiles."),
			"profiles have onFailure: %s (%s), and the API server does not serve the API group %s: %s", kind, strings.Join(profiles, ", "), group, unremovedEffect)
	}
	ledger := "configmap/" + verify.LedgerMap
	addUnknown(a, ledger, s.Ledger)
	if !s.Ledger.Found {
		return
	}
	text, ok := s.Ledger.Value.Data[verify.LedgerKey]
	_, err := verify.ParseLedger(text)
	if !ok {
		err = fmt.Errorf("it has no key %s", verify.LedgerKey)
	}
	if err != nil {
		a.add(Error, ledger,
			newRemedy("Delete it. nodekeep then forgets which Nodes it removed within the last 24 hours, so the limits of removals begin anew:",
				fmt.Sprintf("kubectl -n %s delete configmap %s", s.ChecksNamespace(), verify.LedgerMap)),
			"in namespace %s it cannot be read (%v): %s", s.ChecksNamespace(), err, unremovedEffect)
	}
}
