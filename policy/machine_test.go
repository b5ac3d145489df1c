package policy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/record"

	"nodekeep.dev/nodekeep/policy/policytest"
)

func TestIsolationLabelsGoOnlyToTheMachineThatHadThem(t *testing.T) {
	const tier = "node-restriction.kubernetes.io/tier"
	p := loadPolicy(t, "labels: {keep: ['"+tier+"', plain]}\n")
	assert.True(t, p.WantsMachine())
	assert.False(t, Default().WantsMachine())
	assert.True(t, Default().WithRulesHeld(true).WantsMachine(), "rules that are there no more have set labels: on that machine, or on another")
	remembered := KeptItems{Items: map[string]string{tier: "gold", "plain": "1"}, Machine: record.Machine{SystemUUID: "s"}}
	for name, c := range map[string]struct {
		machine record.Machine
		given   bool
	}{
		"the same":        {record.Machine{SystemUUID: "s"}, true},
		"another":         {record.Machine{SystemUUID: "x"}, false},
		"nobody knows it": {record.Machine{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			restore := p.Restorable(KeptItems{Machine: c.machine}, remembered, Live)
			assert.Equal(t, "1", restore.Add["plain"])
			_, given := restore.Add[tier]
			assert.Equal(t, c.given, given)
			if !c.given {
				assert.Equal(t, NotSameMachine, restore.Withheld[tier])
			}
		})
	}
}

func TestWhatAMachineGetsOfARecordIsForThePolicyToSay(t *testing.T) {
	const quarantine, forget = "machine: {onMismatch: quarantine}\n", "machine: {onMismatch: forget}\n"
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	p := loadPolicy(t, quarantine)
	item, o := record.Machine{SystemUUID: "s"}, record.Machine{SystemUUID: "x"}
	assert.True(t, p.WantsMachine())
	fn := func(machine record.Machine, items map[string]string) record.Record {
		r := record.New("n", record.Object{UID: "u", Version: 5}, items)
		r.Machine = machine
		return r
	}
	label := map[string]string{"rack": "r1"}
	ruled := fn(o, nil)
	ruled.RuleLabels = map[string]record.RuleLabel{"tier": {Value: "gold", Rule: "tiers"}}
	waits := fn(o, label)
	waits.Followed, waits.Quarantined = "before", &record.Record{}
	for name, c := range map[string]struct {
		sections string
		r        record.Record
		want     Transition
	}{
		"another machine's":                         {quarantine, fn(o, label), Isolates},
		"its own":                                   {quarantine, fn(item, label), Stays},
		"of no machine that is known":               {quarantine, fn(record.Machine{}, label), Stays},
		"the name counts":                           {"", fn(o, label), Stays},
		"nothing is to be protected":                {quarantine, fn(o, nil), Stays},
		"a removal is nothing either":               {quarantine, record.Forget(fn(o, label), []string{"rack"}), Stays},
		"nor what the policy does not restore":      {quarantine + "labels: {ignore: [rack]}\n", fn(o, label), Stays},
		"what rules say, they say of any machine":   {quarantine, ruled, Stays},
		"what waits for an operator is protected":   {quarantine, waits, Isolates},
		"quarantined already":                       {quarantine, record.Isolate(fn(o, label), record.Machine{SystemUUID: "third"}, 8, record.EarlierRetention{}), Isolates},
		"quarantined, and the machine is here":      {quarantine, record.Isolate(fn(item, label), o, 8, record.EarlierRetention{}), Returns},
		"another machine's, to be forgotten":        {forget, fn(o, label), NewMachine},
		"its own, though others are to be":          {forget, fn(item, label), Stays},
		"nothing that could be forgotten":           {forget, fn(o, nil), Stays},
		"it had the name before":                    {forget, record.SetAside(fn(item, label), o, 8, record.EarlierRetention{Now: now}), Returns},
		"it had the name longer ago than retention": {forget + "retention: 1h\n", record.SetAside(fn(item, label), o, 8, record.EarlierRetention{Now: now.Add(-2 * time.Hour)}), Stays},
		"it had the name, which alone counts":       {"", record.SetAside(fn(item, label), o, 8, record.EarlierRetention{Now: now}), Stays},
	} {
		got, transition := loadPolicy(t, c.sections).Transition(item, c.r, 20, now)
		assert.Equal(t, c.want, transition, name)
		if transition == Stays {
			assert.Contains(t, []record.Version{c.r.Floor, 19}, got.Floor, name)
			c.r.Floor = got.Floor
			assert.Equal(t, c.r, got, name)
		} else {
			assert.Equal(t, record.Version(19), got.Floor, name)
			assert.Equal(t, item, got.Machine, name)
		}
	}

	isolated := record.Isolate(fn(o, label), item, 8, record.EarlierRetention{})
	for sections, want := range map[string]map[string]string{"": label, forget: {}} {
		released, ok := loadPolicy(t, sections).Releases(isolated, now)
		assert.True(t, ok)
		assert.Equal(t, want, released.Items(), "under %q", sections)
	}
	_, ok := p.Releases(isolated, now)
	assert.False(t, ok)
	_, ok = Default().Releases(fn(o, label), now)
	assert.False(t, ok)
	_, err := Load([]byte(policytest.Manifest("machine: {onMismatch: maybe, more: 1}\n")), DefaultGate)
	require.ErrorContains(t, err, "machine.onMismatch")
	require.ErrorContains(t, err, `unknown field "spec.machine.more"`)
}

func TestFollowingIsOptInAndIsTrueOrFalse(t *testing.T) {
	for name, c := range map[string]struct {
		section, wrong string
		follows        bool
	}{
		"nothing":      {"", "", false},
		"false":        {"machine: {follow: false}\n", "", false},
		"true":         {"machine: {follow: true}\n", "", true},
		"a text":       {"machine:\n  follow: 'true'\n", "machine.follow", false},
		"a number":     {"machine:\n  follow: 1\n", "machine.follow", false},
		"a wrong name": {"machine:\n  follows: true\n", "follows", false},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Load([]byte(policytest.Manifest(c.section)), DefaultGate)
			if c.wrong != "" {
				require.ErrorContains(t, err, c.wrong)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.follows, p.Follows())
			assert.Equal(t, c.follows, p.WantsMachine())
		})
	}
}
