package webhook

import (
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/guard"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

// SelfTestNode is the Node whose dry-run CREATE shows whether the inline route works on this API server. It never exists: the policy of
// the same name denies its creation.
const SelfTestNode = guard.SelfTestName

// What the self-test remembers: one label of either kind.
const (
	selfTestOrdinary  = "nodekeep-self-test"
	selfTestProtected = "node-role.kubernetes.io/nodekeep-self-test"
)

// selfTest returns what every replica knows of the self-test's Node, whatever the store and the policy say.
func selfTest(gate policy.Gate) (known, policy.Policy) {
	remembered := record.New(SelfTestNode, record.Object{}, map[string]string{selfTestProtected: "", selfTestOrdinary: "1"})
	return known{record: remembered, current: true}, policy.Default().WithProtected(policy.Inline).WithGate(gate)
}

// passed reports whether the API server stored both labels and removed the gate.
func passed(node *corev1.Node, gate policy.Gate) bool {
	_, ordinary := node.Labels[selfTestOrdinary]
	_, protected := node.Labels[selfTestProtected]
	return ordinary && protected && !gate.Present(node.Spec.Taints)
}
