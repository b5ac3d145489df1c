package classify_test

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/record"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

const gpu = "nvidia.com/gpu"

// rules returns those of a small mixed cluster: GPU Nodes, named high-performance Nodes, and a default.
func rules() []classify.Rule {
	return []classify.Rule{
		{
			Name: "gpu", Condition: classify.Condition{Clause: classify.Clause{Capacity: map[string]string{gpu: ">=1"}}}, Hold: "15m",
			Set: map[string]string{"accelerator": "nvidia-gpu", "gpu.count": "{capacity.nvidia.com/gpu}"},
		},
		{
			Name: "dual-gpu", Condition: classify.Condition{Clause: classify.Clause{Capacity: map[string]string{gpu: ">=2"}, Labels: "accelerator=nvidia-gpu"}},
			Set: map[string]string{"tier": "dual-gpu"},
		},
		{
			Name: "high", Condition: classify.Condition{Alternatives: []classify.Clause{{Names: []string{"pgbee", "pgmac*"}}, {Capacity: map[string]string{"cpu": ">=16", "memory": ">=64Gi"}}}},
			Set: map[string]string{"tier": "high-performance", "voice": "enabled"},
		},
		{Name: "rest", Set: map[string]string{"tier": "standard"}},
	}
}

// renamed returns the same rules under other names.
func renamed(rules ...classify.Rule) []classify.Rule {
	for i := range rules {
		rules[i].Name += "-2"
	}
	return rules
}

func compiled(t testing.TB, specs ...classify.Rule) classify.Rules {
	t.Helper()
	compiled, errs := classify.Compile(specs, field.NewPath("labels", "rules"))
	require.Empty(t, errs)
	return compiled
}

func room(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func values(labels map[string]record.RuleLabel) map[string]string {
	all := map[string]string{}
	for key, ruleLabel := range labels {
		all[key] = ruleLabel.Value
	}
	return all
}

// merged is labels and others over them.
func merged(labels, overrides map[string]string) map[string]string {
	all := maps.Clone(labels)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, overrides)
	return all
}

