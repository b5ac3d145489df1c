package classify

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"nodekeep.dev/nodekeep/record"
)

func TestRulesTakeFactsOfInventoriesAndChangeNothingWhereTheseAreNotKnown(t *testing.T) {
	rules, errs := Compile([]Rule{
		{Name: "rack", Set: map[string]string{"rack": "{inventory.cmdb.rack}"}},
		{Name: "dense", Condition: Condition{Clause: Clause{Inventory: map[string]string{"cmdb.model": "R7*"}}}, Set: map[string]string{"density": "high"}},
		{Name: "rest", Set: map[string]string{"density": "low"}},
		{Name: "row", Condition: Condition{Clause: Clause{Labels: "rack=r7"}}, Set: map[string]string{"row": "a"}},
	}, field.NewPath("rules"))
	require.Empty(t, errs)
	prev := map[string]record.RuleLabel{"rack": {Value: "r1", Rule: "rack"}, "density": {Value: "high", Rule: "dense"}, "row": {Value: "b", Rule: "row"}}
	type values = map[string]string
	for name, c := range map[string]struct {
		inventory map[string]map[string]string
		want      values
	}{
		"known":                    {map[string]map[string]string{"cmdb": {"rack": "r7", "model": "R740"}}, values{"rack": "r7", "density": "high", "row": "a"}},
		"not read":                 {nil, values{"rack": "r1", "density": "high", "row": "a"}},
		"one attribute not read":   {map[string]map[string]string{"cmdb": {"model": "R640"}}, values{"rack": "r1", "density": "low", "row": "a"}},
		"the Node has none":        {map[string]map[string]string{"cmdb": {"rack": "", "model": ""}}, values{"density": "low"}},
		"a value that no label is": {map[string]map[string]string{"cmdb": {"rack": "r 7!", "model": "R740"}}, values{"rack": "r1", "density": "high", "row": "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			result := rules.Evaluate(Facts{Name: "a", Inventory: c.inventory}, prev, time.Now())
			got, listed := values{}, []string{}
			for key, label := range result.Labels {
				got[key] = label.Value
				if label.Rule != "rest" { // rule row selects on a label that follows from the inventory
					listed = append(listed, key)
				}
			}
			assert.Equal(t, c.want, got)
			assert.ElementsMatch(t, listed, rules.FromInventory(result))
		})
	}
}
