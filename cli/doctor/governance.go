package doctor

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"nodekeep.dev/nodekeep/governance"
	"nodekeep.dev/nodekeep/manifests"
)

// ungoverned is what follows where an admission policy of governance is not as the policy says.
const ungoverned = "the API server does not go by the section governance of the policy"

// judgeGovernance compares the admission policies of governance with the policy in force.
func judgeGovernance(seen Seen) answer {
	a := answer{ok: "the admission policies are those of the section governance"}
	lacks(&a, "validatingadmissionpolicies", seen.Policies)
	lacks(&a, "validatingadmissionpolicybindings", seen.Bindings)
	if !seen.Policies.asked() || !seen.Bindings.asked() {
		return a
	}
	inForce, ok := seen.judgedBy(&a, policyObject)
	if !ok {
		return a
	}
	rendered := advice("Upgrade the release, or apply the policies:", "nodekeep governance render | kubectl apply --server-side -f -")
	wanted, err := governance.Objects(inForce.Governance(), seen.Namespace)
	if err != nil {
		a.find(Warning, policyObject, rendered, "%s", err)
		return a
	}
	found := seen.governed()
	for _, want := range wanted {
		object := manifests.Name(unstructured.Unstructured{Object: want})
		is, exists := found[object]
		delete(found, object)
		if !exists {
			a.find(Warning, object, rendered, "does not exist: "+ungoverned)
			continue
		}
		for _, difference := range (manifests.Comparison{}).Differences(want, is) {
			a.find(Warning, object, rendered, "%s is not as the policy says: %s", difference.Path, ungoverned)
		}
	}
	for _, object := range slices.Sorted(maps.Keys(found)) {
		a.find(Warning, object, advice("Delete it.", "kubectl delete "+object), "is left from an earlier policy, and still in force")
	}
	if len(wanted) == 0 {
		a.ok = "the policy has no rule that the API server enforces"
	}
	return a
}

// governed are the admission policies of governance in the cluster and their bindings, as kubectl takes them.
func (s Seen) governed() map[string]map[string]any {
	found := map[string]map[string]any{}
	note := func(kind, name string, object any) {
		if slices.Contains(governance.PolicyNames(), name) {
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
			if err == nil { // else it counts as missing
				found[kind+"/"+name] = content
			}
		}
	}
	for i := range s.Policies.Value {
		note("validatingadmissionpolicy", s.Policies.Value[i].Name, &s.Policies.Value[i])
	}
	for i := range s.Bindings.Value {
		note("validatingadmissionpolicybinding", s.Bindings.Value[i].Name, &s.Bindings.Value[i])
	}
	return found
}
