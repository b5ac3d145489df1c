package doctor

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// judgedNode is a rule that judges the CREATE of Nodes.
type judgedNode struct {
	object string
	// open says what decides whether the rule acts on a Node and cannot be judged here; empty: it acts on every Node.
	open []string
}

// finding says what the rule can do to a registration.
func (j judgedNode) finding() Finding {
	what := "it judges the CREATE of Nodes"
	if len(j.open) > 0 {
		what = "it may judge the CREATE of Nodes (depending on " + strings.Join(j.open, ", ") + ")"
	}
	return Finding{
		Severity: Warning, Object: j.object,
		What: what + ". A label that the webhook restores counts as set by the kubelet: if this rule denies the label, the Node cannot register",
		Remedy: Remedy{
			Text:     "See what it denies. Name restored labels that it denies in labels.defer of the policy file, and exempt restored taints that it denies in the rule. If it denies neither, --skip admission-rules.",
			Commands: []string{"kubectl get " + j.object + " -o yaml"},
		},
	}
}

// judgeAdmissionRules finds the rules of others that judge Nodes when they register.
func judgeAdmissionRules(seen Seen) answer {
	var a answer
	lacks(&a, "", seen.Policies)
	lacks(&a, "", seen.Bindings)
	lacks(&a, "", seen.AllValidating)
	lacks(&a, "", seen.AllMutating)
	lacks(&a, "", seen.Kyverno)
	lacks(&a, "", seen.Gatekeeper)
	for _, judged := range slices.Concat(seen.judgingPolicies(), seen.judgingWebhooks(), seen.judgingKyverno(), seen.judgingGatekeeper()) {
		a.add(judged.finding())
	}
	a.ok = "no rule of others judges the CREATE of Nodes"
	if mutating := seen.othersMutate(); len(mutating) > 0 {
		a.ok += "; others change it too: " + strings.Join(mutating, ", ")
	}
	return a
}

// judgingPolicies are the ValidatingAdmissionPolicies that a binding lets deny something.
func (s Seen) judgingPolicies() (found []judgedNode) {
	for _, policy := range s.Policies.Value {
		constrained, open := actsOnNodes(policy.Spec.MatchConstraints)
		if !constrained || installed(policy.Name) {
			continue
		}
		if len(policy.Spec.MatchConditions) > 0 {
			open = append(open, "its matchConditions "+conditionNames(policy.Spec.MatchConditions))
		}
		for _, binding := range s.Bindings.Value {
			if binding.Spec.PolicyName != policy.Name || !slices.Contains(binding.Spec.ValidationActions, admissionregistrationv1.Deny) {
				continue
			}
			bound, more := true, []string(nil)
			if binding.Spec.MatchResources != nil && len(binding.Spec.MatchResources.ResourceRules) > 0 {
				bound, more = actsOnNodes(binding.Spec.MatchResources)
			} else if binding.Spec.MatchResources != nil {
				bound, more = excludes(binding.Spec.MatchResources)
			}
			if bound {
				found = append(found, judgedNode{object: "validatingadmissionpolicy/" + policy.Name, open: slices.Concat(open, more)})
				break
			}
		}
	}
	return found
}

// judgingWebhooks are the configurations with a webhook that the API server calls. What Kyverno's and Gatekeeper's deny is said by
// their own rules, where these are known.
func (s Seen) judgingWebhooks() (found []judgedNode) {
	for _, configuration := range s.AllValidating.Value {
		engine := engineOf(configuration.Labels)
		if configuration.Name == Configuration || engine == kyverno && s.Kyverno.asked() || engine == gatekeeper && s.Gatekeeper.asked() {
			continue
		}
		for _, webhook := range configuration.Webhooks {
			called, open := callsForNodes(webhook.Rules, webhook.ObjectSelector != nil && len(webhook.ObjectSelector.MatchLabels)+len(webhook.ObjectSelector.MatchExpressions) > 0, webhook.MatchConditions)
			if called {
				found = append(found, judgedNode{object: "validatingwebhookconfiguration/" + configuration.Name, open: append(open, "what "+webhook.Name+" answers")})
				break
			}
		}
	}
	return found
}

// othersMutate are the configurations of others that may change a Node that registers.
func (s Seen) othersMutate() (names []string) {
	for _, configuration := range s.AllMutating.Value {
		if configuration.Name != Configuration && slices.ContainsFunc(configuration.Webhooks, func(webhook admissionregistrationv1.MutatingWebhook) bool {
			called, _ := callsForNodes(webhook.Rules, false, nil)
			return called
		}) {
			names = append(names, "mutatingwebhookconfiguration/"+configuration.Name)
		}
	}
	return names
}

