package classify

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// AskKind is which kind of fact rules ask for.
type AskKind string

// The kinds of facts that a Node may lack.
const (
	AskResource  AskKind = "resource"
	AskArch      AskKind = "architecture"
	AskOS        AskKind = "operating system"
	AskDeclared  AskKind = "declared feature"
	AskFeature   AskKind = "feature"
	AskDevice    AskKind = "device"
	AskInventory AskKind = "inventory"
)

// Ask is a fact that rules ask for.
type Ask struct {
	Kind AskKind
	// Fact is as the policy names it, such as capacity.cpu.
	Fact  string
	Rules []string // in their order

	group, name, attribute string
}

// Asks returns the facts that rules ask for and that a Node may lack, sorted by their names. Names, labels and versions are not among them.
func (r Rules) Asks() (all []Ask) {
	for i := range r.all {
		rule := &r.all[i]
		for _, ask := range rule.asks() {
			i := slices.IndexFunc(all, func(known Ask) bool { return known.Fact == ask.Fact })
			if i < 0 {
				i = len(all)
				all = append(all, ask)
			}
			if !slices.Contains(all[i].Rules, rule.name) {
				all[i].Rules = append(all[i].Rules, rule.name)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Ask) int { return cmp.Compare(a.Fact, b.Fact) })
	return all
}

// asks returns those of one rule, some more than once.
func (r *compiled) asks() (all []Ask) {
	all = r.condition.asks(nil)
	for _, key := range r.keys {
		for _, fact := range r.set[key].facts {
			switch fact.group {
			case capacityGroup, allocatableGroup:
				all = append(all, askOfResource(fact.group, fact.name))
			case devicesGroup:
				all = append(all, askOfDevices(r.condition.devices.Driver, fact.name))
			case inventoryGroup:
				all = append(all, askOfInventory(fact.name))
			}
		}
	}
	return all
}

// asks adds those of a condition.
func (c *condition) asks(all []Ask) []Ask {
	for _, wanted := range c.capacity {
		all = append(all, askOfResource(capacityGroup, string(wanted.name)))
	}
	all = append(all, c.asksSystem(AskArch, corev1.LabelArchStable)...)
	all = append(all, c.asksSystem(AskOS, corev1.LabelOSStable)...)
	for _, wanted := range c.features {
		kind := AskFeature
		if IsDeclared(wanted.name) {
			kind = AskDeclared
		}
		all = append(all, Ask{Kind: kind, Fact: FeatureFact + wanted.name, name: wanted.name})
	}
	if c.devices != nil {
		for _, attribute := range slices.Sorted(maps.Keys(c.devices.Attributes)) {
			all = append(all, askOfDevices(c.devices.Driver, attribute))
		}
		if len(c.devices.Attributes) == 0 {
			all = append(all, askOfDevices(c.devices.Driver, ""))
		}
	}
	for _, wanted := range c.inventory {
		all = append(all, askOfInventory(wanted.source+"."+wanted.attribute))
	}
	for i := range c.alternatives {
		all = c.alternatives[i].asks(all)
	}
	return all
}

// asksSystem returns what the condition asks of a label with which every kubelet registers.
func (c *condition) asksSystem(kind AskKind, key string) (all []Ask) {
	for _, values := range c.selected(key) {
		if len(values) == 1 { // of several, one Node need not have each
			all = append(all, Ask{Kind: kind, Fact: key + "=" + values[0], name: values[0]})
		}
	}
	return all
}

func askOfResource(group, name string) Ask {
	return Ask{Kind: AskResource, Fact: group + "." + name, group: group, name: name}
}

// askOfDevices is about devices of a driver; without an attribute, about any.
func askOfDevices(driver, attribute string) Ask {
	ask := Ask{Kind: AskDevice, Fact: DevicesFact + driver, name: driver, attribute: attribute}
	if attribute != "" {
		ask.Fact += " with " + attribute
	}
	return ask
}

func askOfInventory(name string) Ask {
	source, attribute, _ := strings.Cut(name, ".")
	return Ask{Kind: AskInventory, Fact: InventoryFactPrefix + name, name: source, attribute: attribute}
}

// InventoryFact returns the source and the attribute of an ask of kind [AskInventory].
func (a Ask) InventoryFact() (source, attribute string) { return a.name, a.attribute }

// AnsweredBy reports whether a Node has the fact, whatever its value, and whether that is known. An architecture and an operating system must match.
func (a Ask) AnsweredBy(f Facts) (answered, known bool) {
	switch a.Kind {
	case AskResource:
		list := f.Capacity
		if a.group == allocatableGroup {
			list = f.Allocatable
		}
		_, answered = list[corev1.ResourceName(a.name)]
		return answered, list != nil
	case AskArch:
		return a.name == f.System.Arch, f.System.Arch != ""
	case AskOS:
		return a.name == f.System.OS, f.System.OS != ""
	case AskDeclared:
		return slices.Contains(f.Declared, a.name), len(f.Declared) > 0
	case AskFeature:
		return len(f.Features[a.name]) > 0, f.Features != nil
	case AskDevice:
		return slices.ContainsFunc(f.Devices, func(device Device) bool {
			return device.Driver == a.name && (a.attribute == "" || device.Attributes[a.attribute] != "")
		}), f.DevicesKnown && !slices.Contains(f.Incomplete, a.name)
	default: // only capture knows what an inventory says
		return false, false
	}
}