func TestEvaluate(t *testing.T) {
	gpuBefore := map[string]record.RuleLabel{"accelerator": {Value: "nvidia-gpu", Rule: "gpu"}, "gpu.count": {Value: "2", Rule: "gpu"}, "tier": {Value: "dual-gpu", Rule: "dual-gpu"}}
	add := func(condition classify.Condition) []classify.Rule {
		return []classify.Rule{{Name: "one", Condition: condition, Set: map[string]string{"hit": "true"}}, {Name: "default", Set: map[string]string{"hit": "false"}}}
	}
	tests := map[string]struct {
		rules    []classify.Rule
		facts    classify.Facts
		prev     map[string]record.RuleLabel
		want     labels
		taken    labels
		blocked  map[string]string
		problems int
	}{
		"a Node with two GPUs has the tier of its GPUs and their count": {
			rules: rules(), facts: classify.Facts{Capacity: room("cpu", "8", "memory", "32Gi", gpu, "2"), PluginsRegistered: true},
			want: labels{"accelerator": "nvidia-gpu", "gpu.count": "2", "tier": "dual-gpu"},
		},
		"a Node that has no GPU for five minutes after it became Ready gets the default": {
			rules: rules(), facts: classify.Facts{Capacity: room("cpu", "8", "memory", "32Gi"), PluginsRegistered: true},
			want: labels{"tier": "standard"},
		},
		"a fresh Node whose device plugin may still register gets no tier": {
			rules: rules(), facts: classify.Facts{Capacity: room("cpu", "8", "memory", "32Gi")},
			want: labels{}, blocked: map[string]string{"accelerator": "gpu", "gpu.count": "gpu", "tier": "dual-gpu"},
		},
		"a returning GPU Node keeps what the rules derived before its device plugin registers again": {
			rules: rules(), facts: classify.Facts{Capacity: room("cpu", "8", "memory", "32Gi", gpu, "0")}, prev: gpuBefore,
			want: labels{"accelerator": "nvidia-gpu", "gpu.count": "2", "tier": "dual-gpu"}, blocked: map[string]string{"accelerator": "gpu", "gpu.count": "gpu", "tier": "dual-gpu"},
		},
		"a kept value follows a changed literal of its rule": {
			rules: []classify.Rule{{Name: "gpu", Condition: classify.Condition{Clause: classify.Clause{Capacity: map[string]string{gpu: ">=1"}}}, Set: map[string]string{"accelerator": "nvidia"}}},
			facts: classify.Facts{}, prev: gpuBefore, want: labels{"accelerator": "nvidia"}, blocked: map[string]string{"accelerator": "gpu"},
		},
		"a rule under another name keeps what it set, while its facts are unknown": {
			rules: renamed(rules()...), facts: classify.Facts{Capacity: room("cpu", "8", "memory", "32Gi", gpu, "0")}, prev: gpuBefore,
			want: labels{"accelerator": "nvidia-gpu", "gpu.count": "2", "tier": "dual-gpu"}, blocked: map[string]string{"accelerator": "gpu-2", "gpu.count": "gpu-2", "tier": "dual-gpu-2"},
		},
		"another rule that sets another value keeps nothing": {
			rules: []classify.Rule{{Name: "gpu-2", Condition: classify.Condition{Clause: classify.Clause{Capacity: map[string]string{gpu: ">=1"}}}, Set: map[string]string{"accelerator": "nvidia"}}},
			facts: classify.Facts{}, prev: gpuBefore, want: labels{}, blocked: map[string]string{"accelerator": "gpu-2"},
		},
		"a rule under another name keeps what it set, although an earlier one that is false would set the same": {
			rules: append([]classify.Rule{{Name: "never", Condition: classify.Condition{Clause: classify.Clause{Names: []string{"other"}}}, Set: map[string]string{"accelerator": "nvidia-gpu"}}}, renamed(rules()[0])...),
			facts: classify.Facts{Capacity: room("cpu", "8", "memory", "32Gi", gpu, "0")}, prev: gpuBefore,
			want: labels{"accelerator": "nvidia-gpu", "gpu.count": "2"}, blocked: map[string]string{"accelerator": "gpu-2", "gpu.count": "gpu-2"},
		},
		"a rule that is left and sets it no more leaves nothing to another one": {
			rules: []classify.Rule{{Name: "gpu", Condition: rules()[0].Condition, Set: map[string]string{"other": "1"}}, {Name: "second", Condition: rules()[0].Condition, Hold: "15m", Set: map[string]string{"accelerator": "nvidia-gpu"}}},
			facts: classify.Facts{PluginsRegistered: true, Capacity: room()}, prev: gpuBefore, want: labels{},
		},
		"a rule under another name holds what it set": {
			rules: renamed(rules()[0]), facts: classify.Facts{PluginsRegistered: true, Capacity: room()}, prev: gpuBefore,
			want: labels{"accelerator": "nvidia-gpu", "gpu.count": "2"},
		},
		"a rule under another name ends the hold that was begun": {
			rules: renamed(rules()[0]), facts: classify.Facts{PluginsRegistered: true, Capacity: room()}, prev: map[string]record.RuleLabel{"accelerator": {Value: "nvidia-gpu", Rule: "gpu", End: now}},
			want: labels{},
		},
		"a rule under another name keeps off what it kept off": {
			rules: []classify.Rule{{Name: "off-2", Condition: classify.Condition{Clause: classify.Clause{Capacity: map[string]string{gpu: ">=1"}}}, EnsureAbsent: []string{"joined"}}},
			facts: classify.Facts{}, prev: map[string]record.RuleLabel{"joined": {Rule: "off", Absent: true}}, want: labels{"joined": ""}, blocked: map[string]string{"joined": "off-2"},
		},
		"a GPU that is missing for good is held for as long as the rule says": {
			rules: rules()[:1], facts: classify.Facts{PluginsRegistered: true, Capacity: room()}, prev: gpuBefore,
			want: labels{"accelerator": "nvidia-gpu", "gpu.count": "2"},
		},
		"a hold ends": {
			rules: rules()[:1], facts: classify.Facts{PluginsRegistered: true, Capacity: room()}, prev: map[string]record.RuleLabel{"accelerator": {Value: "nvidia-gpu", Rule: "gpu", End: now}},
			want: labels{},
		},
		"a label that an operator sets ends a hold": {
			rules: rules()[:1], facts: classify.Facts{PluginsRegistered: true, Capacity: room(), Labels: labels{"accelerator": "special"}}, prev: gpuBefore,
			want: labels{"gpu.count": "2"}, taken: labels{},
		},
		"a label that an operator sets ends a hold, and a later rule that wins replaces it": {
			rules: []classify.Rule{rules()[0], {Name: "none", Set: labels{"accelerator": "none"}, Precedence: classify.RuleWins}},
			facts: classify.Facts{PluginsRegistered: true, Capacity: room(), Labels: labels{"accelerator": "special"}},
			prev:  gpuBefore, want: labels{"accelerator": "none", "gpu.count": "2"},
		},
		"a rule that wins holds its label over an operator's": {
			rules: []classify.Rule{{Name: "gpu", Condition: rules()[0].Condition, Set: labels{"accelerator": "nvidia-gpu"}, Precedence: classify.RuleWins}},
			facts: classify.Facts{PluginsRegistered: true, Capacity: room(), Labels: labels{"accelerator": "special"}},
			prev:  gpuBefore, want: labels{"accelerator": "nvidia-gpu"},
		},
		"a name decides where the machine is small": {
			rules: rules(), facts: classify.Facts{Name: "pgmac-3", Capacity: room("cpu", "4", "memory", "16Gi"), PluginsRegistered: true},
			want: labels{"tier": "high-performance", "voice": "enabled"},
		},
		"memory that the kubelet could not read makes the rule unknown, not false": {
			rules: rules()[2:], facts: classify.Facts{Capacity: room("cpu", "32", "memory", "0"), PluginsRegistered: true},
			want: labels{}, blocked: map[string]string{"tier": "high", "voice": "high"},
		},
		"a resource that the kubelet does not report is not 0": {
			rules: add(classify.Condition{Clause: classify.Clause{Capacity: map[string]string{"memory": "<1Gi"}}}), facts: classify.Facts{Capacity: room("cpu", "32"), PluginsRegistered: true},
			want: labels{}, blocked: map[string]string{"hit": "one"},
		},
		"huge pages of a size that the machine does not have are 0": {
			rules: add(classify.Condition{Clause: classify.Clause{Capacity: map[string]string{"hugepages-1Gi": "<1Gi"}}}), facts: classify.Facts{Capacity: room("cpu", "32"), PluginsRegistered: true},
			want: labels{"hit": "true"},
		},
		"huge pages that the kubelet has not reported yet are not 0": {
			rules: add(classify.Condition{Clause: classify.Clause{Capacity: map[string]string{"hugepages-1Gi": "<1Gi"}}}), facts: classify.Facts{Capacity: room("cpu", "32")},
			want: labels{}, blocked: map[string]string{"hit": "one"},
		},
		"huge pages of a kubelet that reports no resource are not 0": {
			rules: add(classify.Condition{Clause: classify.Clause{Capacity: map[string]string{"hugepages-1Gi": "<1Gi"}}}), facts: classify.Facts{PluginsRegistered: true},
			want: labels{}, blocked: map[string]string{"hit": "one"},
		},
		"huge pages that it reports as 0 are 0 at once": {
			rules: add(classify.Condition{Clause: classify.Clause{Capacity: map[string]string{"hugepages-1Gi": "<1Gi"}}}), facts: classify.Facts{Capacity: room("hugepages-1Gi", "0")},
			want: labels{"hit": "true"},
		},
		"volumes of a driver that the Node does not have are 0, as a value, too": {
			rules: []classify.Rule{{Name: "one", Set: labels{"volumes": "{allocatable.attachable-volumes-aws-ebs}"}}}, facts: classify.Facts{Allocatable: room("cpu", "32"), PluginsRegistered: true},
			want: labels{"volumes": "0"},
		},
		"of a kubelet that has reported no resource, not even a missing GPU is known": {
			rules: rules(), facts: classify.Facts{PluginsRegistered: true}, prev: gpuBefore,
			want: labels{"accelerator": "nvidia-gpu", "gpu.count": "2", "tier": "dual-gpu"}, blocked: map[string]string{"accelerator": "gpu", "gpu.count": "gpu", "tier": "dual-gpu", "voice": "high"},
		},
		"an amount that is not reported makes no value": {
			rules: []classify.Rule{{Name: "pods", Set: labels{"pods": "{capacity.pods}"}}, {Name: "default", Set: labels{"pods": "none"}}}, facts: classify.Facts{Capacity: room("cpu", "32"), PluginsRegistered: true},
			want: labels{}, blocked: map[string]string{"pods": "pods"},
		},
		"unknown and false is false": {
			rules: rules()[2:], facts: classify.Facts{Capacity: room("cpu", "8", "memory", "0"), PluginsRegistered: true},
			want: labels{"tier": "standard"},
		},
		"a label that an operator set stays": {
			rules: rules(), facts: classify.Facts{Labels: labels{"tier": "special"}, PluginsRegistered: true, Capacity: room("cpu", "8", "memory", "32Gi")},
			want: labels{}, taken: labels{"tier": "standard"},
		},
		"a rule with precedence replaces it": {
			rules: []classify.Rule{{Name: "rest", Set: labels{"tier": "standard"}, Precedence: classify.RuleWins}}, facts: classify.Facts{Labels: labels{"tier": "special"}},
			want: labels{"tier": "standard"},
		},
		"a value of a rule that is no more does not stay": {
			rules: rules()[:1:1], facts: classify.Facts{}, prev: map[string]record.RuleLabel{"accelerator": {Value: "none", Rule: "no-gpu"}},
			want: labels{}, blocked: map[string]string{"accelerator": "gpu", "gpu.count": "gpu"},
		},
		"a returning Node without GPUs has its default although the rule about GPUs is not known yet": {
			rules: rules(), facts: classify.Facts{Capacity: room("cpu", "8", "memory", "32Gi")}, prev: map[string]record.RuleLabel{"tier": {Value: "standard", Rule: "rest"}},
			want: labels{"tier": "standard"}, blocked: map[string]string{"accelerator": "gpu", "gpu.count": "gpu", "tier": "dual-gpu"},
		},
		"a value of an earlier rule that is false now does not stay": {
			rules: []classify.Rule{{Name: "named", Condition: classify.Condition{Clause: classify.Clause{Names: []string{"other"}}}, Set: labels{"tier": "a"}}, {Name: "cpu", Condition: classify.Condition{Clause: classify.Clause{Capacity: labels{"cpu": ">1"}}}, Set: labels{"tier": "b"}}},
			prev:  map[string]record.RuleLabel{"tier": {Value: "a", Rule: "named"}}, want: labels{}, blocked: map[string]string{"tier": "cpu"},
		},
		"a rule sees the labels of earlier rules": {
			rules: []classify.Rule{{Name: "first", Set: labels{"a": "1"}}, {Name: "second", Condition: classify.Condition{Clause: classify.Clause{Labels: "a=1,!b"}}, Set: labels{"c": "2"}}},
			want:  labels{"a": "1", "c": "2"},
		},
		"a group of the name becomes a value": {
			rules: []classify.Rule{{Name: "rack", Condition: classify.Condition{Clause: classify.Clause{Names: []string{`^[a-z]+-r(?P<rack>[0-9]{2})-`}}}, Set: labels{"example.com/rack": "r{name.rack}"}}},
			facts: classify.Facts{Name: "worker-r07-3"}, want: labels{"example.com/rack": "r07"},
		},
		"a value that no label can have is a problem, and no later rule takes its place": {
			rules: []classify.Rule{{Name: "os", Set: labels{"kernel": "{node.kernel}"}}, {Name: "default", Set: labels{"kernel": "none"}}},
			facts: classify.Facts{System: classify.System{Kernel: "6.1 evil/../"}}, want: labels{}, problems: 1,
		},
		"a kubelet older than asked for does not match": {
			rules: add(classify.Condition{Clause: classify.Clause{Kubelet: ">=1.35", Kernel: "6*"}}),
			facts: classify.Facts{System: classify.System{Kubelet: "v1.34.9+k3s1", Kernel: "6.1.0"}}, want: labels{"hit": "false"},
		},
		"a kubelet as new as asked for matches": {
			rules: add(classify.Condition{Clause: classify.Clause{Kubelet: ">=1.35", Kernel: "6*"}}),
			facts: classify.Facts{System: classify.System{Kubelet: "v1.36.3", Kernel: "6.1.0"}}, want: labels{"hit": "true"},
		},
		"a provider ID that a cloud controller has yet to set is not known": {
			rules: add(classify.Condition{Clause: classify.Clause{ProviderID: "aws://*"}}), facts: classify.Facts{Uninitialized: true}, want: labels{}, blocked: map[string]string{"hit": "one"},
		},
		"a machine without a provider ID is of no provider": {
			rules: add(classify.Condition{Clause: classify.Clause{ProviderID: "aws://*"}}), want: labels{"hit": "false"},
		},
		"devices of ResourceSlices are counted": {
			rules: add(classify.Condition{Clause: classify.Clause{Devices: &classify.DeviceCondition{Driver: "gpu.nvidia.com", Attributes: map[string]string{"productName": "*RTX 5070*"}, Min: new(2)}}}),
			facts: classify.Facts{PluginsRegistered: true, DevicesKnown: true, Devices: []classify.Device{
				{Driver: "gpu.nvidia.com", Attributes: labels{"productName": "NVIDIA GeForce RTX 5070 Ti"}}, {Driver: "gpu.nvidia.com", Attributes: labels{"productName": "GeForce RTX 5070"}},
				{Driver: "other", Attributes: labels{"productName": "RTX 5070"}},
			}}, want: labels{"hit": "true"},
		},
		"slices that were not read are not known": {
			rules: add(classify.Condition{Clause: classify.Clause{Devices: &classify.DeviceCondition{Driver: "gpu.nvidia.com"}}}), facts: classify.Facts{PluginsRegistered: true, Capacity: room()},
			want: labels{}, blocked: map[string]string{"hit": "one"},
		},
		"too few devices are not known before drivers had time to register": {
			rules: add(classify.Condition{Clause: classify.Clause{Devices: &classify.DeviceCondition{Driver: "gpu.nvidia.com"}}}), facts: classify.Facts{DevicesKnown: true},
			want: labels{}, blocked: map[string]string{"hit": "one"},
		},
		"devices of a driver that has not published all of them are not known": {
			rules: add(classify.Condition{Clause: classify.Clause{Devices: &classify.DeviceCondition{Driver: "gpu.nvidia.com", Min: new(2)}}}),
			facts: classify.Facts{PluginsRegistered: true, DevicesKnown: true, Incomplete: []string{"gpu.nvidia.com"}, Devices: []classify.Device{{Driver: "gpu.nvidia.com"}}},
			want:  labels{}, blocked: map[string]string{"hit": "one"},
		},
		"enough devices are enough, though the driver has not published all of them": {
			rules: add(classify.Condition{Clause: classify.Clause{Devices: &classify.DeviceCondition{Driver: "gpu.nvidia.com"}}}),
			facts: classify.Facts{PluginsRegistered: true, DevicesKnown: true, Incomplete: []string{"gpu.nvidia.com"}, Devices: []classify.Device{{Driver: "gpu.nvidia.com"}}},
			want:  labels{"hit": "true"},
		},
		"what another driver has not published does not matter": {
			rules: add(classify.Condition{Clause: classify.Clause{Devices: &classify.DeviceCondition{Driver: "gpu.nvidia.com"}}}),
			facts: classify.Facts{PluginsRegistered: true, DevicesKnown: true, Incomplete: []string{"nic.example.com"}}, want: labels{"hit": "false"},
		},
		"a rule in audit sets nothing and blocks nothing": {
			rules: []classify.Rule{{Name: "audited", Set: labels{"tier": "gold"}, Mode: classify.Audit}, {Name: "rest", Set: labels{"tier": "standard"}}}, want: labels{"tier": "standard"},
		},
		"a rule that selects on a blocked key is unknown": {
			rules: []classify.Rule{
				{Name: "a", Condition: classify.Condition{Clause: classify.Clause{Capacity: map[string]string{gpu: ">=1"}}}, Set: labels{"a": "1"}},
				{Name: "b", Condition: classify.Condition{Clause: classify.Clause{Labels: "!a"}}, Set: labels{"b": "1"}},
			},
			want: labels{}, blocked: map[string]string{"a": "a", "b": "b"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			rules := compiled(t, test.rules...)
			got := rules.Evaluate(test.facts, test.prev, now)
			assert.Equal(t, test.want, values(got.Labels))
			assert.Equal(t, test.blocked, got.Blocked)
			assert.Len(t, got.Problems, test.problems)
			if test.taken != nil {
				assert.Equal(t, test.taken, values(got.Taken))
			}

			reread := test.facts
			reread.Labels = classify.WithoutRuleLabels(merged(test.facts.Labels, values(got.Labels)), got.Labels)
			second := rules.Evaluate(reread, got.Labels, now)
			assert.Equal(t, got.Labels, second.Labels, "a second pass changes nothing")
		})
	}
}

