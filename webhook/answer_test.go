package webhook_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/webhook"
)

// The explanation is what the API server is answered.
func TestAnExplanationIsTheAnswerThatTheAPIServerGets(t *testing.T) {
	cases, err := os.ReadDir(goldenDir)
	require.NoError(t, err)
	patched := 0
	for _, dir := range cases {
		t.Run(dir.Name(), func(t *testing.T) {
			c := readGolden(t, filepath.Join(goldenDir, dir.Name()))
			answer := newHook(c.records, c.policy).review(t, c.review)
			review, err := webhook.DecodeReview(c.review)
			require.NoError(t, err)
			r, unreadable := c.known()

			explained, err := webhook.Explain(review.Request, r, unreadable, c.policy, time.Now())

			if answer.Patch == nil {
				assert.Empty(t, explained.Patch)
				return
			}
			patched++
			require.NoError(t, err)
			assert.Equal(t, c.request.Name, explained.Node)
			patch, err := json.Marshal(explained.Patch)
			require.NoError(t, err)
			assert.JSONEq(t, string(answer.Patch), string(patch))
		})
	}
	assert.Greater(t, patched, 20)
}

// known is the record of the case.
func (c golden) known() (r *record.Record, unreadable bool) {
	entry, err := c.records.Get(c.request.Name)
	if err != nil {
		return nil, errors.Is(err, store.ErrUnreadable)
	}
	return &entry.Record, false
}

func TestWhatTheSecondPassPutsInIsExplainedAsInline(t *testing.T) {
	c := readGolden(t, filepath.Join(goldenDir, "protected-labels-wait-behind-the-gate"))
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
