package view

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTheImpactOfAPolicySaysWhatWouldHappen(t *testing.T) {
	for name, c := range map[string]struct {
		impact          Impact
		gate, retention string
	}{
		"nothing is different": {
			Impact{},
			"at their next registration, 0 Nodes would wait behind it, as under the policy in force",
			"0 records of deleted Nodes would be removed, as under the policy in force",
		},
		"more Nodes wait, and more records are due": {
			Impact{Waiting: Count{Now: 0, Then: 1}, Due: Count{Now: 1, Then: 30}, SweepsAtMost: 3},
			"at their next registration, 1 Node would wait behind it; under the policy in force, 0",
			"30 records of deleted Nodes would be removed; under the policy in force, 1; the next sweep would remove 3, where --retention-fraction is 0.1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var d Document
			c.impact.document(&d)
			facts := map[string]string{}
			for _, fact := range d.Facts {
				facts[fact.Name] = fact.Value
			}
			assert.Equal(t, c.gate, facts["Gate"])
			assert.Equal(t, c.retention, facts["Retention"])
		})
	}
}
