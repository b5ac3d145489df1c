package classify

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"nodekeep.dev/nodekeep/quantity"
)

// A template is literal text, and facts between it.
type template struct {
	literals []string // one more than facts
	facts    []factName
}

// factName is a placeholder: {group.name}.
type factName struct{ group, name string }

// Groups of facts.
const (
	capacityGroup    = "capacity"
	allocatableGroup = "allocatable"
	labelsGroup      = "labels"
	devicesGroup     = "devices"
)

var (
	errUnknown = errors.New("the fact is not known")
	errAbsent  = errors.New("this Node does not have what the value is made of")
)

// parseTemplate takes a value apart. With an error, it has the facts before that. It does not check that they are facts: see [template.check].
func parseTemplate(text string) (t template, err error) {
	for {
		head, rest, found := strings.Cut(text, "{")
		if strings.Contains(head, "}") {
			return t, errors.New("has a } without a {")
		}
		t.literals = append(t.literals, head)
		if !found {
			return t, nil
		}
		placeholder, tail, closed := strings.Cut(rest, "}")
		if !closed {
			return t, errors.New("has a { without a }")
		}
		group, name, _ := strings.Cut(placeholder, ".")
		t.facts = append(t.facts, factName{group, name})
		text = tail
	}
}

// factsOf returns the facts of a value. An error in it is reported elsewhere, and hides none of the others.
func factsOf(text string) []factName {
	t, _ := parseTemplate(text)
	return t.facts
}

// check returns why the value cannot be made. The parameter groups has the named groups of the rule's expression for names.
func (t template) check(groups []string) error {
	for _, fact := range t.facts {
		if err := fact.check(groups); err != nil {
			return err
		}
	}
	return nil
}

func (f factName) check(groups []string) error {
	switch f.group {
	case capacityGroup, allocatableGroup:
		if wrong := quantity.WrongName(f.name); f.name != "" && wrong != "" {
			return fmt.Errorf("{%s.%s}: %s %s", f.group, f.name, f.name, wrong)
		}
		if f.name != "" {
			return nil
		}
	case "node":
		if slices.Contains([]string{"arch", "os", "kernel", "runtime", "kubelet"}, f.name) {
			return nil
		}
		return fmt.Errorf("{node.%s} is not a fact: use node.arch, node.os, node.kernel, node.runtime or node.kubelet", f.name)
	case labelsGroup:
		if len(validation.IsQualifiedName(f.name)) == 0 {
			return nil
		}
		return fmt.Errorf("{labels.%s} is not a fact: write {labels.KEY} with the key of a label", f.name)
	case devicesGroup:
		if f.name != "" {
			return nil
		}
		return errors.New("{devices.} is not a fact: write {devices.ATTRIBUTE}")
	case inventoryGroup:
		if source, attribute, _ := strings.Cut(f.name, "."); source != "" && attribute != "" {
			return nil
		}
		return fmt.Errorf("{inventory.%s} is not a fact: write {inventory.SOURCE.ATTRIBUTE}", f.name)
	case "name":
		if slices.Contains(groups, f.name) {
			return nil
		}
		return fmt.Errorf("{name.%s} is not a named group: write (?P<%s>...) into an expression of when.names, which begins with ^", f.name, f.name)
	}
	return fmt.Errorf("{%s.%s} is not a fact: use {name.GROUP}, {labels.KEY}, {capacity.RESOURCE}, {allocatable.RESOURCE}, {node.FIELD}, {devices.ATTRIBUTE} or {inventory.SOURCE.ATTRIBUTE}", f.group, f.name)
}

// literal returns the value of a template without facts.
func (t template) literal() (value string, ok bool) { return t.literals[0], len(t.facts) == 0 }

// note adds what the template uses.
func (t template) note(uses *uses) {
	for _, fact := range t.facts {
		switch fact.group {
		case capacityGroup:
			uses.capacity[fact.name] = true
		case allocatableGroup:
			uses.allocatable[fact.name] = true
		case "node":
			uses.system = true
		case inventoryGroup:
			uses.inventory = true
		}
	}
}

// labels returns the keys of labels that the template copies.
func (t template) labels() (keys []string) { return labelsOf(t.facts) }

