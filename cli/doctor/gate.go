package doctor

// judgeGatePolicy judges whether the API server is configured to put new Nodes behind the gate.
func judgeGatePolicy(seen Installation) answer {
	a := answer{okText: "configured as shipped; the gate is the taint " + string(seen.Gate())}
	addUnknown(&a, "", seen.MutatingPoliciesServed)
	if seen.lacksMutatingPolicies() {
		a.add(Warning, "",
			newRemedy("Start kubelets with --register-with-taints="+seen.Gate().Taint().Key+":NoSchedule. "+
				"This check cannot see whether they are; then --skip gate-policy."),
			"this API server has no MutatingAdmissionPolicies (Kubernetes 1.36 has): unless its kubelet puts the gate on, "+ungatedEffect)
		return a
	}
	seen.compare(&a, checkGate)
	return a
}

// judgeGovernance compares the admission policies of governance with the shipped ones. Without that section, the policy gives them nothing to do.
func judgeGovernance(seen Installation) answer {
	a := answer{okText: "the policy has none"}
	if inForce, ok := seen.requirePolicy(&a, policyObject); ok && !inForce.Governance().Empty() {
		a.okText = "the API server goes by the section governance of the policy"
	}
	seen.compare(&a, checkGovernance)
	return a
}

// judgeGuardPolicies judges whether the API server keeps kubelets from nodekeep's annotations.
func judgeGuardPolicies(seen Installation) answer {
	a := answer{okText: "kubelets cannot write nodekeep's annotations"}
	addUnknown(&a, "", seen.MutatingPoliciesServed)
	if seen.lacksMutatingPolicies() {
		a.add(Warning, "", newRemedy("Upgrade to Kubernetes 1.36. Until then: --skip guard-policies."),
			"this API server has no MutatingAdmissionPolicies (Kubernetes 1.36 has), so nothing removes such annotations from a kubelet's CREATE: "+annotationsForgeable)
	}
	seen.compare(&a, checkGuards)
	return a
}
