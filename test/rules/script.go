package rules

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// gpuWorker is a label that no kubelet may set.
const gpuWorker = "node-role.kubernetes.io/gpu-worker"

// leftOver is a label that the kubelets of all Nodes bring at each registration.
const leftOver = "example.com/left-over"

// witness is a Node that each watcher of the harness makes. Rules set labels on it like on any other.
const witness = "watch-witness"

// Labels of one rule each. Operators fight with the first, the second keeps the label off Nodes, the third is in audit.
const (
	owner  = "example.com/owner"
	banned = "example.com/banned"
	trial  = "example.com/trial"
)

// driver is whose devices ResourceSlices list.
const driver = "gpu.example.com"

// shortHold is for how long some rules hold a label: the test waits for its end. It is mostly longer than capture needs to list it on all
// Nodes, 50 a second. A hold that ends earlier is never listed.
func shortHold(nodes int) time.Duration {
	return 2*time.Second + time.Duration(nodes)*30*time.Millisecond
}

// grace is for how long a rule about extended resources holds its labels at least.
const grace = 5 * time.Minute

// allKeys returns the labels that rules set, or select on.
func allKeys() []string {
	return []string{
		"accelerator", banned, leftOver, owner, "example.com/rack", trial, "gpu.count", "gpu.healthy", "gpu.model", gpuWorker, "hardware.tier", "pool", "room", "size",
		"team", "team.class", "voice-pipeline",
	}
}

// operatorKeys returns those that operators set.
func operatorKeys() []string {
	return []string{banned, "example.com/rack", "hardware.tier", "size", "team", "voice-pipeline"}
}

// kinds returns the six kinds of Nodes: cores, memory, and GPUs.
func kinds() map[string][3]int {
	return map[string][3]int{"gpua": {8, 32, 1}, "gpub": {16, 64, 2}, "gpud": {32, 256, 4}, "big": {32, 128, 0}, "small": {2, 4, 0}, "pgmac": {8, 16, 0}}
}

// cardsOf returns the devices of a kind of Nodes.
func cardsOf(kind string) []string {
	const rtx, h100 = "GeForce RTX 5070", "H100 PCIe"
	return map[string][]string{"gpua": {rtx}, "gpub": {h100, h100}, "gpud": {h100, rtx, rtx, h100}}[kind]
}

// machines returns so many, of all kinds in turn.
func machines(count int) (all []*machine) {
	names := []string{"gpua", "gpub", "gpud", "big", "small", "pgmac"}
	for n := range count {
		kind := names[n%len(names)]
		size := kinds()[kind]
		all = append(all, &machine{
			name: fmt.Sprintf("%s-r%02d-%03d", kind, n%7, n), cpu: size[0], gib: size[1], room: size[0],
			operators: map[string]string{}, ruled: map[string]setting{},
		})
	}
	return all
}

// writer makes policies.
type writer struct {
	*rand.Rand
	short time.Duration
}

func (w writer) chance(p float64) bool { return w.Float64() < p }

func pick[T any](w writer, from ...T) T { return from[w.IntN(len(from))] }

// policy makes rules: some of the usual ones, some of them changed, in another order.
func (w writer) policy() rules {
	gpu := rule{
		name: pick(w, "gpu", "gpu", "accelerated"), condition: gpusAtLeast(pick(w, 1, 1, 1, 2)), set: map[string]string{"accelerator": "nvidia-gpu", gpuWorker: ""},
		fill: map[string]filled{"gpu.count": gpuCount(pick(w, "", "", "n"))}, trusts: true, plugins: true,
		hold: pick(w, 0, 0, time.Minute, time.Hour), // shorter and longer than the grace
	}
	cards := []rule{
		{name: "h100", condition: cardsAtLeast(pick(w, 1, 2), "H100"), set: map[string]string{"gpu.model": "h100"}, plugins: true, hold: pick(w, 0, time.Hour)},
		{name: pick(w, "rtx", "rtx", "geforce"), condition: cardsAtLeast(1, "RTX 5070"), set: map[string]string{"gpu.model": "rtx5070"}, plugins: true},
		{name: "cards", condition: cardsAtLeast(1, ""), set: map[string]string{"gpu.model": "other"}, plugins: true},
		{name: "plain", condition: tautology(), set: map[string]string{"gpu.model": "none"}},
	}
	if w.chance(0.3) {
		cards[0], cards[1] = cards[1], cards[0]
	}
	room := []rule{
		{name: "healthy", condition: gpusAtLeast(pick(w, 1, 2)), fill: map[string]filled{"gpu.healthy": healthyCount()}, plugins: true},
		{name: "roomy", condition: roomAtLeast(pick(w, 6, 12)), set: map[string]string{"room": "roomy"}, hold: pick(w, 0, w.short, w.short)},
		{name: "tight", condition: tautology(), set: map[string]string{"room": pick(w, "tight", "tight", "some")}},
		{name: "banned", condition: roomAtLeast(pick(w, 6, 12)), absent: []string{banned}, hold: pick(w, 0, w.short, w.short)},
	}
	tiers := []rule{
		{name: "quad", condition: gpusAtLeast(4), set: map[string]string{"hardware.tier": "quad-gpu"}, plugins: true},
		{name: "dual", condition: gpusAtLeast(2), set: map[string]string{"hardware.tier": pick(w, "dual-gpu", "dual-gpu", "multi-gpu")}, plugins: true},
		{name: "high", condition: anyOf(named("pgmac"), sizeAtLeast(16, 64)), set: map[string]string{"hardware.tier": "high", "voice-pipeline": pick(w, "enabled", "enabled", "on")}, wins: w.chance(0.3)},
		{name: "rest", condition: tautology(), set: map[string]string{"hardware.tier": "standard"}, wins: w.chance(0.2)},
	}
	if w.chance(0.2) {
		tiers[1], tiers[2] = tiers[2], tiers[1]
	}
	extra := []rule{
		{name: "racks", condition: racked(), fill: map[string]filled{"example.com/rack": rack()}, wins: w.chance(0.5)},
		{name: "large", condition: sizeAtLeast(pick(w, 16, 16, 8), 8), set: map[string]string{"size": "large"}},
		{name: "little", condition: tautology(), set: map[string]string{"size": pick(w, "little", "little", "other")}},
	}
	w.Shuffle(2, func(a, b int) { extra[a], extra[b] = extra[b], extra[a] })
	all := slices.Concat([]rule{gpu}, tiers, extra, cards, room, []rule{
		{name: "pools", condition: labelled("hardware.tier", pick(w, "dual-gpu", "standard", "high")), set: map[string]string{"pool": pick(w, "one", "one", "two")}},
		{name: "classes", condition: labelled("team", "gold"), set: map[string]string{"team.class": "premium"}},
		{name: "clean", condition: pick(w, tautology(), named("gpu"), named("none")), absent: []string{leftOver}},
		{name: "owned", condition: tautology(), set: map[string]string{owner: "platform"}, wins: true},
	})
	all = slices.DeleteFunc(all, func(rule) bool { return w.chance(0.08) })
	for n := range all {
		all[n].audit = w.chance(0.08)
	}
	number := w.IntN(1_000_000) // its own name: what it would set is counted by name
	return append(all, rule{name: fmt.Sprintf("trial-%d", number), condition: pick(w, tautology(), roomAtLeast(12), gpusAtLeast(1)), set: map[string]string{trial: "yes"}, audit: true})
}

// value returns what an operator writes.
func (w writer) value(key string) string {
	if key == "team" {
		return pick(w, "gold", "iron")
	}
	return fmt.Sprintf("by-hand-%d", w.IntN(1000))
}
