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
	assert.True(t, Default().Holding(true).WantsMachine(), "rules that are there no more have set labels: on that machine, or on another")
	remembered := Kept{Items: map[string]string{tier: "gold", "plain": "1"}, Machine: record.Machine{SystemUUID: "s"}}
	for name, c := range map[string]struct {
		machine record.Machine
		given   bool
	}{
		"the same":        {record.Machine{SystemUUID: "s"}, true},
		"another":         {record.Machine{SystemUUID: "x"}, false},
		"nobody knows it": {record.Machine{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			restore := p.Restorable(Kept{Machine: c.machine}, remembered, Live)
			assert.Equal(t, "1", restore.Add["plain"])
			_, given := restore.Add[tier]
			assert.Equal(t, c.given, given)
			if !c.given {
				assert.Equal(t, NotProved, restore.Withheld[tier])
			}
		})
	}
}

func TestWhatAMachineGetsOfARecordIsForThePolicyToSay(t *testing.T) {
	const quarantine, forget = "machine: {onMismatch: quarantine}\n", "machine: {onMismatch: forget}\n"
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	p := loadPolicy(t, quarantine)
	one, other := record.Machine{SystemUUID: "s"}, record.Machine{SystemUUID: "x"}
	assert.True(t, p.WantsMachine())
	of := func(machine record.Machine, items map[string]string) record.Record {
		r := record.New("n", record.Object{UID: "u", Version: 5}, items)
		r.Machine = machine
		return r
	}
	label := map[string]string{"rack": "r1"}
	ruled := of(other, nil)
	ruled.Derived = map[string]record.Derived{"tier": {Value: "gold", Rule: "tiers"}}
	waits := of(other, label)
	waits.Followed, waits.Quarantined = "before", &record.Record{}
	for name, c := range map[string]struct {
		sections string
		r        record.Record
		want     Turn
	}{
		"another machine's":                         {quarantine, of(other, label), Isolates},
		"its own":                                   {quarantine, of(one, label), Stays},
		"of no machine that is known":               {quarantine, of(record.Machine{}, label), Stays},
		"the name counts":                           {"", of(other, label), Stays},
		"nothing is to be protected":                {quarantine, of(other, nil), Stays},
		"a removal is nothing either":               {quarantine, record.Forget(of(other, label), []string{"rack"}), Stays},
		"nor what the policy does not restore":      {quarantine + "labels: {ignore: [rack]}\n", of(other, label), Stays},
		"what rules say, they say of any machine":   {quarantine, ruled, Stays},
		"what waits for an operator is protected":   {quarantine, waits, Isolates},
		"quarantined already":                       {quarantine, record.Isolate(of(other, label), record.Machine{SystemUUID: "third"}, 8, record.Keeping{}), Isolates},
		"quarantined, and the machine is here":      {quarantine, record.Isolate(of(one, label), other, 8, record.Keeping{}), Returns},
		"another machine's, to be forgotten":        {forget, of(other, label), Begins},
		"its own, though others are to be":          {forget, of(one, label), Stays},
		"nothing that could be forgotten":           {forget, of(other, nil), Stays},
		"it had the name before":                    {forget, record.SetAside(of(one, label), other, 8, record.Keeping{Now: now}), Returns},
		"it had the name longer ago than retention": {forget + "retention: 1h\n", record.SetAside(of(one, label), other, 8, record.Keeping{Now: now.Add(-2 * time.Hour)}), Stays},
		"it had the name, which alone counts":       {"", record.SetAside(of(one, label), other, 8, record.Keeping{Now: now}), Stays},
	} {
		got, turn := loadPolicy(t, c.sections).Turn(one, c.r, 20, now)
		assert.Equal(t, c.want, turn, name)
		if turn == Stays {
			assert.Contains(t, []record.Version{c.r.Floor, 19}, got.Floor, name)
			c.r.Floor = got.Floor
			assert.Equal(t, c.r, got, name)
		} else {
			assert.Equal(t, record.Version(19), got.Floor, name)
			assert.Equal(t, one, got.Machine, name)
		}
	}

	isolated := record.Isolate(of(other, label), one, 8, record.Keeping{})
	for sections, want := range map[string]map[string]string{"": label, forget: {}} {
		released, is := loadPolicy(t, sections).Releases(isolated, now)
		assert.True(t, is)
		assert.Equal(t, want, released.Items(), "under %q", sections)
	}
	_, is := p.Releases(isolated, now)
	assert.False(t, is)
	_, is = Default().Releases(of(other, label), now)
	assert.False(t, is)
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
