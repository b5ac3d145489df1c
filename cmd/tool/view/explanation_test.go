package view

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/store"
)

func TestAnExplanationSaysWhyALabelIsDeferred(t *testing.T) {
	const role, judged = "node-role.kubernetes.io/worker", "node-role.kubernetes.io/judged"
	for name, c := range map[string]struct {
		policy string
		want   map[string]string
	}{
		"labels.defer": {"labels: {defer: ['dedi*', '*/judged']}", map[string]string{
			"dedicated": "deferred: labels.defer has dedi*; given back behind the gate",
			judged:      "deferred: labels.defer has */judged; given back behind the gate",
			role:        "deferred: given back behind the gate",
			"rack":      "restored",
		}},
		"labels.defer and inline": {"labels: {defer: [dedicated, '*/judged'], protected: inline}", map[string]string{
			"dedicated": "deferred: labels.defer has dedicated; given back behind the gate",
			judged:      "deferred: labels.defer has */judged; given back behind the gate",
			role:        "inline, where proved; else deferred",
			"rack":      "restored",
		}},
		"labels.defer and never": {"labels: {defer: [dedicated], protected: never}", map[string]string{
			"dedicated": "deferred: labels.defer has dedicated; given back behind the gate",
			judged:      "withheld: protected, and the policy says never",
			role:        "withheld: protected, and the policy says never",
			"rack":      "restored",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			record := store.Record{Node: "worker-1", Items: map[string]string{"dedicated": "ci", "rack": "r1", role: "", judged: ""}}
			sight, world := Sight{Name: "worker-1", Record: &record}, World{Policy: load(t, c.policy)}
			review, err := Registration(sight, world)
			require.NoError(t, err)
			explanation := Explain(sight, review, world)
			got := map[string]string{}
			for _, item := range explanation.Items {
				if item.Remembered != nil {
					got[item.Item] = item.Registration
				}
			}
			assert.Equal(t, c.want, got)
			assert.True(t, explanation.Registration.Gated)
		})
	}
}
