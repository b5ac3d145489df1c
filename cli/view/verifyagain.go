package view

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/verify"
)

// ProfileToRun is the profile by which a Node is verified again. It is an error where no profile selects the Node.
func ProfileToRun(node *corev1.Node, p policy.Policy) (verify.CompiledProfile, error) {
	profile, ok := p.Verify().For(node.Labels)
	if !ok {
		if p.Verify().Empty() {
			return verify.CompiledProfile{}, fmt.Errorf("nothing was changed: the policy has no profiles in its section verify")
		}
		return verify.CompiledProfile{}, fmt.Errorf("nothing was changed: no profile of the policy selects node %q by its labels", node.Name)
	}
	return profile, nil
}

// RunQuestion explains what another verification means.
func RunQuestion(node *corev1.Node, profile verify.CompiledProfile) string {
	taint := profile.Taint
	if profile.Reports() {
		return fmt.Sprintf("Profile %s only reports: node %q takes workloads meanwhile, and gets no taint.\nCheck it now?", profile.Name, node.Name)
	}
	means := "Pods that run on it stay; no others are scheduled onto it until it has passed."
	if taint.Effect == corev1.TaintEffectNoExecute {
		means = "The effect NoExecute evicts the Pods that run on it, but for those that tolerate the taint."
	}
	return fmt.Sprintf("Taint %s is added to node %q. %s\nVerify it again?", taint.ToString(), node.Name, means)
}

// mode says what the mode of a profile means for the Node; nothing for the default.
func (v Verification) mode() string {
	if v.Mode != verify.ModeReport {
		return ""
	}
	return "report: the Node takes workloads whatever its checks say"
}
