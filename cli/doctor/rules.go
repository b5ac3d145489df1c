package doctor

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// judgeAdmissionRules finds the rules of others that may judge Nodes when they register. It reads what they match, not what they decide.
func judgeAdmissionRules(seen Installation) answer {
	var a answer
	addUnknown(&a, "", seen.ValidatingPolicies)
	addUnknown(&a, "", seen.ValidatingBindings)
	addUnknown(&a, "", seen.AllValidating)
	addUnknown(&a, "", seen.AllMutating)
	addUnknown(&a, "", seen.Kyverno)
	addUnknown(&a, "", seen.Gatekeeper)
	for _, object := range slices.Concat(seen.policiesOnNodes(), seen.webhooksOnNodes(), seen.enginesOnNodes()) {
		a.add(Warning, object,
			newRemedy("See what it denies. Name restored labels that it denies in labels.defer of the policy, and exempt restored taints that it denies "+
				"in the rule. If it denies neither, --skip admission-rules.", "kubectl get "+object+" -o yaml"),
			"it may judge the CREATE of Nodes. A label that the webhook restores counts as set by the kubelet: "+
				"if this rule denies the label, the Node cannot register")
	}
	a.okText = "no rule of others judges the CREATE of Nodes"
	var mutating []string
	for _, configuration := range seen.AllMutating.Value {
		if configuration.Name != WebhookConfigurationName && slices.ContainsFunc(configuration.Webhooks, func(webhook admissionregistrationv1.MutatingWebhook) bool {
			return slices.ContainsFunc(webhook.Rules, matchesNodes)
		}) {
			mutating = append(mutating, "mutatingwebhookconfiguration/"+configuration.Name)
		}
	}
	if len(mutating) > 0 {
		a.okText += "; others change it too: " + strings.Join(mutating, ", ")
	}
	return a
}

// policiesOnNodes returns the ValidatingAdmissionPolicies of others that a binding lets deny a Node.
func (s Installation) policiesOnNodes() (objects []string) {
	for _, policy := range s.ValidatingPolicies.Value {
		constraints := policy.Spec.MatchConstraints
		if strings.HasPrefix(policy.Name, WebhookConfigurationName+"-") || constraints == nil || len(constraints.ResourceRules) == 0 || !selectsNodes(constraints) {
			continue
		}
		if slices.ContainsFunc(s.ValidatingBindings.Value, func(binding admissionregistrationv1.ValidatingAdmissionPolicyBinding) bool {
			return binding.Spec.PolicyName == policy.Name && slices.Contains(binding.Spec.ValidationActions, admissionregistrationv1.Deny) &&
				(binding.Spec.MatchResources == nil || selectsNodes(binding.Spec.MatchResources))
		}) {
			objects = append(objects, "validatingadmissionpolicy/"+policy.Name)
		}
	}
	return objects
}

// webhooksOnNodes returns the configurations of others with a webhook that the API server calls. What Kyverno's and Gatekeeper's deny is
// said by their own rules, where these are known.
func (s Installation) webhooksOnNodes() (objects []string) {
	for _, configuration := range s.AllValidating.Value {
		labels := configuration.Labels
		kyverno := labels["webhook.kyverno.io/managed-by"] != "" || labels["app.kubernetes.io/part-of"] == "kyverno"
		if configuration.Name == WebhookConfigurationName || kyverno && s.Kyverno.isKnown() || labels["gatekeeper.sh/system"] != "" && s.Gatekeeper.isKnown() {
			continue
		}
		if slices.ContainsFunc(configuration.Webhooks, func(webhook admissionregistrationv1.ValidatingWebhook) bool {
			return slices.ContainsFunc(webhook.Rules, matchesNodes)
		}) {
			objects = append(objects, "validatingwebhookconfiguration/"+configuration.Name)
		}
	}
	return objects
}

// enginesOnNodes returns the rules of Kyverno and Gatekeeper that may deny a Node. Kyverno's policies in a namespace act on nothing outside of it.
func (s Installation) enginesOnNodes() (objects []string) {
	for i, object := range slices.Concat(s.Kyverno.Value, s.Gatekeeper.Value) {
		selects := constraintSelectsNodes // of any kind
		switch {
		case i >= len(s.Kyverno.Value):
		case object.GetKind() == "ValidatingPolicy":
			selects = validatingPolicySelectsNodes
		default:
			selects = clusterPolicySelectsNodes
		}
		if selects(object.Object) {
			objects = append(objects, fmt.Sprintf("%s.%s/%s", strings.ToLower(object.GetKind()), object.GroupVersionKind().Group, object.GetName()))
		}
	}
	return objects
}

// selectsNodes reports whether constraints select the CREATE of Nodes; without rules they select everything that they do not exclude. A
// namespaceSelector never excludes Nodes, which have no namespace.
func selectsNodes(constraints *admissionregistrationv1.MatchResources) bool {
	matches := func(rule admissionregistrationv1.NamedRuleWithOperations) bool {
		return matchesNodes(rule.RuleWithOperations)
	}
	return (len(constraints.ResourceRules) == 0 || slices.ContainsFunc(constraints.ResourceRules, matches)) &&
		!slices.ContainsFunc(constraints.ExcludeResourceRules, func(rule admissionregistrationv1.NamedRuleWithOperations) bool {
			return matches(rule) && len(rule.ResourceNames) == 0
		})
}

