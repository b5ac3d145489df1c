package policy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/classify"

	"nodekeep.dev/nodekeep/policy/policytest"
)

func loadRules(rules string, extra string) (Policy, error) {
	return Load([]byte(policytest.Manifest("labels:\n"+extra+"  rules:\n"+rules)), DefaultGate)
}

func TestAPolicyWithEveryKindOfRuleLoads(t *testing.T) {
	p, err := loadRules(`  - name: gpu
    when: {capacity: {nvidia.com/gpu: ">=1"}}
    set: {accelerator: nvidia-gpu, gpu.count: "{capacity.nvidia.com/gpu}", node-role.kubernetes.io/gpu-worker: ""}
    trust: kubelet
    hold: 15m
  - name: rtx5070
    when: {devices: {driver: gpu.nvidia.com, attributes: {productName: "*RTX 5070*"}, min: 1}}
    set: {gpu.rtx5070: "true"}
  - name: avx512
    when: {features: {cpu.cpuid.AVX512F: "*", GuaranteedQoSPodCPUResize: "*"}}
    set: {cpu.vector: avx512}
  - name: high
    when: {any: [{names: [pgbee, "pgmac*"]}, {capacity: {cpu: ">=16", memory: ">=64Gi"}}]}
    set: {hardware.tier: high-performance, voice-pipeline: enabled}
  - name: rest
    set: {hardware.tier: standard}
  - name: rack
    when: {names: ['^[a-z]+-r(?P<rack>[0-9]{2})-'], kubelet: ">=1.35"}
    set: {example.com/rack: "r{name.rack}"}
    precedence: rule
    mode: enforce
`, "")
	require.NoError(t, err)
	assert.Equal(t, []string{"accelerator", "cpu.vector", "example.com/rack", "gpu.count", "gpu.rtx5070", "hardware.tier", "node-role.kubernetes.io/gpu-worker", "voice-pipeline"}, p.LabelRules().Keys())
	assert.Equal(t, classify.UsedDrivers{"gpu.nvidia.com": {"productName"}}, p.LabelRules().Drivers())
	assert.Equal(t, classify.UsedFeatures{"cpu.cpuid.AVX512F"}, p.LabelRules().NodeFeatures())
	assert.Equal(t, classify.UsedFeatures{"GuaranteedQoSPodCPUResize"}, p.LabelRules().Declared())
}

