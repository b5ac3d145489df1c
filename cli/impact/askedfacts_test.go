package impact

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/capture/inventories"
	"nodekeep.dev/nodekeep/cli/nodestate/statetest"
	"nodekeep.dev/nodekeep/observe"
)

func TestFactsThatRulesAskForAndNoNodeHasAreNamed(t *testing.T) {
	p := statetest.Load(t, `labels: {rules: [
  {name: gpu, when: {capacity: {nvidia.com/gpu: ">=1", cpu: ">=8"}}, set: {gpu: "{capacity.nvidia.com/gpu}"}},
  {name: arm, when: {labels: kubernetes.io/arch=arm64}, set: {cpu: arm}},
  {name: arms, when: {any: [{labels: kubernetes.io/arch=arm64}, {labels: kubernetes.io/os=linux}]}, set: {tier: a}},
  {name: resize, when: {features: {Resize: "*"}}, set: {resize: "true"}},
  {name: avx, when: {features: {cpu.cpuid.AVX: "*"}}, set: {avx: "true"}},
  {name: fast, when: {devices: {driver: gpu.example.com}}, set: {fast: "true"}}]}`)
	node := func(name, arch string, resources corev1.ResourceList) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u", ResourceVersion: "5"}, Status: corev1.NodeStatus{
			Capacity: resources, NodeInfo: corev1.NodeSystemInfo{Architecture: arch, OperatingSystem: "linux"}, DeclaredFeatures: []string{"Other"},
		}}
	}
	small := corev1.ResourceList{"cpu": resource.MustParse("4")}
	noDevices := func(string) observe.Devices { return observe.DevicesOf(nil) }
	noFeatures := func(string) observe.Features { return observe.FeaturesOf(nil) }
	for name, c := range map[string]struct {
		nodes    []*corev1.Node
		devices  func(string) observe.Devices
		features func(string) observe.Features
		want     []string
	}{
		"no Node":                       {},
		"a Node that reported nothing":  {nodes: []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "new", UID: "u", ResourceVersion: "5"}}}},
		"a Node that lacks most of it":  {nodes: []*corev1.Node{node("a", "amd64", small)}, want: []string{"rule gpu asks for capacity.nvidia.com/gpu, which the one Node does not have", "rule resize asks for feature Resize, which the one Node does not have", "rules arm, arms ask for kubernetes.io/arch=arm64, which the one Node does not have"}},
		"one of two has the resource":   {nodes: []*corev1.Node{node("a", "amd64", small), node("b", "arm64", corev1.ResourceList{"cpu": small["cpu"], "nvidia.com/gpu": resource.MustParse("0")})}, want: []string{"rule resize asks for feature Resize, which none of 2 Nodes has"}},
		"devices and features are read": {nodes: []*corev1.Node{node("a", "arm64", corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1"), "cpu": small["cpu"]})}, devices: noDevices, features: noFeatures, want: []string{"rule fast asks for devices of gpu.example.com, which the one Node does not have", "rule resize asks for feature Resize, which the one Node does not have", "rule avx asks for feature cpu.cpuid.AVX, which the one Node does not have"}},
	} {
		t.Run(name, func(t *testing.T) {
			asked := NewAskedFacts(p, c.devices, c.features, time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC))
			for _, node := range c.nodes {
				asked.Add(node)
			}
			var got []string
			for _, missing := range asked.Missing() {
				got = append(got, missing.Description)
				assert.NotEmpty(t, missing.Next)
				assert.NotEmpty(t, missing.Commands)
			}
			assert.Equal(t, c.want, got)
		})
	}
}

func TestAttributesThatRulesAskForAndAnInventoryLacksAreNamed(t *testing.T) {
	p := statetest.Load(t, `labels: {rules: [{name: rack, when: {inventory: {cmdb.rakc: "R7*"}}, set: {example.com/rack: "{inventory.cmdb.rack}", example.com/row: "{inventory.late.row}"}}]}
inventory:
- {name: cmdb, file: /var/run/nodekeep/a, attributes: [rack, rakc, unused]}
- {name: late, file: /var/run/nodekeep/b, attributes: [row]}
`)
	notes := &corev1.ConfigMap{Data: map[string]string{}}
	for source, status := range map[string]inventories.SourceStatus{
		"cmdb": {InForce: "aa", Nodes: 10, Missing: []string{"rakc", "unused"}},
		"late": {Missing: []string{"row"}},
	} {
		content, err := json.Marshal(status)
		require.NoError(t, err)
		notes.Data[source] = string(content)
	}
	missing := MissingAttributes(p, notes)
	require.Len(t, missing, 1, "what no rule asks for, and what is not known, is none")
	assert.Equal(t, "rule rack asks for inventory.cmdb.rakc, which inventory cmdb has of none of its Nodes (10)", missing[0].Description)
	assert.Empty(t, MissingAttributes(p, nil))
}
