package view

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/nodepolicy"
	"nodekeep.dev/nodekeep/policy"
)

// inForceWith returns the policy of a NodePolicy of generation 4 with these sections and this status, which is JSON.
func inForceWith(t *testing.T, spec, status string) nodepolicy.InForce {
	t.Helper()
	object := `{"apiVersion": "nodekeep.dev/v1alpha1", "kind": "NodePolicy", "metadata": {"name": "default", "uid": "U1", "generation": 4}, "spec": ` + spec + `, "status": ` + status + `}`
	require.True(t, json.Valid([]byte(object)), object)
	in := nodepolicy.InForceOf([]byte(object), nil, policy.DefaultGate)
	require.NoError(t, in.Problem)
	return in
}

func TestASentenceNamesAFewOfTheProcessesThatHaveNotReadThePolicy(t *testing.T) {
	in := nodepolicy.InForce{Generation: 4}
	assert.Equal(t, "Not read yet by verify-7f9: the policy's generation 4.", OldPolicySentence(in, []string{"verify-7f9"}))
	assert.Equal(t, "Not read yet by a, b, c: the policy's generation 4.", OldPolicySentence(in, []string{"a", "b", "c"}))
	assert.Equal(t, "Not read yet by a, b, c and 2 more: the policy's generation 4.", OldPolicySentence(in, []string{"a", "b", "c", "d", "e"}))
}

func TestUntilWhenRulesOnlyAddLabels(t *testing.T) {
	const rules = `{"labels": {"rules": [{"name": "a", "set": {"tier": "one"}}]}}`
	hash := inForceWith(t, rules, "{}").Policy.RulesHash()
	const automatic = "until capture has counted on how many Nodes they remove or change labels, within a minute; then it puts them in force, or holds them"
	assert.Equal(t, automatic, HeldUntil(inForceWith(t, rules, "{}"), ""))
	assert.Equal(t, automatic, HeldUntil(inForceWith(t, rules, `{"held": {"rules": "0123456789ab", "nodes": 4}}`), "none"), "others were held")
	held := inForceWith(t, rules, `{"held": {"rules": "`+hash+`", "nodes": 4}}`)
	assert.Equal(t, "until nodekeep accept rules "+hash, HeldUntil(held, "none"))
	assert.Equal(t, "until capture carries out that they were accepted, within a minute", HeldUntil(held, hash))
	const finishing = `{"labels": {"migrations": [{"from": "a", "to": "b", "phase": "new"}]}}`
	hash = inForceWith(t, finishing, "{}").Policy.RulesHash()
	assert.Equal(t, "until nodekeep accept migration a=b", HeldUntil(inForceWith(t, finishing, `{"held": {"rules": "`+hash+`", "nodes": 4}}`), ""))
}

func TestASentenceSaysWhatIsInForceInsteadOfTheNodePolicy(t *testing.T) {
	assert.Equal(t, "none was accepted before, so the default policy is in force", InForceInstead(nodepolicy.InForce{}))
	assert.Equal(t, "what was accepted last stays in force (key before.json of ConfigMap nodekeep-accepted)", InForceInstead(nodepolicy.InForce{AcceptedKey: "before.json"}))
	assert.Equal(t, "what was accepted before cannot be used either, so the default policy is in force (ConfigMap nodekeep-accepted)", InForceInstead(nodepolicy.InForce{CopiesUnusable: true}))
}
