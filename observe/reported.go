package observe

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record/packing"
)

// Reported is what the kubelet of a Node reports, as far as rules can use it. Equal values are equal by ==.
type Reported struct {
	shape   unique.Handle[string] // packed: the software, and the names of resources; many Nodes have the same
	amounts string                // packed: how much there is of each
	// ReadySince is since when the Node is ready, in seconds since 1970; 0: it is not.
	ReadySince int64
}

// mostResources is how many resources are known of a Node. A kubelet can report as many as an object has room for.
const mostResources = 64

func reportedBy(node *corev1.Node) (r Reported) {
	var shape, amounts packing.Writer
	system := policy.SystemOf(node.Status.NodeInfo)
	shape.Texts([]string{system.Arch, system.OS, system.Kernel, system.Runtime, system.Kubelet})
	for _, list := range []corev1.ResourceList{node.Status.Capacity, node.Status.Allocatable} {
		names := resourcesOf(list)
		shape.Texts(names)
		for _, name := range names {
			amount := list[corev1.ResourceName(name)]
			amounts.Text(amount.String())
		}
	}
	shape.Texts(declaredBy(node.Status.DeclaredFeatures))
	r.shape, r.amounts = unique.Make(string(shape)), string(amounts)
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue && hasTime(condition.LastTransitionTime) {
			r.ReadySince = condition.LastTransitionTime.Unix()
		}
	}
	return r
}

// resourcesOf returns the names that are known of a list, those without a slash first.
func resourcesOf(list corev1.ResourceList) []string {
	names := make([]string, 0, len(list))
	for name := range list {
		if text := string(name); policy.Text(text) == text {
			names = append(names, text)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(strings.Count(a, "/"), strings.Count(b, "/")), cmp.Compare(a, b))
	})
	return names[:min(len(names), mostResources)]
}

// Declared features of a Node that are known: so many at most, and names of at most so many bytes. A kubelet can report as many as an object has
// room for.
const (
	mostDeclared    = 256
	longestDeclared = 128
)

// declaredBy returns the names that are known of the features that a kubelet declares.
func declaredBy(features []string) []string {
	names := make([]string, 0, min(len(features), mostDeclared))
	for _, name := range features {
		if len(names) < mostDeclared && len(name) <= longestDeclared && classify.IsDeclared(name) && policy.Text(name) == name {
			names = append(names, name)
		}
	}
	return names
}

// facts returns what rules use, the Node itself aside.
func (r Reported) facts(rules classify.Rules, now time.Time) classify.Facts {
	if r.shape == (unique.Handle[string]{}) {
		return classify.Facts{}
	}
	shape, amounts := packing.Reader(r.shape.Value()), packing.Reader(r.amounts)
	system := shape.Texts()
	capacity, allocatable := rules.Resources()
	facts := classify.Facts{
		System:   classify.System{Arch: system[0], OS: system[1], Kernel: system[2], Runtime: system[3], Kubelet: system[4]},
		Capacity: unpackList(&shape, &amounts, capacity), Allocatable: unpackList(&shape, &amounts, allocatable),
		PluginsRegistered: r.ReadySince != 0 && !now.Before(time.Unix(r.ReadySince, 0).Add(classify.PluginGrace)),
	}
	facts.Declared = shape.Texts()
	return facts
}

// unpackList reads the next list of resources, and keeps those that are used. It is nil if the kubelet has reported none.
func unpackList(shape, amounts *packing.Reader, used map[string]bool) corev1.ResourceList {
	names := shape.Texts()
	if len(names) == 0 {
		return nil
	}
	list := corev1.ResourceList{}
	for _, name := range names {
		text := amounts.Text()
		if !used[name] {
			continue
		}
		if amount, err := resource.ParseQuantity(text); err == nil {
			list[corev1.ResourceName(name)] = amount
		}
	}
	return list
}

// Cores returns the CPU of the machine; 0: it is not known.
func (r Reported) Cores() float64 {
	if r.shape == (unique.Handle[string]{}) {
		return 0
	}
	shape, amounts := packing.Reader(r.shape.Value()), packing.Reader(r.amounts)
	shape.Texts() // the software
	capacity := unpackList(&shape, &amounts, map[string]bool{string(corev1.ResourceCPU): true})
	return max(0, capacity.Cpu().AsApproximateFloat64())
}

// Facts returns what rules use in the Node while it has these labels, at a moment.
func (n *Node) Facts(labels map[string]string, rules classify.Rules, now time.Time) classify.Facts {
	facts := n.Reported.facts(rules, now)
	facts.Name, facts.ProviderID, facts.Uninitialized, facts.Labels = n.Name, n.Machine.ProviderID, classify.Uninitialized(n.Taints), labels
	return facts
}

// SameRuleFacts reports whether two states of a Node are equal in the facts that rules use. The time since which the Node is ready is part of
// that. A restarted kubelet may report as little as before, and then a fact is not known.
func (r Reported) SameRuleFacts(o Reported, rules classify.Rules) bool {
	return r == o || rules.Empty() || r.ReadySince == o.ReadySince && rules.EqualFacts(r.facts(rules, time.Time{}), o.facts(rules, time.Time{}))
}
