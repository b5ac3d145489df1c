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

// maxChanges bounds a comparison. In a cluster whose Nodes have keys of their own there are more changes.
const maxChanges = 10_000

// Comparison holds a policy to the one that is in force, Node by Node. It keeps counts and a few names, no Nodes.
type Comparison struct {
	current, planned plan.Inputs
	rulesInForceHash string // which rules for labels capture has put in force; empty: none yet

	impact  Impact
	rules   ruleComparison
	asked   *AskedFacts // of the other policy
	records int
	changes countMap[changeKey, Change]
	items   JudgedItems // under the other policy
	broken  countMap[brokenRuleKey, BrokenRule]
}

// NewComparison begins with no Node. The policy in force is that of now; rulesInForceHash is the hash of the rules for labels that capture has put in force. The rules
// of the other policy use devices and features.
func NewComparison(current plan.Inputs, planned policy.Policy, rulesInForceHash string, devices func(node string) observe.Devices, features func(node string) observe.Features) *Comparison {
	c := &Comparison{current: current, planned: current, rulesInForceHash: rulesInForceHash}
	c.planned.Policy, c.planned.Devices, c.planned.Features = planned.WithPredecessor(current.Policy), devices, features
	c.asked = NewAskedFacts(planned, devices, features, current.Now)
	c.impact.Settings = ContentChanges(current.Policy.Content(), planned.Content())
	return c
}

// Add counts what changes for one Node. An error means that its registration cannot be explained.
func (c *Comparison) Add(s nodestate.State) error {
	if s.Record != nil || s.Unreadable != nil {
		c.records++
	}
	if s.Node != nil {
		c.impact.Nodes++
		c.rules.add(s, c.planned)
		c.asked.Add(s.Node)
	}
	if s.Unreadable != nil { // under both policies it is left alone
		c.impact.Unreadable++
		return nil //nolint:nilerr // a record that cannot be read is counted
	}
	if s.Node == nil {
		c.impact.Gone++
		due := func(p policy.Policy) bool { return gc.Due(*s.Record, p.Retention(), c.current.Now) }
		c.impact.Due.add(due(c.current.Policy), due(c.planned.Policy))
		return c.addRegistration(s, s.Record, s.Record, nil)
	}
	c.addViolations(s)
	_, recordNow, actionNow := s.Simulate(c.current)
	_, recordPlanned, actionPlanned := s.Simulate(c.planned)
	c.countNew(TaintAdded, actionNow.WithCause(plan.CauseDerivedTaint).Taints(false), actionPlanned.WithCause(plan.CauseDerivedTaint).Taints(false), s.Name)
	c.countNew(TaintRemoved, actionNow.WithCause(plan.CauseDerivedTaint).Taints(true), actionPlanned.WithCause(plan.CauseDerivedTaint).Taints(true), s.Name)
	c.countNew(Blocked, actionNow.TaintConflicts, actionPlanned.TaintConflicts, s.Name)
	return c.addRegistration(s, recordNow, recordPlanned, c.addKept(s))
}

// Impact returns what was counted.
func (c *Comparison) Impact() Impact {
	impact := c.impact
	impact.Changes, impact.Omitted = c.changes.sorted(compareChanges), c.changes.omitted
	impact.Kept, impact.MoreKept = c.items.Kept(), c.items.kept.items.omitted
	impact.NotKept, impact.MoreNotKept = c.items.NotKept(), c.items.notKept.items.omitted
	impact.Broken, impact.MoreBroken = c.broken.sorted(compareBroken), c.broken.omitted
	impact.LabelRules = c.rules.impact(c.planned.Policy, c.rulesInForceHash)
	impact.Missing = c.asked.Missing()
	impact.SweepsAtMost = min(impact.Due.Planned, gc.MaxPerSweep(gc.DefaultSweepFraction, c.records))
	return impact
}

// registeredBefore explains that the policy now keeps a taint that Nodes only got at registration, so that it is restored from now on.
const registeredBefore = "; no longer in taints.register: Nodes that have it keep it until a client removes it"

// addKept compares what the two policies keep of an existing Node. It returns the items on which they differ: addRegistration skips
// them.
func (c *Comparison) addKept(s nodestate.State) (different map[string]bool) {
	different = map[string]bool{}
	prev, next := s.Judge(c.current), s.Judge(c.planned)
	c.items.Add(s.Name, next)
	for item := range next.Items() {
		keptNow, _ := prev.Keeps(item)
		keptPlanned, reason := next.Keeps(item)
		if keptNow != keptPlanned {
			kind := Kept
			switch {
			case keptNow:
				kind = Dropped
			case c.current.Policy.AddsAtRegistration(item):
				reason += registeredBefore
			}
			c.addChange(kind, item, reason, s.Name)
			different[item] = true
		}
	}
	return different
}

// addRegistration compares what the same machine gets when its kubelet registers it again. It uses the records that the two policies lead to, and
// omits items that were counted before.
func (c *Comparison) addRegistration(s nodestate.State, recordNow, recordPlanned *record.Record, counted map[string]bool) error {
	request, err := s.Registration(c.current)
	if err != nil {
		return err
	}
	answer := func(r *record.Record, p policy.Policy) (answer webhook.Explanation, taints []corev1.Taint, err error) {
		if answer, err = webhook.Explain(request, r, false, p, c.current.Now); err != nil {
			return answer, nil, fmt.Errorf("explain a registration of node %q: %w", s.Name, err)
		}
		for _, taint := range answer.Taints {
			if s.Node == nil || p.AddsAtRegistration(record.TaintKey(taint)) { // of a live Node, rules are compared on the Node itself
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
	c.impact.Waiting.add(answerNow.GateOn, answerPlanned.GateOn)
	for item := range nodestate.ItemsOf(recordPlanned) {
		prev, next := RegistrationOutcomeOf(item, answerNow, c.current.Policy), RegistrationOutcomeOf(item, answerPlanned, c.planned.Policy)
		if counted[item] || next == prev || next.Kind == "" {
			continue
		}
		reason := string(next.Reason)
		if next.Reason == policy.NotKept || prev.Reason == policy.NotKept {
			_, reason = c.planned.Policy.Keeps(item)
		}
		c.addChange(next.Kind, item, reason, s.Name)
	}
	c.countNew(RegistrationTaintAdded, taintsNow, taintsPlanned, s.Name)
	c.countNew(RegistrationTaintDropped, taintsPlanned, taintsNow, s.Name)
	return nil
}

// countNew counts the taints that were not there before.
func (c *Comparison) countNew(kind ChangeKind, prev, next []corev1.Taint, node string) {
	for _, taint := range next {
		if !slices.Contains(prev, taint) {
			c.addChange(kind, taint.ToString(), "", node)
		}
	}
}

// addChange adds a Node to a change.
func (c *Comparison) addChange(kind ChangeKind, item, reason, node string) {
	key := changeKey{kind, item, reason}
	if change := c.changes.entry(key, maxChanges, Change{changeKey: key}); change != nil {
		change.add(node)
	}
}
