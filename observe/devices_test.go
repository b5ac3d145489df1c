package observe

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"nodekeep.dev/nodekeep/classify"
)

const gpuDriver = "gpu.nvidia.com"

// slice returns a ResourceSlice of a Node: one of so many, in a generation of its pool, with a device of each model.
func slice(name string, generation, count int64, models ...string) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u", ResourceVersion: "1"}, Spec: resourcev1.ResourceSliceSpec{
		Driver: gpuDriver, NodeName: ptr.To("n1"), Pool: resourcev1.ResourcePool{Name: "n1", Generation: generation, ResourceSliceCount: count},
	}}
	for i, model := range models {
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: fmt.Sprintf("%s-%d", name, i), Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
			"productName": {StringValue: ptr.To(model)}, "uuid": {StringValue: ptr.To("not used")},
		}})
	}
	return s
}

// alter changes a slice.
func alter(s *resourcev1.ResourceSlice, change func(spec *resourcev1.ResourceSliceSpec)) *resourcev1.ResourceSlice {
	change(&s.Spec)
	return s
}

func TestDevicesOfPoolsAreReadAsTheSchedulerReadsThem(t *testing.T) {
	used := classify.UsedDrivers{gpuDriver: {"productName"}, "nic.example.com": nil}
	unreadable := UnreadableSlice(slice("bad", 1, 1, "A"))
	for name, c := range map[string]struct {
		slices     []*resourcev1.ResourceSlice
		plus       *Slice
		models     []string
		incomplete []string
		unknown    bool
	}{
		"no slices: no devices":                    {},
		"a pool of one slice":                      {slices: []*resourcev1.ResourceSlice{slice("a", 1, 1, "A", "B")}, models: []string{"A", "B"}},
		"a pool of two slices":                     {slices: []*resourcev1.ResourceSlice{slice("b", 1, 2, "B"), slice("a", 1, 2, "A")}, models: []string{"A", "B"}},
		"one of two slices is missing":             {slices: []*resourcev1.ResourceSlice{slice("a", 1, 2, "A")}, models: []string{"A"}, incomplete: []string{gpuDriver}},
		"a slice too many":                         {slices: []*resourcev1.ResourceSlice{slice("a", 1, 1, "A"), slice("b", 1, 1, "B")}, models: []string{"A", "B"}, incomplete: []string{gpuDriver}},
		"slices that disagree about how many":      {slices: []*resourcev1.ResourceSlice{slice("a", 1, 2, "A"), slice("b", 1, 3, "B")}, models: []string{"A", "B"}, incomplete: []string{gpuDriver}},
		"an older generation does not count":       {slices: []*resourcev1.ResourceSlice{slice("a", 1, 2, "A"), slice("b", 2, 1, "B")}, models: []string{"B"}},
		"nor if it comes later":                    {slices: []*resourcev1.ResourceSlice{slice("b", 2, 1, "B"), slice("a", 1, 2, "A")}, models: []string{"B"}},
		"a new generation that is not whole yet":   {slices: []*resourcev1.ResourceSlice{slice("a", 1, 2, "A"), slice("b", 2, 2, "B")}, models: []string{"B"}, incomplete: []string{gpuDriver}},
		"the same device name twice in a pool":     {slices: []*resourcev1.ResourceSlice{slice("a", 1, 2, "A"), alter(slice("b", 1, 2, "B"), func(s *resourcev1.ResourceSliceSpec) { s.Devices[0].Name = "a-0" })}, models: []string{"A"}, incomplete: []string{gpuDriver}},
		"the same device name in two pools":        {slices: []*resourcev1.ResourceSlice{slice("a", 1, 1, "A"), alter(slice("a", 1, 1, "B"), func(s *resourcev1.ResourceSliceSpec) { s.Pool.Name = "other" })}, models: []string{"A", "B"}},
		"another driver's incomplete pool":         {slices: []*resourcev1.ResourceSlice{slice("a", 1, 1, "A"), alter(slice("b", 1, 2), func(s *resourcev1.ResourceSliceSpec) { s.Driver = "nic.example.com" })}, models: []string{"A"}, incomplete: []string{"nic.example.com"}},
		"a slice that could not be read":           {slices: []*resourcev1.ResourceSlice{slice("a", 1, 1, "A")}, plus: unreadable, models: []string{"A"}, incomplete: []string{gpuDriver}},
		"counters without devices are a slice too": {slices: []*resourcev1.ResourceSlice{slice("a", 1, 2), slice("b", 1, 2, "B")}, models: []string{"B"}},
		"more slices than are read":                {slices: manySlices(mostSlices + 1), unknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			var read []*Slice
			for _, s := range c.slices {
				read = append(read, SliceOf(s, used))
			}
			if c.plus != nil {
				read = append(read, c.plus)
			}
			facts := DevicesOf(read).Join(classify.Facts{Name: "n1"})
			assert.Equal(t, "n1", facts.Name)
			assert.Equal(t, !c.unknown, facts.DevicesKnown)
			assert.ElementsMatch(t, c.incomplete, facts.Incomplete)
			var models []string
			for _, device := range facts.Devices {
				assert.Equal(t, gpuDriver, device.Driver)
				models = append(models, device.Attributes["productName"])
			}
			assert.Equal(t, c.models, models)
		})
	}
	assert.Equal(t, classify.Facts{}, Devices{}.Join(classify.Facts{}), "slices that were not read are not known")
}

