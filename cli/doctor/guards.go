package doctor

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"nodekeep.dev/nodekeep/guard"
)

// forgeable is the consequence where the guard policies are not in force.
const forgeable = "a kubelet can forge nodekeep's annotations on its Node, so nodekeep reads them with care: " +
	"a removal of a protected label or taint that capture did not observe itself does not count, and the label or taint is restored"

// judgeGuardPolicies says whether the API server keeps kubelets from nodekeep's annotations.
func judgeGuardPolicies(seen Seen) answer {
	a := answer{ok: "kubelets cannot write nodekeep's annotations"}
	lacks(&a, guard.GuardObject, seen.Guard)
	lacks(&a, guard.GuardBindingObject, seen.GuardBinding)
	lacks(&a, "", seen.GateServed)
	served := !seen.GateServed.Found || seen.GateServed.Value
	if served {
		lacks(&a, guard.StripObject, seen.Strip)
		lacks(&a, guard.StripBindingObject, seen.StripBinding)
	} else {
		a.add(Finding{
			Severity: Warning, What: "this API server has no MutatingAdmissionPolicies (Kubernetes 1.36 has), so nothing removes such annotations from a kubelet's CREATE: " + forgeable,
			Remedy: Remedy{Text: "Upgrade to Kubernetes 1.36. Until then: --skip guard-policies."},
		})
	}
	shipped, err := guard.Shipped()
	if err != nil {
		a.add(Finding{Severity: Lacking, What: err.Error(), Remedy: Remedy{Text: "Use a released build of nodekeep."}})
		return a
	}
	found := guard.Policies{Guard: seen.Guard.Value, GuardBinding: seen.GuardBinding.Value, Strip: seen.Strip.Value, StripBinding: seen.StripBinding.Value}
	asked := map[string]bool{
		guard.GuardObject: seen.Guard.asked(), guard.GuardBindingObject: seen.GuardBinding.asked(),
		guard.StripObject: served && seen.Strip.asked(), guard.StripBindingObject: served && seen.StripBinding.asked(),
	}
	for _, problem := range found.Problems(shipped) {
		if asked[problem.Object] {
			a.add(Finding{Severity: Warning, Object: problem.Object, What: "it " + problem.What + ": " + forgeable, Remedy: reinstall()})
		}
	}
	a.add(failsClosed(guard.GuardObject, seen.Guard, func(p *admissionregistrationv1.ValidatingAdmissionPolicy) *admissionregistrationv1.FailurePolicyType {
		return p.Spec.FailurePolicy
	}, "keeps kubelets from updating their status")...)
	a.add(failsClosed(guard.StripObject, seen.Strip, func(p *admissionregistrationv1.MutatingAdmissionPolicy) *admissionregistrationv1.FailurePolicyType {
		return p.Spec.FailurePolicy
	}, "keeps Nodes from joining")...)
	return a
}

// failsClosed finds a policy in which an error denies the request.
func failsClosed[T any](object string, policy Read[T], of func(T) *admissionregistrationv1.FailurePolicyType, consequence string) []Finding {
	if !policy.Found || valueOr(of(policy.Value), defaultFailure) == admissionregistrationv1.Ignore {
		return nil
	}
	return []Finding{{
		Severity: Error, Object: object, What: "failurePolicy Fail: an error in the policy " + consequence,
		Remedy: Remedy{Text: "Change it:", Commands: []string{patch(object, "/spec/failurePolicy", `"Ignore"`)}},
	}}
}