func TestARuleThatCannotBeIsNamedWithItsLine(t *testing.T) {
	for name, c := range map[string]struct {
		rule, extra string
		want        string
	}{
		"alternatives of alternatives":                                                 {"  - {name: a, when: {any: [{any: [{names: [x]}]}]}, set: {k: v}}\n", "", `line 7: unknown field "spec.labels.rules[0].when.any[0].any"`},
		"more alternatives than there may be":                                          {"  - {name: a, when: {any: [" + strings.Repeat("{},", 101) + "]}, set: {k: v}}\n", "", `line 7: spec.labels.rules[0].when.any: Too many: 101: must have at most 100 items`},
		"a fact that does not exist":                                                   {"  - {name: a, when: {gpu: 1}, set: {k: v}}\n", "", `line 7: unknown field "spec.labels.rules[0].when.gpu"`},
		"a number where a comparison is meant":                                         {"  - {name: a, when: {capacity: {cpu: 8}}, set: {k: v}}\n", "", `line 7: spec.labels.rules[0].when.capacity[cpu]: Invalid value: "8": must be a string; put it in quotes`},
		"a list where a map is meant":                                                  {"  - {name: a, when: {capacity: [cpu]}, set: {k: v}}\n", "", `spec.labels.rules[0].when.capacity: Invalid value: "[\"cpu\"]": must be a map`},
		"a text where a number is meant":                                               {"  - {name: a, when: {devices: {driver: d, min: one}}, set: {k: v}}\n", "", `spec.labels.rules[0].when.devices.min: Invalid value: "one": must be a whole number`},
		"a part of a number":                                                           {"  - {name: a, when: {devices: {driver: d, min: 1.5}}, set: {k: v}}\n", "", `must be a whole number`},
		"a duration without a unit":                                                    {"  - {name: a, hold: \"15\", set: {k: v}}\n", "", `spec.labels.rules[0].hold: Invalid value: "15": must be a duration`},
		"a key of another component":                                                   {"  - {name: a, set: {topology.kubernetes.io/zone: z}}\n", "", `spec.labels.rules[0].set[topology.kubernetes.io/zone]: Forbidden: it belongs to the cloud controller manager; a rule sets it only if labels.keep names it`},
		"a key of nodekeep's":                                                          {"  - {name: a, set: {nodekeep.dev/x: z}}\n", "  keep: [nodekeep.dev/x]\n", `it belongs to nodekeep itself`},
		"a protected label by a kubelet's word":                                        {"  - {name: a, when: {capacity: {cpu: \">1\"}}, set: {node-role.kubernetes.io/x: \"\"}}\n", "", `say trust: kubelet`},
		"a protected label by a label of the kubelet":                                  {"  - {name: a, when: {labels: tier=gold}, set: {node-role.kubernetes.io/x: \"\"}}\n", "", `say trust: kubelet`},
		"the same by way of an earlier rule":                                           {"  - {name: a, when: {kubelet: v1*}, set: {tier: gold}}\n  - {name: b, when: {labels: tier=gold}, set: {node-role.kubernetes.io/x: \"\"}}\n", "", `line 8: spec.labels.rules[1].set[node-role.kubernetes.io/x]: Forbidden`},
		"the same, if a later rule sets it, too":                                       {"  - {name: a, when: {kubelet: v1*}, set: {tier: gold}}\n  - {name: b, set: {tier: iron}}\n  - {name: c, when: {labels: tier=gold}, set: {node-role.kubernetes.io/x: \"\"}}\n", "", `line 9: spec.labels.rules[2].set[node-role.kubernetes.io/x]: Forbidden`},
		"a protected label that copies one of the kubelet, after a part of the name":   {"  - {name: a, when: {names: [\"^(?P<rack>r)\"]}, set: {node-role.kubernetes.io/x: \"{name.rack}-{labels.tier}\"}}\n", "", `say trust: kubelet`},
		"an isolation label that copies one of the kubelet, before a part of the name": {"  - {name: a, trust: kubelet, when: {names: [\"^(?P<rack>r)\"]}, set: {node-restriction.kubernetes.io/x: \"{labels.tier}-{name.rack}\"}}\n", "", `isolation boundary`},
		"a protected label that copies one of the kubelet":                             {"  - {name: a, set: {node-role.kubernetes.io/x: \"{labels.tier}\"}}\n", "", `say trust: kubelet`},
		"a protected label by a feature":                                               {"  - {name: a, when: {features: {cpu.cpuid.AVX: \"*\"}}, set: {node-role.kubernetes.io/x: \"\"}}\n", "", `say trust: kubelet`},
		"an isolation label by a declared feature":                                     {"  - {name: a, trust: kubelet, when: {features: {Resize: \"*\"}}, set: {node-restriction.kubernetes.io/x: \"\"}}\n", "", `it is an isolation boundary`},
		"a feature without an element":                                                 {"  - {name: a, when: {features: {cpu.cpuid: \"*\"}}, set: {k: v}}\n", "", `line 7: spec.labels.rules[0].when.features: Invalid value: "cpu.cpuid": must be DOMAIN.FEATURE.ELEMENT`},
		"a feature with a number":                                                      {"  - {name: a, when: {features: {kernel.version.major: 6}}, set: {k: v}}\n", "", `must be a string; put it in`},
		"a value that a kubelet fills in":                                              {"  - {name: a, set: {node-role.kubernetes.io/x: \"{node.arch}\"}}\n", "", `say trust: kubelet`},
		"a label of another component, to be absent":                                   {"  - {name: a, ensureAbsent: [topology.kubernetes.io/zone]}\n", "  keep: [topology.kubernetes.io/zone]\n", `line 8: spec.labels.rules[0].ensureAbsent[0]: Forbidden: it belongs to the cloud controller manager, which would add it again`},
		"a label of nodekeep's, to be absent":                                          {"  - {name: a, ensureAbsent: [nodekeep.dev/x]}\n", "", `it belongs to nodekeep itself`},
		"an isolation label, to be absent":                                             {"  - {name: a, ensureAbsent: [a.node-restriction.kubernetes.io/x]}\n", "", `it belongs to Kubernetes`},
		"a taint of another component, to be absent":                                   {"  - {name: a, ensureAbsent: [\"node.kubernetes.io/not-ready:NoSchedule\"]}\n", "", `spec.labels.rules[0].ensureAbsent[0]: Forbidden: it belongs to the node lifecycle controller`},
		"a cordon, to be absent":                                                       {"  - {name: a, ensureAbsent: [\"node.kubernetes.io/unschedulable:NoSchedule\"]}\n", "", `it belongs to the node lifecycle controller`},
		"the gate, to be absent":                                                       {"  - {name: a, ensureAbsent: [\"nodekeep.dev/restoring:PreferNoSchedule\"]}\n", "", `it is the gate`},
		"a registration taint, to be absent":                                           {"  - {name: a, ensureAbsent: [\"verify:NoSchedule\"]}\ntaints: {register: [{taint: \"verify=x:NoSchedule\"}]}\n", "", `line 7: spec.labels.rules[0].ensureAbsent[0]: Forbidden: taints.register adds it`},
		"a taint of a taint rule, to be absent":                                        {"  - {name: a, ensureAbsent: [\"t:NoSchedule\"]}\ntaints: {rules: [{selector: k, taint: \"t={value}:NoSchedule\"}]}\n", "", `taints.rules add a taint of this key and effect`},
		"a taint, to be absent by a kubelet's word":                                    {"  - {name: a, when: {capacity: {cpu: \">1\"}}, ensureAbsent: [\"t:NoSchedule\"]}\n", "", `say trust: kubelet`},
		"a protected label, to be absent by a kubelet's word":                          {"  - {name: a, when: {labels: tier=gold}, ensureAbsent: [node-role.kubernetes.io/x]}\n", "", `say trust: kubelet`},
		"a protected label by an absent one of the kubelet":                            {"  - {name: a, when: {kubelet: v1*}, ensureAbsent: [tier]}\n  - {name: b, when: {labels: \"!tier\"}, set: {node-role.kubernetes.io/x: \"\"}}\n", "", `line 8: spec.labels.rules[1].set[node-role.kubernetes.io/x]: Forbidden`},
		"a pattern of what is to be absent":                                            {"  - {name: a, ensureAbsent: [\"example.com/*\"]}\n", "", `line 7: spec.labels.rules[0].ensureAbsent[0]: Invalid value: "example.com/*": must be a label, or a taint as KEY:EFFECT, without a value and without patterns`},
		"an isolation label by a kubelet's word":                                       {"  - {name: a, trust: kubelet, when: {kubelet: v1*}, set: {node-restriction.kubernetes.io/x: \"\"}}\n", "", `it is an isolation boundary`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := loadRules(c.rule, c.extra)
			assert.ErrorContains(t, err, c.want)
		})
	}
}