// labelsOf returns the keys of labels among facts.
func labelsOf(facts []factName) (keys []string) {
	for _, fact := range facts {
		if fact.group == labelsGroup {
			keys = append(keys, fact.name)
		}
	}
	return keys
}

// render returns the value with the facts of a Node. The error is errUnknown if one is not known, and errAbsent if the Node does not have it. Another error
// says why there is no one value.
func (e *evaluation) render(t template, rule *compiled) (string, error) {
	var value strings.Builder
	value.WriteString(t.literals[0])
	absent := false
	for i, fact := range t.facts {
		text, known, err := e.fact(fact, rule)
		if !known { // what is not known yet may also end an error
			return "", errUnknown
		}
		if err != nil {
			return "", err
		}
		absent = absent || text == "" && fact.mayLack()
		if label, listed := rule.values[text]; listed {
			text = label
		} else if fact.group == devicesGroup {
			text = asValue(text)
		}
		value.WriteString(text)
		value.WriteString(t.literals[i+1])
	}
	if absent {
		return "", errAbsent
	}
	return value.String(), nil
}

// reported reports whether the Node's kubelet or its drivers report the fact.
func (f factName) reported() bool {
	return slices.Contains([]string{capacityGroup, allocatableGroup, "node", devicesGroup}, f.group)
}

// mayLack reports whether a Node may not have the fact. There is no label then.
func (f factName) mayLack() bool {
	return f.group == inventoryGroup || f.group == labelsGroup || f.group == devicesGroup
}

// ofResource reports whether the fact is an amount of a resource.
func (f factName) ofResource() bool { return f.group == capacityGroup || f.group == allocatableGroup }

// asValue returns a text as the value of a label: in lower case, and no longer than one. A hyphen replaces each other character, also a dot.
func asValue(text string) string {
	mapped := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '-'
	}, strings.ToLower(text))
	for strings.Contains(mapped, "--") {
		mapped = strings.ReplaceAll(mapped, "--", "-")
	}
	return strings.Trim(mapped[:min(len(mapped), validation.LabelValueMaxLength)], "-_")
}

// fact returns the text of a fact. It is empty if the Node does not have it.
func (e *evaluation) fact(f factName, rule *compiled) (text string, known bool, err error) {
	facts, name := &e.facts, rule.condition.nameRegex
	switch f.group {
	case capacityGroup:
		amount, known := facts.quantity(facts.Capacity, corev1.ResourceName(f.name))
		return amount.String(), known, nil
	case allocatableGroup:
		amount, known := facts.quantity(facts.Allocatable, corev1.ResourceName(f.name))
		return amount.String(), known, nil
	case labelsGroup:
		_, blocked := e.result.Blocked[f.name]
		return e.Get(f.name), !blocked && (e.Has(f.name) || !e.facts.Uninitialized), nil // a cloud controller may set any label
	case devicesGroup:
		return facts.attribute(rule.condition.devices, f.name)
	case inventoryGroup:
		source, attribute, _ := strings.Cut(f.name, ".")
		value, known := facts.Inventory[source][attribute]
		return value, known, nil
	case "name":
		found := name.FindStringSubmatch(facts.Name)
		if found == nil { // the condition holds by another name
			return "", true, nil
		}
		return found[name.SubexpIndex(f.name)], true, nil
	default:
		text := facts.System.field(f.name)
		return text, text != "", nil
	}
}

// attribute returns the value that all devices of a condition have of an attribute, as far as they have it.
func (f *Facts) attribute(condition *DeviceCondition, name string) (text string, known bool, err error) {
	for i := range f.Devices {
		value := f.Devices[i].Attributes[name]
		if value == "" || !condition.selects(&f.Devices[i]) {
			continue
		}
		if text != "" && text != value {
			return "", f.devicesKnown(condition.Driver), fmt.Errorf("devices of %s differ in %s: %q and %q; count one kind of them with when.devices.attributes", condition.Driver, name, text, value)
		}
		text = value
	}
	return text, f.devicesKnown(condition.Driver), nil
}

func (s System) field(name string) string {
	switch name {
	case "arch":
		return s.Arch
	case "os":
		return s.OS
	case "kernel":
		return s.Kernel
	case "runtime":
		return s.Runtime
	default:
		return s.Kubelet
	}
}