// callsForNodes reports whether a webhook with these rules is called for the CREATE of Nodes, and on what else that depends.
func callsForNodes(rules []admissionregistrationv1.RuleWithOperations, selects bool, conditions []admissionregistrationv1.MatchCondition) (called bool, open []string) {
	if selects {
		open = append(open, "its objectSelector")
	}
	if len(conditions) > 0 {
		open = append(open, "its matchConditions "+conditionNames(conditions))
	}
	return slices.ContainsFunc(rules, func(rule admissionregistrationv1.RuleWithOperations) bool {
		return matches(rule, admissionregistrationv1.Create)
	}), open
}

// actsOnNodes reports whether constraints select the CREATE of Nodes, and on what else that depends. A namespaceSelector leaves out
// no object that has no namespace.
func actsOnNodes(constraints *admissionregistrationv1.MatchResources) (acts bool, open []string) {
	if constraints == nil {
		return false, nil
	}
	named := false
	for _, rule := range constraints.ResourceRules {
		if !matches(rule.RuleWithOperations, admissionregistrationv1.Create) {
			continue
		}
		if len(rule.ResourceNames) == 0 {
			acts, named = true, false
			break
		}
		acts, named = true, true
	}
	if !acts {
		return false, nil
	}
	if named {
		open = append(open, "its resourceNames")
	}
	left, more := excludes(constraints)
	return left, append(open, more...)
}

// excludes reports whether constraints leave the CREATE of Nodes in, and on what else that depends.
func excludes(constraints *admissionregistrationv1.MatchResources) (left bool, open []string) {
	for _, rule := range constraints.ExcludeResourceRules {
		if !matches(rule.RuleWithOperations, admissionregistrationv1.Create) {
			continue
		}
		if len(rule.ResourceNames) == 0 {
			return false, nil
		}
		open = append(open, "its excludeResourceRules")
	}
	if selector := constraints.ObjectSelector; selector != nil && len(selector.MatchLabels)+len(selector.MatchExpressions) > 0 {
		open = append(open, "its objectSelector")
	}
	return true, open
}

// installed reports whether a policy is one of those that nodekeep installs.
func installed(name string) bool { return strings.HasPrefix(name, Configuration+"-") }

// The policy engines whose rules are read.
const (
	kyverno    = "Kyverno"
	gatekeeper = "Gatekeeper"
)

// engineOf says which policy engine a webhook configuration belongs to, by the label that the engine puts on it.
func engineOf(labels map[string]string) string {
	switch {
	case labels["webhook.kyverno.io/managed-by"] != "" || labels["app.kubernetes.io/part-of"] == "kyverno":
		return kyverno
	case labels["gatekeeper.sh/system"] != "":
		return gatekeeper
	}
	return ""
}

// objectOf is an object as kubectl takes it.
func objectOf(object unstructured.Unstructured) string {
	group := object.GroupVersionKind().Group
	return fmt.Sprintf("%s.%s/%s", strings.ToLower(object.GetKind()), group, object.GetName())
}

// matches reports whether a rule covers the operation on Nodes.
func matches(rule admissionregistrationv1.RuleWithOperations, operation admissionregistrationv1.OperationType) bool {
	covers := func(values []string, value string) bool {
		return slices.Contains(values, value) || slices.Contains(values, "*")
	}
	return (slices.Contains(rule.Operations, operation) || slices.Contains(rule.Operations, admissionregistrationv1.OperationAll)) &&
		covers(rule.APIGroups, "") && covers(rule.APIVersions, "v1") && slices.ContainsFunc(rule.Resources, coversNodes) &&
		valueOr(rule.Scope, admissionregistrationv1.AllScopes) != admissionregistrationv1.NamespacedScope
}

// coversNodes reports whether a resource of a rule stands for Nodes themselves: "nodes", "*", "nodes/*" or "*/*" does, "nodes/status" and
// "*/scale" do not (rules.Matcher in apiserver/pkg/admission/plugin/webhook/predicates of k8s.io/kubernetes).
func coversNodes(resource string) bool {
	name, part, _ := strings.Cut(resource, "/")
	return (name == "nodes" || name == "*") && (part == "" || part == "*")
}

func conditionNames(conditions []admissionregistrationv1.MatchCondition) string {
	var names []string
	for _, condition := range conditions {
		names = append(names, condition.Name)
	}
	return strings.Join(names, ", ")
}

func valueOr[T any](value *T, byDefault T) T {
	if value == nil {
		return byDefault
	}
	return *value
}
