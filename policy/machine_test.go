package policy

import (
	"testing"

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

func TestOnlyAPolicyThatSaysSoQuarantines(t *testing.T) {
	p := loadPolicy(t, "machine: {onMismatch: quarantine}\n")
	one, other := record.Machine{SystemUUID: "s"}, record.Machine{SystemUUID: "x"}
	assert.True(t, p.WantsMachine())
	of := func(machine record.Machine, items map[string]string) record.Record {
		r := record.New("n", record.Object{UID: "u", Version: 5}, items)
		r.Machine = machine
		return r
	}
	label := map[string]string{"rack": "r1"}
	assert.True(t, p.Quarantines(one, of(other, label)))
	assert.False(t, p.Quarantines(one, of(one, label)))
	assert.False(t, p.Quarantines(one, of(record.Machine{}, label)))
	assert.False(t, Default().Quarantines(one, of(other, label)))
	assert.False(t, p.Quarantines(one, of(other, nil)), "there is nothing to protect")
	assert.False(t, p.Quarantines(one, record.Forget(of(other, label), []string{"rack"})), "a removal is nothing either")
	assert.False(t, loadPolicy(t, "machine: {onMismatch: quarantine}\nlabels: {ignore: [rack]}\n").Quarantines(one, of(other, label)), "nor what the policy does not restore")
	ruled := of(other, nil)
	ruled.Derived = map[string]record.Derived{"tier": {Value: "gold", Rule: "tiers"}}
	assert.False(t, p.Quarantines(one, ruled), "what rules say, they say of any machine")
	assert.True(t, p.Quarantines(one, record.Record{Machine: other, Quarantined: &record.Record{}}))

	isolated := record.Isolate(of(other, label), record.Observation{UID: "v", Version: 9}, one)
	assert.False(t, p.Releases(isolated))
	assert.True(t, Default().Releases(isolated))
	assert.False(t, Default().Releases(of(other, label)))
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
