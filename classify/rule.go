package classify

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Rule is an entry of labels.rules.
type Rule struct {
	Name string    `json:"name"`
	When Condition `json:"when"` // empty: every Node
	// Set has the labels. Values may contain {name.GROUP}, {capacity.RESOURCE}, {allocatable.RESOURCE}, {node.FIELD} and
	// {inventory.SOURCE.ATTRIBUTE}.
	Set map[string]string `json:"set"`
	// EnsureAbsent are labels, and taints as KEY:EFFECT, that are removed from the Node, by any client set, and not restored.
	EnsureAbsent []string `json:"ensureAbsent,omitempty"`
	// Hold is for how long a label stays after the rule became false, as "15m". A rule about extended resources or devices holds its labels for
	// [PluginGrace] at least.
	Hold       string     `json:"hold"`
	Precedence Precedence `json:"precedence"`
	Mode       Mode       `json:"mode"`
	Trust      Trust      `json:"trust"`
}

// Precedence says who wins where an operator has set a label that a rule sets, too.
type Precedence string

// The values of precedence.
const (
	OperatorWins Precedence = "operator" // the operator's label stays (default)
	RuleWins     Precedence = "rule"     // the rule's value replaces it
)

// Mode says whether a rule sets labels.
type Mode string

// The values of mode.
const (
	Enforce Mode = "enforce" // default
	Audit   Mode = "audit"   // what the rule would set is reported only
)

// Trust says whose word a rule may take for a protected label.
type Trust string

// TrustKubelet allows a rule to derive a protected label from what the kubelet reports: capacity, versions, devices. A kubelet can report
// what it likes.
const TrustKubelet Trust = "kubelet"

// Condition is what must hold of a Node. All fields that are given must hold.
type Condition struct {
	Clause `json:",inline"`
	Any    []Clause `json:"any"` // one of them must hold
}

// Clause is what must hold of a Node, without alternatives.
type Clause struct {
	Labels      string            `json:"labels"`      // a selector as for kubectl -l
	Names       []string          `json:"names"`       // patterns with *; one must match the Node's name
	NameRegex   string            `json:"nameRegex"`   // RE2, begins with ^; named groups are facts
	Capacity    map[string]string `json:"capacity"`    // resource to comparison: ">=1", "<64Gi", "8"
	Allocatable map[string]string `json:"allocatable"` // the same
	Node        NodeCondition     `json:"node"`
	ProviderID  string            `json:"providerID"` // a pattern with *
	Devices     *DeviceCondition  `json:"devices"`
	Inventory   map[string]string `json:"inventory,omitempty"` // SOURCE.ATTRIBUTE to a pattern with *
}

// NodeCondition is about the software of a machine. Arch, OS and Runtime are patterns with *; Kernel and Kubelet are patterns or
// comparisons of versions (">=1.35").
type NodeCondition struct {
	Arch    string `json:"arch"`
	OS      string `json:"os"`
	Kernel  string `json:"kernel"`
	Runtime string `json:"runtime"`
	Kubelet string `json:"kubelet"`
}

// DeviceCondition counts devices of the Node's ResourceSlices.
type DeviceCondition struct {
	Driver    string `json:"driver"`
	Attribute string `json:"attribute"` // whose value must match Glob
	Glob      string `json:"glob"`
	Min       int    `json:"min"` // so many at least; 1 if it is not given
}

// Reported reports whether the rule uses something that the Node's kubelet reports: it can claim what it likes. Labels are not
// among that, since not all are the kubelet's.
func (r Rule) Reported() bool {
	for _, value := range r.Set {
		for _, group := range []string{"{capacity.", "{allocatable.", "{node."} {
			if strings.Contains(value, group) {
				return true
			}
		}
	}
	return r.When.reported()
}

func (c Condition) reported() bool {
	return c.Clause.reported() || slices.ContainsFunc(c.Any, Clause.reported)
}

func (c Clause) reported() bool {
	return len(c.Capacity)+len(c.Allocatable) > 0 || c.Node != (NodeCondition{}) || c.ProviderID != "" || c.Devices != nil
}

// InventoryFact is a fact of an inventory that a rule uses, and where the rule names it.
type InventoryFact struct {
	Source, Attribute string
	At                *field.Path
}

// InventoryFacts are those that the rule uses. at is the path of the rule.
func (r Rule) InventoryFacts(at *field.Path) (facts []InventoryFact) {
	facts = r.When.inventoryFacts(at.Child("when"))
	for _, key := range slices.Sorted(maps.Keys(r.Set)) {
		value, err := parseTemplate(r.Set[key], nil)
		for _, fact := range value.facts {
			if fact.group == inventoryGroup && err == nil {
				facts = append(facts, inventoryFact(fact.name, at.Child("set").Key(key)))
			}
		}
	}
	return facts
}

func (c Condition) inventoryFacts(at *field.Path) (facts []InventoryFact) {
	facts = c.Clause.inventoryFacts(at)
	for i, alternative := range c.Any {
		facts = append(facts, alternative.inventoryFacts(at.Child("any").Index(i))...)
	}
	return facts
}

func (c Clause) inventoryFacts(at *field.Path) (facts []InventoryFact) {
	for _, name := range slices.Sorted(maps.Keys(c.Inventory)) {
		facts = append(facts, inventoryFact(name, at.Child("inventory").Key(name)))
	}
	return facts
}

func inventoryFact(name string, at *field.Path) InventoryFact {
	source, attribute, _ := strings.Cut(name, ".")
	return InventoryFact{Source: source, Attribute: attribute, At: at}
}
