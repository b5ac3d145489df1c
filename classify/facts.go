package classify

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"nodekeep.dev/nodekeep/quantity"
)

// Facts is what is known of a Node.
type Facts struct {
	Name       string
	ProviderID string
	// Uninitialized says that a cloud controller has yet to set the provider ID and labels.
	Uninitialized bool

	Labels map[string]string // but for those that rules have set
	// Capacity and Allocatable are of the resources that rules use. One that is nil was not reported at all: nothing is known of it then.
	Capacity    corev1.ResourceList
	Allocatable corev1.ResourceList
	System      System

	// PluginsRegistered says that plugins had time to register: the Node was Ready for [PluginGrace]. Before, an extended resource that is
	// absent or 0 is not known. Nor are huge pages and attachable volumes that are absent.
	PluginsRegistered bool
	// Devices are those of the Node's ResourceSlices. DevicesKnown says that the slices were read. Incomplete are drivers that have not
	// published all of their devices.
	Devices      []Device
	DevicesKnown bool
	Incomplete   []string

	// Declared are the features that the kubelet declares in the Node's status (KEP-5328). If there are none, nothing is known of them.
	Declared []string
	// Features are those of the Node's NodeFeature objects, with their values, as far as rules use them. A feature has no values if the Node
	// does not have it. One that is missing here is not known.
	Features map[string][]string

	// Inventory is what the sources of the policy's inventory say of the Node, by source and attribute. A value is empty if the Node does
	// not have the attribute. A source or attribute that is missing here is not known.
	Inventory map[string]map[string]string

	kernel, kubelet parsedVersion // of System, read at the first look in a pass
}

// System is what the kubelet reports of the machine's software. An empty field is not known.
type System struct {
	Arch    string
	OS      string
	Kernel  string
	Runtime string // containerd://2.1.4
	Kubelet string
}

// uninitializedTaint is the taint of a Node that its cloud controller has not initialized yet (k8s.io/cloud-provider/api).
const uninitializedTaint = "node.cloudprovider.kubernetes.io/uninitialized"

// cloudLabels returns those that each cloud controller sets on a Node before it removes the taint (k8s.io/cloud-provider).
func cloudLabels() []string {
	return []string{
		corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelInstanceTypeStable,
		corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion, corev1.LabelInstanceType,
	}
}

// PluginGrace is how long a Node must be Ready before a missing resource of a plugin counts as absent. The kubelet's device manager waits as
// long for a plugin that was there before.
const PluginGrace = 5 * time.Minute

// Device is a device of a ResourceSlice (Dynamic Resource Allocation).
type Device struct {
	Driver     string
	Attributes map[string]string // versions and numbers as text
}

// Uninitialized reports whether a Node waits for its cloud controller.
func Uninitialized(taints []corev1.Taint) bool {
	return slices.ContainsFunc(taints, func(taint corev1.Taint) bool { return taint.Key == uninitializedTaint })
}

// EqualFacts reports whether two states of a Node are equal in all that the rules use, except labels and devices.
func (r Rules) EqualFacts(a, b Facts) bool {
	if r.Empty() {
		return true
	}
	return sameResources(a.Capacity, b.Capacity, r.uses.capacity) && sameResources(a.Allocatable, b.Allocatable, r.uses.allocatable) &&
		(!r.uses.system || a.System == b.System && a.ProviderID == b.ProviderID) && r.uses.declared.sameDeclared(a, b) && a.PluginsRegistered == b.PluginsRegistered
}

// sameResources reports whether two lists are equal in the resources that are used. One that is not reported is not 0.
func sameResources(a, b corev1.ResourceList, used map[string]bool) bool {
	if (a == nil) != (b == nil) && len(used) > 0 {
		return false
	}
	for name := range used {
		amount, reported := a[corev1.ResourceName(name)]
		second, ok := b[corev1.ResourceName(name)]
		if reported != ok || amount.Cmp(second) != 0 {
			return false
		}
	}
	return true
}

