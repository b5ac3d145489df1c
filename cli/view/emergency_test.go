package view

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/cli/impact"
)

func TestThePlanOfAnEmergencySaysWhatStopsAndHowItEnds(t *testing.T) {
	instant := time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC)
	e := Emergency{
		Cluster: "https://there", Namespace: "nk", Gated: []string{"a"}, Unverified: []string{"a", "b"}, EndCommand: "nodekeep -n nk emergency --end",
		Objects: []ObjectStep{{Kind: "Role", Name: "nodekeep-emergency", Step: "to be created"}},
	}
	plan := text(e.Document(instant))
	for _, says := range []string{"none; this command declares one", "1 (a): the gate is lifted", "Nodes behind a verification taint: 2 (a, b): the verification taint is removed", "also through helm upgrade", "nodekeep -n nk emergency --end", "to|be|created"} {
		assert.Contains(t, plan, says)
	}
	e.UnknownReason = "x"
	plan = text(e.Document(instant))
	assert.Contains(t, plan, "not known whether it sees an emergency: x. If it still gates new Nodes, the objects that gate are deleted")
	assert.NotContains(t, plan, "also through helm upgrade")
	e.UnseenReason = "y"
	e.Declared = EmergencyState{Active: true, Created: metav1.NewTime(instant.Add(-time.Hour))}
	plan = text(e.Document(instant))
	assert.Contains(t, plan, "declared 60m ago; Nodes are opened once more")
	assert.Contains(t, plan, "cannot see an emergency: y. So the objects that gate are deleted. helm upgrade, Argo CD and Flux create them again")
	assert.NotContains(t, plan, "also through helm upgrade")
	assert.Equal(t, "An emergency was declared 60m ago, and is not ended. To end it: x", e.Declared.Line("x", instant))
	assert.Empty(t, EmergencyState{}.Line("x", instant))
}

func TestTheEndOfHalfAnEmergencyRemovesWhatIsLeftOfIt(t *testing.T) {
	instant := time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC)
	whole := text(EmergencyEnd{Declared: EmergencyState{Active: true, Created: metav1.NewTime(instant.Add(-time.Hour))}, Nodes: impact.EmergencyEndNodes{WithoutRegistrationTaints: []string{"a"}}, GateComplete: true}.Document(instant))
	assert.Contains(t, whole, "declared 60m ago")
	assert.Contains(t, whole, "1 (a): they registered in the emergency")
	assert.Contains(t, whole, "gated and verified again")
	assert.NotContains(t, whole, "Not there")
	assert.NotContains(t, whole, "Proof")
	unknown := text(EmergencyEnd{Declared: EmergencyState{Active: true}, Unprovable: "you may not x"}.Document(instant))
	assert.Contains(t, unknown, "From then on: new Nodes are verified again", "whether the gate is there")
	assert.Contains(t, unknown, "Proof: none: you may not x")
	ungated := text(EmergencyEnd{Declared: EmergencyState{Active: true}, MissingObjects: MissingObjects{Gate: []string{"RoleBinding g"}}, Nodes: impact.EmergencyEndNodes{Unverified: []string{"a"}}, RecheckCommand: "nodekeep -n nk recheck --all"}.Document(instant))
	assert.Contains(t, ungated, "From then on: new Nodes are verified again")
	assert.Contains(t, ungated, "Open and not verified: 1 (a): they stay open. To check them: nodekeep -n nk recheck --all")
	uncalled := text(EmergencyEnd{Declared: EmergencyState{Active: true}, MissingObjects: MissingObjects{Webhook: []string{"MutatingWebhookConfiguration w"}}, GateComplete: true}.Document(instant))
	assert.Contains(t, uncalled, "From then on: new Nodes are gated and verified again", "the gate policy needs no webhook")
	assert.Contains(t, uncalled, "Not there: MutatingWebhookConfiguration w: so the API server does not call the webhook for new Nodes. To correct it, apply again")
	assert.NotContains(t, uncalled, "no gate")
	half := text(EmergencyEnd{MissingObjects: MissingObjects{Gate: []string{"Role g", "RoleBinding g"}}}.Document(instant))
	assert.Contains(t, half, "none is declared; what is left of one is removed")
	assert.Contains(t, half, "Not there: Role g, RoleBinding g: so the gate policy adds no gate. The chart makes no gate policy if gate.policy is disabled, or before Kubernetes 1.36. Otherwise, apply again")
	assert.NotContains(t, half, "registered in the emergency")
	assert.NotContains(t, half, "gated and verified again")
}

