package report

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Cost is for how long Nodes have existed, by the value of a label. It knows no prices.
//
// It counts only Nodes that exist now, from their creation on, with their current label and CPU. Deleted Nodes, earlier values and earlier
// capacities are not counted.
type Cost struct {
	Key  string    `json:"key"`
	Last string    `json:"last,omitempty"` // no more than so long of each Node; empty: since it was created
	Rows []CostRow `json:"values"`         // the most node-hours first
}

// CostRow is the Nodes with one value.
type CostRow struct {
	Value     string  `json:"value"` // [NoLabel] for Nodes without the label
	Nodes     int     `json:"nodes"`
	NodeHours float64 `json:"nodeHours"`
	CoreHours float64 `json:"coreHours"`
}

// Ages adds up for how long Nodes have existed.
type Ages struct {
	key  string
	last time.Duration
	now  time.Time
	rows map[string]*CostRow
}

// NewAges counts at most the last so long of each Node; 0: since it was created.
func NewAges(key string, last time.Duration, now time.Time) *Ages {
	return &Ages{key: key, last: last, now: now, rows: map[string]*CostRow{}}
}

// See counts a Node.
func (a *Ages) See(labels map[string]string, capacity corev1.ResourceList, created time.Time) {
	value := valueOf(labels, a.key)
	row, known := a.rows[value]
	if !known {
		row = &CostRow{Value: value}
		a.rows[value] = row
	}
	row.Nodes++
	age := max(0, a.now.Sub(created))
	if created.IsZero() {
		age = 0
	}
	if a.last > 0 {
		age = min(age, a.last)
	}
	row.NodeHours += age.Hours()
	row.CoreHours += age.Hours() * capacity.Cpu().AsApproximateFloat64()
}

// Cost returns what was counted.
func (a *Ages) Cost() *Cost {
	c := &Cost{Key: a.key, Rows: []CostRow{}}
	if a.last > 0 {
		c.Last = a.last.String()
	}
	for _, row := range a.rows {
		row.NodeHours, row.CoreHours = tenths(row.NodeHours), tenths(row.CoreHours)
		c.Rows = append(c.Rows, *row)
	}
	slices.SortFunc(c.Rows, func(x, y CostRow) int {
		return cmp.Or(cmp.Compare(y.NodeHours, x.NodeHours), byNodes(Count{x.Value, x.Nodes}, Count{y.Value, y.Nodes}))
	})
	return c
}

func tenths(hours float64) float64 { return math.Round(hours*10) / 10 }

func itoa(n int) string { return strconv.Itoa(n) }

func (c Cost) tables() []Table {
	note := "Nodes that exist now, since their creation, by the label and the CPU that they have now. Deleted Nodes are not counted. No prices."
	if c.Last != "" {
		note = "Nodes that exist now, for the last " + c.Last + " at most, by the label and the CPU that they have now. Deleted Nodes are not counted. No prices."
	}
	t := Table{Name: "cost", Title: "Node-hours and core-hours by " + c.Key, Note: note,
		Columns: []Column{text("Value"), number("Nodes"), number("Node-hours"), number("Core-hours")}}
	for _, row := range c.Rows {
		t.add(row.Value, row.Nodes, row.NodeHours, row.CoreHours)
	}
	return []Table{t}
}
