package observe

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unique"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record/packing"
)

// A driver publishes the devices of a Node as pools, and a pool as one ResourceSlice or several. It runs on the Node, so a slice is the
// Node's word.
const (
	// mostSlices is how many ResourceSlices of a Node are read. With more, its devices are not known.
	mostSlices = 64
	// mostSliceDevices is how many devices a slice may have by the API.
	mostSliceDevices = resourcev1.ResourceSliceMaxDevices
	// longestAttribute is how long the value of an attribute may be by the API, in bytes.
	longestAttribute = resourcev1.DeviceAttributeMaxValueLength
)

// Slice is what rules use in a ResourceSlice.
type Slice struct {
	name, version string
	uid           types.UID
	node          string // empty: rules do not use it
	driver, pool  string
	generation    int64
	count         int64                 // how many slices the pool has
	devices       unique.Handle[string] // packed: for each device its name and attributes; many Nodes have the same
}

// SliceOf keeps only what rules use. It drops the other attributes, slices of other drivers, and slices of devices that several Nodes can
// reach. Such slices have nodeSelector, allNodes or perDeviceNodeSelection.
func SliceOf(slice *resourcev1.ResourceSlice, used classify.UsedDrivers) *Slice {
	s := &Slice{name: slice.Name, uid: slice.UID, version: slice.ResourceVersion}
	attributes, uses := used[slice.Spec.Driver]
	if !uses || slice.Spec.NodeName == nil {
		return s
	}
	s.node, s.driver, s.pool = *slice.Spec.NodeName, slice.Spec.Driver, slice.Spec.Pool.Name
	s.generation, s.count = slice.Spec.Pool.Generation, slice.Spec.Pool.ResourceSliceCount
	var devices packing.Writer
	for _, device := range slice.Spec.Devices[:min(len(slice.Spec.Devices), mostSliceDevices)] {
		devices.Text(device.Name)
		values := map[string]string{}
		for _, name := range attributes {
			if value, ok := attribute(device.Attributes, slice.Spec.Driver, name); ok {
				values[name] = value
			}
		}
		devices.ByText(values)
	}
	s.devices = unique.Make(string(devices))
	return s
}

// UnreadableSlice returns a slice that could not be read: its driver's devices are not known.
func UnreadableSlice(slice *resourcev1.ResourceSlice) *Slice {
	s := &Slice{name: slice.Name, uid: slice.UID, version: slice.ResourceVersion, driver: slice.Spec.Driver}
	if slice.Spec.NodeName != nil {
		s.node = *slice.Spec.NodeName
	}
	return s
}

// attribute returns the value of an attribute as text. A name without a domain is in the driver's domain. Lists are left out.
func attribute(attributes map[resourcev1.QualifiedName]resourcev1.DeviceAttribute, driver, name string) (value string, ok bool) {
	short := strings.TrimPrefix(name, driver+"/")
	a, ok := attributes[resourcev1.QualifiedName(short)]
	if !ok && !strings.Contains(short, "/") {
		a = attributes[resourcev1.QualifiedName(driver+"/"+short)]
	}
	switch {
	case a.StringValue != nil:
		value = *a.StringValue
	case a.VersionValue != nil:
		value = *a.VersionValue
	case a.IntValue != nil:
		value = strconv.FormatInt(*a.IntValue, 10)
	case a.BoolValue != nil:
		value = strconv.FormatBool(*a.BoolValue)
	default:
		return "", false
	}
	return policy.Text(value), len(value) <= longestAttribute
}

// Node returns the name of the Node that the devices belong to; empty: rules do not use the slice.
func (s *Slice) Node() string { return s.node }

// GetObjectMeta is for the informer.
func (s *Slice) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Name: s.name, UID: s.uid, ResourceVersion: s.version}
}

// Devices are the devices of a Node. Equal values are equal by ==; the zero value says that they are not known.
type Devices struct {
	packed unique.Handle[string]
}

// DevicesOf returns the devices that the slices of one Node list, in any order.
//
// Of a pool, only the slices of the highest generation count. A driver that changes a pool raises the generation and replaces the slices
// one by one. Until there are as many as the slices say, the pool is incomplete. It is invalid if two devices have the same name.
func DevicesOf(listed []*Slice) Devices {
	if len(listed) > mostSlices {
		return Devices{}
	}
	pools := map[[2]string][]*Slice{}
	incomplete := map[string]bool{}
	for _, slice := range listed {
		if slice.devices == (unique.Handle[string]{}) {
			incomplete[slice.driver] = true
			continue
		}
		id := [2]string{slice.driver, slice.pool}
		pool := pools[id]
		if len(pool) > 0 && slice.generation > pool[0].generation {
			pool = nil
		}
		if len(pool) == 0 || slice.generation == pool[0].generation {
			pools[id] = append(pool, slice)
		}
	}
	var all []string
	for id, pool := range pools {
		devices, distinct := devicesOf(pool)
		all = append(all, devices...)
		if !distinct || slices.ContainsFunc(pool, func(slice *Slice) bool { return slice.count != int64(len(pool)) }) {
			incomplete[id[0]] = true
		}
	}
	slices.Sort(all)
	var packed packing.Writer
	packed.Texts(slices.Sorted(maps.Keys(incomplete)))
	packed.Texts(all)
	return Devices{packed: unique.Make(string(packed))}
}

// devicesOf returns the devices of a pool, each packed, and whether each has a name of its own.
func devicesOf(pool []*Slice) (devices []string, distinct bool) {
	slices.SortFunc(pool, func(a, b *Slice) int { return cmp.Compare(a.name, b.name) })
	names := map[string]bool{}
	distinct = true
	for _, slice := range pool {
		for packed := packing.Reader(slice.devices.Value()); len(packed) > 0; {
			name, attributes := packed.Text(), packed.ByText()
			if names[name] {
				distinct = false
				continue
			}
			names[name] = true
			var device packing.Writer
			device.Text(slice.driver)
			device.ByText(attributes)
			devices = append(devices, string(device))
		}
	}
	return devices, distinct
}

// Join adds the devices to what is known of the Node.
func (d Devices) Join(facts classify.Facts) classify.Facts {
	if d == (Devices{}) {
		return facts
	}
	packed := packing.Reader(d.packed.Value())
	facts.DevicesKnown, facts.Incomplete = true, packed.Texts()
	for _, text := range packed.Texts() {
		device := packing.Reader(text)
		facts.Devices = append(facts.Devices, classify.Device{Driver: device.Text(), Attributes: device.ByText()})
	}
	return facts
}