func TestCompileNamesEveryError(t *testing.T) {
	_, errs := classify.Compile([]classify.Rule{
		{Name: "Bad Name", Condition: classify.Condition{Clause: classify.Clause{Labels: "a in", Names: []string{"x("}, Capacity: map[string]string{"cpu": "many"}}}, Set: map[string]string{"k": "{capacity.cpu"}},
		{Name: "twice", Condition: classify.Condition{Clause: classify.Clause{Labels: "later=1,own=1"}}, Set: map[string]string{"own": "1"}, Precedence: "me"},
		{Name: "twice", Condition: classify.Condition{Clause: classify.Clause{Names: []string{"^("}, Kubelet: ">=new"}}, Set: map[string]string{"later": "{name.rack}", "a b": "c d"}},
		{Name: "empty"},
		{Name: "resources", Condition: classify.Condition{Clause: classify.Clause{Capacity: map[string]string{"memmory": ">=1", "cpus": "1", "a/b/c": "1"}}, Alternatives: []classify.Clause{{Capacity: map[string]string{"gpu": "1e-9999999"}}}}, Set: map[string]string{"x": "{allocatable.pod}"}},
		{Name: "devices", Condition: classify.Condition{Clause: classify.Clause{Devices: &classify.DeviceCondition{Attributes: map[string]string{"x": ""}, Min: new(-1)}}}, Set: map[string]string{"d": "{node.model}{x.y}"}},
	}, field.NewPath("labels", "rules"))
	for _, want := range []string{
		`labels.rules[0].name`, `labels.rules[0].when.labels`, `labels.rules[0].when.names[0]`, `labels.rules[0].when.capacity[cpu]`, `labels.rules[0].set[k]`,
		`labels.rules[1].when.labels: Forbidden: later is set by this rule or a later one`, `labels.rules[1].when.labels: Forbidden: own is set`, `labels.rules[1].precedence`,
		`labels.rules[2].name: Duplicate`, `labels.rules[2].when.names[0]`, `labels.rules[2].when.kubelet`, `labels.rules[2].set[later]`, `labels.rules[2].set[a b]`,
		`labels.rules[3].set: Required`, `labels.rules[5].when.devices.driver: Required`, `labels.rules[5].when.devices.attributes[x]: Required`, `labels.rules[5].when.devices.min`, `labels.rules[5].set[d]`,
		`labels.rules[4].when.capacity[memmory]: Invalid value: "memmory": is no resource that Kubernetes has (did you mean memory?)`, `labels.rules[4].when.capacity[cpus]`,
		`labels.rules[4].when.capacity[a/b/c]`, `labels.rules[4].when.any[0].capacity[gpu]: Invalid value: "gpu"`, `labels.rules[4].when.any[0].capacity[gpu]: Invalid value: "1e-9999999"`,
		`labels.rules[4].set[x]: Invalid value: "{allocatable.pod}": {allocatable.pod}: pod is no resource that Kubernetes has (did you mean pods?)`,
	} {
		assert.ErrorContains(t, errs.ToAggregate(), want)
	}
}

