package impact

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/capture/gc"
	"nodekeep.dev/nodekeep/cli/nodestate"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/webhook"
)

// mostChanges bounds a comparison. In a cluster whose Nodes have keys of their own there are more changes.
const mostChanges = 10_000

// Comparison holds a policy to the one that is in force, Node by Node. It keeps counts and a few names, no Nodes.
type Comparison struct {
	now, then plan.Circumstances
	inForce   string // which rules for labels capture has put in force; empty: none yet

	impact  Impact
	rules   ruleComparison
	asked   *AskedFacts // of the other policy
	records int
	changes tally[changed, Change]
	items   JudgedItems // under the other policy
	broken  tally[brokenRule, BrokenRule]
}

// NewComparison begins with no Node. The policy in force is that of now; inForce names the rules for labels that capture has put in force. The rules
// of the other policy use devices and features.
func NewComparison(now plan.Circumstances, then policy.Policy, inForce string, devices func(node string) observe.Devices, features func(node string) observe.Features) *Comparison {
	c := &Comparison{now: now, then: now, inForce: inForce}
	c.then.Policy, c.then.Devices, c.then.Features = then.After(now.Policy), devices, features
	c.asked = NewAskedFacts(then, devices, features, now.Now)
	c.impact.Settings = ContentChanges(now.Policy.Content(), then.Content())
	return c
}

// See counts what changes for one Node. An error means that its registration cannot be explained.
func (c *Comparison) See(s nodestate.State) error {
	if s.Record != nil || s.Unreadable != nil {
		c.records++
	}
	if s.Node != nil {
		c.impact.Nodes++
		c.rules.see(s, c.then)
		c.asked.See(s.Node)
	}
	if s.Unreadable != nil { // under both policies it is left alone
		c.impact.Unreadable++
		return nil //nolint:nilerr // a record that cannot be read is counted
	}
	if s.Node == nil {
		c.impact.Gone++
		due := func(p policy.Policy) bool { return gc.Due(*s.Record, p.Retention(), c.now.Now) }
		c.impact.Due.see(due(c.now.Policy), due(c.then.Policy))
		return c.seeRegistration(s, s.Record, s.Record, nil)
	}
	c.seeViolations(s)
	_, now, done := s.Settled(c.now)
	_, then, next := s.Settled(c.then)
	c.countNew(PutOn, done.By(plan.Derivation).Taints(false), next.By(plan.Derivation).Taints(false), s.Name)
	c.countNew(TakenOff, done.By(plan.Derivation).Taints(true), next.By(plan.Derivation).Taints(true), s.Name)
	c.countNew(Blocked, done.Foreign, next.Foreign, s.Name)
	return c.seeRegistration(s, now, then, c.seeKept(s))
}

// Impact returns what was counted.
func (c *Comparison) Impact() Impact {
	impact := c.impact
	impact.Changes, impact.More = c.changes.sorted(compareChanges), c.changes.more
	impact.Kept, impact.MoreKept = c.items.Kept(), c.items.kept.items.more
	impact.NotKept, impact.MoreNotKept = c.items.NotKept(), c.items.notKept.items.more
	impact.Broken, impact.MoreBroken = c.broken.sorted(compareBroken), c.broken.more
	impact.LabelRules = c.rules.impact(c.then.Policy, c.inForce)
	impact.Missing = c.asked.Missing()
	impact.SweepsAtMost = min(impact.Due.Then, gc.SweepsAtMost(gc.DefaultSweepFraction, c.records))
	return impact
}

// registeredBefore is added if the policy now keeps a taint that Nodes only got at registration. Nothing else shows that the taint will be restored,
// too.
const registeredBefore = "; no longer in taints.register: Nodes that have it keep it until a client removes it"

// seeKept compares what the two policies keep of an existing Node. It returns the items on which they differ: those also differ at a registration.
func (c *Comparison) seeKept(s nodestate.State) (differ map[string]bool) {
	differ = map[string]bool{}
	before, after := s.Judge(c.now), s.Judge(c.then)
	c.items.See(s.Name, after)
	for item := range after.Items() {
		keptNow, _ := before.Keeps(item)
		keptThen, why := after.Keeps(item)
		if keptNow != keptThen {
			kind := Kept
			switch {
			case keptNow:
				kind = Dropped
			case c.now.Policy.Registers(item):
				why += registeredBefore
			}
			c.count(kind, item, why, s.Name)
			differ[item] = true
		}
	}
	return differ
}

// seeRegistration compares what the same machine gets when its kubelet registers it again. It uses the records that the two policies lead to, and
// omits items that were counted before.
func (c *Comparison) seeRegistration(s nodestate.State, recordNow, recordThen *record.Record, counted map[string]bool) error {
	request, err := s.Registration(c.now)
	if err != nil {
		return err
	}
	answer := func(r *record.Record, p policy.Policy) (answer webhook.Explanation, taints []corev1.Taint, err error) {
		if answer, err = webhook.Explain(request, r, false, p, c.now.Now); err != nil {
			return answer, nil, fmt.Errorf("explain a registration of node %q: %w", s.Name, err)
		}
		for _, taint := range answer.Taints {
			if s.Node == nil || p.Registers(record.TaintKey(taint)) { // of a live Node, rules are compared on the Node itself
				taints = append(taints, taint)
			}
		}
		return answer, taints, nil
	}
	now, taintsNow, err := answer(recordNow, c.now.Policy)
	if err != nil {
		return err
	}
	then, taintsThen, err := answer(recordThen, c.then.Policy)
	if err != nil {
		return err
	}
	c.impact.Waiting.see(now.GateOn, then.GateOn)
	for item := range nodestate.ItemsOf(recordThen) {
		before, after := FateOf(item, now, c.now.Policy), FateOf(item, then, c.then.Policy)
		if counted[item] || after == before || after.Kind == "" {
			continue
		}
		why := string(after.Reason)
		if after.Reason == policy.NotKept || before.Reason == policy.NotKept {
			_, why = c.then.Policy.Keeps(item)
		}
		c.count(after.Kind, item, why, s.Name)
	}
	c.countNew(Registered, taintsNow, taintsThen, s.Name)
	c.countNew(NotAnyMore, taintsThen, taintsNow, s.Name)
	return nil
}

// countNew counts the taints that were not there before.
func (c *Comparison) countNew(kind ChangeKind, before, after []corev1.Taint, node string) {
	for _, taint := range after {
		if !slices.Contains(before, taint) {
			c.count(kind, taint.ToString(), "", node)
		}
	}
}

// count adds a Node to a change.
func (c *Comparison) count(kind ChangeKind, item, why, node string) {
	what := changed{kind, item, why}
	if change := c.changes.at(what, mostChanges, Change{changed: what}); change != nil {
		change.see(node)
	}
}
