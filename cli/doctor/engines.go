package doctor

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// judgingKyverno are Kyverno's ClusterPolicies and ValidatingPolicies that may deny a Node. Policies in a namespace act on nothing
// outside of it.
func (s Seen) judgingKyverno() (found []judgedNode) {
	for _, object := range s.Kyverno.Value {
		judges, open := clusterPolicyJudgesNodes, []string{"what its rules say"}
		if object.GetKind() == "ValidatingPolicy" {
			judges = validatingPolicyJudgesNodes
		}
		if judges(object) {
			found = append(found, judgedNode{object: objectOf(object), open: open})
		}
	}
	return found
}

// clusterPolicyJudgesNodes reports whether a rule of a ClusterPolicy that is enforced selects Nodes.
func clusterPolicyJudgesNodes(policy unstructured.Unstructured) bool {
	if admission, found, _ := unstructured.NestedBool(policy.Object, "spec", "admission"); found && !admission {
		return false
	}
	byDefault := text(policy.Object, "spec", "validationFailureAction")
	overridden := len(mapsIn(policy.Object, "spec", "validationFailureActionOverrides")) > 0
	return slices.ContainsFunc(mapsIn(policy.Object, "spec", "rules"), func(rule map[string]any) bool {
		if _, validates := rule["validate"]; !validates {
			return false
		}
		action := text(rule, "validate", "failureAction")
		if action == "" {
			action = byDefault
		}
		if !strings.EqualFold(action, "enforce") && !overridden {
			return false
		}
		return slices.ContainsFunc(kyvernoFilters(rule), filterSelectsNodes)
	})
}

// kyvernoFilters are the resource filters of a rule, any one of which may select a Node.
func kyvernoFilters(rule map[string]any) (filters []map[string]any) {
	for _, list := range []string{"any", "all"} {
		for _, one := range mapsIn(rule, "match", list) {
			if resources, found, _ := unstructured.NestedMap(one, "resources"); found {
				filters = append(filters, resources)
			}
		}
	}
	if resources, found, _ := unstructured.NestedMap(rule, "match", "resources"); found {
		filters = append(filters, resources)
	}
	return filters
}

// filterSelectsNodes reports whether a filter selects the CREATE of Nodes: kinds are "Node", "v1/Node", "core/v1/Node" or have
// wildcards for these parts, and no operations stand for all.
func filterSelectsNodes(filter map[string]any) bool {
	operations := texts(filter, "operations")
	if len(operations) > 0 && !slices.Contains(operations, "CREATE") && !slices.Contains(operations, "*") {
		return false
	}
	kinds := texts(filter, "kinds")
	return len(kinds) == 0 || slices.ContainsFunc(kinds, func(kind string) bool {
		parts := strings.Split(kind, "/")
		if kind == "*/*" {
			return true
		}
		last := parts[len(parts)-1]
		return last == "Node" || strings.Contains(last, "*")
	})
}

// validatingPolicyJudgesNodes reports whether a ValidatingPolicy, whose constraints are those of Kubernetes, may deny a Node.
func validatingPolicyJudgesNodes(policy unstructured.Unstructured) bool {
	if enabled, found, _ := unstructured.NestedBool(policy.Object, "spec", "evaluation", "admission", "enabled"); found && !enabled {
		return false
	}
	if actions := texts(policy.Object, "spec", "validationActions"); len(actions) > 0 && !slices.Contains(actions, string(admissionregistrationv1.Deny)) {
		return false
	}
	raw, found, _ := unstructured.NestedMap(policy.Object, "spec", "matchConstraints")
	if !found {
		return false
	}
	var constraints admissionregistrationv1.MatchResources
	if runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &constraints) != nil {
		return true // it says something that is not known here
	}
	acts, _ := actsOnNodes(&constraints)
	return acts
}

// judgingGatekeeper are Gatekeeper's constraints that may deny a Node.
func (s Seen) judgingGatekeeper() (found []judgedNode) {
	for _, constraint := range s.Gatekeeper.Value {
		action := text(constraint.Object, "spec", "enforcementAction")
		if action == "dryrun" || action == "warn" || text(constraint.Object, "spec", "match", "scope") == "Namespaced" {
			continue
		}
		kinds := mapsIn(constraint.Object, "spec", "match", "kinds")
		if len(kinds) > 0 && !slices.ContainsFunc(kinds, selectsNodes) {
			continue
		}
		found = append(found, judgedNode{object: objectOf(constraint), open: []string{"what its template says"}})
	}
	return found
}

// selectsNodes reports whether an entry of a constraint's kinds selects Nodes; a list that is left out stands for all.
func selectsNodes(entry map[string]any) bool {
	has := func(list, value string) bool {
		values := texts(entry, list)
		return len(values) == 0 || slices.Contains(values, value) || slices.Contains(values, "*")
	}
	return has("apiGroups", "") && has("kinds", "Node")
}

// text is a text somewhere in an object; empty where there is none.
func text(object map[string]any, path ...string) string {
	value, _, _ := unstructured.NestedString(object, path...)
	return value
}

// texts are a list of texts; nil where there is none.
func texts(object map[string]any, path ...string) []string {
	values, _, _ := unstructured.NestedStringSlice(object, path...)
	return values
}

// mapsIn are a list of maps; what is none is left out.
func mapsIn(object map[string]any, path ...string) (found []map[string]any) {
	values, _, _ := unstructured.NestedFieldNoCopy(object, path...)
	list, _ := values.([]any)
	for _, value := range list {
		if one, is := value.(map[string]any); is {
			found = append(found, one)
		}
	}
	return found
}
