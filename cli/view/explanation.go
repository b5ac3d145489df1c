package view

import (
	"errors"

	jsonpatch "gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"

	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/cli/impact"
	"nodekeep.dev/nodekeep/cli/nodestate"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/webhook"
)

// Explanation shows for each label and taint of a Node and of its record whether it is kept, and why. It also shows what a registration would get.
type Explanation struct {
	Node         string                    `json:"node,omitempty"`
	Status       nodestate.Status          `json:"status,omitempty"`
	Problem      string                    `json:"problem,omitempty"`    // why nothing may be taken from the record
	Unverified   string                    `json:"unverified,omitempty"` // why the Node takes no workloads, where verification is why
	Follows      *nodestate.FollowDecision `json:"follows,omitempty"`    // where there is no record and the policy follows machines
	Registration ExplainedReview           `json:"registration"`
	Capture      *ExplainedCapture         `json:"capture,omitempty"` // where there is a Node
	Items        []ExplainedItem           `json:"items"`
	// Violations are the rules of governance that the labels of a Node which is there break.
	Violations []string `json:"violations,omitempty"`
	// RulesHeld are the rules, by their hash, that must not remove or change labels yet.
	RulesHeld string `json:"rulesHeld,omitempty"`
	// RulesHeldUntil says what ends that.
	RulesHeldUntil string `json:"rulesHeldUntil,omitempty"`
	// Rules is what each rule for labels says of each of its keys, of a Node that is there.
	Rules []ExplainedRule `json:"rules,omitempty"`
	// Inventories are the sources that rules use.
	Inventories []ExplainedInventory `json:"inventories,omitempty"`
}

// ExplainedReview is what becomes of the CREATE of the Node.
type ExplainedReview struct {
	User       string `json:"user"`
	Kubelet    bool   `json:"kubelet"`          // it counts as the Node's own kubelet's
	Outcome    string `json:"outcome"`          // as in nodekeep_webhook_reviews_total
	PassReason string `json:"passes,omitempty"` // why the Node passes as it is
	// CameGated says that the Node in the review has the gate.
	CameGated bool `json:"cameGated"`
	Gated     bool `json:"gated"` // once it is stored
	// AwaitsOperator says that an operator must accept the old or the new machine (nodekeep accept record), and that the gate waits for it.
	AwaitsOperator bool `json:"awaitsOperator,omitempty"`
	// Emergency says that one is declared. This is then what would become of the review afterwards.
	Emergency bool                  `json:"emergency,omitempty"`
	Patch     []jsonpatch.Operation `json:"patch,omitempty"`
}

// ExplainedCapture is what capture would do about the live Node now.
type ExplainedCapture struct {
	Step         string            `json:"step"`
	Restore      map[string]string `json:"restore,omitempty"`
	Correct      map[string]string `json:"correct,omitempty"`
	Remove       []string          `json:"remove,omitempty"`
	AddTaints    []string          `json:"addTaints,omitempty"`    // taints of rules, and those that a new Node gets once
	RemoveTaints []string          `json:"removeTaints,omitempty"` // taints of rules
	LiftGate     bool              `json:"liftGate,omitempty"`
	RuleSets     map[string]string `json:"ruleSets,omitempty"`    // labels that rules set
	RuleRemoves  []string          `json:"ruleRemoves,omitempty"` // labels of rules that no rule wants any more
	Outage       string            `json:"outage,omitempty"`      // why nothing of this is done: no capture leads; empty: one does, as far as is known
}

// ExplainedItem is one label or taint.
type ExplainedItem struct {
	Kind         string   `json:"kind"`
	Item         string   `json:"item"`             // a label's key, a taint's key and effect
	OnNode       *string  `json:"onNode,omitempty"` // the value that the Node shows
	Remembered   *string  `json:"remembered,omitempty"`
	Managers     []string `json:"managers,omitempty"` // that have set it, by managedFields, else by the record
	Kept         bool     `json:"kept"`
	Reason       string   `json:"why"`
	Claims       []string `json:"claims,omitempty"` // components that say in an annotation of the Node that they set it
	Registration string   `json:"registration"`
}