func FuzzEvaluate(f *testing.F) {
	f.Add("pgbee", "6.1.0", "amd64", "2", "8", "{capacity.nvidia.com/gpu}", "a=1", "special")
	f.Add("worker-r07-1", "5", "", "0", "0", "r{name.rack}", "!tier", "")
	f.Add("a", "6.1", "amd46", "1", "8", "{capacity.memmory}{allocatable.hugepages-2MB}", "a=1", "")
	f.Add("a", "6.1", "amd46", "1", "8", "{capacity.hugepages-2Mi}", "a=1", "")
	f.Add("\xff", "v1.36.3-eks", "x", "1e9", "1m", "{{}", "a in (b,c)", "\x00")
	f.Fuzz(func(t *testing.T, name, kernel, arch, gpus, cpu, template, selector, label string) {
		facts := classify.Facts{Name: name, System: classify.System{Kernel: kernel, Kubelet: kernel, Arch: arch, Runtime: name}, Labels: map[string]string{"tier": label, "a": label}, Capacity: corev1.ResourceList{}}
		for resourceName, text := range map[corev1.ResourceName]string{gpu: gpus, "cpu": cpu} {
			if amount, err := resource.ParseQuantity(text); err == nil {
				facts.Capacity[resourceName] = amount
			}
		}
		specs := append(rules(), classify.Rule{
			Name: "fuzzed", Condition: classify.Condition{Clause: classify.Clause{Labels: selector, Names: []string{"^" + name + "(?P<rack>.*)"}, Kernel: kernel, Kubelet: arch}}, Set: map[string]string{"fuzzed": template},
		})
		compiled, errs := classify.Compile(specs, nil)
		if len(errs) > 0 {
			return
		}
		first := compiled.Evaluate(facts, nil, now)
		explained, _ := compiled.Explain(facts, nil, now)
		assert.Equal(t, explained, first, "what nobody asks about is not evaluated, and changes nothing")
		for key, ruleLabel := range first.Labels {
			if wrong := validation.IsValidLabelValue(ruleLabel.Value); len(wrong) > 0 {
				t.Errorf("%s=%q is no label: %v", key, ruleLabel.Value, wrong)
			}
		}
		facts.Labels = classify.WithoutRuleLabels(merged(facts.Labels, values(first.Labels)), first.Labels)
		if second := compiled.Evaluate(facts, first.Labels, now); !assert.ObjectsAreEqual(first.Labels, second.Labels) {
			t.Errorf("a second pass makes %v of %v", second.Labels, first.Labels)
		}
	})
}

