package observe

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"nodekeep.dev/nodekeep/classify"
)

// usedFeatures are one of each kind, and one with dots.
var usedFeatures = classify.UsedFeatures{"cpu.cpuid.AVX512F", "kernel.version.major", "local.label.example.com/a.b", "pci.device.vendor"}

// nodeFeature returns an object of the Node n1 with these features, as JSON.
func nodeFeature(t testing.TB, name, features string) *unstructured.Unstructured {
	t.Helper()
	var object unstructured.Unstructured
	text := `{"apiVersion": "nfd.k8s-sigs.io/v1alpha1", "kind": "NodeFeature", "metadata": {"name": "` + name + `", "namespace": "nfd", "uid": "u", "resourceVersion": "7",
		"labels": {"nfd.node.kubernetes.io/node-name": "n1", "other": "label"}, "annotations": {"a": "b"}}, "spec": {"features": ` + features + `, "labels": {"x": "y"}}}`
	require.NoError(t, json.Unmarshal([]byte(text), &object.Object))
	return &object
}

const ofWorker = `{
	"flags": {"cpu.cpuid": {"elements": {"AVX512F": {}, "SSE4": {}}}},
	"attributes": {"kernel.version": {"elements": {"full": "6.12.1", "major": "6"}}, "local.label": {"elements": {"example.com/a.b": "c"}}},
	"instances": {"pci.device": {"elements": [{"attributes": {"vendor": "10de", "class": "0300"}}, {"attributes": {"vendor": "8086"}}, {"attributes": {"vendor": "10de"}}, {"attributes": {"class": "0200"}}]}}
}`

func TestFeaturesOfANodeAreThoseOfItsObjects(t *testing.T) {
	all := map[string][]string{"cpu.cpuid.AVX512F": {"true"}, "kernel.version.major": {"6"}, "local.label.example.com/a.b": {"c"}, "pci.device.vendor": {"10de", "8086"}}
	huge := make([]string, 0, 5000)
	for i := range cap(huge) {
		huge = append(huge, fmt.Sprintf(`{"attributes": {"vendor": "%04d", "x%d": "y"}}`, i, i))
	}
	for name, c := range map[string]struct {
		objects []string
		want    map[string][]string // one that is missing is not known
	}{
		"no object: nothing is known":     {nil, map[string][]string{}},
		"what the worker of NFD found":    {[]string{ofWorker}, all},
		"the objects of two agents":       {[]string{`{"instances": {"pci.device": {"elements": [{"attributes": {"vendor": "1002"}}]}}}`, `{"instances": {"pci.device": {"elements": [{"attributes": {"vendor": "8086"}}]}}}`}, map[string][]string{"pci.device.vendor": {"1002", "8086"}}},
		"sets without elements":           {[]string{`{"flags": {"cpu.cpuid": {"elements": null}}, "attributes": {"kernel.version": {}}, "instances": {"pci.device": {"elements": null}}}`}, map[string][]string{"cpu.cpuid.AVX512F": nil, "kernel.version.major": nil, "pci.device.vendor": nil}},
		"one of two agents has the set":   {[]string{`{"flags": {"cpu.cpuid": {"elements": null}}}`, `{}`}, map[string][]string{"cpu.cpuid.AVX512F": nil}},
		"an agent that has labels only":   {[]string{`null`}, map[string][]string{}},
		"parts of another form":           {[]string{`{"flags": ["cpu.cpuid"], "attributes": {"kernel.version": {"elements": {"major": 6}}}, "instances": {"pci.device": {"elements": {"vendor": "a"}}, "cpu.cpuid": {"elements": ["a", {"attributes": []}, null]}}}`}, map[string][]string{"cpu.cpuid.AVX512F": nil, "kernel.version.major": nil, "pci.device.vendor": nil}},
		"no features at all":              {[]string{`"none"`}, map[string][]string{}},
		"a value that is too long":        {[]string{`{"attributes": {"kernel.version": {"elements": {"major": "` + strings.Repeat("6", longestFeatureValue+1) + `"}}}}`}, map[string][]string{"kernel.version.major": nil}},
		"a value with control characters": {[]string{`{"attributes": {"kernel.version": {"elements": {"major": "6"}}}, "flags": {"cpu.cpuid": {"elements": {"AVX512F": "\u0000"}}}}`}, map[string][]string{"cpu.cpuid.AVX512F": {"true"}, "kernel.version.major": {"6"}}},
		"more objects than are read":      {strings.Split(strings.Repeat("{}|", mostNodeFeatures)+"{}", "|"), nil},
		"more instances than are known":   {[]string{`{"instances": {"pci.device": {"elements": [` + strings.Join(huge, ",") + `]}}}`}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var read, pruned []*NodeFeature
			for i, features := range c.objects {
				object := nodeFeature(t, fmt.Sprint(i), features)
				read = append(read, NodeFeatureOf(object, usedFeatures))
				assert.Equal(t, "n1", read[i].Node())
				assert.Equal(t, []string{"nfd", fmt.Sprint(i), "7"}, []string{read[i].GetObjectMeta().GetNamespace(), read[i].GetObjectMeta().GetName(), read[i].GetObjectMeta().GetResourceVersion()})
				PruneNodeFeature(object, usedFeatures)
				assert.Equal(t, "NodeFeature", object.GetKind())
				assert.Less(t, len(fmt.Sprint(object.Object)), 5000)
				pruned = append(pruned, NodeFeatureOf(object, usedFeatures))
			}
			assert.Equal(t, read, pruned)
			facts := FeaturesOf(read).Join(classify.Facts{Name: "n1"})
			if name == "more instances than are known" {
				assert.Len(t, facts.Features["pci.device.vendor"], mostFeatureValues)
				return
			}
			assert.Equal(t, c.want, facts.Features)
		})
	}
	assert.Equal(t, classify.Facts{}, Features{}.Join(classify.Facts{}), "objects that were not read are not known")
	unreadable := UnreadableNodeFeature(nodeFeature(t, "a", ofWorker))
	assert.Equal(t, Features{}, FeaturesOf([]*NodeFeature{NodeFeatureOf(nodeFeature(t, "b", ofWorker), usedFeatures), unreadable}), "one that could not be read may have more")
}

