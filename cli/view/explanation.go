package view

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	jsonpatch "gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/webhook"
)

// Explanation says of each label and taint of a Node and of its record whether it is kept and why, and what a registration
// would get.
type Explanation struct {
	Node         string            `json:"node,omitempty"`
	Status       Presence          `json:"status,omitempty"`
	Problem      string            `json:"problem,omitempty"` // why nothing may be taken from the record
	Registration ExplainedReview   `json:"registration"`
	Capture      *ExplainedCapture `json:"capture,omitempty"` // where there is a Node
	Items        []ExplainedItem   `json:"items"`
}

// ExplainedReview is what becomes of the CREATE of the Node.
type ExplainedReview struct {
	User    string                `json:"user"`
	Kubelet bool                  `json:"kubelet"`          // it counts as the Node's own kubelet's
	Outcome string                `json:"outcome"`          // as in nodekeep_webhook_reviews_total
	Passes  string                `json:"passes,omitempty"` // why the Node passes as it is
	Gated   bool                  `json:"gated"`            // once it is stored
	Patch   []jsonpatch.Operation `json:"patch,omitempty"`
}

// ExplainedCapture is what capture would do about the live Node now.
type ExplainedCapture struct {
	Step     string            `json:"step"`
	Give     map[string]string `json:"give,omitempty"`
	Correct  map[string]string `json:"correct,omitempty"`
	Remove   []string          `json:"remove,omitempty"`
	Put      []string          `json:"put,omitempty"`  // taints of rules, and those that a new Node gets once
	Take     []string          `json:"take,omitempty"` // taints of rules
	LiftGate bool              `json:"liftGate,omitempty"`
}

// ExplainedItem is one label or taint.
type ExplainedItem struct {
	Kind         string   `json:"kind"`
	Item         string   `json:"item"`             // a label's key, a taint's key and effect
	OnNode       *string  `json:"onNode,omitempty"` // the value that the Node shows
	Remembered   *string  `json:"remembered,omitempty"`
	Managers     []string `json:"managers,omitempty"` // by managedFields
	Kept         bool     `json:"kept"`
	Why          string   `json:"why"`
	Registration string   `json:"registration"`
}

// Explain looks at a Node and its record, and at a review of its registration.
func Explain(s NodeState, request *admissionv1.AdmissionRequest, in capture.Circumstances) Explanation {
	e, _ := explain(s, request, in)
	return e
}

// ExplainReview looks at a review that is not of this moment: what the Node shows is what it comes with.
func ExplainReview(s NodeState, request *admissionv1.AdmissionRequest, in capture.Circumstances) Explanation {
	e, answer := explain(s, request, in)
	e.Status = ""
	for i := range e.Items {
		e.Items[i].OnNode = valueIn(answer.Brought, e.Items[i].Item)
	}
	return e
}

func explain(s NodeState, request *admissionv1.AdmissionRequest, in capture.Circumstances) (Explanation, webhook.Explanation) {
	e := Explanation{Node: s.Name, Status: s.presence(), Problem: s.problem(in)}
	e.Registration = ExplainedReview{User: request.UserInfo.Username}
	answer, err := webhook.Explain(request, s.Record, s.Unreadable != nil, in.Policy)
	if err == nil {
		e.Registration.Kubelet, e.Registration.Outcome, e.Registration.Gated, e.Registration.Patch = answer.Kubelet, answer.Outcome, answer.GateOn, answer.Patch
	} else {
		e.Registration.Outcome, e.Registration.Passes = "malformed_node", err.Error()
		if errors.Is(err, webhook.ErrNotOurs) {
			e.Registration.Outcome = "not_ours"
		}
	}
	if s.Node != nil && s.Unreadable == nil { // capture leaves a record alone that it cannot read
		e.Capture = s.explainCapture(in)
	}
	e.Items = s.explainItems(answer, in)
	return e, answer
}

// problem says why nothing may be taken from the record.
func (s NodeState) problem(in capture.Circumstances) string {
	switch {
	case s.Unreadable != nil:
		return s.Unreadable.Error()
	case s.Record != nil && s.Record.Quarantined != nil:
		return "another machine has taken the name; nothing is restored before an operator accepts a side"
	case s.Node != nil && s.Record != nil && in.Policy.Quarantines(s.machine(), s.Record.Machine):
		return "the Node is on another machine than the one that is remembered"
	}
	return ""
}

func (s NodeState) explainCapture(in capture.Circumstances) *ExplainedCapture {
	next, _, _ := s.settled(in)
	return &ExplainedCapture{
		Step: string(next.Step), Give: next.Give, Correct: next.Correct, Remove: next.Remove,
		Put: sortedItems(taintItems(slices.Concat(next.Put, next.Register))), Take: sortedItems(taintItems(next.Take)), LiftGate: next.LiftGate,
	}
}

func (s NodeState) explainItems(answer webhook.Explanation, in capture.Circumstances) []ExplainedItem {
	node, remembered := s.metadata(in), s.remembered()
	all := map[string]bool{}
	for _, items := range []map[string]string{node.Items, remembered, answer.Brought, answer.Restored, taintItems(answer.Taints)} {
		for item := range items {
			all[item] = true
		}
	}
	explained := make([]ExplainedItem, 0, len(all))
	for _, item := range slices.SortedFunc(maps.Keys(all), compareItems) {
		verdict := in.Policy.Judge(node, item)
		explained = append(explained, ExplainedItem{
			Kind: kindOf(item), Item: item, OnNode: valueIn(node.Items, item), Remembered: valueIn(remembered, item), Managers: node.Owners[item],
			Kept: verdict.Keeps, Why: verdict.Why(), Registration: becomes(item, answer, in.Policy),
		})
	}
	return explained
}

