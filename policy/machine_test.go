package policy

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/record"
)

func TestTheFirstIdentityThatIsKnownOfBothDecides(t *testing.T) {
	for name, c := range map[string]struct {
		a, b Machine
		want Identity
	}{
		"nothing known":                       {Machine{}, Machine{}, record.UnknownMachine},
		"nothing known of one":                {Machine{"p", "s", "m"}, Machine{}, record.UnknownMachine},
		"nothing in common":                   {Machine{ProviderID: "p"}, Machine{SystemUUID: "s"}, record.UnknownMachine},
		"all the same":                        {Machine{"p", "s", "m"}, Machine{"p", "s", "m"}, record.SameMachine},
		"another providerID":                  {Machine{"p", "s", "m"}, Machine{"q", "s", "m"}, record.OtherMachine},
		"the same providerID outweighs":       {Machine{"p", "s", "m"}, Machine{"p", "x", "y"}, record.SameMachine},
		"a cloned image has another system":   {Machine{"", "s", "m"}, Machine{"", "x", "m"}, record.OtherMachine},
		"a reinstalled system is the machine": {Machine{"", "s", "m"}, Machine{"", "s", "y"}, record.SameMachine},
		"only the machineID is known":         {Machine{"", "", "m"}, Machine{"p", "", "m"}, record.SameMachine},
		"only another machineID is known":     {Machine{"", "", "m"}, Machine{"p", "s", "y"}, record.OtherMachine},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, c.a.Compare(c.b))
			assert.Equal(t, c.want, c.b.Compare(c.a), "both ways")
		})
	}
}

func TestIsolationLabelsGoOnlyToTheMachineThatHadThem(t *testing.T) {
	const tier = "node-restriction.kubernetes.io/tier"
	p, err := Load([]byte("apiVersion: nodekeep.dev/v1alpha1\nkind: Policy\nlabels: {keep: ['"+tier+"', plain]}\n"), DefaultGate)
	require.NoError(t, err)
	assert.True(t, p.WantsMachine())
	assert.False(t, Default().WantsMachine())
	remembered := Kept{Items: map[string]string{tier: "gold", "plain": "1"}, Machine: Machine{SystemUUID: "s"}}
	for name, c := range map[string]struct {
		machine Machine
		given   bool
	}{
		"the same":        {Machine{SystemUUID: "s"}, true},
		"another":         {Machine{SystemUUID: "x"}, false},
		"nobody knows it": {Machine{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			restore := p.Missing(Kept{Machine: c.machine}, remembered, Live)
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
	p, err := Load([]byte("apiVersion: nodekeep.dev/v1alpha1\nkind: Policy\nmachine: {onMismatch: quarantine}\n"), DefaultGate)
	require.NoError(t, err)
	one, other := Machine{SystemUUID: "s"}, Machine{SystemUUID: "x"}
	assert.True(t, p.WantsMachine())
	assert.True(t, p.Quarantines(one, other))
	assert.False(t, p.Quarantines(one, one))
	assert.False(t, p.Quarantines(one, Machine{}))
	assert.False(t, Default().Quarantines(one, other))
	_, err = Load([]byte("apiVersion: nodekeep.dev/v1alpha1\nkind: Policy\nmachine: {onMismatch: maybe, more: 1}\n"), DefaultGate)
	require.ErrorContains(t, err, "machine.onMismatch")
	require.ErrorContains(t, err, `unknown field "machine.more"`)
}
