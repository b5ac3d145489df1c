package policy

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestJudgeSaysWhyAnItemIsKeptOrLeftOut(t *testing.T) {
	p, err := Load([]byte("apiVersion: nodekeep.dev/v1alpha1\nkind: Policy\nlabels: {ignore: ['secret*']}\ntaints: {keep: [tenant, maintenance]}\n"), DefaultGate)
	require.NoError(t, err)
	node := Metadata{
		Items:      map[string]string{"a": "1"},
		Owners:     map[string][]string{"byCloud": {"my-cloud-controller-manager"}, "byBoth": {"kubectl-label", "kubelet"}},
		Claimed:    []string{"claimed", "maintenance:NoExecute"},
		RuleTaints: []corev1.Taint{{Key: "tenant", Value: "blue", Effect: corev1.TaintEffectNoSchedule}},
	}
	for name, c := range map[string]struct {
		item  string
		keeps bool
		why   string
	}{
		"a label that a pattern keeps":               {"a", true, "labels.keep has *"},
		"a label that the policy ignores":            {"secret-1", false, "labels.ignore has secret*"},
		"a label of another component":               {"kubernetes.io/hostname", false, "it belongs to the kubelet"},
		"a label that only its owner sets":           {"byCloud", false, "managedFields show only my-cloud-controller-manager, which sets it again by itself"},
		"a label that somebody else has set, too":    {"byBoth", true, "labels.keep has *"},
		"a label that an annotation claims":          {"claimed", false, "an annotation of the Node says that another component has set it"},
		"a taint that the policy names":              {"tenant:NoExecute", true, "taints.keep names it"},
		"a taint that a rule has put on":             {"tenant:NoSchedule", false, "a rule puts it on"},
		"a taint that an annotation claims for show": {"maintenance:NoExecute", true, "taints.keep names it"},
		"a taint that the policy does not select":    {"other:NoSchedule", false, "taints.keep does not select it"},
		"the gate": {"nodekeep.dev/restoring:NoSchedule", false, "it is the gate"},
	} {
		t.Run(name, func(t *testing.T) {
			verdict := p.Judge(node, c.item)
			assert.Equal(t, c.keeps, verdict.Keeps)
			assert.Equal(t, c.why, verdict.Why())

			shown := node
			shown.Items = map[string]string{c.item: "1"}
			_, kept := kept(p, shown)[c.item]
			assert.Equal(t, verdict.Keeps, kept, "Keep goes by Judge")
		})
	}
}
