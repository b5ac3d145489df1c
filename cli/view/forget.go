package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"nodekeep.dev/nodekeep/cli/nodestate"
)

// ForgetPlan is a plan to forget a record, or some of it.
type ForgetPlan struct{ nodestate.ForgetPlan }

// Document returns the plan. A whole record includes its quarantined side and its earlier machines.
func (f ForgetPlan) Document(now time.Time) Document {
	var d Document
	d.addFact("Node", f.Node)
	if !f.Record.DeletedAt.IsZero() {
		d.addFact("Gone", "for "+age(f.Record.DeletedAt, now))
	}
	if f.Whole {
		d.addFact("Record", "would be removed as a whole")
	}
	d.Tables = append(d.Tables, recordTable("Would be forgotten", f.Record, f.Items...))
	if old := f.Record.Quarantined; old != nil {
		d.Tables = append(d.Tables, recordTable("Of the machine before", *old))
	}
	if f.Whole {
		for i, earlier := range slices.Backward(f.Record.Earlier) {
			d.Tables = append(d.Tables, recordTable(fmt.Sprintf("Of earlier machine %d", i+1), earlier))
		}
	}
	return d
}

// Done reports what was forgotten.
func (f ForgetPlan) Done() string {
	if f.Whole {
		return "node/" + f.Node + " forgotten"
	}
	return "node/" + f.Node + ": " + strings.Join(f.Items, ", ") + " forgotten"
}
