package doctor

import (
	"slices"
	"strings"

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
	wanted, err := governance.Objects(inForce.Governance(), seen.Namespace)
	if err != nil {
		a.add(Finding{Severity: Warning, Object: policyObject, What: err.Error(), Remedy: governanceRemedy()})
		return a
	}
	found := seen.governed()
	for _, want := range wanted {
		object := strings.ToLower(text(want, "kind")) + "/" + text(want, "metadata", "name")
		is, exists := found[object]
		delete(found, object)
		if !exists {
			a.add(Finding{Severity: Warning, Object: object, What: "does not exist: " + ungoverned, Remedy: governanceRemedy()})
			continue
		}
		for _, difference := range (manifests.Comparison{}).Differences(want, is) {
			a.add(Finding{Severity: Warning, Object: object, What: difference.Path + " is not as the policy says: " + ungoverned, Remedy: governanceRemedy()})
		}
	}
	var left []string
	for object := range found {
		left = append(left, object)
	}
	slices.Sort(left)
	for _, object := range left {
		a.add(Finding{
			Severity: Warning, Object: object, What: "is left from an earlier policy, and still in force",
			Remedy: Remedy{Text: "Delete it.", Commands: []string{"kubectl delete " + object}},
		})
	}
	if len(wanted) == 0 {
		a.ok = "the policy has no rule that the API server enforces"
	}
	return a
}

func governanceRemedy() Remedy {
	return Remedy{Text: "Upgrade the release, or apply the policies:", Commands: []string{"nodekeep governance render | kubectl apply --server-side -f -"}}
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
