package observe

import (
	"maps"
	"slices"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record/packing"
)

// Node Feature Discovery (NFD) publishes what it finds on a Node as a NodeFeature. Other agents may add further objects. The one that writes an
// object names the Node in a label. So an object is the word of each client that may create it.
const (
	// NodeFeatureLabel has the name of the Node.
	NodeFeatureLabel = "nfd.node.kubernetes.io/node-name"
	// mostNodeFeatures is how many NodeFeature objects of a Node are read. With more, its features are not known.
	mostNodeFeatures = 16
	// mostFeatureValues is how many values are known of a feature: instances, such as PCI devices, have one each.
	mostFeatureValues = 64
	// longestFeatureValue is how long a value may be, in bytes. Longer ones are left out.
	longestFeatureValue = 256
)

// NodeFeatureResource returns that of NodeFeature objects.
func NodeFeatureResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "nfd.k8s-sigs.io", Version: "v1alpha1", Resource: "nodefeatures"}
}

// NodeFeature is what rules use in a NodeFeature object.
type NodeFeature struct {
	namespace, name, version string
	uid                      types.UID
	node                     string                // empty: rules do not use it
	values                   unique.Handle[string] // packed: name and values of each feature whose set the object has; zero: could not be read
}

// NodeFeatureOf keeps only the features that rules use.
func NodeFeatureOf(object *unstructured.Unstructured, used classify.UsedFeatures) *NodeFeature {
	f := UnreadableNodeFeature(object)
	var packed packing.Writer
	for _, name := range used {
		if hasSetOf(object, name) {
			packed.Text(name)
			packed.Texts(valuesOf(object, name))
		}
	}
	f.values = unique.Make(string(packed))
	return f
}

// UnreadableNodeFeature returns an object that could not be read: the features of its Node are not known.
func UnreadableNodeFeature(object *unstructured.Unstructured) *NodeFeature {
	return &NodeFeature{
		namespace: object.GetNamespace(), name: object.GetName(), version: object.GetResourceVersion(), uid: object.GetUID(),
		node: object.GetLabels()[NodeFeatureLabel],
	}
}

// valuesOf returns the values that an object has of a feature. A flag has [classify.FeaturePresent].
func valuesOf(object *unstructured.Unstructured, name string) (values []string) {
	set, element := classify.CutFeature(name)
	add := func(value any) {
		text, ok := value.(string)
		if ok && len(text) <= longestFeatureValue && len(values) < mostFeatureValues && !slices.Contains(values, policy.Text(text)) {
			values = append(values, policy.Text(text))
		}
	}
	features := member(object.Object, "spec", "features")
	if flags, ok := member(features, "flags", set, "elements").(map[string]any); ok {
		if _, ok := flags[element]; ok {
			add(classify.FeaturePresent)
		}
	}
	add(member(features, "attributes", set, "elements", element))
	instances, _ := member(features, "instances", set, "elements").([]any)
	for _, instance := range instances {
		add(member(instance, "attributes", element))
	}
	return values
}

// hasSetOf reports whether an object has the set of a feature, also if that is empty. An object without the set does not know the feature.
func hasSetOf(object *unstructured.Unstructured, name string) bool {
	set, _ := classify.CutFeature(name)
	return slices.ContainsFunc([]string{"flags", "attributes", "instances"}, func(kind string) bool {
		_, ok := member(object.Object, "spec", "features", kind, set).(map[string]any)
		return ok
	})
}

// member returns what objects within objects have under these names; nil: nothing.
func member(value any, names ...string) any {
	for _, name := range names {
		object, _ := value.(map[string]any)
		value = object[name]
	}
	return value
}

// PruneNodeFeature drops what rules do not use. What [NodeFeatureOf] makes of the object stays the same.
func PruneNodeFeature(object *unstructured.Unstructured, used classify.UsedFeatures) {
	instances := map[string]any{}
	for _, name := range used {
		if !hasSetOf(object, name) {
			continue
		}
		set, element := classify.CutFeature(name)
		elements, _ := member(instances, set, "elements").([]any)
		for _, value := range valuesOf(object, name) {
			elements = append(elements, map[string]any{"attributes": map[string]any{element: value}})
		}
		instances[set] = map[string]any{"elements": elements}
	}
	pruned := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"features": map[string]any{"instances": instances}}}}
	pruned.SetGroupVersionKind(object.GroupVersionKind())
	pruned.SetNamespace(object.GetNamespace())
	pruned.SetName(object.GetName())
	pruned.SetUID(object.GetUID())
	pruned.SetResourceVersion(object.GetResourceVersion())
	pruned.SetLabels(map[string]string{NodeFeatureLabel: object.GetLabels()[NodeFeatureLabel]})
	*object = *pruned
}

// Node returns the name of the Node whose features the object has; empty: rules do not use it.
func (f *NodeFeature) Node() string { return f.node }

// GetObjectMeta is for the informer.
func (f *NodeFeature) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: f.namespace, Name: f.name, UID: f.uid, ResourceVersion: f.version}
}

// Features are the features of a Node. Equal values are equal by ==; the zero value says that they are not known.
type Features struct {
	packed unique.Handle[string]
}

// FeaturesOf returns the features that the NodeFeature objects of one Node have, in any order. A feature has the values of all of them. That no
// object has its set proves nothing: NFD may be uninstalled, or its worker may not have published yet.
func FeaturesOf(listed []*NodeFeature) Features {
	if len(listed) > mostNodeFeatures {
		return Features{}
	}
	all := map[string][]string{}
	for _, object := range listed {
		if object.values == (unique.Handle[string]{}) {
			return Features{}
		}
		for packed := packing.Reader(object.values.Value()); len(packed) > 0; {
			name := packed.Text()
			all[name] = append(all[name], packed.Texts()...)
		}
	}
	var packed packing.Writer
	for _, name := range slices.Sorted(maps.Keys(all)) {
		slices.Sort(all[name])
		packed.Text(name)
		packed.Texts(slices.Compact(all[name]))
	}
	return Features{packed: unique.Make(string(packed))}
}

// Join adds the features to what is known of the Node.
func (f Features) Join(facts classify.Facts) classify.Facts {
	if f == (Features{}) {
		return facts
	}
	facts.Features = map[string][]string{}
	for packed := packing.Reader(f.packed.Value()); len(packed) > 0; {
		name := packed.Text()
		facts.Features[name] = packed.Texts()
	}
	return facts
}
