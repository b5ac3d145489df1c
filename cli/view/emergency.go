package view

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/cli/impact"
)

// EmergencyState is whether an emergency is declared.
type EmergencyState struct {
	Active  bool
	Created metav1.Time // when its RoleBinding was created
}

// Line returns one line for commands that show Nodes; empty: no emergency is declared. End is the command that ends it.
func (d EmergencyState) Line(end string, now time.Time) string {
	if !d.Active {
		return ""
	}
	return "An emergency was declared " + age(d.Created.Time, now) + " ago, and is not ended. To end it: " + end
}

// Emergency is what `nodekeep emergency` would do now.
type Emergency struct {
	Cluster, Namespace string
	Declared           EmergencyState
	// UnseenReason is why the API server gates new Nodes in spite of an emergency. Then the objects that gate are deleted. Empty: it does not.
	UnseenReason string
	// UnknownReason is why it is not known whether that is so; empty: it is known.
	UnknownReason     string
	Gated, Unverified []string // names of Nodes
	Objects           []ObjectStep
	EndCommand        string // the command that ends it
}

// Document returns the answer as text.
func (e Emergency) Document(now time.Time) Document {
	var d Document
	d.addFact("Cluster", e.Cluster)
	declared := "none; this command declares one"
	if e.Declared.Active {
		declared = "declared " + age(e.Declared.Created.Time, now) + " ago; Nodes are opened once more"
	}
	d.addFact("Emergency", declared)
	d.addFact("Nodes behind the gate", nodesText(e.Gated, ": the gate is lifted, whatever they lack"))
	d.addFact("Nodes behind a verification taint", nodesText(e.Unverified, ": the verification taint is removed, without the checks"))
	d.addFact("Until it is ended", "new Nodes are neither gated nor verified, and get no taints of taints.register")
	switch {
	case e.UnseenReason != "":
		d.addFact("The API server", "cannot see an emergency: "+e.UnseenReason+". So the objects that gate are deleted. "+
			"helm upgrade, Argo CD and Flux create them again")
	case e.UnknownReason != "":
		d.addFact("The API server", "it is not known whether it sees an emergency: "+e.UnknownReason+". If it still gates new Nodes, the objects that gate are deleted")
	default:
		d.addFact("It lasts", "until it is ended, also through helm upgrade, Argo CD and Flux")
	}
	d.addFact("To end it", e.EndCommand)
	d.Tables = []*metav1.Table{objectSteps(e.Objects)}
	return d
}

func objectSteps(objects []ObjectStep) *metav1.Table {
	table := tableOf("Kind", "Name", "Step")
	for _, object := range objects {
		addRow(table, object.Kind, object.Name, object.Step)
	}
	return table
}

// EmergencyEnd is what `nodekeep emergency --end` would do now.
type EmergencyEnd struct {
	Cluster, Namespace string
	Declared           EmergencyState
	Objects            []ObjectStep
	MissingObjects     MissingObjects
	GateComplete       bool   // it is known that nothing of the gate is missing
	Unprovable         string // why the end cannot be proved; empty: as far as is known, it can
	Nodes              impact.EmergencyEndNodes
	Unknown            string // why the Nodes are not known; empty: they are
	RecheckCommand     string // the command that checks Nodes
}

// FormerlyClosedNodes is what has become of the Nodes that were closed when an emergency was declared. Any process may have opened them.
type FormerlyClosedNodes struct {
	earlier map[string]bool
	known   bool     // all taints of nodekeep are known
	closed  []string // that nodekeep keeps closed now
	limited []string // those of them that do not take all Pods for another reason, with the reason
}

// NewFormerlyClosedNodes begins with the names of the Nodes that were closed. Known says that all taints are known by which nodekeep closes Nodes.
func NewFormerlyClosedNodes(earlier []string, known bool) FormerlyClosedNodes {
	o := FormerlyClosedNodes{earlier: map[string]bool{}, known: known}
	for _, name := range earlier {
		o.earlier[name] = true
	}
	return o
}

