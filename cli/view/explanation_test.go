package view

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/cli/nodestate"
	"nodekeep.dev/nodekeep/cli/nodestate/statetest"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

// explained explains a Node as nodekeep explain does.
func explained(t *testing.T, s nodestate.State, inputs plan.Inputs) Explanation {
	t.Helper()
	review, err := s.Registration(inputs)
	require.NoError(t, err)
	return Explain(s, review, inputs)
}

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
			gone, inputs := statetest.State(nil, statetest.Recorded(set{"dedicated": "ci", "rack": "r1", role: "", judged: ""}, statetest.GoneSince(time.Hour))), statetest.Under(statetest.Load(t, c.policy))
			explanation := explained(t, gone, inputs)
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

func TestAnExplanationSaysHowALabelOfARuleIsSet(t *testing.T) {
	const role = "node-role.kubernetes.io/worker"
	for name, c := range map[string]struct {
		labels, key, says string
		gated             bool
	}{
		"ordinary":                   {"protected: inline", "tier", "set by rule roles: x", false},
		"protected":                  {"protected: deferred", role, "deferred: set by rule roles behind the gate: x", true},
		"protected, inline":          {"protected: inline", role, "set by rule roles inline, where proved; else deferred: x", false},
		"inline and in labels.defer": {"protected: inline, defer: ['" + role + "']", role, "deferred: set by rule roles behind the gate: x", true},
	} {
		t.Run(name, func(t *testing.T) {
			e := explained(t, statetest.State(nil, nil), statetest.Under(statetest.Load(t, "labels: {"+c.labels+", rules: [{name: roles, set: {"+c.key+": x}}]}\n")))
			i := slices.IndexFunc(e.Items, func(item ExplainedItem) bool { return item.Item == c.key })
			require.GreaterOrEqual(t, i, 0)
			assert.Equal(t, c.says, e.Items[i].Registration)
			assert.Equal(t, c.gated, e.Registration.Gated)
		})
	}
}

func TestAnExplanationSaysNothingOfWhatCaptureWritesWhereTheRecordCannotBeRead(t *testing.T) {
	spoiled := nodestate.State{Name: "n1", Node: statetest.Live(set{"a": "1"}), Unreadable: errors.New("it is not JSON")}
	explanation := explained(t, spoiled, statetest.Under(statetest.Load(t, "")))
	assert.Equal(t, "it is not JSON", explanation.Problem)
	assert.Nil(t, explanation.Capture, "capture leaves it alone")
}

func factsOf(e Explanation) map[string]string {
	facts := map[string]string{}
	for _, fact := range e.Document(time.Time{}).Facts {
		facts[fact.Name] = fact.Value
	}
	return facts
}

func TestAnExplanationOfANodeSaysWhatWouldBeAndOneOfAReviewWhatIs(t *testing.T) {
	s, inputs := statetest.State(statetest.Live(set{"rack": "r1"}), statetest.Recorded(set{"rack": "r1", "dedicated": "ci"})), statetest.Under(statetest.Load(t, ""))
	e := explained(t, s, inputs)
	assert.Contains(t, factsOf(e)["If it registers"], "by system:node:n1: the webhook would restore all that there is to restore. The webhook would remove the gate")
	assert.NotContains(t, factsOf(e), "Registration")

	verb := factsOf(e)["Capture now"]
	assert.Equal(t, verb, factsOf(e.WithCaptureStatus(CaptureStatus{}))["Capture now"], "one leads")
	assert.Equal(t, "no capture has led for 5m, so this is not done: "+verb, factsOf(e.WithCaptureStatus(CaptureStatus{LeaderlessFor: 5 * time.Minute}))["Capture now"])
	e.Capture.Step = string(capture.NoStep)
	assert.Equal(t, "no capture has ever led; one would have nothing to do", factsOf(e.WithCaptureStatus(CaptureStatus{NeverLed: true}))["Capture now"])

	e.Status = "" // as of a review
	assert.Contains(t, factsOf(e)["Registration"], "by system:node:n1: the webhook restores all that there is to restore. The webhook removes the gate")
}

