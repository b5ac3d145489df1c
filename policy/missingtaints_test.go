package policy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMissingTaints(t *testing.T) {
	const (
		role     = "node-role.kubernetes.io/control-plane"
		isolated = "node-restriction.kubernetes.io/tier"
		stored   = "labels: {onConflict: restoreStored}"
		never    = "labels: {protected: never}"
	)
	type values = map[string]string
	type reasons = map[string]Reason
	tests := map[string]struct {
		file             string // what the policy file says
		have, remembered values
		occasion         Occasion
		want             Restore // nil maps stand for empty ones
	}{
		"a taint that the Node has":                    {"", values{"a:NoSchedule": "1"}, values{"a:NoSchedule": "1"}, CreateByKubelet, Restore{}},
		"a taint that the Node lacks":                  {"", nil, values{"a:NoSchedule": "1"}, CreateByKubelet, Restore{Add: values{"a:NoSchedule": "1"}}},
		"a taint without a value":                      {"", nil, values{"a:NoSchedule": ""}, CreateByOther, Restore{Add: values{"a:NoSchedule": ""}}},
		"a Node that lives lacks it":                   {"", nil, values{"a:NoSchedule": "1"}, Live, Restore{Add: values{"a:NoSchedule": "1"}}},
		"another effect of the key is another taint":   {"", values{"a:NoExecute": "1"}, values{"a:NoSchedule": "1"}, CreateByKubelet, Restore{Add: values{"a:NoSchedule": "1"}}},
		"a label of the key is another thing":          {"", values{"a": "2"}, values{"a:NoSchedule": "1"}, CreateByKubelet, Restore{Add: values{"a:NoSchedule": "1"}}},
		"a taint of the key is no label":               {"", values{"a:NoSchedule": "2"}, values{"a": "1"}, CreateByKubelet, Restore{Add: values{"a": "1"}}},
		"the Node's own value wins at CREATE":          {"", values{"a:NoSchedule": "2"}, values{"a:NoSchedule": "1"}, CreateByKubelet, Restore{Withheld: reasons{"a:NoSchedule": Conflict}}},
		"an empty value on the Node is a value":        {"", values{"a:NoSchedule": ""}, values{"a:NoSchedule": "1"}, CreateByOther, Restore{Withheld: reasons{"a:NoSchedule": Conflict}}},
		"the Node's own value wins later":              {"", values{"a:NoSchedule": "2"}, values{"a:NoSchedule": "1"}, Live, Restore{Withheld: reasons{"a:NoSchedule": Conflict}}},
		"the stored value wins where so decided":       {stored, values{"a:NoSchedule": "2"}, values{"a:NoSchedule": "1"}, CreateByKubelet, Restore{Add: values{"a:NoSchedule": "1"}}},
		"the same on anyone else's CREATE":             {stored, values{"a:NoSchedule": "2"}, values{"a:NoSchedule": "1"}, CreateByOther, Restore{Add: values{"a:NoSchedule": "1"}}},
		"but never on a Node that lives":               {stored, values{"a:NoSchedule": "2"}, values{"a:NoSchedule": "1"}, Live, Restore{Withheld: reasons{"a:NoSchedule": Conflict}}},
		"a role's taint need not wait as its label":    {"", nil, values{role + ":NoSchedule": "", role: ""}, CreateByKubelet, Restore{Add: values{role + ":NoSchedule": ""}, Protected: values{role: ""}}},
		"never is for labels":                          {never, nil, values{role + ":NoSchedule": "", role: ""}, CreateByKubelet, Restore{Add: values{role + ":NoSchedule": ""}, Withheld: reasons{role: NeverRestored}}},
		"never is for labels, also on anyone's CREATE": {never, nil, values{role + ":NoSchedule": ""}, CreateByOther, Restore{Add: values{role + ":NoSchedule": ""}}},
		"never is for labels, also for capture":        {never, nil, values{role + ":NoSchedule": ""}, Live, Restore{Add: values{role + ":NoSchedule": ""}}},
		"an isolation key is a plain taint":            {"", nil, values{isolated + ":NoSchedule": "gold"}, CreateByKubelet, Restore{Add: values{isolated + ":NoSchedule": "gold"}}},
		"it needs no proof of the machine":             {"labels: {keep: [node-restriction.kubernetes.io/*]}", nil, values{isolated + ":NoSchedule": "gold", isolated: "gold"}, Live, Restore{Add: values{isolated + ":NoSchedule": "gold"}, Withheld: reasons{isolated: NotProved}}},
		"a taint that is no longer kept":               {"taints: {ignore: [a]}", nil, values{"a:NoSchedule": "1"}, Live, Restore{Withheld: reasons{"a:NoSchedule": NotKept}}},
		"a taint that others own by now":               {"", nil, values{"karpenter.sh/x:NoSchedule": "1"}, CreateByKubelet, Restore{Withheld: reasons{"karpenter.sh/x:NoSchedule": NotKept}}},
		"a taint that is added once by now":            {`taints: {register: [{taint: "a=1:NoSchedule"}]}`, nil, values{"a:NoSchedule": "1", "a:NoExecute": "1"}, CreateByKubelet, Restore{Add: values{"a:NoExecute": "1"}, Withheld: reasons{"a:NoSchedule": NotKept}}},
		"the gate that a client wrote into a record":   {"", nil, values{"nodekeep.dev/restoring:NoSchedule": ""}, CreateByKubelet, Restore{Withheld: reasons{"nodekeep.dev/restoring:NoSchedule": NotKept}}},
		"a taint that a rule would make by now":        {`taints: {rules: [{selector: a, taint: "a={value}:NoSchedule"}]}`, nil, values{"a:NoSchedule": "1"}, Live, Restore{Add: values{"a:NoSchedule": "1"}}},
		"not kept comes before the conflict":           {"taints: {ignore: [a]}", values{"a:NoSchedule": "2"}, values{"a:NoSchedule": "1"}, Live, Restore{Withheld: reasons{"a:NoSchedule": NotKept}}},
		"values, keys and effects that are none": {
			"", nil,
			values{"a:NoSchedule": "two words", "b:Sometimes": "1", "c:": "1", ":NoSchedule": "1", "d:e:NoSchedule": "1", "Ex.com/f:NoExecute": "1", "g:NoExecute": strings.Repeat("x", 64), "h:NoExecute": "1"}, CreateByKubelet,
			Restore{Add: values{"h:NoExecute": "1"}, Withheld: reasons{"a:NoSchedule": Invalid, "b:Sometimes": Invalid, "c:": Invalid, ":NoSchedule": Invalid, "d:e:NoSchedule": Invalid, "Ex.com/f:NoExecute": Invalid, "g:NoExecute": Invalid}},
		},
		"invalid comes before everything": {"taints: {ignore: ['*']}", values{"a:NoSchedule": "2"}, values{"a:NoSchedule": "!"}, Live, Restore{Withheld: reasons{"a:NoSchedule": Invalid}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p, err := Load([]byte(head+tt.file), DefaultGate)
			require.NoError(t, err)
			got := p.Restorable(Kept{Items: tt.have}, Kept{Items: tt.remembered}, tt.occasion)
			assert.Equal(t, orEmpty(tt.want.Add), got.Add)
			assert.Equal(t, orEmpty(tt.want.Protected), got.Protected)
			assert.Equal(t, orEmpty(tt.want.Withheld), got.Withheld)
		})
	}
}

func TestAnIsolationKeyIsOneForLabelsOnly(t *testing.T) {
	assert.True(t, IsNodeRestriction("node-restriction.kubernetes.io/tier"))
	assert.False(t, IsNodeRestriction("node-restriction.kubernetes.io/tier:NoSchedule"))
	assert.False(t, IsNodeRestriction("team.node-restriction.kubernetes.io/tier:NoSchedule"))
}
