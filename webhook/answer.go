package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	jsonpatchv2 "gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

// decider says what a registering Node gets: decide, or decideProtected in the second pass of the inline route.
type decider func(incoming, known, policy.Policy) decision

// answer is what is made of a request.
type answer struct {
	incoming
	decision
	operations []jsonpatchv2.Operation
}

// answerTo decides on a request that was decoded.
func answerTo(in incoming, k known, p policy.Policy, decide decider) answer {
	k = k.forMachine(in, p)
	d := decide(in, k, p)
	if in.size+d.bytes() > maxObjectBytes {
		d = d.withoutItems(p.Gate())
	}
	return answer{incoming: in, decision: d, operations: patch(in, d)}
}

// Explanation is what the webhook makes of a request, for the operator's commands.
type Explanation struct {
	Node    string
	Kubelet bool   // it counts as the Node's own kubelet's
	Outcome string // as in nodekeep_webhook_reviews_total

	Brought       map[string]string           // items that the object comes with
	Restored      map[string]string           // items that are set in the CREATE
	Inline        map[string]string           // labels that are set in the CREATE by the second pass, where the self-test proves that it works
	InlineRules   map[string]record.RuleLabel // labels of rules that are set then
	Deferred      map[string]string           // labels that wait for capture, behind the gate; where Inline has them, should the proof fail
	Withheld      map[string]policy.Reason    // items that are recorded and not restored now
	Rules         map[string]record.RuleLabel // labels that rules set in the CREATE, and items that they remove
	DeferredRules map[string]record.RuleLabel // labels that rules set and that wait for capture, behind the gate; where InlineRules has them, should the proof fail
	Taints        []corev1.Taint              // set in addition, by rules and as registration taints
	GateBrought   bool                        // the object comes with it
	GateOn        bool                        // once the webhook has answered; with what is inline, after the second pass

	Patch []jsonpatchv2.Operation // of the first pass
}

// NodeOf returns the name of the Node that a request is about; empty where it is about none.
func NodeOf(request *admissionv1.AdmissionRequest) string {
	in, err := decode(request, policy.Policy{})
	if err != nil {
		return ""
	}
	return in.node
}

// MachineOf returns the machine of the Node in a request. It is the zero Machine if the policy does not use it.
func MachineOf(request *admissionv1.AdmissionRequest, p policy.Policy) record.Machine {
	in, err := decode(request, p)
	if err != nil {
		return record.Machine{}
	}
	return in.machine
}

// Explain returns the webhook's answer to the request while its records are current. The Node's record is r; nil is none. If unreadable, there
// is a record that must not be used. An error means that the Node passes as it is.
func Explain(request *admissionv1.AdmissionRequest, r *record.Record, unreadable bool, p policy.Policy, now time.Time) (Explanation, error) {
	in, err := decode(request, p)
	if err != nil {
		return Explanation{}, err
	}
	k := known{current: true, unreadable: unreadable, now: now}
	if r != nil {
		k.record, k.found = *r, true
	}
	a := answerTo(in, k, p, decide)
	e := Explanation{
		Node: in.node, Kubelet: in.occasion == policy.CreateByKubelet, Outcome: string(a.outcome), Brought: in.items(p),
		Restored: a.restored, Deferred: a.WithCause(plan.CauseRecord).Deferred().Values(), Withheld: withheldBy(a, k),
		Rules: a.RuleLabelsInCreate(), DeferredRules: a.DeferredRuleLabels(), Taints: a.WithCause(plan.CauseDerivedTaint, plan.CauseRegistrationTaint).Taints(false), GateBrought: p.Gate().Present(in.taints), GateOn: a.gatedAfter(in, p.Gate()),
		Patch: a.operations,
	}
	if !a.AnyDeferred() || !p.RestoresInline() {
		return e, nil
	}
	second, err := secondPass(request, k, p, a)
	if err != nil {
		return Explanation{}, err
	}
	if second.outcome == restoredInline {
		e.Inline, e.InlineRules, e.GateOn = second.restored, second.RuleLabelsInCreate(), second.gatedAfter(second.incoming, p.Gate())
	}
	return e, nil
}

// withheldBy returns what is recorded and not restored now; nothing is where the answer restores nothing at all.
func withheldBy(a answer, k known) map[string]policy.Reason {
	reason := map[outcome]policy.Reason{otherMachine: "another machine has the name", tooLarge: "the Node would be too large"}[a.outcome]
	if reason == "" {
		return a.Withheld
	}
	withheld := map[string]policy.Reason{}
	for item := range k.record.Items() {
		withheld[item] = reason
	}
	return withheld
}

// secondPass returns what is made of the request once the first answer's patch is on the object.
func secondPass(request *admissionv1.AdmissionRequest, k known, p policy.Policy, first answer) (answer, error) {
	body, err := json.Marshal(first.operations)
	if err != nil {
		return answer{}, fmt.Errorf("encode patch: %w", err)
	}
	patch, err := jsonpatch.DecodePatch(body)
	if err != nil {
		return answer{}, fmt.Errorf("decode patch: %w", err)
	}
	second := request.DeepCopy()
	if second.Object.Raw, err = patch.Apply(request.Object.Raw); err != nil {
		return answer{}, fmt.Errorf("apply patch: %w", err)
	}
	in, err := decode(second, p)
	if err != nil {
		return answer{}, errors.Join(errors.New("decode the patched object"), err)
	}
	return answerTo(in, k, p, decideProtected), nil
}
