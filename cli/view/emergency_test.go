package view

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/policy/policytest"
	"nodekeep.dev/nodekeep/verify"
)

func TestTheEndOfAnEmergencySaysWhatBecomesOfEachNode(t *testing.T) {
	p, err := policy.Load([]byte(policytest.Manifest("taints: {register: [{taint: 'example.com/starting:NoSchedule', nodeSelector: pool=gpu}]}\n"+
		"verify:\n  profiles:\n  - {name: gpu, nodeSelector: pool=gpu, reverify: onReboot, checks: [{name: api, api: {}}]}\n"+
		"  - {name: others, mode: report, checks: [{name: api, api: {}}]}\n")), policy.DefaultGate)
	require.NoError(t, err)
	declared := time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC)
	at := declared.Add(2 * time.Hour)
	passed := verify.Progress{Round: 1, BootID: "b1", OnReboot: true, Label: verify.Label, Last: &verify.Last{Result: verify.VerdictPassed, Time: declared}}.String()
	freed := verify.Progress{Round: 1, Last: &verify.Last{Result: verify.VerdictNotSelected, Time: at}}.String()
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
			n.CreationTimestamp, n.Spec.Taints = metav1.NewTime(at), []corev1.Taint{starting}
		}),
		node("bare", "", func(n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(at) }),
		node("waits", "", func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: verify.Taint, Effect: corev1.TaintEffectNoSchedule}}
		}),
		node("reports", "", func(n *corev1.Node) { n.Labels = nil }),
		node("leaving", "", func(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{Time: at} }),
	}
	for name, p := range map[string]policy.Policy{"of the cluster": p, "of a process that follows the emergency": p.Suspending(true)} {
		want := Reopened{
			Closed: []string{"waits"}, Again: []string{"rebooted", "unlabelled"}, Unverified: []string{"bare", "freed", "never"}, Unregistered: []string{"bare"},
		}
		of := func(declared Declared) Reopened {
			reopening := NewReopening(p, declared, at)
			for _, node := range nodes {
				reopening.See(node)
			}
			return reopening.Reopened()
		}
		assert.Equal(t, want, of(Declared{Holds: true, Since: metav1.NewTime(declared)}), name)
		want.Unregistered = nil
		assert.Equal(t, want, of(Declared{}), "%s, where only one of the two objects is left", name)
	}
}

func TestThePlanOfAnEmergencySaysWhatStopsAndHowItEnds(t *testing.T) {
	at := time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC)
	e := Emergency{
		Cluster: "https://there", Namespace: "nk", Gated: []string{"a"}, Unverified: []string{"a", "b"}, End: "nodekeep -n nk emergency --end",
		Objects: []PlannedDeletion{{Kind: "Role", Name: "nodekeep-emergency", State: "to be created"}},
	}
	plan := text(e.Document(at))
	for _, says := range []string{"none; it is declared now", "1 (a): the gate is lifted", "2 (a, b): the verification taint is removed", "also through helm upgrade", "nodekeep -n nk emergency --end", "to|be|created"} {
		assert.Contains(t, plan, says)
	}
	e.Unasked = "x"
	plan = text(e.Document(at))
	assert.Contains(t, plan, "not known whether it sees an emergency: x. If it still gates new Nodes, the objects that gate are deleted")
	assert.NotContains(t, plan, "also through helm upgrade")
	e.Ignored = "y"
	e.Declared = Declared{Holds: true, Since: metav1.NewTime(at.Add(-time.Hour))}
	plan = text(e.Document(at))
	assert.Contains(t, plan, "declared 60m ago; Nodes are opened once more")
	assert.Contains(t, plan, "cannot see an emergency: y. So the objects that gate are deleted. helm upgrade, Argo CD and Flux create them again")
	assert.NotContains(t, plan, "also through helm upgrade")
	assert.Equal(t, "An emergency was declared 60m ago: until it is ended, nodekeep closes no Node. To end it: x", e.Declared.Line("x", at))
	assert.Empty(t, Declared{}.Line("x", at))
}

func TestTheEndOfHalfAnEmergencyRemovesWhatIsLeftOfIt(t *testing.T) {
	at := time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC)
	whole := text(EmergencyEnd{Declared: Declared{Holds: true, Since: metav1.NewTime(at.Add(-time.Hour))}, Nodes: Reopened{Unregistered: []string{"a"}}}.Document(at))
	assert.Contains(t, whole, "declared 60m ago")
	assert.Contains(t, whole, "1 (a): they registered in the emergency")
	assert.Contains(t, whole, "gated and verified again")
	assert.NotContains(t, whole, "Not there")
	half := text(EmergencyEnd{Missing: []string{"RoleBinding g"}}.Document(at))
	assert.Contains(t, half, "none is declared; what is left of one is removed")
	assert.Contains(t, half, "RoleBinding g. Without them no Node is gated. Or the chart makes none here")
	assert.NotContains(t, half, "registered in the emergency")
	assert.NotContains(t, half, "gated and verified again")
}
