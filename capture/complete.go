package capture

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// complete gives what is still missing, lets taints follow the rules, and lifts the gate with it unless something was
// refused. putRight and takeBack are what has to be corrected besides.
func complete(record store.Record, seen *Node, putRight map[string]string, takeBack []string, p policy.Policy) Plan {
	give, refused := split(missing(record, seen, p), seen.Refused)
	next := Plan{Step: Complete, Give: give, PutRight: putRight, TakeBack: takeBack}
	gated := p.Gate().On(seen.Taints)

	final := next.itemsOn(seen)
	_, given := policy.Split(give)
	taints := slices.Concat(seen.Taints, given)
	ours := ruleTaintsOn(record, seen, p)
	rules := follow(taints, ours, p.TaintsFor(final))
	next.Take = rules.take
	if record.UID == seen.UID {
		next.Put, next.Foreign = rules.writtenDown(record, seen), rules.foreign
	}
	next.RuleTaints = rules.after(ours, next.Put)
	next.LiftGate = gated && len(refused) == 0 && len(next.Put) == len(rules.put)

	if gated && !seen.Registered && (len(give) > 0 || next.LiftGate) { // what is taken off while the Node waits is not fought over
		next.Register = policy.FreeOf(p.RegistrationTaints(final), slices.Concat(taints, rules.put))
	}
	if len(give)+len(takeBack)+len(next.Register) > 0 {
		next.Stamp = stampAfter(seen, give, takeBack)
	}
	switch {
	case next.changesItems():
		return next
	case next.LiftGate:
		next.Step, next.Stamp = Lift, nil
		return next
	default: // the gate stays until a person lifts it or the policy changes
		return Plan{Step: Nothing, Foreign: next.Foreign}
	}
}

// followRules changes the taints of a Node that has all that it should have, where its rules want others.
func followRules(record store.Record, seen *Node, p policy.Policy) Plan {
	ours := ruleTaintsOn(record, seen, p)
	rules := follow(seen.Taints, ours, p.TaintsFor(seen.Items))
	rules.put = rules.writtenDown(record, seen)
	if len(rules.put)+len(rules.take) == 0 {
		return Plan{Step: Nothing, Foreign: rules.foreign}
	}
	return Plan{Step: FollowRules, Put: rules.put, Take: rules.take, RuleTaints: rules.after(ours, rules.put), Foreign: rules.foreign}
}

// itemsOn is what the Node will show once the plan's items are on it.
func (p Plan) itemsOn(seen *Node) map[string]string {
	items := make(map[string]string, len(seen.Items)+len(p.Give))
	maps.Copy(items, seen.Items)
	maps.Copy(items, p.Give)
	maps.Copy(items, p.PutRight)
	for _, item := range p.TakeBack {
		delete(items, item)
	}
	return items
}

// stampAfter is the Node's stamp once it was given some items and others were taken back; that these are gone must not
// look like somebody's decision. It is nil where the Node's annotations have no room for one.
func stampAfter(seen *Node, give map[string]string, takeBack []string) *policy.Stamp {
	stamp := seen.Stamp.Given(give).Without(takeBack)
	if !stamp.Fits(seen.AnnotationBytes) {
		return nil
	}
	return &stamp
}

// whole reports whether the object has all that it can be given.
func whole(prev store.Record, seen *Node, p policy.Policy) bool {
	give, _ := split(missing(prev, seen, p), seen.Refused)
	return len(give) == 0
}

// split separates what the API server refused on this object before.
func split(missing map[string]string, refusedItems map[string]bool) (give map[string]string, refused []string) {
	give = map[string]string{}
	for item, value := range missing {
		if refusedItems[item] {
			refused = append(refused, item)
		} else {
			give[item] = value
		}
	}
	return give, refused
}

// taintsAfter are the taints of the Node once a plan is carried out, each key and effect once; changed says whether they
// are others than before.
func taintsAfter(seen *Node, step Plan, gate policy.Gate) (taints []corev1.Taint, changed bool) {
	for _, taint := range seen.Taints {
		item := policy.TaintItem(taint)
		if step.LiftGate && gate.Is(taint) || slices.Contains(step.Take, undated(taint)) || slices.Contains(step.TakeBack, item) {
			changed = true
			continue
		}
		if value, right := step.PutRight[item]; right {
			taint, changed = corev1.Taint{Key: taint.Key, Value: value, Effect: taint.Effect}, true
		}
		taints = append(taints, taint)
	}
	_, given := policy.Split(step.Give)
	for _, more := range [][]corev1.Taint{given, step.Put, step.Register} {
		free := policy.FreeOf(more, taints)
		taints, changed = append(taints, free...), changed || len(free) > 0
	}
	return taints, changed
}
