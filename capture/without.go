package capture

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// settings is what a step sets on a Node and would set again if another client undid it. Labels and taints that it gives
// back are not among that: the record then shows them on the Node, so nodekeep follows a client that removes them. Nor are
// registration taints: they are added once.
func (p Plan) settings(gate policy.Gate) (all []setting) {
	replaced := map[string]bool{}
	for _, taint := range p.Put {
		all = append(all, settingOf(taint, false))
		replaced[policy.TaintItem(taint)] = true
	}
	for _, taint := range p.Take {
		if !replaced[policy.TaintItem(taint)] {
			all = append(all, settingOf(taint, true))
		}
	}
	for _, item := range slices.Sorted(maps.Keys(p.PutRight)) {
		all = append(all, setting{item: item, value: p.PutRight[item]})
	}
	for _, item := range p.TakeBack {
		all = append(all, setting{item: item, removed: true})
	}
	if p.LiftGate {
		all = append(all, liftOf(gate))
	}
	return all
}

func settingOf(taint corev1.Taint, removed bool) setting {
	return setting{item: policy.TaintItem(taint), value: taint.Value, removed: removed}
}

func liftOf(gate policy.Gate) setting {
	return setting{item: policy.TaintItem(gate.Taint()), removed: true}
}

// without is the step less what is paused. While anything is paused the gate stays, since the Node is not as it should be.
func (p Plan) without(paused map[setting]bool, seen *Node, gate policy.Gate) Plan {
	if len(paused) == 0 || !p.changesNode() {
		return p
	}
	put := func(taint corev1.Taint) bool { return paused[settingOf(taint, false)] }
	take := func(taint corev1.Taint) bool { return paused[settingOf(taint, true)] }
	rest := p
	rest.Put, rest.Take = taintsBut(p.Put, put), taintsBut(p.Take, take)
	rest.PutRight = maps.Clone(p.PutRight)
	maps.DeleteFunc(rest.PutRight, func(item, value string) bool { return paused[setting{item: item, value: value}] })
	rest.TakeBack = slices.DeleteFunc(slices.Clone(p.TakeBack), func(item string) bool { return paused[setting{item: item, removed: true}] })
	rest.LiftGate = false

	rest.RuleTaints = taintsBut(p.RuleTaints, func(taint corev1.Taint) bool { return slices.Contains(p.Put, taint) && put(taint) })
	for _, taint := range p.Take {
		if take(taint) {
			rest.RuleTaints = append(rest.RuleTaints, taint)
		}
	}
	policy.SortTaints(rest.RuleTaints)

	if len(rest.Give) == 0 {
		rest.Register = nil // it comes with the first labels or when the gate is lifted
	}
	rest.Stamp = nil
	if len(rest.Give)+len(rest.TakeBack)+len(rest.Register) > 0 {
		rest.Stamp = stampAfter(seen, rest.Give, rest.TakeBack)
	}
	if !rest.changesItems() {
		return Plan{Step: Nothing, Foreign: p.Foreign}
	}
	return rest
}

// taintsBut are the taints of which that is not so.
func taintsBut(taints []corev1.Taint, is func(corev1.Taint) bool) (rest []corev1.Taint) {
	for _, taint := range taints {
		if !is(taint) {
			rest = append(rest, taint)
		}
	}
	return rest
}

// awaited are the taints that rules are about to add, where a step writes the record for nothing else than to precede that.
func awaited(prev *store.Record, seen *Node, next Plan, p policy.Policy) []corev1.Taint {
	if next.Step != Update || prev == nil || !next.Write.Same(*prev) || prev.Early || p.Gate().On(seen.Taints) {
		return nil
	}
	changes := follow(seen.Taints, ruleTaintsOn(*prev, seen, p), p.TaintsFor(seen.Items))
	if len(changes.take) > 0 {
		return nil
	}
	return changes.put
}