func manySlices(count int) (all []*resourcev1.ResourceSlice) {
	for i := range count {
		all = append(all, slice(fmt.Sprint(i), 1, int64(count), "A"))
	}
	return all
}

func TestOnlyWhatRulesUseOfASliceIsKept(t *testing.T) {
	used := classify.UsedDrivers{gpuDriver: {"productName"}}
	for name, change := range map[string]func(s *resourcev1.ResourceSliceSpec){
		"another driver":                        func(s *resourcev1.ResourceSliceSpec) { s.Driver = "other" },
		"devices of the Nodes of a selector":    func(s *resourcev1.ResourceSliceSpec) { s.NodeName = nil },
		"devices of all Nodes":                  func(s *resourcev1.ResourceSliceSpec) { s.NodeName, s.AllNodes = nil, ptr.To(true) },
		"devices that each have their own Node": func(s *resourcev1.ResourceSliceSpec) { s.NodeName, s.PerDeviceNodeSelection = nil, ptr.To(true) },
	} {
		slim := SliceOf(alter(slice("a", 1, 1, "A"), change), used)
		assert.Equal(t, &Slice{name: "a", uid: "u", version: "1"}, slim, name)
		assert.Equal(t, "a", slim.GetObjectMeta().GetName())
	}
	prev := DevicesOf([]*Slice{SliceOf(slice("a", 1, 1, "A"), used)})
	matches := func(s *resourcev1.ResourceSlice) bool { return prev == DevicesOf([]*Slice{SliceOf(s, used)}) }
	assert.True(t, matches(slice("b", 7, 1, "A")), "published again")
	assert.True(t, matches(alter(slice("a", 1, 1, "A"), func(s *resourcev1.ResourceSliceSpec) { s.Devices[0].Attributes["uuid"] = resourcev1.DeviceAttribute{} })))
	assert.False(t, matches(slice("a", 1, 1, "B")))
	assert.False(t, matches(slice("a", 1, 1, "A", "A")))
	assert.False(t, matches(slice("a", 1, 2, "A")))
	assert.NotEqual(t, prev, DevicesOf(nil))

	plural := slice("a", 1, 1, make([]string, 1000)...)
	assert.Len(t, DevicesOf([]*Slice{SliceOf(plural, used)}).Join(classify.Facts{}).Devices, mostSliceDevices)
}

func TestAttributesOfDevicesAreText(t *testing.T) {
	for name, c := range map[string]struct {
		key       string
		attribute resourcev1.DeviceAttribute
		rule      string
		want      string
		missing   bool
	}{
		"a string":                                   {"model", resourcev1.DeviceAttribute{StringValue: ptr.To("A 1")}, "model", "A 1", false},
		"a version":                                  {"model", resourcev1.DeviceAttribute{VersionValue: ptr.To("1.2.3")}, "model", "1.2.3", false},
		"a number":                                   {"model", resourcev1.DeviceAttribute{IntValue: ptr.To[int64](-7)}, "model", "-7", false},
		"yes or no":                                  {"model", resourcev1.DeviceAttribute{BoolValue: ptr.To(true)}, "model", "true", false},
		"a list is left out":                         {"model", resourcev1.DeviceAttribute{StringValues: []string{"a"}}, "model", "", true},
		"a text longer than the API allows":          {"model", resourcev1.DeviceAttribute{StringValue: ptr.To(strings.Repeat("x", 65))}, "model", "", true},
		"bytes that are not UTF-8":                   {"model", resourcev1.DeviceAttribute{StringValue: ptr.To("a\xff")}, "model", "a\uFFFD", false},
		"the driver's domain in the slice":           {gpuDriver + "/model", resourcev1.DeviceAttribute{StringValue: ptr.To("A")}, "model", "A", false},
		"the driver's domain in the rule":            {"model", resourcev1.DeviceAttribute{StringValue: ptr.To("A")}, gpuDriver + "/model", "A", false},
		"the driver's domain in both":                {gpuDriver + "/model", resourcev1.DeviceAttribute{StringValue: ptr.To("A")}, gpuDriver + "/model", "A", false},
		"another domain":                             {"resource.kubernetes.io/root", resourcev1.DeviceAttribute{StringValue: ptr.To("A")}, "resource.kubernetes.io/root", "A", false},
		"another domain is not the driver's":         {"resource.kubernetes.io/root", resourcev1.DeviceAttribute{StringValue: ptr.To("A")}, "root", "", true},
		"nor is the driver's another":                {"root", resourcev1.DeviceAttribute{StringValue: ptr.To("A")}, "resource.kubernetes.io/root", "", true},
		"an attribute that the device does not have": {"model", resourcev1.DeviceAttribute{StringValue: ptr.To("A")}, "other", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := slice("a", 1, 1, "A")
			s.Spec.Devices[0].Attributes = map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{resourcev1.QualifiedName(c.key): c.attribute}
			facts := DevicesOf([]*Slice{SliceOf(s, classify.UsedDrivers{gpuDriver: {c.rule}})}).Join(classify.Facts{})
			want := map[string]string{c.rule: c.want}
			if c.missing {
				want = map[string]string{}
			}
			assert.Equal(t, want, facts.Devices[0].Attributes)
		})
	}
}
