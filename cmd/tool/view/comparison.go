package view

import (
	"fmt"
	"maps"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/webhook"
)

// What is held of a comparison, however many Nodes there are.
const (
	firstNodes  = 5      // of each change
	mostChanges = 10_000 // in a cluster whose Nodes have keys of their own there are more
)

// Comparison holds a policy to the one that is in force, Node by Node. It keeps counts and a few names, no Nodes.
type Comparison struct {
	now, then policy.Policy
	at        time.Time

	impact  Impact
	records int
	changes map[changeKey]*Change
}

type changeKey struct {
	kind      ChangeKind
	item, why string
}

// NewComparison begins with no Node.
func NewComparison(now, then policy.Policy, at time.Time) *Comparison {
	c := &Comparison{now: now, then: then.After(now), at: at, changes: map[changeKey]*Change{}}
	before := now.Settings()
	for i, setting := range then.Settings() {
		if setting != before[i] {
			c.impact.Settings = append(c.impact.Settings, SettingChange{Field: setting.Field, Now: before[i].Value, Then: setting.Value})
		}
	}
	return c
}

// See counts what changes for one Node. An error means that what was read of it makes no sense.
func (c *Comparison) See(s Sight) error {
	if s.Record != nil || s.Unreadable != nil {
		c.records++
	}
	if s.Node != nil {
		c.impact.Nodes++
	}
	if s.presence() == Unreadable { // neither policy has anything done about it
		c.impact.Unreadable++
		return nil
	}
	if s.Node == nil {
		c.impact.Gone++
		c.seeDue(*s.Record)
		return c.seeRegistration(s, nil)
	}
	c.seeRules(s)
	return c.seeRegistration(s, c.seeKept(s))
}

// Impact is what was counted.
func (c *Comparison) Impact() Impact {
	impact := c.impact
	for _, change := range c.changes {
		impact.Changes = append(impact.Changes, *change)
	}
	slices.SortFunc(impact.Changes, compareChanges)
	impact.SweepsAtMost = min(impact.Due.Then, capture.SweepsAtMost(capture.DefaultSweepFraction, c.records))
	return impact
}

// seeKept compares what is kept of a Node that is there. The items of which the policies say different things are returned: what
// becomes of them at a registration follows from that.
func (c *Comparison) seeKept(s Sight) (differ map[string]string) {
	differ = map[string]string{}
	before, after := capture.Metadata(s.Record, s.Node, c.now), capture.Metadata(s.Record, s.Node, c.then)
	for item, value := range after.Items {
		now, then := c.now.Judge(before, item), c.then.Judge(after, item)
		switch {
		case then.Keeps && !now.Keeps:
			c.count(Kept, item, then.Why(), s.Name)
			differ[item] = value
		case now.Keeps && !then.Keeps:
			c.count(Dropped, item, then.Why(), s.Name)
			differ[item] = value
		}
	}
	return differ
}

// seeRules compares what the rules do to the taints of a Node that is there.
func (c *Comparison) seeRules(s Sight) {
	put, take, foreign := capture.RuleChanges(s.Record, s.Node, c.now)
	thenPut, thenTake, thenForeign := capture.RuleChanges(s.Record, s.Node, c.then)
	c.countNew(PutOn, put, thenPut, s.Name)
	c.countNew(TakenOff, take, thenTake, s.Name)
	c.countNew(Blocked, foreign, thenForeign, s.Name)
}

// seeDue compares whether sweeps collect the record of a Node that is gone.
func (c *Comparison) seeDue(record store.Record) {
	if capture.Due(record, c.now.Retention(), c.at) {
		c.impact.Due.Now++
	}
	if capture.Due(record, c.then.Retention(), c.at) {
		c.impact.Due.Then++
	}
}

// seeRegistration compares what the same machine gets when its kubelet registers it again.
func (c *Comparison) seeRegistration(s Sight, differ map[string]string) error {
	request, err := Registration(s, World{Policy: c.now})
	if err != nil {
		return err
	}
	now, err := registrationOf(request, s, s.Record, c.now)
	if err != nil {
		return err
	}
	then, err := registrationOf(request, s, withItems(s, differ), c.then)
	if err != nil {
		return err
	}
	if now.waits {
		c.impact.Waiting.Now++
	}
	if then.waits {
		c.impact.Waiting.Then++
	}
	for item, fate := range then.fates {
		before := now.fates[item]
		if _, told := differ[item]; told || fate == before {
			continue
		}
		why := string(fate.reason)
		if fate.reason == policy.NotKept || before.reason == policy.NotKept {
			_, why = c.then.Keeps(item)
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

func registrationOf(request *admissionv1.AdmissionRequest, s Sight, record *store.Record, p policy.Policy) (registration, error) {
	answer, err := webhook.Explain(request, record, false, p)
	if err != nil {
		return registration{}, fmt.Errorf("explain a registration of node %q: %w", s.Name, err)
	}
	r := registration{fates: map[string]fate{}, waits: answer.GateOn}
	for item := range answer.Restored {
		r.fates[item] = fate{kind: GivenBack}
	}
	for item := range answer.Deferred {
		r.fates[item] = fate{kind: Deferred}
		if pattern, _ := p.Defers(item); pattern != "" {
			r.fates[item] = fate{kind: Deferred, reason: policy.Reason("labels.defer has " + pattern)}
		}
	}
	for item := range answer.Inline {
		r.fates[item] = fate{kind: Inlined}
	}
	for item, reason := range answer.Withheld {
		r.fates[item] = fate{kind: Withheld, reason: reason}
	}
	for _, taint := range answer.Taints {
		if s.Node == nil || p.Registers(policy.TaintItem(taint)) { // rules are looked at on the Node itself, where there is one
			r.taints = append(r.taints, taint)
		}
	}
	return r, nil
}

// withItems is the record of a Node once more of what it shows is remembered.
func withItems(s Sight, items map[string]string) *store.Record {
	if len(items) == 0 {
		return s.Record
	}
	record := store.Record{Node: s.Name, Machine: store.Machine(s.machine())}
	if s.Record != nil {
		record = *s.Record
	}
	all := maps.Clone(items)
	maps.Copy(all, record.Items)
	record.Items = all
	return &record
}