// matchesNodes reports whether a rule matches the CREATE of Nodes. The resources "nodes", "*", "nodes/*" and "*/*" match Nodes themselves;
// "nodes/status" and "*/scale" do not.
//
// Source: rules.Matcher in apiserver/pkg/admission/plugin/webhook/predicates of k8s.io/kubernetes.
func matchesNodes(rule admissionregistrationv1.RuleWithOperations) bool {
	return (slices.Contains(rule.Operations, admissionregistrationv1.Create) || slices.Contains(rule.Operations, admissionregistrationv1.OperationAll)) &&
		matches(rule.APIGroups, "") && matches(rule.APIVersions, "v1") &&
		slices.ContainsFunc(rule.Resources, func(resource string) bool {
			name, part, _ := strings.Cut(resource, "/")
			return (name == "nodes" || name == "*") && (part == "" || part == "*")
		}) && (rule.Scope == nil || *rule.Scope != admissionregistrationv1.NamespacedScope)
}

// matches reports whether a list has the value or stands for all.
func matches(list []string, value string) bool {
	return slices.Contains(list, value) || slices.Contains(list, "*")
}

// clusterPolicySelectsNodes reports whether a rule of a Kyverno ClusterPolicy that is enforced selects Nodes.
func clusterPolicySelectsNodes(policy map[string]any) bool {
	if admission, found, _ := unstructured.NestedBool(policy, "spec", "admission"); found && !admission {
		return false
	}
	overridden := len(mapsIn(policy, "spec", "validationFailureActionOverrides")) > 0
	return slices.ContainsFunc(mapsIn(policy, "spec", "rules"), func(rule map[string]any) bool {
		action := stringAt(rule, "validate", "failureAction")
		if action == "" {
			action = stringAt(policy, "spec", "validationFailureAction")
		}
		if _, validates := rule["validate"]; !validates || !strings.EqualFold(action, "enforce") && !overridden {
			return false
		}
		match, _, _ := unstructured.NestedMap(rule, "match")
		return slices.ContainsFunc(append(slices.Concat(mapsIn(match, "any"), mapsIn(match, "all")), match), filterSelectsNodes)
	})
}

// filterSelectsNodes reports whether a filter selects the CREATE of Nodes. A kind is "Node", "v1/Node" or "core/v1/Node", or has wildcards for these
// parts. Without operations the filter selects all operations.
func filterSelectsNodes(filter map[string]any) bool {
	if _, found, err := unstructured.NestedMap(filter, "resources"); !found || err != nil {
		return false
	}
	operations, kinds := stringsAt(filter, "resources", "operations"), stringsAt(filter, "resources", "kinds")
	return (len(operations) == 0 || matches(operations, "CREATE")) && (len(kinds) == 0 || slices.ContainsFunc(kinds, func(kind string) bool {
		last := kind[strings.LastIndex(kind, "/")+1:]
		return last == "Node" || strings.Contains(last, "*")
	}))
}

// validatingPolicySelectsNodes reports whether a Kyverno ValidatingPolicy, whose constraints are those of Kubernetes, may deny a Node.
func validatingPolicySelectsNodes(policy map[string]any) bool {
	if enabled, found, _ := unstructured.NestedBool(policy, "spec", "evaluation", "admission", "enabled"); found && !enabled {
		return false
	}
	if actions := stringsAt(policy, "spec", "validationActions"); len(actions) > 0 && !slices.Contains(actions, string(admissionregistrationv1.Deny)) {
		return false
	}
	raw, _, _ := unstructured.NestedMap(policy, "spec", "matchConstraints")
	var constraints admissionregistrationv1.MatchResources
	if runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &constraints) != nil {
		return true // it says something that is not known here
	}
	return len(constraints.ResourceRules) > 0 && selectsNodes(&constraints)
}

// constraintSelectsNodes reports whether a Gatekeeper constraint may deny a Node. A list that is left out stands for all.
func constraintSelectsNodes(constraint map[string]any) bool {
	action, kinds := stringAt(constraint, "spec", "enforcementAction"), mapsIn(constraint, "spec", "match", "kinds")
	if action == "dryrun" || action == "warn" || stringAt(constraint, "spec", "match", "scope") == "Namespaced" {
		return false
	}
	return len(kinds) == 0 || slices.ContainsFunc(kinds, func(entry map[string]any) bool {
		groups, kinds := stringsAt(entry, "apiGroups"), stringsAt(entry, "kinds")
		return (len(groups) == 0 || matches(groups, "")) && (len(kinds) == 0 || matches(kinds, "Node"))
	})
}

// stringAt returns a text somewhere in an object; empty where there is none.
func stringAt(object map[string]any, path ...string) string {
	value, _, _ := unstructured.NestedString(object, path...)
	return value
}

// stringsAt returns a list of texts; nil where there is none.
func stringsAt(object map[string]any, path ...string) []string {
	values, _, _ := unstructured.NestedStringSlice(object, path...)
	return values
}

// mapsIn returns a list of maps; what is none is left out.
func mapsIn(object map[string]any, path ...string) (found []map[string]any) {
	values, _, _ := unstructured.NestedFieldNoCopy(object, path...)
	list, _ := values.([]any)
	for _, value := range list {
		if m, ok := value.(map[string]any); ok {
			found = append(found, m)
		}
	}
	return found
}
