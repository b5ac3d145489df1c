package policy

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/record"
)

func TestJudgeSaysWhyAnItemIsKeptOrLeftOut(t *testing.T) {
	p := loadPolicy(t, "labels: {ignore: ['secret*']}\ntaints: {keep: [tenant, maintenance]}\n")
	node := Metadata{
		Items:      map[string]string{"a": "1"},
		Owners:     map[string][]string{"byCloud": {"my-cloud-controller-manager"}, "byBoth": {"kubectl-label", "kubelet"}},
		Claimed:    []string{"claimed", "maintenance:NoExecute"},
		RuleTaints: []corev1.Taint{{Key: "tenant", Value: "blue", Effect: corev1.TaintEffectNoSchedule}},
	}
	for name, c := range map[string]struct {
		item   string
		keeps  bool
		reason string
	}{
		"a label that a pattern keeps":               {"a", true, "labels.keep has *"},
		"a label that the policy ignores":            {"secret-1", false, "labels.ignore has secret*"},
		"a label of another component":               {"kubernetes.io/hostname", false, "it belongs to the kubelet"},
		"a label that only its owner sets":           {"byCloud", false, "managedFields show only my-cloud-controller-manager, which sets it again by itself"},
		"a label that another client has set, too":   {"byBoth", true, "labels.keep has *"},
		"a label that an annotation claims":          {"claimed", false, "an annotation of the Node says that another component has set it"},
		"a taint that the policy names":              {"tenant:NoExecute", true, "taints.keep names it"},
		"a taint that a rule has set":                {"tenant:NoSchedule", false, "a rule puts it on"},
		"a taint that an annotation claims for show": {"maintenance:NoExecute", true, "taints.keep names it"},
		"a taint that the policy does not select":    {"other:NoSchedule", false, "taints.keep does not select it"},
		"the gate": {"nodekeep.dev/restoring:NoSchedule", false, "it is the gate"},
	} {
		t.Run(name, func(t *testing.T) {
			verdict := p.Judge(node, c.item)
			assert.Equal(t, c.keeps, verdict.Keeps)
			assert.Equal(t, c.reason, verdict.Reason())

			shown := node
			shown.Items = map[string]string{c.item: "1"}
			_, kept := kept(p, shown)[c.item]
			assert.Equal(t, verdict.Keeps, kept, "Keep goes by Judge")
		})
	}
}

func TestEvidenceBeatsTheCatalogue(t *testing.T) {
	const (
		zone       = "topology.kubernetes.io/zone"
		setsIt     = ", which sets it again by itself"
		unknown    = ", not a known client of operators; labels.keep can name the label"
		noEvidence = "managedFields do not show that an operator set it; labels.keep can name it"
	)
	type managers = []string
	for name, c := range map[string]struct {
		labels   string // of the policy
		item     string
		managers managers
		recorded string // the value in the record
		keeps    bool
		taken    bool
		reason   string
	}{
		"a zone that kubectl set":                              {"{}", zone, managers{"kubectl-label"}, "", true, false, "managedFields show only kubectl-label, a client of operators"},
		"a label of a vendor that kubectl set":                 {"{}", "nvidia.com/gpu.product", managers{"kubectl-label"}, "", true, false, "managedFields show only kubectl-label, a client of operators"},
		"a key that only the catch-all excludes":               {"{}", "cluster-autoscaler.kubernetes.io/pool", managers{"kubectl-patch"}, "", true, false, "managedFields show only kubectl-patch, a client of operators"},
		"a zone that the cloud controller manager set":         {"{}", zone, managers{"aws-cloud-controller-manager"}, "", false, true, "managedFields show only aws-cloud-controller-manager" + setsIt},
		"a zone that the kubelet and kubectl set":              {"{}", zone, managers{"kubectl", "kubelet"}, "", false, true, "managedFields show only kubectl, kubelet" + unknown},
		"a zone that a controller with an unknown name set":    {"{}", zone, managers{"manager"}, "", false, true, "managedFields show only manager" + unknown},
		"a zone that nobody is known to have set":              {"{}", zone, nil, "", false, false, noEvidence},
		"a zone whose managers the API server has merged":      {"{}", zone, managers{"ancient-changes"}, "", false, false, noEvidence},
		"a zone from before the first apply":                   {"{}", zone, managers{"before-first-apply", "kubectl"}, "", false, false, noEvidence},
		"a recorded zone whose manager is lost":                {"{}", zone, managers{"ancient-changes"}, "a", true, false, "the record has it as an operator's"},
		"a recorded zone that nodekeep has restored":           {"{}", zone, nil, "a", true, false, "the record has it as an operator's"},
		"a recorded zone that has another value, by nobody":    {"{}", zone, nil, "b", false, false, noEvidence},
		"a recorded zone that a component has taken over":      {"{}", zone, managers{"cloud-controller-manager"}, "a", false, true, "managedFields show only cloud-controller-manager" + setsIt},
		"a manager of operators that the policy ignores":       {"{ignoreManagers: ['kubectl*']}", zone, managers{"kubectl-label"}, "", false, true, "managedFields show only kubectl-label" + setsIt},
		"a zone that the policy ignores":                       {"{ignore: ['topology.*']}", zone, managers{"kubectl-label"}, "a", false, false, "labels.ignore has topology.*"},
		"a zone that the policy does not select":               {"{keep: [rack]}", zone, managers{"kubectl-label"}, "a", false, false, "labels.keep does not select it"},
		"the host name":                                        {"{}", "kubernetes.io/hostname", managers{"kubectl-label"}, "a", false, false, "it belongs to the kubelet"},
		"a label of nodekeep":                                  {"{}", "nodekeep.dev/x", managers{"kubectl-label"}, "a", false, false, "it belongs to nodekeep itself"},
		"a check that this machine has passed":                 {"{}", "node-ready/verified", managers{"kubectl-label"}, "a", false, false, "it belongs to a readiness check"},
		"what a script of an operator's image set by kubectl":  {"{}", "nvidia.com/mig.config.state", managers{"kubectl-label"}, "a", false, false, "it belongs to the NVIDIA GPU operator"},
		"an isolation label, which only the policy can select": {"{}", "node-restriction.kubernetes.io/tier", managers{"kubectl-label"}, "a", false, false, "it is an isolation boundary, kept only if labels.keep names node-restriction.kubernetes.io"},
		"a taint of a component":                               {"{}", "node.kubernetes.io/out-of-service:NoExecute", managers{"kubectl-taint"}, "a", false, false, "it belongs to the component that repairs the Node"},
	} {
		t.Run(name, func(t *testing.T) {
			node := Metadata{Items: map[string]string{c.item: "a"}, Owners: map[string][]string{c.item: c.managers}}
			if c.recorded != "" {
				node.Record = record.New("n", record.Object{UID: "u", Version: 1}, map[string]string{c.item: c.recorded})
			}
			verdict := policyWith(t, c.labels).Judge(node, c.item)
			assert.Equal(t, c.keeps, verdict.Keeps)
			assert.Equal(t, c.taken, verdict.Taken)
			assert.Equal(t, c.reason, verdict.Reason())
		})
	}
}

