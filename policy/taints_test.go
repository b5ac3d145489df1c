package policy

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/policy/policytest"
)

func TestKeepsTaints(t *testing.T) {
	const first = `{keep: ["*", unverified], register: [{taint: "unverified=true:NoSchedule", nodeSelector: gpu}]}`
	tests := map[string]struct {
		taints string // the taints section of the policy file
		item   string
		want   bool
		reason string
	}{
		"everything is kept where the file says nothing":    {`{}`, "maintenance:NoExecute", true, "taints.keep has *"},
		"a domain keeps its keys":                           {`{keep: [example.com/*]}`, "example.com/x:NoSchedule", true, "taints.keep has example.com/*"},
		"a pattern is over the key, not over the effect":    {`{keep: ["*ce"]}`, "maintenance:NoExecute", true, "taints.keep has *ce"},
		"a key that is named":                               {`{keep: [maintenance]}`, "maintenance:NoExecute", true, "taints.keep names it"},
		"ignore leaves out what keep names":                 {`{keep: [maintenance], ignore: [main*]}`, "maintenance:NoSchedule", false, "taints.ignore has main*"},
		"the gate":                                          {`{}`, "nodekeep.dev/restoring:NoSchedule", false, "it is the gate"},
		"the gate with another effect":                      {`{}`, "nodekeep.dev/restoring:NoExecute", false, "it is the gate"},
		"the gate that is named":                            {`{keep: [nodekeep.dev/restoring]}`, "nodekeep.dev/restoring:NoSchedule", false, "it is the gate"},
		"the gate that is ignored":                          {`{ignore: ["*"]}`, "nodekeep.dev/restoring:NoSchedule", false, "it is the gate"},
		"what looks like the gate is ours all the same":     {`{}`, "nodekeep.dev/restoring-x:NoSchedule", false, "it belongs to nodekeep itself"},
		"what is added once":                                {first, "unverified:NoSchedule", false, "taints.register puts it on"},
		"its key with another effect is named":              {first, "unverified:NoExecute", true, "taints.keep names it"},
		"what is added once and ignored":                    {`{ignore: [unverified], register: [{taint: "unverified:NoSchedule"}]}`, "unverified:NoSchedule", false, "taints.register puts it on"},
		"what a rule makes looks like any other":            {`{rules: [{selector: dedicated, taint: "dedicated={value}:NoSchedule"}]}`, "dedicated:NoSchedule", true, "taints.keep has *"},
		"an owned key under a kept domain":                  {`{keep: [karpenter.sh/*]}`, "karpenter.sh/disrupted:NoSchedule", false, "it belongs to Karpenter"},
		"an owned key that is named":                        {`{keep: [karpenter.sh/disrupted]}`, "karpenter.sh/disrupted:NoSchedule", true, "taints.keep names it"},
		"an owned key next to one that is named":            {`{keep: ["*", karpenter.sh/disrupted]}`, "karpenter.sh/unregistered:NoExecute", false, "it belongs to Karpenter"},
		"an isolation key is a plain taint":                 {`{}`, "node-restriction.kubernetes.io/tier:NoSchedule", true, "taints.keep has *"},
		"a label that belongs to others, as a taint":        {`{}`, "agentpool:NoSchedule", true, "taints.keep has *"},
		"an effect that there is not is for others to say":  {`{}`, "maintenance:Sometimes", true, "taints.keep has *"},
		"a key with a colon has its effect behind the last": {`{keep: ["*b"]}`, "a:b:NoSchedule", true, "taints.keep has *b"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			keeps, reason := policyOf(t, tt.taints).Keeps(tt.item)
			assert.Equal(t, tt.want, keeps)
			assert.Equal(t, tt.reason, reason)
		})
	}
}

func TestKeepsKnowsTheGateThatIsConfigured(t *testing.T) {
	loaded, err := Load([]byte(policytest.Head), "example.com/wait")
	require.NoError(t, err)
	for _, p := range []Policy{Default().WithGate("example.com/wait"), loaded} {
		keeps, reason := p.Keeps("example.com/wait:NoExecute")
		assert.False(t, keeps)
		assert.Equal(t, "it is the gate", reason)
		keeps, reason = p.Keeps("nodekeep.dev/restoring:NoSchedule")
		assert.False(t, keeps)
		assert.Equal(t, "it belongs to nodekeep itself", reason)
	}
	keeps, _ := Default().Keeps("example.com/wait:NoExecute")
	assert.True(t, keeps)
}

// One key as a label and as a taint: each section speaks of its own.
func TestLabelsAndTaintsAreKeptApart(t *testing.T) {
	tests := map[string]struct {
		file         string
		label, taint bool
	}{
		"both by default":             {``, true, true},
		"no labels are kept":          {`labels: {keep: []}`, false, true},
		"no taints are kept":          {`taints: {keep: []}`, true, false},
		"each by the other's pattern": {"labels: {keep: [other]}\ntaints: {keep: [dedi*]}", false, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := loadPolicy(t, tt.file)
			want := map[string]string{}
			if tt.label {
				want["dedicated"] = "ci"
			}
			if tt.taint {
				want["dedicated:NoSchedule"] = "ci"
			}
			node := Metadata{Items: map[string]string{"dedicated": "ci", "dedicated:NoSchedule": "ci"}}
			assert.Equal(t, want, kept(p, node))
			assert.Equal(t, want, p.Restorable(KeptItems{}, KeptItems{Items: node.Items}, Live).Add)
		})
	}
}

