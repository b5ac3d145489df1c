package classify_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/classify"
)

func TestWhatRulesAskForIsNamedAndWhetherANodeHasIt(t *testing.T) {
	rules := compiled(t,
		classify.Rule{Name: "a", Condition: classify.Condition{Clause: classify.Clause{
			Names: []string{"x"}, Labels: "env,kubernetes.io/arch=arm64,kubernetes.io/os=linux", Capacity: map[string]string{gpu: ">=1", "cpu": ">=1"}, Kubelet: ">=1.35",
			Devices: &classify.DeviceCondition{Driver: "d.example.com", Attributes: map[string]string{"model": "*"}}, Features: labels{"Resize": "*", "cpu.cpuid.AVX": "*"},
			Inventory: labels{"cmdb.rack": "*"},
		}}, Set: labels{"place": "{inventory.cmdb.row}", "size": "{allocatable.memory}", "kind": "{devices.kind}"}},
		classify.Rule{Name: "b", Condition: classify.Condition{Alternatives: []classify.Clause{{Capacity: map[string]string{gpu: "<1"}}, {Devices: &classify.DeviceCondition{Driver: "d.example.com"}}}}, Set: labels{"other": "x"}},
	).Copying(labels{"new": "old"})
	empty := classify.Facts{}
	lacks := classify.Facts{
		Capacity: room("pods", "1"), Allocatable: room("pods", "1"), System: classify.System{Arch: "amd64", OS: "windows"}, Declared: []string{"Other"},
		Features: map[string][]string{"cpu.cpuid.AVX": nil}, DevicesKnown: true, Devices: []classify.Device{{Driver: "other", Attributes: labels{"model": "m", "kind": "k"}}},
	}
	found := classify.Facts{
		Capacity: room("cpu", "0", gpu, "0"), Allocatable: room("memory", "1Gi"), System: classify.System{Arch: "arm64", OS: "linux"}, Declared: []string{"Resize"},
		Features: map[string][]string{"cpu.cpuid.AVX": {"true"}}, DevicesKnown: true, Devices: []classify.Device{{Driver: "d.example.com", Attributes: labels{"model": "m", "kind": "k"}}},
	}
	incomplete := lacks
	incomplete.Incomplete = []string{"d.example.com"}
	var got []string
	for _, ask := range rules.Asks() {
		got = append(got, string(ask.Kind)+": "+ask.Fact+" ("+strings.Join(ask.Rules, ",")+")")
		inventory := ask.Kind == classify.AskInventory
		for _, c := range []struct {
			facts          classify.Facts
			present, known bool
		}{{empty, false, false}, {lacks, false, !inventory}, {found, !inventory, !inventory}, {incomplete, false, !inventory && ask.Kind != classify.AskDevice}} {
			ok, known := ask.AnsweredBy(c.facts)
			assert.Equal(t, c.present, ok, ask.Fact)
			assert.Equal(t, c.known, known, ask.Fact)
		}
		if source, attribute := ask.InventoryFact(); inventory {
			assert.Equal(t, ask.Fact, "inventory."+source+"."+attribute)
		}
	}
	assert.Equal(t, []string{
		"resource: allocatable.memory (a)", "resource: capacity.cpu (a)", "resource: capacity.nvidia.com/gpu (a,b)",
		"device: devices of d.example.com (b)", "device: devices of d.example.com with kind (a)", "device: devices of d.example.com with model (a)",
		"declared feature: feature Resize (a)", "feature: feature cpu.cpuid.AVX (a)",
		"inventory: inventory.cmdb.rack (a)", "inventory: inventory.cmdb.row (a)", "architecture: kubernetes.io/arch=arm64 (a)", "operating system: kubernetes.io/os=linux (a)",
	}, got)
}
