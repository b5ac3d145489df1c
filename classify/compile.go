package classify

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"nodekeep.dev/nodekeep/quantity"
	"nodekeep.dev/nodekeep/record"
)

// Bounds of what a policy may ask for. They keep an evaluation below a millisecond.
const (
	maxRules        = 200
	maxAlternatives = 100 // of any
	maxValues       = 200
)

// compiled is a rule that was checked.
type compiled struct {
	name      string
	condition condition
	keys      []string // sorted
	set       map[string]template
	values    map[string]string // what stands in place of a fact's text
	absent    map[string]bool   // those of keys that are removed
	// sources are the labels that the keys follow; nil but in the rule of [Rules.Copying].
	sources map[string]string
	hold    time.Duration
	force   bool // its value replaces an operator's
	audit   bool
	// inventory says that it uses an inventory, or selects on a label of a rule that does.
	inventory bool
}

// condition is a Condition that was checked; nil parts are not asked for.
type condition struct {
	labels       labels.Requirements
	names        []string
	nameRegex    *regexp.Regexp
	capacity     []quantified
	kernel       *versioned
	kubelet      *versioned
	providerID   string
	devices      *DeviceCondition
	features     []featured
	inventory    []attributed
	alternatives []condition
}

// Compile checks rules. It returns all errors at once.
func Compile(rules []Rule, path *field.Path) (Rules, field.ErrorList) {
	compiled := Rules{uses: uses{capacity: map[string]bool{}, allocatable: map[string]bool{}}}
	var errs field.ErrorList
	if len(rules) > maxRules {
		return Rules{}, field.ErrorList{field.TooMany(path, len(rules), maxRules)}
	}
	names, later := sets.New[string](), map[string]int{} // the last rule that sets a key
	for i, rule := range rules {
		for key := range rule.Set {
			later[key] = i
		}
		for _, key := range rule.EnsureAbsent {
			later[key] = i
		}
	}
	for i, rule := range rules {
		fieldPath := path.Index(i)
		switch {
		case rule.Name == "":
			errs = append(errs, field.Required(fieldPath.Child("name"), "the annotation, Events and explain name the rule"))
		case rule.Name == CopyRule:
			errs = append(errs, field.Forbidden(fieldPath.Child("name"), "labels.migrations use this name"))
		case names.Has(rule.Name):
			errs = append(errs, field.Duplicate(fieldPath.Child("name"), rule.Name))
		default:
			for _, wrong := range validation.IsDNS1123Label(rule.Name) {
				errs = append(errs, field.Invalid(fieldPath.Child("name"), rule.Name, wrong))
			}
		}
		names.Insert(rule.Name)
		c := compiler{later: later, rule: i, uses: &compiled.uses}
		result := c.compile(rule, fieldPath)
		errs = append(errs, c.errs...)
		compiled.all = append(compiled.all, result)
	}
	compiled.markInventory()
	if len(errs) > 0 {
		return Rules{}, errs
	}
	return compiled, nil
}

// compiler checks one rule.
type compiler struct {
	errs      field.ErrorList
	later     map[string]int
	rule      int
	groups    []string // of the rule's expression for names
	uses      *uses    // of all rules
	plugins   bool     // the rule is about devices or features, which a restart or an update may hide for minutes
	inventory bool     // the rule uses an inventory
}

func (c *compiler) invalid(path *field.Path, value any, err error) {
	c.errs = append(c.errs, field.Invalid(path, value, err.Error()))
}

func oneOf[T ~string](c *compiler, path *field.Path, value T, allowed ...T) {
	if value != "" && !slices.Contains(allowed, value) {
		c.errs = append(c.errs, field.NotSupported(path, value, allowed))
	}
}