func TestWhatRulesDoNotUseOfAFeatureChangesNothing(t *testing.T) {
	fn := func(features string) Features {
		return FeaturesOf([]*NodeFeature{NodeFeatureOf(nodeFeature(t, "n1", features), usedFeatures)})
	}
	assert.Equal(t, fn(ofWorker), fn(strings.ReplaceAll(ofWorker, "6.12.1", "6.12.2")))
	assert.NotEqual(t, fn(ofWorker), fn(strings.ReplaceAll(ofWorker, "8086", "1002")))
	unlabelled := nodeFeature(t, "n1", ofWorker)
	unlabelled.SetLabels(nil)
	assert.Empty(t, NodeFeatureOf(unlabelled, usedFeatures).Node(), "the name of the object is not that of a Node")
}

func FuzzNodeFeature(f *testing.F) {
	for _, seed := range []string{`{"spec": {"features": ` + ofWorker + `}}`, `{}`, `{"spec": []}`, `{"spec": {"features": {"flags": {"cpu.cpuid": {"elements": {"AVX512F": 1}}}}}}`, `{"metadata": {"labels": 7, "name": []}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var object unstructured.Unstructured
		if json.Unmarshal(data, &object.Object) != nil || object.Object == nil {
			return
		}
		want := NodeFeatureOf(&object, usedFeatures)
		facts := FeaturesOf([]*NodeFeature{want}).Join(classify.Facts{})
		require.NotNil(t, facts.Features)
		for name, values := range facts.Features {
			require.Contains(t, usedFeatures, name)
			require.LessOrEqual(t, len(values), mostFeatureValues)
		}
		PruneNodeFeature(&object, usedFeatures)
		require.Equal(t, want.values, NodeFeatureOf(&object, usedFeatures).values)
	})
}