func TestKeepTaints(t *testing.T) {
	type values = map[string]string
	rule := []corev1.Taint{{Key: "dedicated", Value: "ci", Effect: "NoSchedule"}}
	tests := map[string]struct {
		node Metadata
		want values
	}{
		"a taint":                                         {Metadata{Items: values{"maintenance:NoExecute": "disk"}}, values{"maintenance:NoExecute": "disk"}},
		"a key with two effects":                          {Metadata{Items: values{"a:NoExecute": "1", "a:NoSchedule": "2"}}, values{"a:NoExecute": "1", "a:NoSchedule": "2"}},
		"what our rules put there":                        {Metadata{Items: values{"dedicated": "ci", "dedicated:NoSchedule": "ci"}, RuleTaints: rule}, values{"dedicated": "ci"}},
		"what they put there with other values":           {Metadata{Items: values{"dedicated:NoSchedule": "db"}, RuleTaints: rule}, values{}},
		"not another effect":                              {Metadata{Items: values{"dedicated:NoExecute": "ci"}, RuleTaints: rule}, values{"dedicated:NoExecute": "ci"}},
		"what an annotation claims as if it were a label": {Metadata{Items: values{"a:NoSchedule": "1", "a": "1"}, Claimed: []string{"a:NoSchedule", "a"}}, values{"a:NoSchedule": "1"}},
		"what managedFields name as if it were a label":   {Metadata{Items: values{"a:NoSchedule": "1", "a": "1"}, Owners: map[string][]string{"a:NoSchedule": {"kubelet"}, "a": {"kubelet"}}}, values{"a:NoSchedule": "1"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			items, taints := maps.Clone(tt.node.Items), slices.Clone(tt.node.RuleTaints)
			assert.Equal(t, tt.want, kept(Default(), tt.node))
			assert.Equal(t, items, tt.node.Items, "the items that were given are the caller's")
			assert.Equal(t, taints, tt.node.RuleTaints)
		})
	}
	assert.Empty(t, kept(Policy{}, Metadata{Items: values{"a:NoSchedule": "1"}}), "the zero policy keeps nothing")
}

// No kubelet can take a taint off its Node; an annotation must not make nodekeep forget it for the kubelet.
func TestNoAnnotationClaimsATaint(t *testing.T) {
	claimed := Claimed(map[string]string{
		"nfd.node.kubernetes.io/feature-labels": "example.com/wall:NoSchedule",
		"cluster.x-k8s.io/labels-from-machine":  "maintenance:NoExecute",
	})
	items := map[string]string{"example.com/wall:NoSchedule": "1", "maintenance:NoExecute": "disk"}
	assert.Equal(t, items, kept(Default(), Metadata{Items: items, Claimed: claimed}))
}

func TestRegisters(t *testing.T) {
	p := policyOf(t, `{register: [{taint: "a=1:NoSchedule"}, {taint: "b={value}:NoExecute", nodeSelector: gpu}], rules: [{selector: x, taint: "c:NoSchedule"}]}`)
	tests := map[string]struct {
		item string
		want bool
	}{
		"a taint of every Node":       {"a:NoSchedule", true},
		"a taint of some Nodes":       {"b:NoExecute", true},
		"another effect":              {"a:NoExecute", false},
		"a taint that a rule makes":   {"c:NoSchedule", false},
		"the taint as it was written": {"a=1:NoSchedule", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want, p.AddsAtRegistration(tt.item))
		})
	}
	assert.False(t, Default().AddsAtRegistration("a:NoSchedule"))
}

func TestFreeOf(t *testing.T) {
	tests := map[string]struct {
		taints, rest, want []corev1.Taint
	}{
		"no taints":                       {nil, taints("a:NoSchedule"), nil},
		"another of the key and effect":   {taints("a=1:NoSchedule"), taints("a=2:NoSchedule"), nil},
		"another effect of the key":       {taints("a=1:NoSchedule"), taints("a=1:NoExecute"), taints("a=1:NoSchedule")},
		"some of several, in their order": {taints("c:NoSchedule", "b:NoSchedule", "a:NoSchedule"), taints("x:NoSchedule", "b=1:NoSchedule"), taints("c:NoSchedule", "a:NoSchedule")},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			prev, rest := slices.Clone(tt.taints), slices.Clone(tt.rest)
			assert.Equal(t, tt.want, WithoutKeys(tt.taints, tt.rest))
			assert.Equal(t, prev, tt.taints)
			assert.Equal(t, rest, tt.rest)
		})
	}
}

// taints returns taints as kubectl taint writes them.
func taints(texts ...string) (taints []corev1.Taint) {
	for _, text := range texts {
		taints = append(taints, parseTaint(text))
	}
	return taints
}

// effects returns what a taint may do.
func effects() []corev1.TaintEffect {
	return []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}
}
