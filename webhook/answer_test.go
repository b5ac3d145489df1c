package webhook_test

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/policy/policytest"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/webhook"
)

// requireExplained says that the explanation is what the API server is answered.
func (c *golden) requireExplained(t *testing.T, answer *admissionv1.AdmissionResponse) {
	t.Helper()
	r, unreadable := c.known()
	explained, err := webhook.Explain(c.request, r, unreadable, c.policy, time.Now())
	if answer.Patch == nil {
		assert.Empty(t, explained.Patch)
		return
	}
	require.NoError(t, err)
	assert.Equal(t, c.request.Name, explained.Node)
	assert.JSONEq(t, string(answer.Patch), string(marshal(t, explained.Patch)))
}

// known returns the record of the case.
func (c *golden) known() (r *record.Record, unreadable bool) {
	entry, err := c.records.Get(c.request.Name)
	if err != nil {
		return nil, errors.Is(err, store.ErrUnreadable)
	}
	return &entry.Record, false
}

func TestWhatTheSecondPassPutsInIsExplainedAsInline(t *testing.T) {
	c := readGolden(t, reviewsDir, "protected-labels-wait-behind-the-gate")
	r, _ := c.known()
	require.NotNil(t, r)
	deferred, err := webhook.Explain(c.request, r, false, c.policy, time.Now())
	require.NoError(t, err)
	require.NotEmpty(t, deferred.Deferred)
	assert.Empty(t, deferred.Inline)
	assert.True(t, deferred.GateOn)

	inline, err := webhook.Explain(c.request, r, false, c.policy.WithProtected(policy.Inline), time.Now())

	require.NoError(t, err)
	assert.Equal(t, deferred.Deferred, inline.Inline)
	assert.Equal(t, deferred.Patch, inline.Patch, "the first pass is the same")
	assert.False(t, inline.GateOn)
}

func TestLabelsOfRulesThatTheSecondPassPutsInAreExplainedAsInline(t *testing.T) {
	const role, infra = "node-role.kubernetes.io/worker", "node-role.kubernetes.io/infra"
	c := readGolden(t, reviewsDir, "the-node-has-no-labels-map")
	for name, test := range map[string]struct {
		policy               string
		remembered, restored map[string]string
		inline, later        []string
		gated                bool
	}{
		"a rule alone":                         {policy: "protected: inline", inline: []string{role}, later: []string{role}},
		"a rule and the record":                {policy: "protected: inline", remembered: map[string]string{infra: ""}, restored: map[string]string{infra: ""}, inline: []string{role}, later: []string{role}},
		"a rule, and labels.defer has its key": {policy: "protected: inline, defer: ['" + role + "']", later: []string{role}, gated: true},
		"a rule, and nothing is inline":        {policy: "protected: deferred", later: []string{role}, gated: true},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := policy.Load([]byte(policytest.Manifest("labels: {"+test.policy+", rules: [{name: roles, set: {"+role+": x}}]}\n")), policy.DefaultGate)
			require.NoError(t, err)
			r := record.New(c.request.Name, record.Object{}, test.remembered)

			explained, err := webhook.Explain(c.request, &r, false, p, time.Now())

			require.NoError(t, err)
			assert.Equal(t, test.restored, explained.Inline)
			assert.ElementsMatch(t, test.inline, slices.Collect(maps.Keys(explained.InlineRules)))
			assert.ElementsMatch(t, test.later, slices.Collect(maps.Keys(explained.DeferredRules)))
			assert.Equal(t, test.gated, explained.GateOn)
		})
	}
}
