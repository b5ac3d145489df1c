package doctor

import (
	"cmp"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"

	"nodekeep.dev/nodekeep/policy"
)

const (
	gatePolicyObject  = "mutatingadmissionpolicy/" + Gate
	gateBindingObject = "mutatingadmissionpolicybinding/" + Gate
	gateRoleObject    = "role/" + Gate
	gateSwitchObject  = "rolebinding/" + Gate
	gateKeyObject     = "configmap/" + policyName
)

// ungated is what comes of it when the gate policy does not act.
const ungated = "a Node that registers while the webhook is down comes up without its labels and takes workloads"

// judgeGatePolicy says whether the API server is told to put new Nodes behind the gate, and to take off the same one.
func judgeGatePolicy(seen Seen) answer {
	var a answer
	find := func(severity Severity, object, what string, remedy Remedy) {
		a.add(Finding{Severity: severity, Object: object, What: what, Remedy: remedy})
	}
	a.add(otherGate(seen)...)
	if lacks(&a, "", seen.GateServed); seen.GateServed.Found && !seen.GateServed.Value {
		find(Warning, "", "this API server has no MutatingAdmissionPolicies (Kubernetes 1.36 has): unless its kubelet puts the gate on, "+ungated, Remedy{
			Text: "Start kubelets with --register-with-taints=" + seen.Gate().Taint().Key + ":NoSchedule. This check cannot see whether they are; then --skip gate-policy.",
		})
		return a
	}
	lacks(&a, gatePolicyObject, seen.GatePolicy)
	lacks(&a, gateBindingObject, seen.GateBinding)
	lacks(&a, gateRoleObject, seen.GateRole)
	lacks(&a, gateSwitchObject, seen.GateSwitch)
	if seen.GatePolicy.Absent {
		find(Error, gatePolicyObject, "it does not exist: "+ungated, reinstall())
	}
	if seen.GateBinding.Absent {
		find(Error, gateBindingObject, "it does not exist, so the policy does nothing: "+ungated, reinstall())
	}
	if seen.GateRole.Absent {
		find(Error, gateRoleObject, "it does not exist, which switches the gate off: "+ungated, reinstall())
	}
	if seen.GateSwitch.Absent {
		find(Error, gateSwitchObject, "it does not exist, which switches the gate off: "+ungated, reinstall())
	}
	if seen.GatePolicy.Found {
		a.add(judgeGateSpec(seen.GatePolicy.Value.Spec)...)
	}
	if seen.GateBinding.Found {
		a.add(judgeGateBinding(seen.GateBinding.Value.Spec)...)
	}
	a.ok = string(seen.Gate())
	return a
}

// otherGate finds processes that take off another gate than the policy puts on.
func otherGate(seen Seen) (found []Finding) {
	for object, deployment := range map[string]Read[*appsv1.Deployment]{"deployment/" + WebhookDeployment: seen.Webhook, "deployment/" + CaptureDeployment: seen.Capture} {
		key, given := flagOf(deployment, "gate-key")
		if !given {
			key = string(policy.DefaultGate)
		}
		if deployment.Found && policy.Gate(key) != seen.Gate() {
			found = append(found, Finding{
				Severity: Error, Object: object,
				What:   fmt.Sprintf("its --gate-key is %s, and %s says that %s is put on Nodes: they do not come out from behind it", key, gateKeyObject, seen.Gate()),
				Remedy: Remedy{Text: "Give both processes, the gate policy and the ConfigMap the same key, in what nodekeep was installed from (the chart has one value for all)."},
			})
		}
	}
	slices.SortFunc(found, func(a, b Finding) int { return cmp.Compare(a.Object, b.Object) })
	return found
}

func judgeGateSpec(spec admissionregistrationv1.MutatingAdmissionPolicySpec) (found []Finding) {
	find := func(what string, commands ...string) {
		remedy := reinstall()
		if len(commands) > 0 {
			remedy = Remedy{Text: "Change it:", Commands: commands}
		}
		found = append(found, Finding{Severity: Error, Object: gatePolicyObject, What: what, Remedy: remedy})
	}
	if failure := valueOr(spec.FailurePolicy, defaultFailure); failure != admissionregistrationv1.Ignore {
		find("failurePolicy "+string(failure)+": an error in the policy keeps Nodes from joining", patch(gatePolicyObject, "/spec/failurePolicy", `"Ignore"`))
	}
	if spec.ReinvocationPolicy != admissionregistrationv1.NeverReinvocationPolicy {
		find("reinvocationPolicy "+string(spec.ReinvocationPolicy)+": it puts back what the webhook has taken off", patch(gatePolicyObject, "/spec/reinvocationPolicy", `"Never"`))
	}
	if !constrains(spec.MatchConstraints) {
		find("it does not match the CREATE of every Node: " + ungated)
	}
	if len(spec.Mutations) == 0 {
		find("it has no mutations: " + ungated)
	}
	return found
}

// constrains reports whether every creation of a Node is covered.
func constrains(constraints *admissionregistrationv1.MatchResources) bool {
	if constraints == nil || len(constraints.ExcludeResourceRules) > 0 {
		return false
	}
	if selector := constraints.ObjectSelector; selector != nil && len(selector.MatchLabels)+len(selector.MatchExpressions) > 0 {
		return false
	}
	return slices.ContainsFunc(constraints.ResourceRules, func(rule admissionregistrationv1.NamedRuleWithOperations) bool {
		return len(rule.ResourceNames) == 0 && matches(rule.RuleWithOperations, admissionregistrationv1.Create)
	})
}

func judgeGateBinding(spec admissionregistrationv1.MutatingAdmissionPolicyBindingSpec) (found []Finding) {
	find := func(what string) {
		found = append(found, Finding{Severity: Error, Object: gateBindingObject, What: what, Remedy: reinstall()})
	}
	if spec.PolicyName != Gate {
		find("it binds " + spec.PolicyName + ": " + ungated)
	}
	if spec.MatchResources != nil && !constrains(spec.MatchResources) {
		find("its matchResources leave Nodes out: " + ungated)
	}
	return found
}
