package impact

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/cli/nodestate/statetest"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/verify"
)

func TestTheEndOfAnEmergencySaysWhatBecomesOfEachNode(t *testing.T) {
	p := statetest.Load(t, "taints: {register: [{taint: 'example.com/starting:NoSchedule', nodeSelector: pool=gpu}]}\n"+
		"verify:\n  profiles:\n  - {name: gpu, nodeSelector: pool=gpu, reverify: onReboot, checks: [{name: api, api: {}}]}\n"+
		"  - {name: others, mode: report, checks: [{name: api, api: {}}]}\n")
	declared := time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC)
	instant := declared.Add(2 * time.Hour)
	passed := verify.Progress{Round: 1, BootID: "b1", OnReboot: true, Label: verify.Label, Last: &verify.Last{Result: verify.VerdictPassed, Time: declared}}.String()
	freed := verify.Progress{Round: 1, Last: &verify.Last{Result: verify.VerdictNotSelected, Time: instant}}.String()
	node := func(name, annotation string, change func(*corev1.Node)) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: name, CreationTimestamp: metav1.NewTime(declared.Add(-time.Hour)), Labels: map[string]string{"pool": "gpu", verify.Label: "true"}, Annotations: map[string]string{},
		}}
		n.Status.NodeInfo.BootID = "b1"
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		if annotation != "" {
			n.Annotations[verify.Annotation] = annotation
		}
		if change != nil {
			change(n)
		}
		return n
	}
	starting := corev1.Taint{Key: "example.com/starting", Effect: corev1.TaintEffectNoSchedule}
	nodes := []*corev1.Node{
		node("well", passed, nil),
		node("rebooted", passed, func(n *corev1.Node) { n.Status.NodeInfo.BootID = "b2" }),
		node("unlabelled", passed, func(n *corev1.Node) { delete(n.Labels, verify.Label) }),
		node("freed", freed, func(n *corev1.Node) { delete(n.Labels, verify.Label) }),
		node("never", "", func(n *corev1.Node) {
			n.CreationTimestamp, n.Spec.Taints = metav1.NewTime(instant), []corev1.Taint{starting}
		}),
		node("bare", "", func(n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(instant) }),
		node("waits", "", func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: verify.Taint, Effect: corev1.TaintEffectNoSchedule}}
		}),
		node("reports", "", func(n *corev1.Node) { n.Labels = nil }),
		node("leaving", "", func(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{Time: instant} }),
	}
	for name, p := range map[string]policy.Policy{"of the cluster": p, "of a process that follows the emergency": p.WithEmergency(true)} {
		want := EmergencyEndNodes{
			Closed: []string{"waits"}, Recheck: []string{"rebooted", "unlabelled"}, Unverified: []string{"bare", "freed", "never"}, WithoutRegistrationTaints: []string{"bare"},
		}
		fn := func(holds bool) EmergencyEndNodes {
			reopening := NewEmergencyEndCounter(p, holds, declared, instant)
			for _, node := range nodes {
				reopening.Add(node)
			}
			return reopening.Nodes()
		}
		assert.Equal(t, want, fn(true), name)
		want.WithoutRegistrationTaints = nil
		assert.Equal(t, want, fn(false), "%s, where only one of the two objects is left", name)
	}
}