// Drainers take a Node out of load balancers right before its end. kubeadm and operators do so to stay.
func TestTheMarkOfADrainerIsNotKeptAndNoTakeover(t *testing.T) {
	const out = corev1.LabelNodeExcludeBalancers
	type managers = []string
	for name, c := range map[string]struct {
		value    string
		managers managers
		labels   string
		keeps    bool
		reason   string
	}{
		"kubeadm":                               {"", managers{"kubeadm"}, "{}", true, "managedFields show only kubeadm, a client of operators"},
		"an operator":                           {"", managers{"kubectl-label"}, "{}", true, "managedFields show only kubectl-label, a client of operators"},
		"an operator who says why":              {"waits-for-parts", managers{"kubectl-label"}, "{}", true, "managedFields show only kubectl-label, a client of operators"},
		"Karpenter":                             {"karpenter", managers{"karpenter"}, "{}", false, "its value names karpenter, which drains Nodes"},
		"a drainer that says true":              {"true", managers{"aws-eks-asg-rolling-update-handler"}, "{}", false, "managedFields show only aws-eks-asg-rolling-update-handler, not a known client of operators; labels.keep can name the label"},
		"a drainer that calls kubectl":          {"lifecycle-manager", managers{"kubectl-label"}, "{}", false, "its value names lifecycle-manager, which drains Nodes"},
		"a drainer, and the policy has the key": {"karpenter", managers{"karpenter"}, "{keep: [" + out + "]}", true, "labels.keep names it"},
	} {
		t.Run(name, func(t *testing.T) {
			node := Metadata{Items: map[string]string{out: c.value}, Owners: map[string][]string{out: c.managers}}
			verdict := policyWith(t, c.labels).Judge(node, out)
			assert.Equal(t, c.keeps, verdict.Keeps)
			assert.Equal(t, c.reason, verdict.Reason())
			assert.False(t, verdict.Taken, "what an operator set before stays in the record")
		})
	}
}

func TestAMarkOfTheEndIsNotKept(t *testing.T) {
	node := Metadata{
		Items: map[string]string{"a": "1", "b": "1", "c:NoSchedule": "", "d": "1"}, Owners: map[string][]string{"a": {"drainer"}, "b": {"kubectl-label"}},
		Marks: map[string]record.Mark{"a": {Value: "1", By: "drainer"}, "c:NoSchedule": {By: "drainer"}, "d": {Value: "1", By: "drainer"}},
	}
	p := policyWith(t, "{ignore: [d]}")
	for item, reason := range map[string]string{
		"a": "drainer has set it while the Node was being taken away", "b": "", "c:NoSchedule": "drainer has set it while the Node was being taken away", "d": "labels.ignore has d",
	} {
		verdict := p.Judge(node, item)
		assert.Equal(t, reason == "", verdict.Keeps, item)
		if reason != "" {
			assert.Equal(t, reason, verdict.Reason())
			assert.Equal(t, record.OtherOwner, verdict.Owner, item)
			assert.False(t, verdict.Taken, item)
		}
	}
}
