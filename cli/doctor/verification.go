package doctor

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/verify"
)

const (
	podSecurity = "pod-security.kubernetes.io/enforce" // the label by which a namespace enforces a profile of Pod Security
	restricted  = "restricted"                         // the profile that worker Pods meet
)

// unverifiedEffect is what follows where verification does not work.
const unverifiedEffect = "Nodes with a verification taint keep it and take no workloads"

func (s Installation) verifyDeployment() Reading[*appsv1.Deployment] {
	return decode[appsv1.Deployment](s, verifyObject)
}

// Profiles returns those of the policy in force; none where it is not known.
func (s Installation) Profiles() verify.Profiles {
	inForce, err := s.PolicyInForce()
	if err != nil {
		return verify.Profiles{}
	}
	return inForce.Verify()
}

// ChecksNamespace returns the namespace of the Pods that check Nodes.
func (s Installation) ChecksNamespace() string {
	return ChecksNamespaceOf(s.verifyDeployment())
}

// VerificationKeys returns the keys of verification taints, in order. They are the keys of the profiles, and the default key, which a deleted profile may
// have left.
func (s Installation) VerificationKeys() []string {
	keys := []string{verify.Taint}
	for _, taint := range s.Profiles().Taints() {
		keys = append(keys, taint.Key)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// verifiedLabel returns the label of a verified Node.
func (s Installation) verifiedLabel() string {
	if label := s.Profiles().Label; label != "" {
		return label
	}
	return verify.Label
}

// judgeVerification judges whether Nodes are verified, and can be. Where verification is off, no Node may wait for it.
func judgeVerification(seen Installation) answer {
	var a answer
	addUnknown(&a, verifyObject, seen.verifyDeployment())
	switch profiles := seen.Profiles().All(); {
	case seen.verifyDeployment().Absent && len(profiles) > 0:
		a.add(Error, verifyObject,
			newRemedy("The policy has profiles, so set verify.enabled to true in values.yaml (helm upgrade). Or remove the profiles from the policy, and their taints from the Nodes:",
				append(seen.upgradeCommand(), seen.untaintCommands()...)...), "it does not exist: "+unverifiedEffect)
		return a
	case seen.verifyDeployment().Absent:
		a.okText = "off: nodekeep-verify is not installed"
		seen.judgeLeftTainted(&a)
		return a
	case !seen.verifyDeployment().Found:
		return a
	}
	a = judgeDeployment(seen, checkVerification, seen.verifyDeployment(), "verify", unverifiedEffect)
	a.okText = fmt.Sprintf("nodekeep-verify: %s; %s; the policy has %s", a.okText, seen.judgeVerifyLeader(&a), view.Counted(len(seen.Profiles().All()), "profile"))
	seen.judgeChecksNamespace(&a)
	seen.judgeRemovals(&a)
	seen.judgeWorkerImage(&a)
	seen.judgePullSecrets(&a)
	seen.judgeObstacles(&a)
	seen.judgeProofs(&a)
	addUnknown(&a, "", seen.Nodes)
	overdue := seen.Nodes.Value.Overdue
	for _, node := range overdue.First {
		a.add(Warning, "node/"+node.Name, newRemedy("See what its checks report:", "nodekeep show "+node.Name+" --verification"),
			"it has waited to be verified for %s, longer than the deadline of its profile, and takes no new workloads", duration.HumanDuration(seen.Now.Sub(node.Start)))
	}
	addRest(&a, Warning, overdue, "Nodes are not verified by their deadline", "nodekeep list --waiting verification")
	return a
}

// untaintCommands removes the verification taints of all Nodes.
func (s Installation) untaintCommands() (commands []string) {
	for _, key := range s.VerificationKeys() {
		commands = append(commands, fmt.Sprintf("kubectl taint nodes --all %s-", key))
	}
	return commands
}

// judgeLeftTainted finds Nodes that wait for a controller that does not exist.
func (s Installation) judgeLeftTainted(a *answer) {
	addUnknown(a, "", s.Nodes)
	tainted := s.Nodes.Value.Unverified
	for _, name := range tainted.First {
		a.add(Error, "node/"+name, newRemedy("Remove the taint; from all Nodes, that is:", s.untaintCommands()...),
			"it has a verification taint, and verification is off: it takes no new workloads, and nothing removes the taint")
	}
	addRest(a, Error, tainted, "Nodes have a verification taint that nothing removes", s.untaintCommands()...)
}

// judgeVerifyLeader reports who leads, or adds that nobody does.
func (s Installation) judgeVerifyLeader(a *answer) string {
	object := "lease/" + VerifyDeployment
	addUnknown(a, object, s.VerifyLease)
	leader := s.VerifyLease.Value
	if s.VerifyLease.Found && leader.leads() {
		return leader.holder() + " leads"
	}
	if s.VerifyLease.Found && s.isOldLease(leader, s.verifyDeployment()) && s.isJustDeployed(s.verifyDeployment()) {
		return "none leads yet: verify was installed moments ago"
	}
	if s.VerifyLease.isKnown() {
		a.add(Error, object, newRemedy("See why none does:", s.podsCommand("verify"), s.logsCommand(VerifyDeployment)), "no replica of nodekeep-verify leads: "+unverifiedEffect)
	}
	return "nobody leads"
}

// judgeChecksNamespace judges whether Pods that check Nodes can be made, and no others that could do harm.
func (s Installation) judgeChecksNamespace(a *answer) {
	name := s.ChecksNamespace()
	object, namespace := "namespace/"+name, s.ChecksNamespaceObject
	addUnknown(a, object, namespace)
	const unstarted = ", so no Pod that checks a Node starts: " + unverifiedEffect
	switch {
	case namespace.Absent:
		a.add(Error, object, s.reinstallVerify(), "it does not exist"+unstarted)
	case !namespace.Found:
	case namespace.Value.DeletionTimestamp != nil:
		a.add(Error, object, newRemedy("Wait until it is deleted, then apply again what nodekeep was installed from (or run helm upgrade).", s.upgradeCommand()...),
			"it is being deleted"+unstarted)
	case namespace.Value.Labels[podSecurity] != restricted:
		a.add(Warning, object, newRemedy("Set the shipped value:", fmt.Sprintf("kubectl label namespace %s --overwrite %s=%s", name, podSecurity, restricted)),
			"its label %s is %q, not %q: who may make Pods in it can make privileged ones on any Node",
			podSecurity, namespace.Value.Labels[podSecurity], restricted)
	}
}

// AddVerification takes note of a Node that waits to be verified.
func (n *Nodes) AddVerification(node *corev1.Node, keys []string, profiles verify.Profiles, now time.Time) {
	if len(tainted(node, keys)) == 0 {
		return
	}
	n.Unverified.Add(node.Name)
	start := closedSince(node)
	if profile, ok := profiles.Match(node.Labels); ok && now.Sub(start) > profile.Deadline {
		n.Overdue.Add(WaitingNode{Name: node.Name, Start: start})
	}
}
