package nodestate_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/cli/nodestate/statetest"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

func TestWhyALabelIsKeptNamesWhoSetIt(t *testing.T) {
	const zone = "topology.kubernetes.io/zone"
	for name, c := range map[string]struct {
		key      string
		managers []string
		owners   record.Owners // by the record
		restored bool
		keeps    bool
		reason   string
	}{
		"an operator":                      {"a", []string{"kubectl"}, "", false, true, "labels.keep has *; set by kubectl"},
		"a manager whose name is a letter": {"a", []string{"k"}, "", false, true, "labels.keep has *; set by k, not a known client of operators"},
		"two":                              {"a", []string{"agent", "kubectl"}, "", false, true, "labels.keep has *; set by agent, kubectl"},
		"nobody that is known":             {"a", nil, "", false, true, "labels.keep has *"},
		"one that the record has":          {"a", nil, "Update kubectl\nUpdate agent", false, true, "labels.keep has *; set by agent, kubectl"},
		"one that only the record has yet": {"a", []string{"ancient-changes"}, "Apply agent", false, true, "labels.keep has *; set by agent, not a known client of operators"},
		"nodekeep, as the record has it":   {"a", []string{"kubectl"}, "Update kubectl", true, true, "labels.keep has *; set by kubectl; restored: the record has it"},
		"a zone by an operator":            {zone, []string{"kubectl"}, "", false, true, "managedFields show only kubectl, a client of operators"},
		"a zone by nodekeep":               {zone, nil, "Update kubectl", true, true, "the record has it as an operator's; set by kubectl"},
		"what is not kept":                 {"a", []string{"kubelet"}, "", false, false, "managedFields show only kubelet, which sets it again by itself"},
	} {
		t.Run(name, func(t *testing.T) {
			s := statetest.Present("worker-1", map[string]string{c.key: "1"})
			for _, manager := range c.managers {
				s.Node.ManagedFields = append(s.Node.ManagedFields, statetest.EntryOf(manager, c.key))
			}
			s.Record.Entries[0].Owners = c.owners
			if c.restored {
				s.Node.Annotations = map[string]string{policy.StampAnnotation: record.Stamp{}.Merge(map[string]string{c.key: "1"}, *s.Record, 0).String()}
			}
			keeps, reason := s.Judge(statetest.Under(statetest.Load(t, ""))).Explain(c.key)
			assert.Equal(t, c.keeps, keeps)
			assert.Equal(t, c.reason, reason)
		})
	}
}