func TestRulesMaySetWhatTheirFactsProve(t *testing.T) {
	for name, rule := range map[string]string{
		"a protected label by the name":               "  - {name: a, when: {names: [\"db-*\"]}, set: {node-role.kubernetes.io/db: \"\"}}\n",
		"a protected label by a protected label":      "  - {name: a, when: {labels: node-role.kubernetes.io/db}, set: {node-role.kubernetes.io/storage: \"\"}}\n",
		"a protected label by a rule about the name":  "  - {name: a, when: {names: [\"db-*\"]}, set: {tier: db}}\n  - {name: b, when: {labels: tier=db}, set: {node-role.kubernetes.io/db: \"\"}}\n",
		"an isolation label by the name":              "  - {name: a, when: {names: [\"db-*\"]}, set: {node-restriction.kubernetes.io/db: \"\"}}\n",
		"a protected label by the word of a kubelet":  "  - {name: a, trust: kubelet, when: {capacity: {cpu: \">1\"}}, set: {node-role.kubernetes.io/x: \"\"}}\n",
		"what kubeadm adds at each join is absent":    "  - {name: a, ensureAbsent: [\"node-role.kubernetes.io/control-plane:NoSchedule\", node.kubernetes.io/exclude-from-external-load-balancers]}\n",
		"a taint is absent by the word of a kubelet":  "  - {name: a, trust: kubelet, when: {capacity: {cpu: \">1\"}}, ensureAbsent: [\"t:NoSchedule\"]}\n",
		"another effect than a registration taint's":  "  - {name: a, ensureAbsent: [\"verify:NoExecute\"]}\ntaints: {register: [{taint: \"verify=x:NoSchedule\"}]}\n",
		"a label of another component, named in keep": "  - {name: a, set: {topology.kubernetes.io/rack: r1}}\n",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := loadRules(rule, "  keep: [\"*\", topology.kubernetes.io/rack]\n")
			assert.NoError(t, err)
		})
	}
}

func TestAPolicyAcceptsTheRulesWhoseHashItNames(t *testing.T) {
	const rules = "labels: {rules: [{name: a, set: {tier: gold}}]}\n"
	plain, err := Load([]byte(policytest.Manifest(rules)), DefaultGate)
	require.NoError(t, err)
	assert.False(t, plain.AcceptsRules())
	assert.False(t, Default().AcceptsRules(), "to delete all rules must be accepted, too")
	for name, c := range map[string]struct {
		manifest string
		accepts  bool
	}{
		"its own rules":         {rules + "accept: \"" + plain.RulesHash() + "\"", true},
		"other rules":           {rules + "accept: 0123456789ab", false},
		"that there are none":   {"accept: none", true},
		"none, but it has some": {rules + "accept: none", false},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Load([]byte(policytest.Manifest(c.manifest)), DefaultGate)
			require.NoError(t, err)
			assert.Equal(t, c.accepts, p.AcceptsRules())
			assert.Equal(t, c.accepts, len(p.Warnings()) == 0, "%v", p.Warnings())
		})
	}
	for _, wrong := range []string{"0123456789AB", "0123", "all"} {
		_, err := Load([]byte(policytest.Manifest("accept: \""+wrong+"\"")), DefaultGate)
		assert.ErrorContains(t, err, "spec.accept", wrong)
	}
}

func TestRulesThatCanNeverActAreWarnings(t *testing.T) {
	p := loadPolicy(t, "labels: {rules: [{name: a, when: {labels: kubernetes.io/arch=amd46}, set: {k: v}}]}")
	want := "labels.rules: rule a asks for kubernetes.io/arch=amd46, which no kubelet reports (did you mean amd64?): it never acts"
	assert.Equal(t, []string{want}, p.RuleWarnings())
	assert.Contains(t, p.Warnings(), want)
}
