package view

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/cli/nodestate"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/store"
)

// CaptureStatus is what is known of the processes that lift gates.
type CaptureStatus struct {
	// LeaderlessFor is for how long no capture has led, by its Lease; 0 while one leads.
	LeaderlessFor time.Duration
	// NeverLed shows that none has ever led.
	NeverLed bool
	// Refused holds what capture has reported of labels that the API server would not have, by Node object.
	Refused map[types.UID]string
}

// outage returns in words that no capture leads; empty where one does.
func (c CaptureStatus) outage() string {
	switch {
	case c.NeverLed:
		return "no capture has ever led"
	case c.LeaderlessFor > 0:
		return "no capture has led for " + duration.HumanDuration(c.LeaderlessFor)
	default:
		return ""
	}
}

// Gated is a Node behind the gate.
type Gated struct {
	Name    string            `json:"name"`
	Created metav1.Time       `json:"since"` // the gate is added when a Node is created
	Reason  string            `json:"why"`
	Next    string            `json:"next"`              // what is to be done
	Missing map[string]string `json:"missing,omitempty"` // what it lacks of its record, as far as that is known

	// Unverified is why the Node takes no workloads without the gate either, where verification is why.
	Unverified string `json:"unverified,omitempty"`
}

// expectedTime is how long capture may take before something is wrong.
const expectedTime = time.Minute

// GatedOf looks at a Node; ok shows whether it is behind the gate.
func GatedOf(s nodestate.State, inputs plan.Inputs, c CaptureStatus) (g Gated, ok bool) {
	if s.Node == nil || !inputs.Policy.Gate().Present(s.Node.Spec.Taints) {
		return Gated{}, false
	}
	g = Gated{Name: s.Name, Created: s.Node.CreationTimestamp, Unverified: UnverifiedText(s.Node, inputs.Policy)}
	if s.Record != nil {
		g.Missing = s.Missing(inputs)
	}
	g.Reason, g.Next = whyGated(s, inputs, c, g)
	return g, true
}

// whyGated reports why a Node waits, and what is to be done about it.
func whyGated(s nodestate.State, inputs plan.Inputs, c CaptureStatus, g Gated) (reason, next string) {
	outage := c.outage()
	switch {
	case s.Unreadable != nil:
		return "its record cannot be read", fmt.Sprintf("correct ConfigMap %s, or nodekeep forget %s", store.Name(s.Name), s.Name)
	case s.AwaitsDecision():
		reason = "another machine has its name"
		if !s.Record.WholeRecordQuarantined() {
			reason = "labels of its machine's record as node " + s.Record.Followed + " wait for an operator"
		}
		return reason, fmt.Sprintf("nodekeep accept record %s --machine old|new", s.Name)
	case outage != "":
		return outage, "nodekeep doctor says why; nodekeep release " + s.Name + " --from gate if it cannot wait"
	case len(g.Missing) > 0 && c.Refused[s.Node.UID] != "":
		return fmt.Sprintf("%s missing, and the API server refuses: %s", Counted(len(g.Missing), "item"), c.Refused[s.Node.UID]),
			"let the policy ignore it or change what refuses it, or nodekeep release " + s.Name + " --from gate"
	case s.Node.DeletionTimestamp != nil:
		return "it is being deleted", "nothing: what holds it is its finalizers " + strings.Join(s.Node.Finalizers, ", ")
	}
	reason = pendingWork(s, inputs)
	switch first, _, last := s.Simulate(inputs); {
	case len(last.LabelsWithoutRoom) > 0:
		return fmt.Sprintf("its annotations have no room to list %s of rules", Counted(len(last.LabelsWithoutRoom), "label")),
			"remove large annotations from the Node, or nodekeep release " + s.Name + " --from gate"
	case first.Step == capture.StepRestore && len(g.Missing) > 0:
		reason = Counted(len(g.Missing), "item") + " missing"
	case reason == "":
		reason = "nothing is left to do"
	}
	if inputs.Now.Sub(s.Node.CreationTimestamp.Time) < expectedTime {
		return reason, "nothing: capture works on it"
	}
	return reason, "look at the log of the leading capture, and at kubectl describe node " + s.Name
}

// GatedList is every Node behind the gate.
type GatedList struct {
	Items []Gated `json:"items"`
}

// Names returns the names of the Nodes.
func (l GatedList) Names() (names []string) {
	for _, g := range l.Items {
		names = append(names, g.Name)
	}
	return names
}

// Document returns the answer as text.
func (l GatedList) Document(now time.Time) Document {
	table := tableOf("Name", "Gated", "Why", "Next step", "+Missing")
	for _, g := range l.Items {
		addRow(table, g.Name, age(g.Created.Time, now), g.Reason, g.Next, orDash(strings.Join(nodestate.SortedItems(g.Missing), ",")))
	}
	return Document{Tables: []*metav1.Table{table}}
}
