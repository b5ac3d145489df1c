package view

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/capture"
)

func TestAnExplanationSaysWhyALabelIsDeferred(t *testing.T) {
	const role, judged = "node-role.kubernetes.io/worker", "node-role.kubernetes.io/judged"
	for name, c := range map[string]struct {
		policy string
		want   map[string]string
	}{
		"labels.defer": {"labels: {defer: ['dedi*', '*/judged']}", map[string]string{
			"dedicated": "deferred: labels.defer has dedi*; restored behind the gate",
			judged:      "deferred: labels.defer has */judged; restored behind the gate",
			role:        "deferred: restored behind the gate",
			"rack":      "restored",
		}},
		"labels.defer and inline": {"labels: {defer: [dedicated, '*/judged'], protected: inline}", map[string]string{
			"dedicated": "deferred: labels.defer has dedicated; restored behind the gate",
			judged:      "deferred: labels.defer has */judged; restored behind the gate",
			role:        "inline, where proved; else deferred",
			"rack":      "restored",
		}},
		"labels.defer and never": {"labels: {defer: [dedicated], protected: never}", map[string]string{
			"dedicated": "deferred: labels.defer has dedicated; restored behind the gate",
			judged:      "not restored: protected, and the policy says never",
			role:        "not restored: protected, and the policy says never",
			"rack":      "restored",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			gone, in := state(nil, recorded(set{"dedicated": "ci", "rack": "r1", role: "", judged: ""}, goneSince(time.Hour))), under(load(t, c.policy))
			explanation := explained(t, gone, in)
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

func TestAnExplanationSaysNothingOfWhatCaptureWritesWhereTheRecordCannotBeRead(t *testing.T) {
	spoiled := NodeState{Name: "n1", Node: live(set{"a": "1"}), Unreadable: errors.New("it is not JSON")}
	explanation := explained(t, spoiled, under(load(t, "")))
	assert.Equal(t, "it is not JSON", explanation.Problem)
	assert.Nil(t, explanation.Capture, "capture leaves it alone")
}

func TestAnExplanationOfANodeSaysWhatWouldBeAndOneOfAReviewWhatIs(t *testing.T) {
	s, in := state(live(set{"rack": "r1"}), recorded(set{"rack": "r1", "dedicated": "ci"})), under(load(t, ""))
	e := explained(t, s, in)
	factsOf := func(e Explanation) map[string]string {
		facts := map[string]string{}
		for _, fact := range e.Document(time.Time{}).Facts {
			facts[fact.Name] = fact.Value
		}
		return facts
	}
	assert.Contains(t, factsOf(e)["If it registers"], "by system:node:n1: the webhook would restore all that is missing. The webhook would remove the gate")
	assert.NotContains(t, factsOf(e), "Registration")

	does := factsOf(e)["Capture now"]
	assert.Equal(t, does, factsOf(e.Under(Captures{}))["Capture now"], "one leads")
	assert.Equal(t, "no capture has led for 5m, so this is not done: "+does, factsOf(e.Under(Captures{Silent: 5 * time.Minute}))["Capture now"])
	e.Capture.Step = string(capture.Nothing)
	assert.Equal(t, "no capture has ever led; one would have nothing to do", factsOf(e.Under(Captures{Never: true}))["Capture now"])

	e.Status = "" // as of a review
	assert.Contains(t, factsOf(e)["Registration"], "by system:node:n1: the webhook restores all that is missing. The webhook removes the gate")
}

func TestWhatBecomesOfARegistrationIsSaidInWords(t *testing.T) {
	for name, test := range map[string]struct {
		review    ExplainedReview
		would, is string
	}{
		"capture restores some": {
			ExplainedReview{User: "u", Outcome: "deferred", Gated: true},
			"by u: the webhook would restore what it may, and capture the rest. The gate would stay until then",
			"by u: the webhook restores what it may, and capture the rest. The gate stays until then",
		},
		"nothing is missing, and capture must look": {
			ExplainedReview{Outcome: "nothing_missing", Gated: true},
			"by nobody: nothing would be missing. The gate would stay until capture removes it",
			"by nobody: nothing is missing. The gate stays until capture removes it",
		},
		"protected labels are restored at once": {
			ExplainedReview{User: "u", Outcome: "restored_inline"},
			"by u: the webhook would restore all that is missing, protected labels included. The webhook would remove the gate",
			"by u: the webhook restores all that is missing, protected labels included. The webhook removes the gate",
		},
		"protected labels are restored at once, where that works": {
			ExplainedReview{User: "u", Outcome: "deferred"},
			"by u: where protected: inline is proved, the webhook would restore all that is missing. Otherwise capture would restore protected labels behind the gate",
			"by u: where protected: inline is proved, the webhook restores all that is missing. Otherwise capture restores protected labels behind the gate",
		},
		"it is not for the webhook": {
			ExplainedReview{Outcome: "not_ours", Passes: "it has no name"}, "would pass as it is: it has no name", "passes as it is: it has no name",
		},
		"an outcome without words": {ExplainedReview{User: "u", Outcome: "not_ready"}, "by u: not ready. The webhook would remove the gate", "by u: not ready. The webhook removes the gate"},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, test.would, test.review.text(true))
			assert.Equal(t, test.is, test.review.text(false))
		})
	}
}

func TestACellThatHasNothingToSayIsADash(t *testing.T) {
	table := tableOf("A", "B", "C")
	add(table, "", "x", 0)
	assert.Equal(t, []any{"-", "x", 0}, table.Rows[0].Cells)
}
