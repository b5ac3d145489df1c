package view

import (
	"fmt"
	"strings"
	"time"

	"nodekeep.dev/nodekeep/cli/nodestate"
)

// Release is a plan to let a Node take workloads.
type Release struct {
	State        nodestate.State
	Gated        *Gated        // nil: the gate stays, or there is none
	GateStays    bool          // the Node is behind the gate, which is not lifted
	Verification *Verification // nil: no taint of verification keeps or would keep the Node closed
	Opens        bool          // the Node is released from verification
	Remains      string        // what keeps the Node closed after all; empty: nothing that is known
}

// Document returns why the Node waits.
func (r Release) Document(now time.Time) Document {
	var d Document
	d.addFact("Node", r.State.Name)
	if g := r.Gated; g != nil {
		d.addFact("Gated", "for "+age(g.Created.Time, now))
		d.addFact("Why", g.Reason)
		d.addFact("Next step", g.Next)
		d.Tables = append(d.Tables, itemsTable("Missing", []string{"Value"}, g.Missing))
	}
	if v := r.Verification; v != nil {
		d.addFact("Verification", v.Reason)
	}
	return d
}

// Summary says what the release means.
func (r Release) Summary() string {
	var sentences, although []string
	missing := 0
	if r.Gated != nil {
		missing = len(r.Gated.Missing)
	}
	switch {
	case r.Gated == nil:
	case r.State.Unreadable != nil:
		sentences = append(sentences, "What it lacks is not known.")
	case missing == 0:
		sentences = append(sentences, "It lacks nothing that is known of.")
	default:
		although = append(although, "lacks "+Counted(missing, "item"))
	}
	if r.Opens {
		attempts := "No attempt has ended yet."
		if v := r.Verification; v.Last != nil && v.Attempts > 0 {
			attempts = Counted(v.Attempts, "attempt") + " did not pass."
		}
		sentences, although = append(sentences, attempts), append(although, "is not verified")
	}
	reasons := strings.Join(although, " and ")
	switch {
	case r.Remains != "":
		sentences = append(sentences, "The Node stays closed: "+r.Remains+".")
	case r.GateStays:
		sentences = append(sentences, "It takes no workloads before its gate is lifted.")
	case r.Verification != nil && !r.Opens:
		if reasons != "" {
			sentences = append(sentences, "It "+reasons+".")
		}
		sentences = append(sentences, "It takes no workloads before it is verified.")
	case reasons != "":
		sentences = append(sentences, "Workloads may then land on it although it "+reasons+".")
	}
	return strings.Join(sentences, " ")
}

// Fingerprint is another one once the Node, what it lacks or its verification taints have changed.
func (r Release) Fingerprint() (known [4]string) {
	known[0] = string(r.State.Node.UID)
	if r.Gated != nil {
		known[1], known[2] = r.Gated.Created.UTC().String(), listOf(r.Gated.Missing)
	}
	if r.Opens {
		known[3] = strings.Join(r.Verification.Taints, ",")
	}
	return known
}

// Done reports what was done.
func (r Release) Done() string {
	var done []string
	if r.Gated != nil {
		done = append(done, "gate lifted")
	}
	if r.Opens {
		done = append(done, "released without verification")
	}
	return fmt.Sprintf("node/%s: %s", r.State.Name, strings.Join(done, ", "))
}
