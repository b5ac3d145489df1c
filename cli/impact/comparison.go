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
	current, planned plan.Inputs
	inForce          string // which rules for labels capture has put in force; empty: none yet

	impact  Impact
	rules   ruleComparison
	asked   *AskedFacts // of the other policy
	records int
	changes tally[changed, Change]
	items   JudgedItems // under the other policy
	broken  tally[brokenRule, BrokenRule]
}

// NewComparison begins with no Node. The policy in force is that of now; inForce is the hash of the rules for labels that capture has put in force. The rules
// of the other policy use devices and features.
func NewComparison(current plan.Inputs, planned policy.Policy, inForce string, devices func(node string) observe.Devices, features func(node string) observe.Features) *Comparison {
	c := &Comparison{current: current, planned: current, inForce: inForce}
	c.planned.Policy, c.planned.Devices, c.planned.Features = planned.WithPredecessor(current.Policy), devices, features
	c.asked = NewAskedFacts(planned, devices, features, current.Now)
	c.impact.Settings = ContentChanges(current.Policy.Content(), planned.Content())
	return c
}

// See counts what changes for one Node. An error means that its registration cannot be explained.
func (c *Comparison) See(s nodestate.State) error {
	if s.Record != nil || s.Unreadable != nil {
		c.records++
	}
	if s.Node != nil {
		c.impact.Nodes++
		c.rules.see(s, c.planned)
		c.asked.See(s.Node)
	}
	if s.Unreadable != nil { // under both policies it is left alone
		c.impact.Unreadable++
		return nil //nolint:nilerr // a record that cannot be read is counted
	}
	if s.Node == nil {
		c.impact.Gone++
		due := func(p policy.Policy) bool { return gc.Due(*s.Record, p.Retention(), c.current.Now) }
		c.impact.Due.see(due(c.current.Policy), due(c.planned.Policy))
		return c.seeRegistration(s, s.Record, s.Record, nil)
	}
	c.seeViolations(s)
	_, recordNow, actionNow := s.Simulate(c.current)
	_, recordPlanned, actionPlanned := s.Simulate(c.planned)
	c.countNew(PutOn, actionNow.WithCause(plan.CauseDerivedTaint).Taints(false), actionPlanned.WithCause(plan.CauseDerivedTaint).Taints(false), s.Name)
	c.countNew(TakenOff, actionNow.WithCause(plan.CauseDerivedTaint).Taints(true), actionPlanned.WithCause(plan.CauseDerivedTaint).Taints(true), s.Name)
	c.countNew(Blocked, actionNow.TaintConflicts, actionPlanned.TaintConflicts, s.Name)
	return c.seeRegistration(s, recordNow, recordPlanned, c.seeKept(s))
}

// Impact returns what was counted.
func (c *Comparison) Impact() Impact {
	impact := c.impact
	impact.Changes, impact.Omitted = c.changes.sorted(compareChanges), c.changes.omitted
	impact.Kept, impact.MoreKept = c.items.Kept(), c.items.kept.items.omitted
	impact.NotKept, impact.MoreNotKept = c.items.NotKept(), c.items.notKept.items.omitted
	impact.Broken, impact.MoreBroken = c.broken.sorted(compareBroken), c.broken.omitted
	impact.LabelRules = c.rules.impact(c.planned.Policy, c.inForce)
	impact.Missing = c.asked.Missing()
	impact.SweepsAtMost = min(impact.Due.Planned, gc.MaxPerSweep(gc.DefaultSweepFraction, c.records))
	return impact
}

// registeredBefore explains that the policy now keeps a taint that Nodes only got at registration, so that it is restored from now on.
const registeredBefore = "; no longer in taints.register: Nodes that have it keep it until a client removes it"

// seeKept compares what the two policies keep of an existing Node. It returns the items on which they differ: seeRegistration skips
// them.
func (c *Comparison) seeKept(s nodestate.State) (differ map[string]bool) {
	differ = map[string]bool{}
	prev, next := s.Judge(c.current), s.Judge(c.planned)
	c.items.See(s.Name, next)
	for item := range next.Items() {
		keptNow, _ := prev.Keeps(item)
		keptPlanned, reason := next.Keeps(item)
		if keptNow != keptPlanned {
			kind := Kept
			switch {
			case keptNow:
				kind = Dropped
			case c.current.Policy.Registers(item):
				reason += registeredBefore
			}
			c.count(kind, item, reason, s.Name)
			differ[item] = true
		}
	}
	return differ
}

// seeRegistration compares what the same machine gets when its kubelet registers it again. It uses the records that the two policies lead to, and
// omits items that were counted before.
func (c *Comparison) seeRegistration(s nodestate.State, recordNow, recordPlanned *record.Record, counted map[string]bool) error {
	request, err := s.Registration(c.current)
	if err != nil {
		return err
	}
	answer := func(r *record.Record, p policy.Policy) (answer webhook.Explanation, taints []corev1.Taint, err error) {
		if answer, err = webhook.Explain(request, r, false, p, c.current.Now); err != nil {
			return answer, nil, fmt.Errorf("explain a registration of node %q: %w", s.Name, err)
		}
		for _, taint := range answer.Taints {
			if s.Node == nil || p.Registers(record.TaintKey(taint)) { // of a live Node, rules are compared on the Node itself
				taints = append(taints, taint)
			}
		}
		return answer, taints, nil
	}
	answerNow, taintsNow, err := answer(recordNow, c.current.Policy)
	if err != nil {
		return err
	}
	answerPlanned, taintsPlanned, err := answer(recordPlanned, c.planned.Policy)
	if err != nil {
		return err
	}
	c.impact.Waiting.see(answerNow.GateOn, answerPlanned.GateOn)
	for item := range nodestate.ItemsOf(recordPlanned) {
		prev, next := FateOf(item, answerNow, c.current.Policy), FateOf(item, answerPlanned, c.planned.Policy)
		if counted[item] || next == prev || next.Kind == "" {
			continue
		}
		reason := string(next.Reason)
		if next.Reason == policy.NotKept || prev.Reason == policy.NotKept {
			_, reason = c.planned.Policy.Keeps(item)
		}
		c.count(next.Kind, item, reason, s.Name)
	}
	c.countNew(Registered, taintsNow, taintsPlanned, s.Name)
	c.countNew(NotAnyMore, taintsPlanned, taintsNow, s.Name)
	return nil
}

// countNew counts the taints that were not there before.
func (c *Comparison) countNew(kind ChangeKind, prev, next []corev1.Taint, node string) {
	for _, taint := range next {
		if !slices.Contains(prev, taint) {
			c.count(kind, taint.ToString(), "", node)
		}
	}
}

// count adds a Node to a change.
func (c *Comparison) count(kind ChangeKind, item, reason, node string) {
	key := changed{kind, item, reason}
	if change := c.changes.entry(key, mostChanges, Change{changed: key}); change != nil {
		change.see(node)
	}
}