func TestWhatBecomesOfARegistrationIsSaidInWords(t *testing.T) {
	const zero, brought, combined, added = 0, 1, 2, 3 // gates: of the Node in the review, and once it is stored
	gates := func(r ExplainedReview, gate int) ExplainedReview {
		r.CameGated, r.Gated = gate == brought || gate == combined, gate == combined || gate == added
		return r
	}
	for name, test := range map[string]struct {
		review                 ExplainedReview
		gate                   int
		infinitive, indicative string
	}{
		"all is restored, and the gate is removed": {
			ExplainedReview{Outcome: "restored"}, brought,
			"the webhook would restore all that there is to restore. The webhook would remove the gate",
			"the webhook restores all that there is to restore. The webhook removes the gate",
		},
		"all is restored, and there is no gate": {
			ExplainedReview{Outcome: "restored"}, zero,
			"the webhook would restore all that there is to restore. The Node would have no gate",
			"the webhook restores all that there is to restore. The Node has no gate",
		},
		"nothing is missing, and the gate is removed": {
			ExplainedReview{Outcome: "nothing_missing"}, brought,
			"there would be nothing to restore. The webhook would remove the gate",
			"there is nothing to restore. The webhook removes the gate",
		},
		"nothing is missing, and there is no gate": {
			ExplainedReview{Outcome: "nothing_missing"}, zero,
			"there would be nothing to restore. The Node would have no gate", "there is nothing to restore. The Node has no gate",
		},
		"capture restores some, behind the gate that is there": {
			ExplainedReview{Outcome: "deferred"}, combined,
			"the webhook would set what it may, and capture the rest. The gate would stay until capture removes it",
			"the webhook sets what it may, and capture the rest. The gate stays until capture removes it",
		},
		"capture restores some, behind a gate of the webhook's": {
			ExplainedReview{Outcome: "deferred"}, added,
			"the webhook would set what it may, and capture the rest. The webhook would put the gate on, and it would stay until capture removes it",
			"the webhook sets what it may, and capture the rest. The webhook puts the gate on, and it stays until capture removes it",
		},
		"some waits for an operator": {
			ExplainedReview{Outcome: "deferred", AwaitsOperator: true}, combined,
			"the webhook would restore what it may, and the rest would wait for nodekeep accept record. The gate would stay until nodekeep accept record",
			"the webhook restores what it may, and the rest waits for nodekeep accept record. The gate stays until nodekeep accept record",
		},
		"protected labels are restored at once, where that works": {
			ExplainedReview{Outcome: "deferred"}, brought,
			"where protected: inline is proved, the webhook would set all that is missing, and would leave no gate. " +
				"Otherwise capture would set protected labels behind the gate",
			"where protected: inline is proved, the webhook sets all that is missing, and leaves no gate. " +
				"Otherwise capture sets protected labels behind the gate",
		},
		"the record cannot be read, and there is a gate": {
			ExplainedReview{Outcome: "unreadable_record"}, combined,
			"the webhook would restore nothing, since the record cannot be read. The gate would stay while the record cannot be read",
			"the webhook restores nothing, since the record cannot be read. The gate stays while the record cannot be read",
		},
		"the record cannot be read, and there is no gate": {
			ExplainedReview{Outcome: "unreadable_record"}, zero,
			"the webhook would restore nothing, since the record cannot be read. The Node would have no gate",
			"the webhook restores nothing, since the record cannot be read. The Node has no gate",
		},
		"another machine has the name, and there is a gate": {
			ExplainedReview{Outcome: "other_machine", AwaitsOperator: true}, combined,
			"the webhook would restore nothing, since another machine has the name. The gate would stay until nodekeep accept record",
			"the webhook restores nothing, since another machine has the name. The gate stays until nodekeep accept record",
		},
		"another machine has the name, and there is no gate": {
			ExplainedReview{Outcome: "other_machine", AwaitsOperator: true}, zero,
			"the webhook would restore nothing, since another machine has the name. The Node would have no gate",
			"the webhook restores nothing, since another machine has the name. The Node has no gate",
		},
		"another machine has the name, and a side is accepted": {
			ExplainedReview{Outcome: "other_machine"}, combined,
			"the webhook would restore nothing, since another machine has the name. The gate would stay until capture removes it",
			"the webhook restores nothing, since another machine has the name. The gate stays until capture removes it",
		},
		"the Node has no room": {
			ExplainedReview{Outcome: "too_large"}, added,
			"the webhook would add no labels and taints, since the Node would be too large with them. The webhook would put the gate on, and it would stay until capture removes it",
			"the webhook adds no labels and taints, since the Node is too large with them. The webhook puts the gate on, and it stays until capture removes it",
		},
	} {
		t.Run(name, func(t *testing.T) {
			test.review.User = "would remove"
			review := gates(test.review, test.gate)
			assert.Equal(t, "by would remove: "+test.infinitive, review.text(true))
			assert.Equal(t, "by would remove: "+test.indicative, review.text(false), "the name of a user stays as it is")
			for _, status := range []nodestate.Status{"", nodestate.Present} {
				e := Explanation{Status: status, Registration: review}
				e.Registration.Emergency = true
				facts := factsOf(e)
				assert.Contains(t, facts["Emergency"], "does not call the webhook for a new Node, and puts no gate on it")
				assert.Equal(t, "by would remove: "+test.infinitive, facts["After the emergency"])
				assert.NotContains(t, facts, "If it registers")
				assert.NotContains(t, facts, "Registration")
			}
		})
	}
	passes := ExplainedReview{Outcome: "not_ours", PassReason: "it has no name"}
	assert.Equal(t, "would pass as it is: it has no name", passes.text(true))
	assert.Equal(t, "passes as it is: it has no name", passes.text(false))
}

