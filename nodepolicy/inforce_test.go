package nodepolicy

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

func TestThePolicyInForceIsThatOfTheNodePolicyElseWhatWasAcceptedLastElseTheDefault(t *testing.T) {
	manifest := func(retention string) string {
		return `{"apiVersion":"nodekeep.dev/v1alpha1","kind":"NodePolicy","metadata":{"name":"default","uid":"U"},"spec":{"retention":"` + retention + `"},"status":{}}`
	}
	const wrong = "5s"
	accepted := func(newest, head string) map[string]string {
		return map[string]string{store.AcceptedPolicy: manifest(newest), store.AcceptedBefore: manifest(head)}
	}
	for name, c := range map[string]struct {
		object    string // its retention; empty: none
		accepted  map[string]string
		retention string
		copy      string
		wrong     string
		spoiled   bool
	}{
		"there is one":                             {"1h", accepted("2h", "3h"), "1h0m0s", "", "", false},
		"there is none":                            {"", accepted("2h", "3h"), "2h0m0s", "policy.json", "there is no NodePolicy default", false},
		"it cannot be used":                        {wrong, accepted("2h", "3h"), "2h0m0s", "policy.json", "spec.retention: Invalid value", false},
		"the last one cannot be used any more":     {"", accepted(wrong, "3h"), "3h0m0s", "before.json", "there is no NodePolicy", false},
		"nothing that was accepted can be used":    {"", accepted(wrong, wrong), "720h0m0s", "", "there is no NodePolicy", true},
		"nothing was accepted":                     {wrong, nil, "720h0m0s", "", "spec.retention", false},
		"there is one, and nothing was accepted":   {"1h", nil, "1h0m0s", "", "", false},
		"there is none, and nothing was accepted":  {"", nil, "720h0m0s", "", "there is no NodePolicy", false},
		"only which rules are in force, no policy": {"", map[string]string{store.RulesInForce: "none"}, "720h0m0s", "", "there is no NodePolicy", false},
	} {
		t.Run(name, func(t *testing.T) {
			var object []byte
			if c.object != "" {
				object = []byte(manifest(c.object))
			}
			in := InForceOf(object, c.accepted, policy.Gate("example.com/gate"))
			assert.Equal(t, c.retention, in.Policy.Retention().String())
			assert.Equal(t, policy.Gate("example.com/gate"), in.Policy.Gate())
			assert.Equal(t, c.copy, in.AcceptedKey)
			assert.Equal(t, c.spoiled, in.CopiesUnusable)
			if c.wrong == "" {
				assert.NoError(t, in.Problem)
			} else {
				require.ErrorContains(t, in.Problem, c.wrong)
			}
		})
	}
}