// satisfy reports whether the facts satisfy a condition, without its labels and alternatives. If there is a trace, it notes each fact.
func (f *Facts) satisfy(c *condition, trace *trace) truth {
	holds := yes
	if len(c.names) > 0 {
		holds = truthOf(slices.ContainsFunc(c.names, func(name string) bool { return Match(name, f.Name) }))
		if trace != nil {
			trace.test("name", strings.Join(c.names, ", "), f.Name, holds)
		}
	}
	if c.nameRegex != nil {
		holds = holds.and(trace.test("name", c.nameRegex.String(), f.Name, truthOf(c.nameRegex.MatchString(f.Name))))
	}
	holds = holds.and(f.compare("capacity.", f.Capacity, c.capacity, trace))
	if holds == no && trace == nil { // the rest changes nothing, and versions take long to read
		return no
	}
	if c.kernel != nil {
		holds = holds.and(c.kernel.satisfied(trace, "node.kernel", f.kernel.parse(f.System.Kernel)))
	}
	if c.kubelet != nil {
		holds = holds.and(c.kubelet.satisfied(trace, "node.kubelet", f.kubelet.parse(f.System.Kubelet)))
	}
	if c.providerID != "" && f.ProviderID == "" && !f.Uninitialized { // no cloud controller is going to set it
		holds = trace.test("providerID", c.providerID, "", no)
	} else {
		holds = holds.and(matches(trace, "providerID", c.providerID, f.ProviderID))
	}
	for _, wanted := range c.features {
		holds = holds.and(f.provides(wanted, trace))
	}
	for _, wanted := range c.inventory {
		holds = holds.and(f.lists(wanted, trace))
	}
	return holds.and(f.present(c, trace))
}

// quantity returns how much of a resource a list has, and whether that is known. A kubelet whose cAdvisor fails reports 0 CPU and memory
// (kubelet, setters.go). An extended resource is absent from the CREATE. After a restart of the kubelet it is 0 until its plugin has
// registered again (kubelet, devicemanager). A kubelet reports page sizes and volumes only of what its machine and its plugins have.
// So one that stays absent is 0. It reports the others itself, always, so one of them that is absent is not known.
func (f *Facts) quantity(list corev1.ResourceList, name corev1.ResourceName) (amount resource.Quantity, known bool) {
	amount, reported := list[name]
	switch {
	case !amount.IsZero():
		return amount, true
	case quantity.IsExtended(string(name)):
		return amount, list != nil && f.PluginsRegistered
	case name == corev1.ResourceCPU, name == corev1.ResourceMemory, name == corev1.ResourceEphemeralStorage:
		return amount, false
	case name == corev1.ResourcePods:
		return amount, reported
	default: // huge pages, attachable volumes
		return amount, reported || list != nil && f.PluginsRegistered
	}
}

// compare reports whether a list has as much of each resource as is wanted.
func (f *Facts) compare(fact string, list corev1.ResourceList, wanted []quantified, trace *trace) (holds truth) {
	holds = yes
	for _, quantity := range wanted {
		result := unknown
		if amount, known := f.quantity(list, quantity.name); known {
			result = truthOf(ordered(quantity.operator, amount.Cmp(quantity.operand)))
		}
		if trace != nil {
			trace.quantity(f, fact, list, quantity, result)
		}
		holds = holds.and(result)
	}
	return holds
}

// matches compares what a Node reports with a pattern, if there is one. Nothing reported is not known.
func matches(trace *trace, fact, pattern, reported string) (holds truth) {
	switch {
	case pattern == "":
		return yes
	case reported == "":
		holds = unknown
	default:
		holds = truthOf(Match(pattern, reported))
	}
	return trace.test(fact, pattern, reported, holds)
}

// selects reports whether a device counts.
func (d *DeviceCondition) selects(device *Device) bool {
	if device.Driver != d.Driver {
		return false
	}
	for name, pattern := range d.Attributes {
		if value, ok := device.Attributes[name]; !ok || !Match(pattern, value) {
			return false
		}
	}
	return true
}

// devicesKnown reports whether all devices of a driver are known.
func (f *Facts) devicesKnown(driver string) bool {
	return f.DevicesKnown && f.PluginsRegistered && !slices.Contains(f.Incomplete, driver)
}

// present counts devices.
func (f *Facts) present(c *condition, trace *trace) truth {
	if c.devices == nil {
		return yes
	}
	found := 0
	for i := range f.Devices {
		if c.devices.selects(&f.Devices[i]) {
			found++
		}
	}
	known := f.devicesKnown(c.devices.Driver)
	holds := truthOf(found >= *c.devices.Min)
	if found < *c.devices.Min && !known {
		holds = unknown
	}
	if trace != nil {
		trace.devices(f, c.devices, found, holds)
	}
	return holds
}