// Add looks at one Node as it is now. Closed is whether nodekeep keeps it closed.
func (o *FormerlyClosedNodes) Add(node *corev1.Node, closed bool) {
	if closed {
		o.closed = append(o.closed, node.Name)
	}
	if reason := restrictionsOf(node); o.earlier[node.Name] && !closed && reason != "" {
		o.limited = append(o.limited, node.Name+": "+reason)
	}
}

// restrictionsOf returns what keeps Pods off a Node: a cordon, taints.
func restrictionsOf(node *corev1.Node) string {
	var all []string
	if node.Spec.Unschedulable {
		all = append(all, "cordoned")
	}
	for _, taint := range node.Spec.Taints {
		if taint.Effect != corev1.TaintEffectPreferNoSchedule && taint.Key != corev1.TaintNodeUnschedulable {
			all = append(all, "taint "+taint.ToString())
		}
	}
	return strings.Join(all, ", ")
}

// Lines say it to operators.
func (o FormerlyClosedNodes) Lines() (lines []string) {
	before := nodesText(slices.Sorted(maps.Keys(o.earlier)), "")
	if o.known && len(o.earlier) > 0 && len(o.closed) == 0 {
		before += ". None of them is closed by nodekeep now"
	}
	lines = append(lines, "closed by nodekeep before: "+before)
	if len(o.closed) > 0 {
		lines = append(lines, "behind the gate or a verification taint now: "+nodesText(o.closed, "; run it again"))
	}
	by := "by something else"
	if !o.known {
		by = "by what may be nodekeep's, since the policy is not known"
	}
	if len(o.limited) > 0 {
		lines = append(lines, "kept from all or some Pods "+by+": "+nodesText(o.limited, ""))
	}
	return lines
}

// Err is not nil if nodekeep keeps a Node closed.
func (o FormerlyClosedNodes) Err() error {
	if len(o.closed) == 0 {
		return nil
	}
	return fmt.Errorf("nodekeep keeps %s closed", Counted(len(o.closed), "Node"))
}

// unverifiedText names the Nodes that stay open.
func unverifiedText(r impact.EmergencyEndNodes, check string) string {
	return nodesText(r.Unverified, ": they stay open. To check them: "+check)
}

// missingRegistrationTaintsText names the Nodes that lack taints of taints.register.
func missingRegistrationTaintsText(r impact.EmergencyEndNodes) string {
	return nodesText(r.WithoutRegistrationTaints, ": they registered in the emergency, and do not get them when it ends")
}

// Document returns the answer as text.
func (e EmergencyEnd) Document(now time.Time) Document {
	var d Document
	d.addFact("Cluster", e.Cluster)
	if e.Declared.Active {
		d.addFact("Emergency", "declared "+age(e.Declared.Created.Time, now)+" ago")
		gated := ""
		if e.GateComplete {
			gated = "gated and "
		}
		d.addFact("From then on", "new Nodes are "+gated+"verified again, as the policy says")
		if e.Unprovable != "" {
			d.addFact("Proof", "none: "+e.Unprovable)
		}
	} else {
		d.addFact("Emergency", "none is declared; what is left of one is removed")
	}
	if e.Unknown != "" {
		d.addFact("Nodes", "not known: "+e.Unknown)
	} else {
		d.addFact("Closed Nodes", nodesText(e.Nodes.Closed, ": verification begins"))
		d.addFact("Checked again", nodesText(e.Nodes.Recheck, ": closed until their checks pass, a few at a time"))
		d.addFact("Open and not verified", unverifiedText(e.Nodes, e.RecheckCommand))
		if e.Declared.Active {
			d.addFact("Without registration taints", missingRegistrationTaintsText(e.Nodes))
		}
	}
	for _, line := range e.MissingObjects.lines() {
		d.addFact("Not there", line)
	}
	d.Tables = []*metav1.Table{objectSteps(e.Objects)}
	return d
}

// MissingObjects are objects by which nodekeep acts on new Nodes, and that do not exist.
type MissingObjects struct {
	Gate    []string // without each of them the gate policy adds no gate
	Webhook []string // the configuration by which the API server calls the webhook
}

