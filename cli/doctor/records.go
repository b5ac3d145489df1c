package doctor

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// Records is what was found in all of them.
type Records struct {
	All        int
	Unreadable Few[UnreadableRecord]
	Waiting    Few[string] // Nodes whose records wait for an operator to say whose they are
}

// UnreadableRecord is one from which nothing may be taken.
type UnreadableRecord struct{ ConfigMap, Why string }

// See looks at one of them.
func (r *Records) See(listed store.Listed) {
	r.All++
	switch {
	case listed.Err != nil:
		r.Unreadable.Add(UnreadableRecord{listed.ConfigMap, listed.Err.Error()})
	case listed.Entry.Record.Quarantined != nil && listed.Entry.Accepted == "":
		r.Waiting.Add(listed.Node)
	}
}

// judgeRecords judges whether every record can be read.
func judgeRecords(seen Seen) answer {
	var a answer
	lacks(&a, "", seen.Records)
	records := seen.Records.Value
	a.ok = fmt.Sprintf("%d records, all can be read", records.All)
	for _, record := range records.Unreadable.First {
		a.add(Finding{
			Severity: Error, Object: "configmap/" + record.ConfigMap,
			What: "nothing is restored from it, and its Node stays behind the gate: " + record.Why,
			Remedy: Remedy{Text: "Mend it, or delete it, and what it remembers is lost:", Commands: []string{
				fmt.Sprintf("kubectl -n %s edit configmap %s", seen.Namespace, record.ConfigMap),
				fmt.Sprintf("kubectl -n %s delete configmap %s", seen.Namespace, record.ConfigMap),
			}},
		})
	}
	a.add(more(records.Unreadable, Error, "records cannot be read", "nodekeep list")...)
	return a
}

// judgeRecordLabels judges whether every record is found.
func judgeRecordLabels(seen Seen) answer {
	a := answer{ok: "every record has its label"}
	lacks(&a, "", seen.Strays)
	for _, name := range seen.Strays.Value.First {
		a.add(Finding{
			Severity: Error, Object: "configmap/" + name,
			What: fmt.Sprintf("it is named as a record and lacks the label %s=true: webhook and capture do not find it", store.RecordLabel),
			Remedy: Remedy{Text: "Put the label back, if it is one:", Commands: []string{
				fmt.Sprintf("kubectl -n %s label configmap %s %s=true --overwrite", seen.Namespace, name, store.RecordLabel),
			}},
		})
	}
	a.add(more(seen.Strays.Value, Error, "ConfigMaps lack the label of a record", fmt.Sprintf("kubectl -n %s get configmaps -l %s!=true", seen.Namespace, store.RecordLabel))...)
	return a
}

// judgeQuarantine judges whether records wait for an operator.
func judgeQuarantine(seen Seen) answer {
	a := answer{ok: "nothing waits for a decision"}
	lacks(&a, "", seen.Records)
	for _, node := range seen.Records.Value.Waiting.First {
		a.add(Finding{
			Severity: Warning, Object: "configmap/" + store.Name(node),
			What: "another machine has taken the name " + node + ": nothing is restored on it before an operator says whose it is",
			Remedy: Remedy{Text: "The record belongs to the machine that has the name now (old), or is to be forgotten (new):", Commands: []string{
				"nodekeep accept " + node + " --machine old", "nodekeep accept " + node + " --machine new",
			}},
		})
	}
	a.add(more(seen.Records.Value.Waiting, Warning, "records wait for a decision", "nodekeep list --stale")...)
	return a
}

// Nodes is what was found on all Nodes.
type Nodes struct {
	All   int           // Nodes
	Gated int           // of which behind the gate
	After time.Duration // how long is longer than usual
	Stuck Few[GatedNode]

	Claimed []Claimed // by annotation
	NotKept []NotKept // by reason

	Unverified Few[string]      // names of those with a verification taint
	Overdue    Few[WaitingNode] // of which longer than the deadline of their profile
}

// GatedNode has been behind the gate for longer than usual.
type GatedNode struct {
	Name  string
	Since time.Time
	Why   string // what is left to do about it; empty where that is not known
}

// See counts a Node, and reports whether it is among the named ones. The gate is added only at the CREATE. So a Node has had its gate since it was
// created.
func (g *Nodes) See(node *corev1.Node, gate policy.Gate, now time.Time) (named bool) {
	g.All++
	if !gate.On(node.Spec.Taints) {
		return false
	}
	g.Gated++
	since := node.CreationTimestamp.Time
	if now.Sub(since) <= g.After {
		return false
	}
	return g.Stuck.Add(GatedNode{Name: node.Name, Since: since})
}

// judgeGatedNodes judges whether Nodes have been behind the gate for long.
func judgeGatedNodes(seen Seen) answer {
	var a answer
	lacks(&a, "", seen.Nodes)
	nodes := seen.Nodes.Value
	a.ok = fmt.Sprintf("%d of %d Nodes are behind the gate, none for more than %s", nodes.Gated, nodes.All, duration.HumanDuration(nodes.After))
	for _, node := range nodes.Stuck.First {
		what := fmt.Sprintf("it has been behind the gate for %s and takes no workloads", duration.HumanDuration(seen.Now.Sub(node.Since)))
		if node.Why != "" {
			what += ": " + node.Why
		}
		a.add(Finding{
			Severity: Error, Object: "node/" + node.Name, What: what,
			Remedy: Remedy{Text: "See what it waits for. To let it take workloads as it is:", Commands: []string{"nodekeep explain " + node.Name, "nodekeep gate lift " + node.Name}},
		})
	}
	a.add(more(nodes.Stuck, Error, "Nodes are behind the gate", "nodekeep gate list")...)
	return a
}

// more reports how many there are in addition to those that are named.
func more[T any](few Few[T], severity Severity, what, command string) []Finding {
	left := few.All - len(few.First)
	if left == 0 {
		return nil
	}
	return []Finding{{Severity: severity, What: fmt.Sprintf("%d more %s", left, what), Remedy: Remedy{Text: "All of them:", Commands: strings.Split(command, "\n")}}}
}
