package impact

import (
	"fmt"
	"maps"
	"slices"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// judgeWait finds what keeps the section wait of the profile from ever holding, and images that cannot be pulled.
func (p *judgedProfile) judgeWait() {
	for _, name := range p.Wait.DaemonSets {
		p.judgeDaemonSet(name)
	}
	if p.nodes == nil {
		return
	}
	if unpulled := p.nodes.imageWaiting; unpulled.Nodes > 0 {
		p.addFound("", HindersSome, "See which image, and why. The Secrets of a private registry must be in this namespace too:", []string{
			"nodekeep show " + unpulled.First[0] + " --verification",
			fmt.Sprintf("kubectl -n %s describe pods -l nodekeep.dev/profile=%s", p.facts.ChecksNamespace, p.Name),
			fmt.Sprintf("kubectl -n %s get secrets", p.facts.ChecksNamespace),
		}, "an image of its checks cannot be pulled on %s: %s", nodeExamples(unpulled), p.nodes.imageMessage)
	}
	if p.nodes.complete == 0 { // Nodes that are new show nothing
		return
	}
	for _, condition := range slices.Sorted(maps.Keys(p.Wait.Conditions)) {
		if !p.nodes.conditions.Has(condition) {
			p.addFound("", HindersAll, "Install what sets it, or take it off wait.conditions", nil,
				"it waits for the condition %s, which %s: its Nodes wait for ever", condition, p.noNodeHas())
		}
	}
	for _, resource := range slices.Sorted(maps.Keys(p.Allocatable)) {
		minimum := p.Allocatable[resource]
		switch maximum, ok := p.nodes.maximum[resource]; {
		case !ok:
			p.addFound("", HindersAll, "Correct the name of the resource, or install the device plugin that reports it", nil,
				"it waits for the resource %s, which %s: its Nodes wait for ever", resource, p.noNodeHas())
		case maximum.Cmp(minimum) < 0:
			p.addFound("", HindersAll, "Lower wait.allocatable to what its Nodes have. Allocatable is less than the capacity", nil,
				"it waits for %s of %s, and the most that one of its Nodes has is %s: its Nodes wait for ever", minimum.String(), resource, maximum.String())
		}
	}
}

// noNodeHas says that no Node shows something.
func (p *judgedProfile) noNodeHas() string {
	if p.nodes.complete == 1 {
		return "the one Node that it selects does not have"
	}
	return fmt.Sprintf("none of the %d Nodes that it selects has", p.nodes.complete)
}

// judgeDaemonSet judges whether a DaemonSet has a Pod on Nodes that wait.
func (p *judgedProfile) judgeDaemonSet(name string) {
	daemonSet, known := p.facts.DaemonSets[name]
	switch {
	case !known:
	case daemonSet == nil:
		p.addFound("", HindersAll, "Correct wait.daemonSets, or create it", nil, "it waits for DaemonSet %s, which does not exist: its Nodes wait for ever", name)
	case !p.ReportsOnly() && !tolerates(daemonSet, p.Taint):
		p.addFound("", HindersAll, "Add the toleration to its Pods. They have:", []string{kubectlGet("daemonset", name) + " -o jsonpath='{.spec.template.spec.tolerations}'"},
			"it waits for DaemonSet %s, whose Pods do not tolerate its taint %s: each waits for the other for ever", name, p.Taint.ToString())
	case p.nodes != nil && p.nodes.excluded[name] != nil:
		excluded, hinders := *p.nodes.excluded[name], HindersSome
		if excluded.Nodes == p.nodes.complete {
			hinders = HindersAll
		}
		p.addFound("", hinders, "Change the nodeSelector or affinity of the DaemonSet, or the nodeSelector of the profile:", []string{kubectlGet("daemonset", name) + " -o yaml"},
			"it waits for DaemonSet %s, whose nodeSelector or affinity excludes %s: such a Node waits for ever", name, nodeExamples(excluded))
	}
}

// tolerates reports whether the Pods of a DaemonSet run on a Node with a taint.
func tolerates(daemonSet *appsv1.DaemonSet, taint corev1.Taint) bool {
	return slices.ContainsFunc(daemonSet.Spec.Template.Spec.Tolerations, func(toleration corev1.Toleration) bool {
		return toleration.ToleratesTaint(logr.Discard(), &taint, false)
	})
}