func (c *compiler) compile(rule Rule, path *field.Path) compiled {
	result := compiled{
		name: rule.Name, keys: slices.Sorted(maps.Keys(rule.Set)), set: map[string]template{}, hold: c.hold(rule.Hold, path.Child("hold")),
		force: rule.Precedence == RuleWins, audit: rule.Mode == Audit, values: rule.Values,
	}
	facts := false
	result.condition = c.condition(rule.Condition, path.Child("when"))
	if result.condition.nameRegex != nil {
		c.groups = result.condition.nameRegex.SubexpNames()[1:]
	}
	oneOf(c, path.Child("precedence"), rule.Precedence, OperatorWins, RuleWins)
	oneOf(c, path.Child("mode"), rule.Mode, Enforce, Audit)
	oneOf(c, path.Child("trust"), rule.Trust, TrustKubelet)
	if len(rule.Set)+len(rule.EnsureAbsent) == 0 {
		c.errs = append(c.errs, field.Required(path.Child("set"), "a rule sets at least one label, or removes one: ensureAbsent"))
	}
	if len(rule.Set) == 0 && rule.Precedence != "" {
		c.errs = append(c.errs, field.Forbidden(path.Child("precedence"), "it is about labels in set: ensureAbsent removes what operators set, too"))
	}
	for _, key := range result.keys {
		in := path.Child("set").Key(key)
		for _, wrong := range validation.IsQualifiedName(key) {
			c.errs = append(c.errs, field.Invalid(in, key, wrong))
		}
		value, err := parseTemplate(rule.Set[key])
		if err == nil {
			err = value.check(c.groups)
		}
		if err != nil {
			c.invalid(in, rule.Set[key], err)
			continue
		}
		if literal, ok := value.literal(); ok {
			for _, wrong := range validation.IsValidLabelValue(literal) {
				c.errs = append(c.errs, field.Invalid(in, literal, wrong))
			}
		}
		for _, copied := range value.labels() {
			c.earlierOnly(copied, in)
		}
		c.devicesOf(result.condition.devices, value, rule.Set[key], in)
		result.set[key], facts = value, facts || len(value.facts) > 0
		value.note(c.uses)
		c.inventory = c.inventory || value.inventory()
	}
	c.table(rule.Values, facts, path.Child("values"))
	result.absent = c.absent(rule, path.Child("ensureAbsent"))
	result.keys = slices.Sorted(slices.Values(slices.Concat(result.keys, slices.Collect(maps.Keys(result.absent)))))
	result.inventory = c.inventory
	if c.plugins {
		result.hold = max(result.hold, PluginGrace)
	}
	return result
}

// absent returns the labels and taints that a rule removes.
func (c *compiler) absent(rule Rule, path *field.Path) map[string]bool {
	absent := map[string]bool{}
	for i, key := range rule.EnsureAbsent {
		fieldPath := path.Index(i)
		name, effect, taint := strings.Cut(key, ":")
		for _, wrong := range validation.IsQualifiedName(name) {
			c.errs = append(c.errs, field.Invalid(fieldPath, key, "must be a label, or a taint as KEY:EFFECT, without a value and without patterns: "+wrong))
		}
		if taint && !record.ValidEffect(corev1.TaintEffect(effect)) {
			c.errs = append(c.errs, field.Invalid(fieldPath, key, "must end in one of :NoSchedule, :PreferNoSchedule, :NoExecute, or be a label"))
		}
		if _, set := rule.Set[key]; set || absent[key] {
			c.errs = append(c.errs, field.Duplicate(fieldPath, key))
			continue
		}
		absent[key] = true
	}
	return absent
}

// hold reads a duration; without one it is 0.
func (c *compiler) hold(text string, path *field.Path) time.Duration {
	if text == "" {
		return 0
	}
	hold, err := time.ParseDuration(text)
	if err != nil || hold < 0 {
		c.invalid(path, text, errors.New("must be a duration in h, m and s, such as 15m"))
	}
	return hold
}

func (c *compiler) condition(cond Condition, path *field.Path) condition {
	compiled := c.clause(cond.Clause, path, true)
	if len(cond.Alternatives) > maxAlternatives {
		c.errs = append(c.errs, field.TooMany(path.Child("any"), len(cond.Alternatives), maxAlternatives))
		return compiled
	}
	for i, alternative := range cond.Alternatives {
		compiled.alternatives = append(compiled.alternatives, c.clause(alternative, path.Child("any").Index(i), false))
	}
	return compiled
}

