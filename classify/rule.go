package classify

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Every field of a policy is optional, unless its comment says otherwise.
// +kubebuilder:validation:Optional

// Rule is an entry of labels.rules.
// +kubebuilder:validation:XValidation:rule="has(self.set) && size(self.set) > 0 || has(self.ensureAbsent) && size(self.ensureAbsent) > 0",message="a rule sets at least one label, or removes one: ensureAbsent"
type Rule struct {
	// The name, which reports and Events show.
	// +required
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// What must hold of a Node. Without it, the rule is for every Node.
	Condition Condition `json:"when"`
	// The labels that the rule sets. A value may contain facts, such as {capacity.RESOURCE}; docs/rules.md lists them.
	Set map[string]string `json:"set"`
	// A table of texts that a Node reports, and what each becomes in the value of a label.
	// +kubebuilder:validation:MaxProperties=200
	Values map[string]string `json:"values,omitempty"`
	// Labels, and taints as KEY:EFFECT, that are removed from the Node, by any client set, and not restored.
	EnsureAbsent []string `json:"ensureAbsent,omitempty"`
	// How long a label stays after the rule became false, such as 15m. A rule about extended resources, devices or features holds its labels
	// for 5m at least; 0 by default.
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+(\.[0-9]+)?(h|m|s|ms))+)$`
	Hold string `json:"hold"`
	// Whose value counts where an operator has set the label, too: operator (the default) or rule.
	// rule is for labels that scripts set wrongly.
	Precedence Precedence `json:"precedence"`
	// Whether the rule sets labels: enforce (the default) or audit, which only reports.
	// audit is for a rule that is not trusted yet.
	Mode Mode `json:"mode"`
	// Whose word the rule may take for a label that no kubelet may set: kubelet, or nobody's. It is for clusters that trust their kubelets.
	Trust Trust `json:"trust"`
}

// Precedence says who wins where an operator has set a label that a rule sets, too.
// +kubebuilder:validation:Enum=operator;rule
type Precedence string

// The values of precedence.
const (
	OperatorWins Precedence = "operator" // the operator's label stays (default)
	RuleWins     Precedence = "rule"     // the rule's value replaces it
)

// Mode says whether a rule sets labels.
// +kubebuilder:validation:Enum=enforce;audit
type Mode string

// The values of mode.
const (
	Enforce Mode = "enforce" // default
	Audit   Mode = "audit"   // what the rule would set is reported only
)

// Trust says whose word a rule may take for a protected label.
// +kubebuilder:validation:Enum=kubelet
type Trust string

// TrustKubelet allows a rule to derive a protected label from what the kubelet reports: capacity, versions, devices. A kubelet can report
// what it likes.
const TrustKubelet Trust = "kubelet"

// Condition is what must hold of a Node. All fields that are given must hold.
type Condition struct {
	Clause `json:",inline"`
	// One of these must hold, too.
	// +kubebuilder:validation:MaxItems=100
	Alternatives []Clause `json:"any"`
}

// Clause is what must hold of a Node, without alternatives.
type Clause struct {
	// A selector of labels, as kubectl -l takes it.
	Labels string `json:"labels"`
	// Patterns with *. One must match the Node's name. A single one that begins with ^ is an expression (RE2); its named groups are facts.
	Names []string `json:"names"`
	// What the machine has: a resource and a comparison, such as ">=1", "<64Gi" or "8".
	Capacity map[string]string `json:"capacity"`
	// The version of the kernel: a pattern, or a comparison such as ">=6.1". It is for workloads that need a feature of the kernel.
	Kernel string `json:"kernel"`
	// The version of the kubelet: a pattern, or a comparison such as ">=1.35". It is for clusters that are being upgraded.
	Kubelet string `json:"kubelet"`
	// A pattern with * for spec.providerID, which names the cloud, and on some clouds the zone.
	ProviderID string `json:"providerID"`
	// Devices of the Node's ResourceSlices.
	Devices *DeviceCondition `json:"devices"`
	// Features of the Node, and a pattern with * for the value of each. A name with dots is that of a NodeFeature object. Another one is in
	// status.declaredFeatures.
	Features map[string]string `json:"features,omitempty"`
	// What an inventory says: SOURCE.ATTRIBUTE and a pattern with *.
	Inventory map[string]string `json:"inventory,omitempty"`
}

// DeviceCondition counts devices of the Node's ResourceSlices.
type DeviceCondition struct {
	// The driver that publishes the devices.
	// +required
	Driver string `json:"driver"`
	// Attributes of a device, and a pattern with * for the value of each, which the device must have. Without one, all devices of the driver count.
	// +kubebuilder:validation:MaxProperties=20
	Attributes map[string]string `json:"attributes,omitempty"`
	// How many there must be at least; 1 by default.
	// +kubebuilder:validation:Minimum=1
	Min *int `json:"min"`
}

// Reported reports whether the rule uses something that the Node's kubelet reports: it can claim what it likes. Labels are not
// among that, since not all are the kubelet's.
func (r Rule) Reported() bool {
	for _, value := range r.Set {
		if slices.ContainsFunc(factsOf(value), factName.reported) {
			return true
		}
	}
	return r.Condition.reported()
}

func (c Condition) reported() bool {
	return c.Clause.reported() || slices.ContainsFunc(c.Alternatives, Clause.reported)
}

func (c Clause) reported() bool {
	return len(c.Capacity) > 0 || c.Kernel != "" || c.Kubelet != "" || c.ProviderID != "" || c.Devices != nil || len(c.Features) > 0
}

// InventoryFact is a fact of an inventory that a rule uses, and where the rule names it.
type InventoryFact struct {
	Source, Attribute string
	Path              *field.Path
}

// InventoryFacts returns those that the rule uses. at is the path of the rule.
func (r Rule) InventoryFacts(path *field.Path) (facts []InventoryFact) {
	facts = r.Condition.inventoryFacts(path.Child("when"))
	for _, key := range slices.Sorted(maps.Keys(r.Set)) {
		for _, fact := range factsOf(r.Set[key]) {
			if fact.group == inventoryGroup {
				facts = append(facts, inventoryFact(fact.name, path.Child("set").Key(key)))
			}
		}
	}
	return facts
}

func (c Condition) inventoryFacts(path *field.Path) (facts []InventoryFact) {
	facts = c.Clause.inventoryFacts(path)
	for i, alternative := range c.Alternatives {
		facts = append(facts, alternative.inventoryFacts(path.Child("any").Index(i))...)
	}
	return facts
}

func (c Clause) inventoryFacts(path *field.Path) (facts []InventoryFact) {
	for _, name := range slices.Sorted(maps.Keys(c.Inventory)) {
		facts = append(facts, inventoryFact(name, path.Child("inventory").Key(name)))
	}
	return facts
}

// LabelFacts returns the labels whose values the rule copies.
func (r Rule) LabelFacts() (keys []string) {
	for _, key := range slices.Sorted(maps.Keys(r.Set)) {
		keys = append(keys, labelsOf(factsOf(r.Set[key]))...)
	}
	return keys
}

// Listed returns the rule's table if each of its texts can become the value of the label. Then the value is one fact, and no other value has another.
func (r Rule) Listed(key string) map[string]string {
	facts := map[factName]bool{}
	for _, text := range r.Set {
		for _, fact := range factsOf(text) {
			facts[fact] = true
		}
	}
	if value := r.Set[key]; len(facts) != 1 || !strings.HasPrefix(value, "{") || strings.Index(value, "}") != len(value)-1 {
		return nil // the table is for other facts, too
	}
	return r.Values
}

func inventoryFact(name string, path *field.Path) InventoryFact {
	source, attribute, _ := strings.Cut(name, ".")
	return InventoryFact{Source: source, Attribute: attribute, Path: path}
}
