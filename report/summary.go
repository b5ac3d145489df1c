package report

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Summary is which labels the Nodes have, and how much of what.
type Summary struct {
	Labels []Label `json:"labels"` // by key
	// LeftOut counts labels of Nodes that are not among them, because there are too many different ones.
	LeftOut int    `json:"leftOut,omitempty"`
	TierKey string `json:"tierKey"` // the label by whose value Tiers are
	Tiers   []Tier `json:"tiers"`   // the most Nodes first
	// Resources are the names in the capacity of any tier, cpu, memory and pods first.
	Resources []string `json:"resources"`
	Changes   Changes  `json:"changes"`
}

// Label is one key, on all Nodes.
type Label struct {
	Key    string  `json:"key"`
	Nodes  int     `json:"nodes"`  // that have it
	Values int     `json:"values"` // different ones: the cardinality
	Counts []Count `json:"counts"` // by value, the most Nodes first
}

// Tier is the Nodes with one value of the tier label.
type Tier struct {
	Value    string              `json:"value"` // [NoLabel] for Nodes without the label
	Nodes    int                 `json:"nodes"`
	Capacity corev1.ResourceList `json:"capacity"` // of all of them together
}

// Nodes counts the labels and the capacity of Nodes.
type Nodes struct {
	tierKey   string
	count     int
	labels    map[string]map[string]int // by key and value
	pairs     int
	leftOut   int
	tiers     map[string]*Tier
	resources map[corev1.ResourceName]bool
}

// NewNodes counts the capacity by the value of the label tierKey.
func NewNodes(tierKey string) *Nodes {
	return &Nodes{tierKey: tierKey, labels: map[string]map[string]int{}, tiers: map[string]*Tier{}, resources: map[corev1.ResourceName]bool{}}
}

// See counts a Node.
func (n *Nodes) See(labels map[string]string, capacity corev1.ResourceList) {
	n.count++
	for key, value := range labels {
		values, known := n.labels[key]
		if _, counted := values[value]; !counted {
			if n.pairs == maxPairs {
				n.leftOut++
				continue
			}
			n.pairs++
		}
		if !known {
			values = map[string]int{}
			n.labels[strings.Clone(key)] = values
		}
		values[value]++
	}
	n.addCapacity(valueOf(labels, n.tierKey), capacity)
}

func valueOf(labels map[string]string, key string) string {
	if value, ok := labels[key]; ok {
		return value
	}
	return NoLabel
}

func (n *Nodes) addCapacity(value string, capacity corev1.ResourceList) {
	tier, known := n.tiers[value]
	if !known {
		tier = &Tier{Value: value, Capacity: corev1.ResourceList{}}
		n.tiers[value] = tier
	}
	tier.Nodes++
	for _, name := range slices.SortedFunc(maps.Keys(capacity), compareResources) {
		if !n.resources[name] {
			if len(n.resources) == maxResources {
				continue
			}
			n.resources[name] = true
		}
		sum := tier.Capacity[name]
		sum.Add(capacity[name])
		tier.Capacity[name] = sum
	}
}

// compareResources has cpu, memory and pods first.
func compareResources(a, b corev1.ResourceName) int {
	first := []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods}
	order := func(name corev1.ResourceName) int {
		if i := slices.Index(first, name); i >= 0 {
			return i
		}
		return len(first)
	}
	return cmp.Or(cmp.Compare(order(a), order(b)), cmp.Compare(a, b))
}

// Keys returns the labels that Nodes have, with the number of Nodes.
func (n *Nodes) Keys() map[string]int {
	keys := make(map[string]int, len(n.labels))
	for key, values := range n.labels {
		for _, nodes := range values {
			keys[key] += nodes
		}
	}
	return keys
}

// Count returns how many Nodes were counted.
func (n *Nodes) Count() int { return n.count }

// Summary returns what was counted, with the changes of the records.
func (n *Nodes) Summary(changes Changes) *Summary {
	s := &Summary{Labels: []Label{}, LeftOut: n.leftOut, TierKey: n.tierKey, Tiers: []Tier{}, Resources: []string{}, Changes: changes}
	for _, key := range slices.Sorted(maps.Keys(n.labels)) {
		label := Label{Key: key, Values: len(n.labels[key]), Counts: make([]Count, 0, len(n.labels[key]))}
		for value, nodes := range n.labels[key] {
			label.Nodes += nodes
			label.Counts = append(label.Counts, Count{value, nodes})
		}
		slices.SortFunc(label.Counts, byNodes)
		s.Labels = append(s.Labels, label)
	}
	for _, tier := range n.tiers {
		s.Tiers = append(s.Tiers, *tier)
	}
	slices.SortFunc(s.Tiers, func(a, b Tier) int { return byNodes(Count{a.Value, a.Nodes}, Count{b.Value, b.Nodes}) })
	for _, name := range slices.SortedFunc(maps.Keys(n.resources), compareResources) {
		s.Resources = append(s.Resources, string(name))
	}
	return s
}

func (s Summary) tables() []Table {
	tiers := Table{Name: "tiers", Title: "Capacity by " + s.TierKey, Columns: []Column{text("Value"), number("Nodes")}}
	for _, name := range s.Resources {
		if isBytes(name) {
			name += " (GiB)"
		}
		tiers.Columns = append(tiers.Columns, number(name))
	}
	for _, tier := range s.Tiers {
		row := []any{tier.Value, tier.Nodes}
		for _, name := range s.Resources {
			amount := amountOf(tier.Capacity, name)
			if isBytes(name) {
				amount = tenths(amount / (1 << 30))
			}
			row = append(row, amount)
		}
		tiers.Rows = append(tiers.Rows, row)
	}
	keys := Table{Name: "keys", Title: "Labels", Columns: []Column{text("Key"), number("Nodes"), number("Values")}}
	values := Table{Name: "values", Title: "Nodes by label", Columns: []Column{text("Key"), text("Value"), number("Nodes")}}
	for _, label := range s.Labels {
		keys.add(label.Key, label.Nodes, label.Values)
		for _, count := range label.Counts {
			values.add(label.Key, count.Value, count.Nodes)
		}
	}
	if s.LeftOut > 0 {
		values.Note = "Too many different labels: some are left out."
	}
	return append([]Table{tiers, keys, values}, s.Changes.tables()...)
}

// amountOf returns an amount as a number for a chart.
func amountOf(list corev1.ResourceList, name string) float64 {
	amount := list[corev1.ResourceName(name)]
	return amount.AsApproximateFloat64()
}

// isBytes reports whether a resource is counted in bytes.
func isBytes(name string) bool {
	return name == string(corev1.ResourceMemory) || name == string(corev1.ResourceEphemeralStorage) || isHugePages(name)
}
