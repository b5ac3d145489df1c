package policy

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/record"
)

// maxFormerLabels bounds how many keys are known that rules set which are not in force any more.
const maxFormerLabels = 1000

// LabelRules returns labels.rules.
func (p Policy) LabelRules() classify.Rules { return p.labelRules }

// RuleWarnings are about rules for labels that can never act.
func (p Policy) RuleWarnings() (warnings []string) {
	for _, warning := range p.labelRules.DeadRuleWarnings() {
		warnings = append(warnings, "labels.rules: "+warning)
	}
	return warnings
}

// NoRules is the [Policy.RulesHash] of a policy without rules for labels.
const NoRules = "none"

// RulesHash names the rules for labels and the migrations: equal ones have equal hashes.
func (p Policy) RulesHash() string { return cmp.Or(p.rulesHash, NoRules) }

func hashOf(rules []classify.Rule, migrations []Migration) string {
	if len(rules)+len(migrations) == 0 {
		return NoRules
	}
	var all any = rules
	if len(migrations) > 0 {
		all = []any{rules, migrations}
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic("marshal rules: " + err.Error()) // cannot happen: texts and numbers
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:hashBytes])
}

// AcceptsRules reports whether the policy itself accepts what its rules and migrations remove and change.
func (p Policy) AcceptsRules() bool { return p.accept == p.RulesHash() }

// isHash reports whether a text can be a [Policy.RulesHash].
func isHash(text string) bool {
	decoded, err := hex.DecodeString(text)
	return text == NoRules || err == nil && len(decoded) == hashBytes && strings.ToLower(text) == text
}

// hashBytes is how many bytes a [Policy.RulesHash] has.
const hashBytes = 6

// WithRulesHeld returns the policy with [Policy.RulesHeld] set. While it is held, its rules for labels, migrations included, must only add labels.
func (p Policy) WithRulesHeld(held bool) Policy {
	p.rulesHeld = held
	return p
}

// RulesHeld reports whether the rules for labels must not remove or change labels until an operator has accepted them.
func (p Policy) RulesHeld() bool { return p.rulesHeld }

// RulesSet reports whether a rule sets the label, or removes the label or taint, or did before; see [Policy.WithPredecessor].
func (p Policy) RulesSet(key string) bool { return p.formerLabels.Has(key) || p.labelRules.Sets(key) }

// setLabels returns all keys that rules set, and those that they did before while there is room.
func (p Policy) setLabels() sets.Set[string] {
	return withFormer(sets.New(p.labelRules.Keys()...), p.formerLabels, maxFormerLabels)
}

// withFormer adds former keys to keys, while there are fewer than most.
func withFormer(keys, former sets.Set[string], maximum int) sets.Set[string] {
	for _, key := range sets.List(former) {
		if len(keys) < maximum {
			keys.Insert(key)
		}
	}
	return keys
}

// Classify returns what the rules say of a Node with these facts, without the labels that rules have set. The parameter remembered has the
// labels that rules set last on this machine.
func (p Policy) Classify(facts classify.Facts, remembered map[string]record.RuleLabel, now time.Time) classify.Result {
	if p.labelRules.Empty() {
		return classify.Result{}
	}
	return p.labelRules.Evaluate(facts, remembered, now)
}

// readLabelRules checks labels.rules: what [classify.Compile] checks, and that no rule sets what is another's.
func (p *Policy) readLabelRules(rules []classify.Rule, path *field.Path) field.ErrorList {
	compiled, errs := classify.Compile(rules, path)
	known := map[string]origin{} // of the keys that earlier rules decide
	for i, rule := range rules {
		from := origin{kubelet: rule.Reported(), inventory: len(rule.InventoryFacts(nil)) > 0, trust: rule.Trust}
		for _, key := range slices.Concat(selectedKeys(rule.Condition), rule.LabelFacts()) {
			earlier, derived := known[key]
			from.kubelet = from.kubelet || earlier.kubelet || !derived && AllowedForKubelet(key)
			from.inventory = from.inventory || earlier.inventory
		}
		decides := func(key string, fieldPath *field.Path, problem string) {
			known[key] = origin{kubelet: known[key].kubelet || from.kubelet, inventory: known[key].inventory || from.inventory}
			if problem != "" {
				errs = append(errs, field.Forbidden(fieldPath, problem))
			}
		}
		for _, key := range slices.Sorted(maps.Keys(rule.Set)) {
			decides(key, path.Index(i).Child("set").Key(key), p.forbids(key, from))
		}
		for pos, item := range rule.EnsureAbsent {
			decides(item, path.Index(i).Child("ensureAbsent").Index(pos), p.forbidsRemoval(item, from))
		}
	}
	if len(errs) == 0 {
		p.labelRules = compiled
	}
	return errs
}

// origin says who reports what a rule uses.
type origin struct {
	kubelet   bool // a kubelet
	inventory bool // an inventory
	trust     classify.Trust
}

// fromInventory is why a rule that looks at an inventory must not change a label that isolates workloads.
const fromInventory = "it is an isolation boundary, and who can change the inventory could move Nodes across it"

// forbids returns why a rule must not set a label; empty: it may.
func (p Policy) forbids(key string, from origin) (problem string) {
	owner, owned := p.labels.catalogue.setsAgain(key)
	switch {
	case isOrUnder(domainOf(key), "nodekeep.dev"):
		return "it belongs to nodekeep itself"
	case owned && !IsNodeRestriction(key) && !slices.Contains(p.labels.keep, key):
		return fmt.Sprintf("it belongs to %s; a rule sets it only if labels.keep names it", owner)
	case from.inventory && IsNodeRestriction(key):
		return fromInventory
	case from.kubelet && IsNodeRestriction(key):
		return "it is an isolation boundary, and a kubelet could move its Node there: it reports what the rule looks at"
	case from.kubelet && isProtected(key) && from.trust != classify.TrustKubelet:
		return "a kubelet may not set this label, and it reports what the rule looks at: say trust: kubelet if its word is enough"
	}
	return ""
}

// forbidsRemoval returns why a rule must not remove a label or taint; empty: it may.
func (p Policy) forbidsRemoval(item string, from origin) (problem string) {
	taint := record.Taint(item, "")
	owner, owned := p.labels.catalogue.setsAgain(item)
	if record.IsTaint(item) {
		owner, owned = p.taints.catalogue.setsAgain(taint.Key)
	}
	switch {
	case record.IsTaint(item) && p.gate.Matches(taint):
		return "it is the gate, which nodekeep adds and removes by itself"
	case owned:
		return fmt.Sprintf("it belongs to %s, which would add it again", owner)
	case p.AddsAtRegistration(item):
		return "taints.register adds it"
	case haveTaint(p.rules, item):
		return "taints.rules add a taint of this key and effect"
	case from.inventory && (IsNodeRestriction(item) || record.IsTaint(item) && IsNodeRestriction(taint.Key)):
		return fromInventory
	case from.kubelet && (record.IsTaint(item) || isProtected(item)) && from.trust != classify.TrustKubelet:
		return "a kubelet may not remove it, and it reports what the rule looks at: say trust: kubelet if its word is enough"
	}
	return ""
}

// selectedKeys returns the labels that a condition selects on. A selector that cannot be read is reported elsewhere.
func selectedKeys(condition classify.Condition) (keys []string) {
	for _, clause := range slices.Concat([]classify.Clause{condition.Clause}, condition.Alternatives) {
		if selector, err := labels.Parse(clause.Labels); err == nil {
			selected, _ := keysOf(selector)
			keys = append(keys, selected...)
		}
	}
	return keys
}