// Explain looks at a Node and its record, and at a review of its registration.
func Explain(s nodestate.State, request *admissionv1.AdmissionRequest, inputs plan.Inputs) Explanation {
	e, _ := explain(s, request, inputs)
	return e
}

// ExplainReview explains a given review: what the Node shows is what the Node in the review has.
func ExplainReview(s nodestate.State, request *admissionv1.AdmissionRequest, inputs plan.Inputs) Explanation {
	e, answer := explain(s, request, inputs)
	e.Status = ""
	for i := range e.Items {
		e.Items[i].OnNode = nodestate.ValueIn(answer.Brought, e.Items[i].Item)
	}
	return e
}

func explain(s nodestate.State, request *admissionv1.AdmissionRequest, inputs plan.Inputs) (Explanation, webhook.Explanation) {
	e := Explanation{Node: s.Name, Status: s.Status(inputs), Problem: recordProblem(s, inputs), Unverified: UnverifiedText(s.Node, inputs.Policy), Follows: s.FollowDecision}
	answer, err := webhook.Explain(request, s.RegistrationRecord(), s.Unreadable != nil, inputs.Policy.WithEmergency(false), inputs.Now)
	e.Registration = ExplainedReview{
		User: request.UserInfo.Username, Kubelet: answer.Kubelet, Outcome: answer.Outcome, CameGated: answer.GateBrought, Gated: answer.GateOn,
		AwaitsOperator: awaits(s, answer), Emergency: inputs.Policy.InEmergency(), Patch: answer.Patch,
	}
	switch {
	case errors.Is(err, webhook.ErrNotOurs):
		e.Registration.Outcome, e.Registration.PassReason = "not_ours", err.Error()
	case err != nil:
		e.Registration.Outcome, e.Registration.PassReason = "malformed_node", err.Error()
	}
	e.Violations = violationsText(s, inputs)
	if s.Node != nil && s.Unreadable == nil { // capture leaves a record alone that it cannot read
		e.Capture, e.Rules = explainCapture(s, inputs)
		if inputs.Policy.RulesHeld() {
			e.RulesHeld = inputs.Policy.RulesHash()
		}
	}
	e.Items = explainItems(s, answer, inputs)
	return e, answer
}

// violationsText returns which rules of governance a Node breaks, as sentences.
func violationsText(s nodestate.State, inputs plan.Inputs) (all []string) {
	for _, violation := range s.Violations(inputs) {
		all = append(all, violation.String()+" ("+string(violation.Mode)+")")
	}
	return all
}

// recordProblem reports why nothing may be taken from the record.
func recordProblem(s nodestate.State, inputs plan.Inputs) string {
	switch {
	case s.Unreadable != nil:
		return s.Unreadable.Error()
	case s.Record != nil && s.Record.Quarantined != nil && s.StoreEntry.AcceptedSide != "":
		return "an operator has accepted the " + string(s.StoreEntry.AcceptedSide) + " machine; nothing more is restored before capture acts on it"
	case s.Record != nil && s.Record.Quarantined != nil && !s.Record.WholeRecordQuarantined():
		return "labels of the record of node " + s.Record.Followed + " that no kubelet may set wait for an operator: nodekeep accept record " + s.Name + " --machine old|new"
	case s.Record != nil && s.Record.WholeRecordQuarantined():
		return "another machine has taken the name; nothing is restored before an operator accepts a side"
	case s.Node == nil || s.Record == nil:
		return ""
	}
	if _, transition := inputs.Policy.Transition(s.Machine(), *s.Record, 0, inputs.Now); transition == policy.Isolates || transition == policy.NewMachine {
		return "the Node is on another machine than the recorded one"
	}
	return ""
}

func explainCapture(s nodestate.State, inputs plan.Inputs) (*ExplainedCapture, []ExplainedRule) {
	var steps []classify.Step
	inputs.Trace = &steps
	next, _, last := s.Simulate(inputs)
	corrected, rules := next.WithCause(plan.CauseCorrection), next.RuleEdits()
	return &ExplainedCapture{
		Step: string(next.Step), Restore: next.WithCause(plan.CauseRecord).Values(), Correct: corrected.Values(), Remove: corrected.Removed(),
		AddTaints: nodestate.SortedItems(next.WithCause(plan.CauseDerivedTaint, plan.CauseRegistrationTaint).Values()), RemoveTaints: next.WithCause(plan.CauseDerivedTaint).Removed(), LiftGate: next.LiftsGate(),
		RuleSets: rules.Values(), RuleRemoves: rules.Removed(),
	}, explainRules(s, steps, last)
}

