package view

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
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

// See counts what changes for one Node.
func (c *Comparison) See(s Sight) {
	if s.Record != nil || s.Unreadable != nil {
		c.records++
	}
	if s.Node != nil {
		c.impact.Nodes++
	}
	if s.Unreadable != nil { // neither policy has anything done about it
		c.impact.Unreadable++
		return
	}
	known := map[string]string{}
	if s.Record != nil {
		known = s.Record.Remembered()
	}
	if s.Node != nil {
		decided := c.seeKept(s, known)
		c.seeRules(s)
		c.seeRegistration(s, known, decided)
	} else {
		c.impact.Gone++
		c.seeDue(*s.Record)
		c.seeRegistration(s, known, nil)
	}
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

// seeKept compares what is kept of a Node that is there. What the other policy keeps more is known from then on; decided are
// the items of which that says all.
func (c *Comparison) seeKept(s Sight, known map[string]string) (decided map[string]bool) {
	decided = map[string]bool{}
	now := c.now.Keep(capture.Metadata(s.Record, s.Node, c.now)).Items
	then := c.then.Keep(capture.Metadata(s.Record, s.Node, c.then)).Items
	for item, value := range then {
		if _, kept := now[item]; !kept {
			c.count(Kept, item, c.why(item), s.Name)
			known[item], decided[item] = value, true
		}
	}
	for item := range now {
		if _, kept := then[item]; !kept {
			c.count(Dropped, item, c.why(item), s.Name)
			decided[item] = true
		}
	}
	return decided
}

// why the other policy keeps an item of a Node or does not: by its patterns, or by what the Node itself tells of the item.
func (c *Comparison) why(item string) string {
	before, _ := c.now.Keeps(item)
	after, why := c.then.Keeps(item)
	switch {
	case before != after:
		return why
	case policy.IsTaint(item):
		return "taints.rules"
	default:
		return "labels.ignoreManagers"
	}
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
	if capture.Due(record, c.now, c.at) {
		c.impact.Due.Now++
	}
	if capture.Due(record, c.then, c.at) {
		c.impact.Due.Then++
	}
}

// seeRegistration compares what the same machine gets when it registers again. Under another one's name it gets nothing until
// a person has decided, whatever the policy.
func (c *Comparison) seeRegistration(s Sight, known map[string]string, decided map[string]bool) {
	if s.Record != nil && s.Record.Quarantined != nil {
		return
	}
	now, then := registrationOf(s, known, c.now), registrationOf(s, known, c.then)
	if now.waits {
		c.impact.Waiting.Now++
	}
	if then.waits {
		c.impact.Waiting.Then++
	}
	for item, fate := range then.fates {
		if before := now.fates[item]; fate != before && !decided[item] {
			why := string(fate.reason)
			if fate.reason == policy.NotKept || before.reason == policy.NotKept {
				_, why = c.then.Keeps(item)
			}
			c.count(fate.kind, item, why, s.Name)
		}
	}
	c.countNew(Registered, now.taints, then.taints, s.Name)
	c.countNew(NotAnyMore, then.taints, now.taints, s.Name)
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
	waits  bool // behind the gate, for labels
}

// registrationOf is what a Node gets by a policy when its kubelet registers it and brings nothing of what is known.
func registrationOf(s Sight, known map[string]string, p policy.Policy) registration {
	machine := machineOf(s)
	restore := p.Missing(policy.Kept{Machine: machine}, policy.Kept{Items: known, Machine: machine}, policy.CreateByKubelet)
	r := registration{fates: map[string]fate{}, waits: len(restore.Protected) > 0 && !p.RestoresInline()}
	for item := range restore.Add {
		r.fates[item] = fate{kind: GivenBack}
	}
	for item := range restore.Protected {
		r.fates[item] = fate{kind: Deferred}
		if p.RestoresInline() {
			r.fates[item] = fate{kind: Inlined}
		}
	}
	for item, reason := range restore.Withheld {
		r.fates[item] = fate{kind: Withheld, reason: reason}
	}
	labels := maps.Clone(restore.Add)
	maps.Copy(labels, restore.Protected)
	_, restored := policy.Split(restore.Add)
	if s.Node != nil { // its rules' taints are looked at on the Node itself
		maps.Copy(labels, s.Node.Labels)
		r.taints = policy.FreeOf(p.RegistrationTaints(labels), restored)
	} else {
		r.taints = policy.FreeOf(slices.Concat(p.TaintsFor(labels), p.RegistrationTaints(labels)), restored)
	}
	return r
}

// machineOf is the machine behind the name.
func machineOf(s Sight) policy.Machine {
	if s.Node != nil {
		return policy.Machine{ProviderID: s.Node.Spec.ProviderID, SystemUUID: s.Node.Status.NodeInfo.SystemUUID, MachineID: s.Node.Status.NodeInfo.MachineID}
	}
	return policy.Machine(s.Record.Machine)
}