// clause compiles what must hold; groups says whether an expression for names may have some.
func (c *compiler) clause(clause Clause, path *field.Path, groups bool) condition {
	var compiled condition
	compiled.labels = c.selector(clause.Labels, path.Child("labels"))
	c.names(&compiled, clause.Names, path.Child("names"), groups)
	compiled.capacity = c.quantities(clause.Capacity, path.Child("capacity"), c.uses.capacity)
	compiled.providerID = clause.ProviderID
	compiled.kernel, compiled.kubelet = c.versioned(clause.Kernel, path.Child("kernel")), c.versioned(clause.Kubelet, path.Child("kubelet"))
	c.uses.system = c.uses.system || clause.Kernel != "" || clause.Kubelet != "" || clause.ProviderID != ""
	if clause.Devices != nil {
		c.plugins = true
		c.uses.devices.add(clause.Devices.Driver, "")
		for attribute := range clause.Devices.Attributes {
			c.uses.devices.add(clause.Devices.Driver, attribute)
		}
		compiled.devices = c.devices(*clause.Devices, path.Child("devices"))
	}
	compiled.features = c.features(clause.Features, path.Child("features"))
	compiled.inventory = c.attributes(clause.Inventory, path.Child("inventory"))
	return compiled
}

// selector allows keys that no rule sets, or that only earlier rules set: so there are no cycles.
func (c *compiler) selector(text string, path *field.Path) labels.Requirements {
	selector, err := labels.Parse(text)
	if err != nil {
		c.invalid(path, text, err)
		return nil
	}
	requirements, _ := selector.Requirements()
	for _, requirement := range requirements {
		c.earlierOnly(requirement.Key(), path)
	}
	return requirements
}

// earlierOnly allows labels that no rule sets, or that only earlier rules set.
func (c *compiler) earlierOnly(key string, path *field.Path) {
	if last, set := c.later[key]; set && last >= c.rule {
		c.errs = append(c.errs, field.Forbidden(path, fmt.Sprintf("%s is set by this rule or a later one: a rule uses labels of earlier rules only", key)))
	}
}

// devicesOf notes the attributes of devices that a value is made of.
func (c *compiler) devicesOf(devices *DeviceCondition, value template, text string, path *field.Path) {
	for _, fact := range value.facts {
		switch {
		case fact.group != devicesGroup:
		case devices == nil:
			c.errs = append(c.errs, field.Invalid(path, text, "{devices."+fact.name+"} needs when.devices, which says of which driver"))
		default:
			c.uses.devices.add(devices.Driver, fact.name)
		}
	}
}

// table checks what stands in place of texts.
func (c *compiler) table(values map[string]string, facts bool, path *field.Path) {
	if len(values) > maxValues {
		c.errs = append(c.errs, field.TooMany(path, len(values), maxValues))
		return
	}
	if len(values) > 0 && !facts {
		c.errs = append(c.errs, field.Forbidden(path, "no value in set has a fact, such as {devices.productName}, whose text the table could replace"))
	}
	for _, text := range slices.Sorted(maps.Keys(values)) {
		if text == "" {
			c.errs = append(c.errs, field.Invalid(path, text, "must be a text that a Node can have"))
		}
		for _, wrong := range validation.IsValidLabelValue(values[text]) {
			c.errs = append(c.errs, field.Invalid(path.Key(text), values[text], wrong))
		}
	}
}

// names compiles patterns for names, or the expression that stands in their place: it begins with ^, as no name does.
func (c *compiler) names(compiled *condition, names []string, path *field.Path, groups bool) {
	if len(names) == 1 && strings.HasPrefix(names[0], "^") {
		compiled.nameRegex = c.expression(names[0], path.Index(0), groups)
		return
	}
	for i, name := range names {
		switch {
		case name == "":
			c.errs = append(c.errs, field.Required(path.Index(i), "must be a name or a pattern for names"))
		case strings.HasPrefix(name, "^"):
			c.errs = append(c.errs, field.Forbidden(path.Index(i), "an expression, which begins with ^, stands alone: write (?:a|b) in it for alternatives"))
		case strings.ContainsAny(name, `[](){}+?|$\^ `):
			c.errs = append(c.errs, field.Invalid(path.Index(i), name, "no name of a Node has this; an expression must begin with ^"))
		}
	}
	compiled.names = names
}