// What is said of the gate is compared with what the webhook does to the object.
func TestAnExplanationSaysOfTheGateWhatTheWebhookDoes(t *testing.T) {
	p := statetest.Load(t, "machine: {onMismatch: quarantine}\n")
	waits := statetest.Recorded(set{"rack": "r1"})
	waits.Quarantined = &record.Record{Node: "n1", Machine: record.Machine{ProviderID: "aws:///b"}}
	for name, c := range map[string]struct {
		state nodestate.State
		says  map[bool]string // by whether the Node in the review has the gate
	}{
		"nothing is recorded":      {statetest.State(nil, nil), map[bool]string{true: "removes the gate", false: "has no gate"}},
		"all is restored":          {statetest.State(nil, statetest.Recorded(set{"rack": "r1"}, statetest.GoneSince(time.Hour))), map[bool]string{true: "removes the gate", false: "has no gate"}},
		"some is deferred":         {statetest.State(nil, statetest.Recorded(set{"node-role.kubernetes.io/w": ""}, statetest.GoneSince(time.Hour))), map[bool]string{true: "The gate stays", false: "puts the gate on"}},
		"the record is unreadable": {nodestate.State{Name: "n1", Unreadable: errors.New("torn")}, map[bool]string{true: "The gate stays", false: "has no gate"}},
		"another machine is there": {statetest.State(nil, waits), map[bool]string{true: "The gate stays", false: "has no gate"}},
	} {
		for gated, says := range c.says {
			for _, emergency := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, gated %t, emergency %t", name, gated, emergency), func(t *testing.T) {
					inputs := statetest.Under(p)
					request, err := c.state.Registration(inputs)
					require.NoError(t, err)
					if !gated {
						request.Object.Raw = bytes.ReplaceAll(request.Object.Raw, []byte(`{"key":"nodekeep.dev/restoring","effect":"NoSchedule"}`), nil)
					}
					require.Equal(t, gated, bytes.Contains(request.Object.Raw, []byte("nodekeep.dev/restoring")))
					inputs.Policy = inputs.Policy.WithEmergency(emergency)
					e := ExplainReview(c.state, request, inputs)
					assert.Equal(t, emergency, e.Registration.Emergency)
					assert.Contains(t, e.Registration.text(false), says)
				})
			}
		}
	}
}

