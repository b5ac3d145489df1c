package record_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/record"
)

func TestTheFirstIdentityThatIsKnownOfBothDecides(t *testing.T) {
	for name, c := range map[string]struct {
		a, b record.Machine
		want record.Identity
	}{
		"nothing known":                       {record.Machine{}, record.Machine{}, record.UnknownMachine},
		"nothing known of one":                {record.Machine{"p", "s", "m"}, record.Machine{}, record.UnknownMachine},
		"nothing in common":                   {record.Machine{ProviderID: "p"}, record.Machine{SystemUUID: "s"}, record.UnknownMachine},
		"all the same":                        {record.Machine{"p", "s", "m"}, record.Machine{"p", "s", "m"}, record.SameMachine},
		"another providerID":                  {record.Machine{"p", "s", "m"}, record.Machine{"q", "s", "m"}, record.OtherMachine},
		"the same providerID outweighs":       {record.Machine{"p", "s", "m"}, record.Machine{"p", "x", "y"}, record.SameMachine},
		"a cloned image has another system":   {record.Machine{"", "s", "m"}, record.Machine{"", "x", "m"}, record.OtherMachine},
		"a reinstalled system is the machine": {record.Machine{"", "s", "m"}, record.Machine{"", "s", "y"}, record.SameMachine},
		"only the machineID is known":         {record.Machine{"", "", "m"}, record.Machine{"p", "", "m"}, record.SameMachine},
		"only another machineID is known":     {record.Machine{"", "", "m"}, record.Machine{"p", "s", "y"}, record.OtherMachine},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, c.a.Compare(c.b))
			assert.Equal(t, c.want, c.b.Compare(c.a), "both ways")
		})
	}
}

func TestWhatIsKnownOfAMachineIsCompleted(t *testing.T) {
	assert.Equal(t, record.Machine{ProviderID: "p", SystemUUID: "s", MachineID: "m"}, record.Machine{SystemUUID: "s"}.Merge(record.Machine{ProviderID: "p", SystemUUID: "other", MachineID: "m"}))
}