// NonEmpty reports whether an object is missing.
func (m MissingObjects) NonEmpty() bool { return len(m.Gate)+len(m.Webhook) > 0 }

// lines say what each absence means.
func (m MissingObjects) lines() (lines []string) {
	const remedy = "apply again what nodekeep was installed from, or run helm upgrade"
	if len(m.Gate) > 0 {
		lines = append(lines, strings.Join(m.Gate, ", ")+": so the gate policy adds no gate. The chart makes no gate policy if gate.policy is disabled, or before Kubernetes 1.36. Otherwise, "+remedy)
	}
	if len(m.Webhook) > 0 {
		lines = append(lines, strings.Join(m.Webhook, ", ")+": so the API server does not call the webhook for new Nodes. To correct it, "+remedy)
	}
	return lines
}

// DeclareResult is what `nodekeep emergency` has done for Nodes that register, once its objects declare an emergency.
type DeclareResult struct {
	Refused        bool // the API server refuses dry runs: it is not proved that it gates no new Node
	Lasts          bool // all objects that gate are there and know emergencies, so that the emergency alone keeps them from it
	MissingObjects MissingObjects
	EndCommand     string // the command that ends it
	DoctorCommand  string // the command that looks at all
}

// Lines say it to operators.
func (r DeclareResult) Lines() (lines []string) {
	switch {
	case r.Refused:
		lines = append(lines, "the emergency is declared")
	case r.Lasts:
		lines = append(lines, "the emergency is declared: the API server gates no new Node until it is ended")
	default:
		lines = append(lines, "the emergency is declared, and the API server gates no new Node now")
	}
	if missing := slices.Concat(r.MissingObjects.Gate, r.MissingObjects.Webhook); len(missing) > 0 {
		lines = append(lines, "not there: "+strings.Join(missing, ", ")+". Once they are created, this shows whether the API server gates new Nodes: "+r.DoctorCommand)
	}
	return append(lines, "to end it: "+r.EndCommand)
}

// Err is not nil if it is not proved that the API server gates no new Node.
func (r DeclareResult) Err() error {
	if r.Refused {
		return errors.New("it is not proved that the API server gates no new Node: it refuses dry runs")
	}
	return nil
}

// EndResult is what `nodekeep emergency --end` has done.
type EndResult struct {
	Undeclared     bool // no emergency was declared
	MissingObjects MissingObjects
	Unconfirmed    string // why it is not proved that nodekeep acts on new Nodes again; empty: it is
	Nodes          impact.EmergencyEndNodes
	RecheckCommand string // the command that checks Nodes
	DoctorCommand  string // the command that looks at all
}

// Lines say it to operators.
func (e EndResult) Lines() (lines []string) {
	switch {
	case e.Undeclared:
		lines = append(lines, "no emergency was declared, and what was left of one is removed")
	case e.Unconfirmed != "":
		lines = append(lines, "the emergency is ended")
	default:
		lines = append(lines, "the emergency is ended: nodekeep acts on new Nodes again")
	}
	for _, line := range e.MissingObjects.lines() {
		lines = append(lines, "not there: "+line)
	}
	if len(e.Nodes.Unverified) > 0 {
		lines = append(lines, "open and not verified: "+unverifiedText(e.Nodes, e.RecheckCommand))
	}
	if len(e.Nodes.WithoutRegistrationTaints) > 0 {
		lines = append(lines, "without registration taints: "+missingRegistrationTaintsText(e.Nodes))
	}
	return append(lines, "to see whether all is well: "+e.DoctorCommand)
}

// Err is not nil if it is not proved that nodekeep acts on new Nodes again.
func (e EndResult) Err() error {
	if e.Undeclared || e.Unconfirmed == "" {
		return nil
	}
	return fmt.Errorf("it is not proved that nodekeep acts on new Nodes again: %s. No emergency is declared now, so to run this again proves nothing. What shows whether nodekeep acts: %s", e.Unconfirmed, e.DoctorCommand)
}