func TestOnceASideIsAcceptedAnExplanationSaysAsTheListOfGatesThatCaptureIsAwaited(t *testing.T) {
	const role = "node-role.kubernetes.io/worker"
	p := statetest.Load(t, "machine: {onMismatch: quarantine}\n")
	isolated := statetest.Recorded(set{"rack": "r1"}, statetest.Quarantining(set{"rack": "r2"}))
	isolated.Quarantined.Machine = record.Machine{ProviderID: "aws:///b"}
	followed := statetest.Recorded(set{"rack": "r1"}, statetest.Quarantining(set{role: ""}))
	followed.Followed = "n0"
	require.True(t, isolated.WholeRecordQuarantined())
	require.False(t, followed.WholeRecordQuarantined())
	for name, r := range map[string]*record.Record{"another machine": isolated, "a record that was followed": followed} {
		for _, side := range []store.Side{"", store.OldMachine, store.NewMachine} {
			t.Run(name+" "+string(side), func(t *testing.T) {
				s, inputs := statetest.State(statetest.Live(nil, gatedFor(time.Hour)), r), statetest.Under(p)
				s.StoreEntry.AcceptedSide = side
				silent := CaptureStatus{LeaderlessFor: time.Hour}
				gated, ok := GatedOf(s, inputs, silent)
				require.True(t, ok)
				e := explained(t, s, inputs).WithCaptureStatus(silent)
				text, waits := e.Registration.text(true), ""
				for _, item := range e.Items {
					if item.Item == role {
						waits = item.Registration
					}
				}
				assert.Equal(t, side == "", e.Registration.AwaitsOperator)
				if side == "" {
					assert.Contains(t, gated.Next, "nodekeep accept record n1")
					assert.Contains(t, text, "The gate would stay until nodekeep accept record")
					assert.True(t, r.WholeRecordQuarantined() || waits == "not restored: waits for nodekeep accept record", waits)
					return
				}
				assert.Equal(t, "no capture has led for 60m", gated.Reason)
				assert.Contains(t, text, "The gate would stay until capture removes it")
				assert.Contains(t, e.Problem, "an operator has accepted the "+string(side)+" machine")
				assert.NotContains(t, text, "nodekeep accept record")
				assert.True(t, r.WholeRecordQuarantined() || waits == "not restored: waits for capture to act on nodekeep accept record", waits)
				assert.Contains(t, factsOf(e)["Capture now"], "no capture has led for 60m, so this is not done: ")
			})
		}
	}
}

func TestAnExplanationInAnEmergencySaysWhichTaintsARegistrationGetsAfterIt(t *testing.T) {
	inputs := statetest.Under(statetest.Load(t, "taints: {register: [{taint: 'new:NoSchedule'}]}\n").WithEmergency(true))
	s := statetest.State(nil, nil)
	request, err := s.Registration(inputs)
	require.NoError(t, err)
	for _, item := range Explain(s, request, inputs).Items {
		if item.Item == "new:NoSchedule" {
			assert.Equal(t, "added at registration", item.Registration)
			return
		}
	}
	assert.Fail(t, "the taint is missing")
}

func TestACellThatHasNothingToSayIsADash(t *testing.T) {
	table := tableOf("A", "B", "C")
	addRow(table, "", "x", 0)
	assert.Equal(t, []any{"-", "x", 0}, table.Rows[0].Cells)
}

func TestAnExplanationSaysWhatANodeWithoutARecordFollows(t *testing.T) {
	for want, follow := range map[string]*nodestate.FollowDecision{
		"":                                 nil,
		"not known: forbidden":             {Reason: "not known: forbidden", Unknown: true},
		"nothing: no record":               {Reason: "no record"},
		"the record of node old: the same": {Node: "old", Reason: "the same"},
		"the record of node old: the same; waits for nodekeep accept record then: a, b": {Node: "old", Reason: "the same", Waits: []string{"a", "b"}},
		"taints alone (t:NoSchedule): two records":                                      {Reason: "two records", Taints: []string{"t:NoSchedule"}},
	} {
		assert.Equal(t, want, factsOf(Explanation{Follows: follow})["Follows"])
	}
}

func TestAnExplanationOfABootDoesNotSpeakOfTheRecord(t *testing.T) {
	labels := set{"a": "1"}
	s := statetest.State(statetest.Live(labels, rebooted), statetest.Recorded(labels))
	assert.Equal(t, "notes the boot", factsOf(explained(t, s, statetest.Under(statetest.Load(t, ""))))["Capture now"])
}
