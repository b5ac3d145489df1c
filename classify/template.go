package classify

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// A template is literal text, and facts between it.
type template struct {
	literals []string // one more than facts
	facts    []factName
}

// factName is a placeholder: {group.name}.
type factName struct{ group, name string }

var (
	errUnknown = errors.New("the fact is not known")
	errAbsent  = errors.New("the inventory does not have the attribute of this Node")
)

// parseTemplate takes a value apart. groups are the named groups of the rule's nameRegex.
func parseTemplate(text string, groups []string) (template, error) {
	var t template
	for {
		before, rest, found := strings.Cut(text, "{")
		if strings.Contains(before, "}") {
			return template{}, fmt.Errorf("has a } without a {")
		}
		t.literals = append(t.literals, before)
		if !found {
			return t, nil
		}
		placeholder, after, closed := strings.Cut(rest, "}")
		if !closed {
			return template{}, fmt.Errorf("has a { without a }")
		}
		group, name, _ := strings.Cut(placeholder, ".")
		fact := factName{group, name}
		if err := fact.check(groups); err != nil {
			return template{}, err
		}
		t.facts = append(t.facts, fact)
		text = after
	}
}

func (f factName) check(groups []string) error {
	switch f.group {
	case "capacity", "allocatable":
		if f.name != "" {
			return nil
		}
	case "node":
		if slices.Contains([]string{"arch", "os", "kernel", "runtime", "kubelet"}, f.name) {
			return nil
		}
		return fmt.Errorf("{node.%s} is not a fact: use node.arch, node.os, node.kernel, node.runtime or node.kubelet", f.name)
	case inventoryGroup:
		if source, attribute, _ := strings.Cut(f.name, "."); source != "" && attribute != "" {
			return nil
		}
		return fmt.Errorf("{inventory.%s} is not a fact: write {inventory.SOURCE.ATTRIBUTE}", f.name)
	case "name":
		if slices.Contains(groups, f.name) {
			return nil
		}
		return fmt.Errorf("{name.%s} is not a named group of nameRegex: write (?P<%s>...) there", f.name, f.name)
	}
	return fmt.Errorf("{%s.%s} is not a fact: use {name.GROUP}, {capacity.RESOURCE}, {allocatable.RESOURCE}, {node.FIELD} or {inventory.SOURCE.ATTRIBUTE}", f.group, f.name)
}

// literal is the value of a template without facts.
func (t template) literal() (value string, ok bool) { return t.literals[0], len(t.facts) == 0 }

// note adds what the template uses.
func (t template) note(uses *uses) {
	for _, fact := range t.facts {
		switch fact.group {
		case "capacity":
			uses.capacity[fact.name] = true
		case "allocatable":
			uses.allocatable[fact.name] = true
		case "node":
			uses.system = true
		case inventoryGroup:
			uses.inventory = true
		}
	}
}

// render is the value with the facts of a Node. The error is errUnknown if one is not known, and errAbsent if an inventory does not have it.
func (t template) render(facts *Facts, name *regexp.Regexp) (string, error) {
	var value strings.Builder
	value.WriteString(t.literals[0])
	absent := false
	for i, fact := range t.facts {
		text, known := fact.of(facts, name)
		if !known {
			return "", errUnknown
		}
		if fact.group == inventoryGroup && text == "" {
			absent = true
		}
		value.WriteString(text)
		value.WriteString(t.literals[i+1])
	}
	if absent {
		return "", errAbsent
	}
	return value.String(), nil
}

func (f factName) of(facts *Facts, name *regexp.Regexp) (text string, known bool) {
	switch f.group {
	case "capacity":
		amount, known := facts.quantity(facts.Capacity, corev1.ResourceName(f.name))
		return amount.String(), known
	case "allocatable":
		amount, known := facts.quantity(facts.Allocatable, corev1.ResourceName(f.name))
		return amount.String(), known
	case inventoryGroup:
		source, attribute, _ := strings.Cut(f.name, ".")
		value, known := facts.Inventory[source][attribute]
		return value, known
	case "name":
		found := name.FindStringSubmatch(facts.Name)
		if found == nil { // the condition holds by another name
			return "", true
		}
		return found[name.SubexpIndex(f.name)], true
	default:
		text := facts.System.field(f.name)
		return text, text != ""
	}
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