func TestADeclarationSaysWhatBecameOfTheNodesThatWereClosed(t *testing.T) {
	node := func(name string, cordoned bool, taints ...corev1.Taint) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Unschedulable: cordoned, Taints: taints}}
	}
	tenant := corev1.Taint{Key: "tenant", Value: "blue", Effect: corev1.TaintEffectNoExecute}
	prefers := corev1.Taint{Key: "spot", Effect: corev1.TaintEffectPreferNoSchedule}
	cordon := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	for name, row := range map[string]struct {
		earlier []string
		nodes   []*corev1.Node
		closed  string // the Node that is closed still
		unknown bool
		want    []string
	}{
		"no Node was closed":                {nodes: []*corev1.Node{node("a", true)}, want: []string{"closed by nodekeep before: none"}},
		"all are open":                      {earlier: []string{"b", "a"}, nodes: []*corev1.Node{node("a", false, prefers), node("b", false)}, want: []string{"closed by nodekeep before: 2 (a, b). None of them is closed by nodekeep now"}},
		"one was deleted meanwhile":         {earlier: []string{"a"}, want: []string{"closed by nodekeep before: 1 (a). None of them is closed by nodekeep now"}},
		"one is closed still":               {earlier: []string{"a", "b"}, closed: "a", nodes: []*corev1.Node{node("a", true), node("b", false)}, want: []string{"closed by nodekeep before: 2 (a, b)", "behind the gate or a verification taint now: 1 (a); run it again"}},
		"one that came meanwhile is closed": {closed: "a", nodes: []*corev1.Node{node("a", false)}, want: []string{"closed by nodekeep before: none", "behind the gate or a verification taint now: 1 (a); run it again"}},
		"a profile's own taint, and the policy is not known": {earlier: []string{"a"}, unknown: true, nodes: []*corev1.Node{node("a", false, tenant)}, want: []string{
			"closed by nodekeep before: 1 (a)", "kept from all or some Pods by what may be nodekeep's, since the policy is not known: 1 (a: taint tenant=blue:NoExecute)",
		}},
		"other clients keep Pods off one of them": {earlier: []string{"a"}, nodes: []*corev1.Node{node("a", true, cordon, tenant), node("b", true)}, want: []string{"closed by nodekeep before: 1 (a). None of them is closed by nodekeep now", "kept from all or some Pods by something else: 1 (a: cordoned, taint tenant=blue:NoExecute)"}},
	} {
		t.Run(name, func(t *testing.T) {
			opened := NewFormerlyClosedNodes(row.earlier, !row.unknown)
			for _, node := range row.nodes {
				opened.Add(node, node.Name == row.closed)
			}
			assert.Equal(t, row.want, opened.Lines())
			assert.Equal(t, row.closed != "", opened.Err() != nil, "a Node that stays closed is no success")
		})
	}
}

func TestADeclarationClaimsOfNewNodesWhatIsProved(t *testing.T) {
	const end, retryHint = "to end it: nodekeep emergency --end", "Once they are created, this shows whether the API server gates new Nodes: nodekeep doctor"
	for name, row := range map[string]struct {
		begun DeclareResult
		want  []string
	}{
		"all that gates is there, and gates no Node": {DeclareResult{Lasts: true}, []string{"the emergency is declared: the API server gates no new Node until it is ended"}},
		"it is not known whether all is there":       {DeclareResult{}, []string{"the emergency is declared, and the API server gates no new Node now"}},
		"what gates was deleted":                     {DeclareResult{MissingObjects: MissingObjects{Gate: []string{"Role g"}, Webhook: []string{"M w"}}}, []string{"the emergency is declared, and the API server gates no new Node now", "not there: Role g, M w. " + retryHint}},
		"a dry run was refused":                      {DeclareResult{Refused: true, Lasts: true}, []string{"the emergency is declared"}},
		"both":                                       {DeclareResult{Refused: true, MissingObjects: MissingObjects{Webhook: []string{"M w"}}}, []string{"the emergency is declared", "not there: M w. " + retryHint}},
	} {
		t.Run(name, func(t *testing.T) {
			row.begun.EndCommand, row.begun.DoctorCommand = "nodekeep emergency --end", "nodekeep doctor"
			assert.Equal(t, append(row.want, end), row.begun.Lines())
			if row.begun.Refused {
				assert.EqualError(t, row.begun.Err(), "it is not proved that the API server gates no new Node: it refuses dry runs")
			} else {
				assert.NoError(t, row.begun.Err())
			}
		})
	}
}

func TestTheEndOfAnEmergencyClaimsWhatIsProvedAndNamesTheNextStep(t *testing.T) {
	const doctor, doubt = "to see whether all is well: nodekeep doctor", "it is not proved that nodekeep acts on new Nodes again: x. " +
		"No emergency is declared now, so to run this again proves nothing. What shows whether nodekeep acts: nodekeep doctor"
	for name, row := range map[string]struct {
		ended EndResult
		want  []string
		err   string
	}{
		"Nodes stay open": {ended: EndResult{Nodes: impact.EmergencyEndNodes{Unverified: []string{"a", "b"}, WithoutRegistrationTaints: []string{"b"}, Closed: []string{"c"}}, RecheckCommand: "nodekeep recheck --all"}, want: []string{
			"the emergency is ended: nodekeep acts on new Nodes again",
			"open and not verified: 2 (a, b): they stay open. To check them: nodekeep recheck --all",
			"without registration taints: 1 (b): they registered in the emergency, and do not get them when it ends",
		}},
		"nothing is proved": {ended: EndResult{Unconfirmed: "x"}, want: []string{"the emergency is ended"}, err: doubt},
		"the webhook alone acts": {ended: EndResult{MissingObjects: MissingObjects{Gate: []string{"Role g"}}}, want: []string{
			"the emergency is ended: nodekeep acts on new Nodes again",
			"not there: Role g: so the gate policy adds no gate. The chart makes no gate policy if gate.policy is disabled, or before Kubernetes 1.36. Otherwise, apply again what nodekeep was installed from, or run helm upgrade",
		}},
		"the webhook is not called, and nothing is proved": {ended: EndResult{Unconfirmed: "x", MissingObjects: MissingObjects{Webhook: []string{"M w"}}}, want: []string{
			"the emergency is ended",
			"not there: M w: so the API server does not call the webhook for new Nodes. To correct it, apply again what nodekeep was installed from, or run helm upgrade",
		}, err: doubt},
		"none was declared": {ended: EndResult{Undeclared: true}, want: []string{"no emergency was declared, and what was left of one is removed"}},
	} {
		t.Run(name, func(t *testing.T) {
			row.ended.DoctorCommand = "nodekeep doctor"
			assert.Equal(t, append(row.want, doctor), row.ended.Lines())
			if row.err == "" {
				assert.NoError(t, row.ended.Err())
			} else {
				assert.EqualError(t, row.ended.Err(), row.err)
			}
		})
	}
}