// becomes says what becomes of an item in a registration.
func becomes(item string, answer webhook.Explanation, p policy.Policy) string {
	_, brought := answer.Brought[item]
	_, restored := answer.Restored[item]
	_, inline := answer.Inline[item]
	_, deferred := answer.Deferred[item]
	reason, withheld := answer.Withheld[item]
	_, added := taintItems(answer.Taints)[item]
	switch {
	case p.Gate().Is(record.Taint(item, "")) && answer.GateOn:
		return "stays on"
	case p.Gate().Is(record.Taint(item, "")):
		return "removed"
	case brought && restored:
		return "restored over what the Node brings"
	case brought && withheld:
		return "brought; not restored: " + string(reason)
	case brought:
		return "brought"
	case restored:
		return "restored"
	case inline:
		return "inline, where proved; else deferred"
	case deferred:
		if pattern, _ := p.Defers(item); pattern != "" {
			return "deferred: labels.defer has " + pattern + "; restored behind the gate"
		}
		return "deferred: restored behind the gate"
	case withheld:
		return "not restored: " + string(reason)
	case added && p.Registers(item):
		return "added once"
	case added:
		return "added by a rule"
	default:
		return none
	}
}

// Document is for people.
func (e Explanation) Document(time.Time) Document {
	var d Document
	d.with("Node", e.Node)
	d.with("Status", string(e.Status))
	d.with("Problem", e.Problem)
	d.with("Registration", e.Registration.text())
	if e.Capture != nil {
		d.with("Capture now", e.Capture.text())
	}
	table := tableOf("Item", "Key", "Node", "Record", "Registration", "Kept", "Why", "+Managers")
	for _, item := range e.Items {
		add(table, item.Kind, item.Item, shown(item.OnNode), shown(item.Remembered), item.Registration, yesNo(item.Kept), item.Why, orNone(strings.Join(item.Managers, ",")))
	}
	d.Tables = []*metav1.Table{table}
	return d
}

func (r ExplainedReview) text() string {
	if r.Passes != "" {
		return "passes as it is: " + r.Passes
	}
	gate := "the gate is off"
	if r.Gated {
		gate = "the gate is on"
	}
	return "by " + cmp.Or(r.User, "nobody") + ": " + strings.ReplaceAll(r.Outcome, "_", " ") + "; " + gate
}

func (c ExplainedCapture) text() string {
	var parts []string
	add := func(what, items string) {
		if items != "" {
			parts = append(parts, what+" "+items)
		}
	}
	add("restores", listOf(c.Give))
	add("corrects", listOf(c.Correct))
	add("removes", strings.Join(slices.Concat(c.Remove, c.Take), ", "))
	add("adds", strings.Join(c.Put, ", "))
	if c.LiftGate {
		parts = append(parts, "lifts the gate")
	}
	switch {
	case len(parts) > 0:
		return strings.Join(parts, "; ")
	case c.Step == string(capture.Nothing):
		return "has nothing to do"
	default:
		return "writes the record (" + strings.ReplaceAll(c.Step, "_", " ") + ")"
	}
}

// kubelets are the managers by whose name a kubelet sets labels of its own.
func kubelets() []string { return []string{"kubelet", "k3s", "kubelite"} }

// Registration is the review that the API server would send if the Node's kubelet registered it now: on the same machine,
// with the labels that it has set on the Node of today, and behind the gate, which nothing takes off before the webhook
// has answered. Of a Node that is gone nothing but its name is known.
func Registration(s NodeState, in capture.Circumstances) (*admissionv1.AdmissionRequest, error) {
	node := corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: s.Name, Labels: s.kubeletLabels()},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{in.Policy.Gate().Taint()}},
	}
	machine := s.machine()
	node.Spec.ProviderID = machine.ProviderID
	node.Status.NodeInfo.SystemUUID, node.Status.NodeInfo.MachineID = machine.SystemUUID, machine.MachineID
	raw, err := json.Marshal(node)
	if err != nil {
		return nil, fmt.Errorf("encode registration of node %q: %w", s.Name, err)
	}
	return &admissionv1.AdmissionRequest{
		Kind:      metav1.GroupVersionKind{Version: "v1", Kind: "Node"},
		Resource:  metav1.GroupVersionResource{Version: "v1", Resource: "nodes"},
		Name:      s.Name,
		Operation: admissionv1.Create,
		UserInfo:  authenticationv1.UserInfo{Username: "system:node:" + s.Name, Groups: []string{"system:nodes", "system:authenticated"}},
		Object:    runtime.RawExtension{Raw: raw},
	}, nil
}

// kubeletLabels are the labels that a kubelet brings: those which it has set on the Node, by managedFields.
func (s NodeState) kubeletLabels() map[string]string {
	labels := map[string]string{corev1.LabelHostname: s.Name}
	if s.Node == nil {
		return labels
	}
	owners := observe.Of(s.Node).Owners
	for key, value := range s.Node.Labels {
		if slices.ContainsFunc(owners[key], func(manager string) bool { return slices.Contains(kubelets(), manager) }) {
			labels[key] = value
		}
	}
	return labels
}