func explainItems(s nodestate.State, answer webhook.Explanation, inputs plan.Inputs) []ExplainedItem {
	judged, remembered, waiting := s.Judge(inputs), nodestate.ItemsOf(s.Record), s.ItemsAwaitingOperator()
	all := nodestate.SortedItems(judged.Items(), remembered, waiting, answer.Brought, answer.Restored, taintItems(answer.Taints), ruleValues(answer.Rules), ruleValues(answer.DeferredRules))
	explained := make([]ExplainedItem, 0, len(all))
	claims := claimsOn(s)
	for _, item := range all {
		registration := registrationText(item, answer, inputs.Policy)
		if _, waits := waiting[item]; waits && registration == "-" {
			registration = "not restored: waits for nodekeep accept record"
			if s.StoreEntry.AcceptedSide != "" {
				registration = "not restored: waits for capture to act on nodekeep accept record"
			}
		}
		keeps, reason := judged.Explain(item)
		explained = append(explained, ExplainedItem{
			Kind: nodestate.KindOf(item), Item: item, OnNode: nodestate.ValueIn(judged.Items(), item), Remembered: nodestate.ValueIn(remembered, item), Managers: judged.Managers(item),
			Kept: keeps, Reason: reason, Claims: claimsOf(claims, item), Registration: registration,
		})
	}
	return explained
}

// ruleValues returns the values that rules set, by item.
func ruleValues(ruleLabels map[string]record.RuleLabel) map[string]string {
	items := map[string]string{}
	for key, d := range ruleLabels {
		if !d.Absent {
			items[key] = d.Value
		}
	}
	return items
}

// awaits reports whether the gate waits for an operator after a registration. Once a side is accepted, it waits for capture.
func awaits(s nodestate.State, answer webhook.Explanation) bool {
	return s.StoreEntry.AcceptedSide == "" && (s.ItemsAwaitingOperator() != nil || answer.Outcome == otherMachine)
}

// registrationText returns what becomes of an item at a registration.
func registrationText(item string, answer webhook.Explanation, p policy.Policy) string {
	_, brought := answer.Brought[item]
	_, added := taintItems(answer.Taints)[item]
	rule, ruled := answer.Rules[item]
	later, waits := answer.DeferredRules[item]
	_, inline := answer.InlineRules[item]
	switch recorded := impact.RegistrationOutcomeOf(item, answer, p); {
	case p.Gate().Matches(record.Taint(item, "")) && answer.GateOn:
		return "stays"
	case p.Gate().Matches(record.Taint(item, "")):
		return "removed"
	case ruled && rule.Absent && brought:
		return "removed by rule " + rule.Rule
	case ruled && !rule.Absent:
		return "set by rule " + rule.Rule + ": " + nodestate.FormatValue(&rule.Value)
	case waits && inline:
		return "set by rule " + later.Rule + " inline, where proved; else deferred: " + nodestate.FormatValue(&later.Value)
	case waits:
		return "deferred: set by rule " + later.Rule + " behind the gate: " + nodestate.FormatValue(&later.Value)
	case brought && recorded.Kind == impact.Restored:
		return "restored over what the Node brings"
	case brought && recorded.Kind == impact.NotRestored:
		return "brought; not restored: " + string(recorded.Reason)
	case brought:
		return "brought"
	case recorded.Kind == impact.Restored:
		return "restored"
	case recorded.Kind == impact.RestoredInline:
		return "inline, where proved; else deferred"
	case recorded.Kind == impact.Deferred && recorded.Reason != "":
		return "deferred: " + string(recorded.Reason) + "; restored behind the gate"
	case recorded.Kind == impact.Deferred:
		return "deferred: restored behind the gate"
	case recorded.Kind == impact.NotRestored:
		return "not restored: " + string(recorded.Reason)
	case added && p.AddsAtRegistration(item):
		return "added at registration"
	case added:
		return "added by a rule"
	default:
		return noValue
	}
}
