package doctor

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"nodekeep.dev/nodekeep/cli/impact"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
)

// Records is what was found in all of them.
type Records struct {
	All         int
	Unreadable  Sample[UnreadableRecord]
	NearlyFull  Sample[string] // Nodes whose records have most of the bytes that they may have
	Quarantined Sample[string] // Nodes whose records wait for an operator to say whose they are
}

// UnreadableRecord is one from which nothing may be taken.
type UnreadableRecord struct{ ConfigMap, Reason string }

// Add looks at one of them.
func (r *Records) Add(listed store.Listed) {
	r.All++
	if _, nearly := listed.Entry.Record.NearlyFull(); nearly {
		r.NearlyFull.Add(listed.Node)
	}
	switch {
	case listed.Err != nil:
		r.Unreadable.Add(UnreadableRecord{listed.ConfigMap, listed.Err.Error()})
	case listed.Entry.Record.Quarantined != nil && listed.Entry.AcceptedSide == "":
		r.Quarantined.Add(listed.Node)
	}
}

// judgeRecords judges whether every record can be read.
func judgeRecords(seen Installation) answer {
	var a answer
	addUnknown(&a, "", seen.Records)
	records := seen.Records.Value
	if a.okText = "none yet: a Node gets a record once it has something to keep"; records.All > 0 {
		a.okText = view.Counted(records.All, "record") + ", all can be read"
	}
	for _, record := range records.Unreadable.First {
		a.add(Error, "configmap/"+record.ConfigMap,
			newRemedy("Correct it. Or delete it: what it holds is then lost:", seen.kubectl("edit configmap %s", record.ConfigMap), seen.kubectl("delete configmap %s", record.ConfigMap)),
			"nothing is restored from it, and its Node stays behind the gate: %s", record.Reason)
	}
	addRest(&a, Error, records.Unreadable, "records cannot be read", "nodekeep list")
	for _, node := range records.NearlyFull.First {
		a.add(Warning, "configmap/"+store.Name(node),
			newRemedy("Find out who sets so many labels on the Node, or name them in labels.ignore of the policy:", "nodekeep show "+node+" --history"),
			"it has four fifths or more of the %d bytes that a record may have; a larger one is not written", record.MaxBytes)
	}
	addRest(&a, Warning, records.NearlyFull, "records are nearly full", "nodekeep list")
	return a
}

// judgeRecordLabels judges whether every record is found.
func judgeRecordLabels(seen Installation) answer {
	a := answer{okText: "every record has its label"}
	addUnknown(&a, "", seen.UnlabelledRecords)
	for _, name := range seen.UnlabelledRecords.Value.First {
		a.add(Error, "configmap/"+name,
			newRemedy("Put the label back, if it is one:", seen.kubectl("label configmap %s %s=true --overwrite", name, store.RecordLabel)),
			"it is named as a record and lacks the label %s=true: webhook and capture do not find it", store.RecordLabel)
	}
	addRest(&a, Error, seen.UnlabelledRecords.Value, "ConfigMaps lack the label of a record", seen.kubectl("get configmaps -l %s!=true", store.RecordLabel))
	return a
}

// judgeQuarantine judges whether records wait for an operator.
func judgeQuarantine(seen Installation) answer {
	a := answer{okText: "nothing waits for a decision"}
	addUnknown(&a, "", seen.Records)
	for _, node := range seen.Records.Value.Quarantined.First {
		accept := "nodekeep accept record " + node + " --machine "
		a.add(Warning, "configmap/"+store.Name(node),
			newRemedy("The record belongs to the machine that has the name now (old), or is to be forgotten (new):", accept+"old", accept+"new"),
			"another machine has taken the name %s: nothing is restored on it before an operator says whose it is", node)
	}
	addRest(&a, Warning, seen.Records.Value.Quarantined, "records wait for a decision", "nodekeep list --waiting quarantine")
	return a
}

// Nodes is what was found on all Nodes.
type Nodes struct {
	All          int           // Nodes
	Gated        int           // of which behind the gate
	GateAfter    time.Duration // how long is longer than usual
	GatedTooLong Sample[WaitingNode]

	Claimed []Claimed          // by annotation
	NotKept Reading[[]NotKept] // by reason; the records show which restored labels are kept

	ClosedTooLong Sample[string] // stuck, or closed for too long, each with why
	WhyCommands   []string       // the commands that show more of these
	ItemsPaused   Sample[string] // on which capture has stopped setting an item that another client undoes

	Unverified Sample[string]      // names of those with a verification taint
	Overdue    Sample[WaitingNode] // of which longer than the deadline of their profile

	Missing []impact.MissingFact // what rules ask for and no Node has

	Selected *impact.SelectedNodes      // by profile; nil: not known
	Unproved Reading[[]impact.Unproved] // profiles whose checks neither a Node nor a trial has passed
}

// WaitingNode has waited for longer than it should: behind the gate, or to be verified.
type WaitingNode struct {
	Name   string
	Start  time.Time
	Reason string // what is left to do about it; empty where that is not known
}

// Add counts a Node, and reports whether it is among the named ones. The gate is added only at the CREATE. So a Node has had its gate since it was
// created.
func (n *Nodes) Add(node *corev1.Node, gate policy.Gate, now time.Time) (named bool) {
	n.All++
	if !gate.Present(node.Spec.Taints) {
		return false
	}
	n.Gated++
	start := node.CreationTimestamp.Time
	if now.Sub(start) <= n.GateAfter {
		return false
	}
	return n.GatedTooLong.Add(WaitingNode{Name: node.Name, Start: start})
}

// judgeGatedNodes judges whether Nodes have been behind the gate for long.
func judgeGatedNodes(seen Installation) answer {
	var a answer
	addUnknown(&a, "", seen.Nodes)
	nodes := seen.Nodes.Value
	a.okText = fmt.Sprintf("%d of %d Nodes %s behind the gate, none for more than %s", nodes.Gated, nodes.All, verb(nodes.Gated), duration.HumanDuration(nodes.GateAfter))
	for _, node := range nodes.GatedTooLong.First {
		reason := ""
		if node.Reason != "" {
			reason = ": " + node.Reason
		}
		a.add(Error, "node/"+node.Name,
			newRemedy("See what it waits for. To let it take workloads as it is:", "nodekeep explain "+node.Name, "nodekeep release "+node.Name+" --from gate"),
			"it has been behind the gate for %s and takes no new workloads%s", duration.HumanDuration(seen.Now.Sub(node.Start)), reason)
	}
	addRest(&a, Error, nodes.GatedTooLong, "Nodes are behind the gate", "nodekeep list --waiting gate")
	return a
}