func BenchmarkEvaluateFiftyRules(b *testing.B) {
	var specs []classify.Rule
	for i := range 50 {
		rule := rules()[i%4]
		rule.Name += string(rune('a'+i%26)) + string(rune('a'+i/26))
		rule.Condition.Labels = ""
		specs = append(specs, rule)
	}
	compiled := compiled(b, specs...)
	facts := classify.Facts{Name: "worker-1", Capacity: room("cpu", "8", "memory", "32Gi", gpu, "2"), PluginsRegistered: true, Labels: map[string]string{"a": "b"}}
	b.ReportAllocs()
	for b.Loop() {
		compiled.Evaluate(facts, nil, now)
	}
}

func TestWhileAnEarlierRuleIsNotKnownAWinningRuleStillWins(t *testing.T) {
	rules := compiled(t,
		classify.Rule{Name: "gpu", Condition: classify.Condition{Clause: classify.Clause{Capacity: map[string]string{gpu: ">=1"}}}, Set: map[string]string{"tier": "gpu"}},
		classify.Rule{Name: "high", Set: map[string]string{"tier": "high"}, Precedence: classify.RuleWins})
	prev := map[string]record.RuleLabel{"tier": {Value: "high", Rule: "high"}}
	got := rules.Evaluate(classify.Facts{Labels: map[string]string{"tier": "by-hand"}}, prev, now)
	assert.Equal(t, prev, got.Labels, "a kubelet that restarts changes nothing")
}

func TestAHoldIsNeverLongerThanItsRuleSaysNow(t *testing.T) {
	prev := map[string]record.RuleLabel{"accelerator": {Value: "nvidia-gpu", Rule: "gpu", End: now.Add(10 * time.Hour)}}
	got := compiled(t, rules()[0]).Evaluate(classify.Facts{PluginsRegistered: true, Capacity: room()}, prev, now)
	assert.Equal(t, now.Add(15*time.Minute), got.Labels["accelerator"].End, "the policy was changed meanwhile")
}

func TestWhichRulesSetALabel(t *testing.T) {
	rules, errs := classify.Compile([]classify.Rule{
		{Name: "a", Set: map[string]string{"tier": "x"}}, {Name: "b", Set: map[string]string{"rack": "x"}},
		{Name: "c", Set: map[string]string{"tier": "y"}, Mode: classify.Audit}, {Name: "d", Set: map[string]string{"tier": "z"}},
	}, field.NewPath("rules"))
	require.Empty(t, errs)
	assert.Equal(t, []string{"a", "d"}, rules.SetBy("tier"), "in their order; a rule in audit sets nothing")
	assert.Empty(t, rules.SetBy("other"))
}
