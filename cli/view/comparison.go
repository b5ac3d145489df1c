package view

import (
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/capture/gc"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/webhook"
)

// What is held of a comparison, however many Nodes there are.
const (
	firstNodes  = 5      // of each change
	mostChanges = 10_000 // in a cluster whose Nodes have keys of their own there are more
)

// Comparison holds a policy to the one that is in force, Node by Node. It keeps counts and a few names, no Nodes.
type Comparison struct {
	now, then capture.Circumstances

	impact  Impact
	records int
	changes map[changeKey]*Change
}

type changeKey struct {
	kind      ChangeKind
	item, why string
}

// NewComparison begins with no Node. now has the policy in force.
func NewComparison(now capture.Circumstances, then policy.Policy) *Comparison {
	c := &Comparison{now: now, then: now, changes: map[changeKey]*Change{}}
	c.then.Policy = then.After(now.Policy)
	before := now.Policy.Settings()
	for i, setting := range then.Settings() {
		if setting != before[i] {
			c.impact.Settings = append(c.impact.Settings, SettingChange{Field: setting.Field, Now: before[i].Value, Then: setting.Value})
		}
	}
	return c
}

// See counts what changes for one Node. An error means that its registration cannot be explained.
func (c *Comparison) See(s NodeState) error {
	if s.Record != nil || s.Unreadable != nil {
		c.records++
	}
	if s.Node != nil {
		c.impact.Nodes++
	}
	if s.presence() == Unreadable { // under both policies it is left alone
		c.impact.Unreadable++
		return nil
	}
	if s.Node == nil {
		c.impact.Gone++
		due := func(p policy.Policy) bool { return gc.Due(*s.Record, p.Retention(), c.now.Now) }
		c.impact.Due.see(due(c.now.Policy), due(c.then.Policy))
		return c.seeRegistration(s, s.Record, s.Record, nil)
	}
	_, now, done := s.settled(c.now)
	_, then, next := s.settled(c.then)
	c.countNew(PutOn, done.Put, next.Put, s.Name)
	c.countNew(TakenOff, done.Take, next.Take, s.Name)
	c.countNew(Blocked, done.Foreign, next.Foreign, s.Name)
	return c.seeRegistration(s, now, then, c.seeKept(s))
}

// Impact is what was counted.
func (c *Comparison) Impact() Impact {
	impact := c.impact
	for _, change := range c.changes {
		impact.Changes = append(impact.Changes, *change)
	}
	slices.SortFunc(impact.Changes, compareChanges)
	impact.SweepsAtMost = min(impact.Due.Then, gc.SweepsAtMost(gc.DefaultSweepFraction, c.records))
	return impact
}

// seeKept compares what is kept of a Node that is there. The items of which the policies say different things are returned: what
// becomes of them at a registration follows from that.
func (c *Comparison) seeKept(s NodeState) (differ map[string]bool) {
	differ = map[string]bool{}
	before, after := s.metadata(c.now), s.metadata(c.then)
	for item := range after.Items {
		now, then := c.now.Policy.Judge(before, item), c.then.Policy.Judge(after, item)
		if now.Keeps != then.Keeps {
			kind := Kept
			if now.Keeps {
				kind = Dropped
			}
			c.count(kind, item, then.Why(), s.Name)
			differ[item] = true
		}
	}
	return differ
}

// seeRegistration compares what the same machine gets when its kubelet registers it again, by the records that the two policies
// lead to. Items that were counted before are left out.
func (c *Comparison) seeRegistration(s NodeState, recordNow, recordThen *record.Record, counted map[string]bool) error {
	request, err := Registration(s, c.now)
	if err != nil {
		return err
	}
	now, err := registrationOf(request, s, recordNow, c.now.Policy)
	if err != nil {
		return err
	}
	then, err := registrationOf(request, s, recordThen, c.then.Policy)
	if err != nil {
		return err
	}
	c.impact.Waiting.see(now.waits, then.waits)
	for item, fate := range then.fates {
		before := now.fates[item]
		if counted[item] || fate == before {
			continue
		}
		why := string(fate.reason)
		if fate.reason == policy.NotKept || before.reason == policy.NotKept {
			_, why = c.then.Policy.Keeps(item)
		}
		c.count(fate.kind, item, why, s.Name)
	}
	c.countNew(Registered, now.taints, then.taints, s.Name)
	c.countNew(NotAnyMore, then.taints, now.taints, s.Name)
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
	key := changeKey{kind, item, why}
	change, known := c.changes[key]
	if !known {
		if len(c.changes) == mostChanges {
			c.impact.More++
			return
		}
		change = &Change{Kind: kind, Item: item, Why: why}
		c.changes[key] = change
	}
	change.Nodes++
	if len(change.First) < firstNodes {
		change.First = append(change.First, node)
	}
}

// fate is what becomes of a remembered item at a registration.
type fate struct {
	kind   ChangeKind
	reason policy.Reason
}

// registration is what becomes of all of them, and which taints the policy adds.
type registration struct {
	fates  map[string]fate
	taints []corev1.Taint
	waits  bool // behind the gate
}

func registrationOf(request *admissionv1.AdmissionRequest, s NodeState, known *record.Record, p policy.Policy) (registration, error) {
	answer, err := webhook.Explain(request, known, false, p)
	if err != nil {
		return registration{}, fmt.Errorf("explain a registration of node %q: %w", s.Name, err)
	}
	r := registration{fates: map[string]fate{}, waits: answer.GateOn}
	for kind, items := range map[ChangeKind]map[string]string{Restored: answer.Restored, Deferred: answer.Deferred, Inlined: answer.Inline} {
		for item := range items {
			r.fates[item] = fate{kind: kind}
			if pattern, _ := p.Defers(item); kind == Deferred && pattern != "" {
				r.fates[item] = fate{kind: Deferred, reason: policy.Reason("labels.defer has " + pattern)}
			}
		}
	}
	for item, reason := range answer.Withheld {
		r.fates[item] = fate{kind: NotGiven, reason: reason}
	}
	for _, taint := range answer.Taints {
		if s.Node == nil || p.Registers(record.TaintKey(taint)) { // of a live Node, rules are compared on the Node itself
			r.taints = append(r.taints, taint)
		}
	}
	return r, nil
}
