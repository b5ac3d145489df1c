package view

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/cli/impact"
)

func TestTheImpactOfAPolicySaysWhatWouldHappen(t *testing.T) {
	for name, c := range map[string]struct {
		impact          impact.Impact
		gate, retention string
	}{
		"nothing is different": {
			impact.Impact{},
			"at their next registration, 0 Nodes would wait behind it, as under the policy in force",
			"0 records of deleted Nodes would be removed, as under the policy in force",
		},
		"more Nodes wait, and more records are due": {
			impact.Impact{Waiting: impact.NowAndPlanned{Now: 0, Planned: 1}, Due: impact.NowAndPlanned{Now: 1, Planned: 30}, SweepsAtMost: 3},
			"at their next registration, 1 Node would wait behind it; under the policy in force, 0",
			"30 records of deleted Nodes would be removed; under the policy in force, 1; the next sweep would remove 3, where --retention-fraction is 0.1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var d Document
			d.addImpact(c.impact)
			facts := map[string]string{}
			for _, fact := range d.Facts {
				facts[fact.Name] = fact.Value
			}
			assert.Equal(t, c.gate, facts["Gate"])
			assert.Equal(t, c.retention, facts["Retention"])
		})
	}
}

func TestATableShowsWhereLongValuesDiffer(t *testing.T) {
	match := strings.Repeat("x", 1000)
	now, outcome := excerpts(impact.SettingChange{Now: match + "one", Planned: match + "two" + match})
	assert.Equal(t, "..."+match[:50]+"one", now)
	assert.True(t, strings.HasPrefix(outcome, "..."+match[:50]+"twox"), outcome)
	assert.Len(t, outcome, 3+longestSetting+3)
	now, outcome = excerpts(impact.SettingChange{Planned: "b"})
	assert.Equal(t, []string{"-", "b"}, []string{now, outcome})
}

func TestTheTextNamesFactsThatAreMissing(t *testing.T) {
	var d Document
	d.addImpact(impact.Impact{Missing: []impact.MissingFact{{Description: "rule gpu asks for capacity.nvidia.com/gpu, which none of 3 Nodes has", Next: "Correct the name."}}})
	assert.Contains(t, text(d), "Note: rule gpu asks for capacity.nvidia.com/gpu, which none of 3 Nodes has. Correct the name.")
}

func TestEachKindOfChangeHasWords(t *testing.T) {
	for _, kind := range impact.ChangeKinds() {
		assert.NotEmpty(t, changeText(kind), kind)
	}
}