func (c *compiler) expression(text string, path *field.Path, groups bool) *regexp.Regexp {
	compiled, err := regexp.Compile(text)
	if err != nil {
		c.invalid(path, text, err)
		return nil
	}
	if !groups && compiled.NumSubexp() > 0 {
		c.errs = append(c.errs, field.Forbidden(path, "only the expression of the rule itself may have groups"))
	}
	return compiled
}

func (c *compiler) quantities(wanted map[string]string, path *field.Path, uses map[string]bool) (compiled []quantified) {
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		uses[name] = true
		c.plugins = c.plugins || quantity.IsExtended(name)
		if wrong := quantity.WrongName(name); wrong != "" {
			c.errs = append(c.errs, field.Invalid(path.Key(name), name, wrong))
		}
		compared, err := parseQuantity(wanted[name])
		if err != nil {
			c.invalid(path.Key(name), wanted[name], err)
			continue
		}
		compiled = append(compiled, quantified{corev1.ResourceName(name), compared})
	}
	return compiled
}

func (c *compiler) versioned(text string, path *field.Path) *versioned {
	if text == "" {
		return nil
	}
	compiled, err := parseVersioned(text)
	if err != nil {
		c.invalid(path, text, err)
		return nil
	}
	return &compiled
}

// maxAttributes is how many attributes of a device a condition may name.
const maxAttributes = 20

func (c *compiler) devices(condition DeviceCondition, path *field.Path) *DeviceCondition {
	if condition.Driver == "" {
		c.errs = append(c.errs, field.Required(path.Child("driver"), "as in the ResourceSlices: kubectl get resourceslices"))
	}
	if attributes := path.Child("attributes"); len(condition.Attributes) > maxAttributes {
		c.errs = append(c.errs, field.TooMany(attributes, len(condition.Attributes), maxAttributes))
	}
	for _, name := range slices.Sorted(maps.Keys(condition.Attributes)) {
		if name == "" || condition.Attributes[name] == "" {
			c.errs = append(c.errs, field.Required(path.Child("attributes").Key(name), "must be a name, and a pattern for its value"))
		}
	}
	condition.Min = new(ptr.Deref(condition.Min, 1))
	if *condition.Min < 1 {
		c.errs = append(c.errs, field.Invalid(path.Child("min"), *condition.Min, "must be at least 1"))
	}
	return &condition
}

func (c *compiler) features(wanted map[string]string, path *field.Path) (compiled []featured) {
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		_, element := CutFeature(name)
		switch {
		case name == "" || !IsDeclared(name) && element == "":
			c.errs = append(c.errs, field.Invalid(path, name, "must be DOMAIN.FEATURE.ELEMENT of a NodeFeature, such as cpu.cpuid.AVX512F, or a declared feature of the Node, which has no dot"))
		case wanted[name] == "":
			c.errs = append(c.errs, field.Required(path.Key(name), "must be a pattern; * is any value, but not that there is none"))
		case IsDeclared(name):
			c.plugins = true
			c.uses.declared.add(name)
		default:
			c.plugins = true
			c.uses.features.add(name)
		}
		compiled = append(compiled, featured{name: name, pattern: wanted[name]})
	}
	return compiled
}

func (c *compiler) attributes(wanted map[string]string, path *field.Path) (compiled []attributed) {
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		c.inventory, c.uses.inventory = true, true
		source, attribute, _ := strings.Cut(name, ".")
		if source == "" || attribute == "" {
			c.errs = append(c.errs, field.Invalid(path, name, "must be SOURCE.ATTRIBUTE, such as cmdb.rack"))
		}
		if wanted[name] == "" {
			c.errs = append(c.errs, field.Required(path.Key(name), "must be a pattern; * is any value, but not that there is none"))
		}
		compiled = append(compiled, attributed{fact: InventoryFactPrefix + name, source: source, attribute: attribute, pattern: wanted[name]})
	}
	return compiled
}
