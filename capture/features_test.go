package capture

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	"nodekeep.dev/nodekeep/capture/rollout"
	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

const avxRule = "labels:\n  rules:\n" +
	"  - {name: avx, when: {features: {cpu.cpuid.AVX512F: \"*\"}}, set: {avx: \"yes\"}}\n" +
	"  - {name: none, set: {avx: \"no\"}}\n"

// avxOf returns what NFD found on a Node: a CPU with AVX-512.
func avxOf(node string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"features": map[string]any{
		"flags": map[string]any{"cpu.cpuid": map[string]any{"elements": map[string]any{"AVX512F": map[string]any{}}}},
	}}}}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: "nfd.k8s-sigs.io", Version: "v1alpha1", Kind: "NodeFeature"})
	object.SetNamespace("nfd")
	object.SetName(node)
	object.SetLabels(map[string]string{observe.NodeFeatureLabel: node})
	return object
}

// featuresCluster is a cluster whose leader follows features.
type featuresCluster struct {
	*publishedCluster
	features dynamic.ResourceInterface
}

func newFeaturesCluster(t *testing.T, sections string, denied error) *featuresCluster {
	w := &featuresCluster{publishedCluster: newPublishedCluster(t, sections, denied)}
	w.leads(func(o *Options) {
		objects := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{observe.NodeFeatureResource(): "NodeFeatureList"})
		objects.PrependReactor("list", "nodefeatures", w.list)
		o.Dynamic, w.features = objects, objects.Resource(observe.NodeFeatureResource()).Namespace("nfd")
	})
	w.runs(w.leader.features.watchObjects)
	return w
}

func TestNodeFeaturesAreReadWhileRulesLookAtThem(t *testing.T) {
	w := newFeaturesCluster(t, tierRule, nil)
	_, err := w.features.Create(t.Context(), avxOf("n1"), metav1.CreateOptions{})
	require.NoError(t, err)
	w.becomes(labels{"tier": "gold"})
	assert.Zero(t, w.reads(), "no rule looks at features")

	w.follows(avxRule)
	w.becomes(labels{"avx": "yes"})
	assert.Equal(t, 1, w.reads())
	rest := avxOf("n1")
	require.NoError(t, unstructured.SetNestedMap(rest.Object, map[string]any{}, "spec", "features", "flags", "cpu.cpuid", "elements"))
	_, err = w.features.Update(t.Context(), rest, metav1.UpdateOptions{})
	require.NoError(t, err)
	known := func() bool { return w.leader.features.factsOf("n1", w.leader.Policy()) != observe.FeaturesOf(nil) }
	held := func() bool {
		return len(w.leader.works()) == 0 && strings.Contains(w.node().Annotations[policy.LabelsAnnotation], "until")
	}
	require.Eventually(t, held, 3*time.Minute, time.Millisecond)
	w.becomes(labels{"avx": "yes"})
	w.passes(classify.PluginGrace + time.Second)
	w.leader.Enqueue("n1")
	w.becomes(labels{"avx": "no"})

	_, err = w.features.Update(t.Context(), avxOf("n1"), metav1.UpdateOptions{})
	require.NoError(t, err)
	w.becomes(labels{"avx": "yes"})
	require.NoError(t, w.features.Delete(t.Context(), "n1", metav1.DeleteOptions{}))
	require.Eventually(t, func() bool { return !known() }, 3*time.Minute, time.Millisecond, "NFD is uninstalled, and its kind stays")
	for range 2 {
		require.Empty(t, w.leader.works())
		w.passes(classify.PluginGrace + time.Second)
		w.leader.Enqueue("n1")
	}
	w.becomes(labels{"avx": "yes"}) // that no object has it is no evidence

	w.follows("labels: {rules: [{name: resize, when: {features: {Resize: \"*\"}}, set: {resize: \"yes\"}}]}\n")
	rules := loadPolicy(t, avxRule)
	require.Eventually(t, func() bool { return w.leader.features.factsOf("n1", rules) == observe.Features{} }, 3*time.Minute, time.Millisecond)
	assert.Equal(t, 1, w.reads(), "declared features are in the Node")
}

func TestWithoutNFDOrTheRightRulesAboutFeaturesDecideNothing(t *testing.T) {
	resource := observe.NodeFeatureResource().GroupResource()
	for name, c := range map[string]struct {
		denied    error
		installed bool // rules that are new come into force, because there is nothing that they could wait for
	}{
		"the right is missing": {apierrors.NewForbidden(resource, "", nil), false},
		"NFD is not installed": {apierrors.NewNotFound(resource, ""), true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFeaturesCluster(t, tierRule, c.denied)
			w.becomes(labels{"tier": "gold"})
			w.follows(avxRule)
			require.Eventually(t, func() bool { return w.reads() > 2 }, 3*time.Minute, time.Millisecond, "it is tried again")
			want := labels{"tier": "gold"}
			if c.installed {
				want = nil
			}
			assert.Eventually(t, func() bool {
				w.leader.rollout.Check(t.Context())
				return len(w.leader.works()) == 0 && len(want) == len(w.shows())
			}, 3*time.Minute, 5*time.Millisecond)
			assert.NotContains(t, w.shows(), "avx")
			assert.Equal(t, !c.installed, w.log.count("level=WARN") > 0)
			reported := 0
			for len(w.leader.events.Events) > 0 {
				if strings.Contains(<-w.leader.events.Events, FactsUnknown) {
					reported++
				}
			}
			assert.Equal(t, !c.installed, reported == 1)
			assert.False(t, w.leader.features.known(w.leader.Policy()))

			w.mu.Lock()
			w.denied = nil
			w.mu.Unlock()
			_, err := w.features.Create(t.Context(), avxOf("n1"), metav1.CreateOptions{})
			require.NoError(t, err)
			w.becomes(labels{"avx": "yes"})
			assert.True(t, w.leader.features.known(w.leader.Policy()))
		})
	}
}

func TestRulesAreJudgedAgainOnceNFDIsInstalled(t *testing.T) {
	missing := apierrors.NewNotFound(observe.NodeFeatureResource().GroupResource(), "")
	const replacing = "labels:\n  rules:\n  - {name: avx, precedence: rule, when: {features: {cpu.cpuid.AVX512F: \"*\"}}, set: {tier: fast, team: a}}\n"
	for name, restarted := range map[string]bool{"while capture runs": false, "after capture has restarted": true} {
		t.Run(name, func(t *testing.T) {
			w := newFeaturesCluster(t, "{}", missing)
			judge := w.leader.rollout
			rules := func() string { return w.leader.Policy().RulesHash() }
			data := func() labels {
				state, err := w.leader.notes.Get(t.Context(), store.AcceptedConfigMap)
				require.NoError(t, err)
				if state == nil {
					return nil
				}
				return state.Data
			}
			w.follows(replacing)
			require.Eventually(t, func() bool {
				judge.Check(t.Context())
				return !w.leader.rulesHeld(w.leader.Policy())
			}, 3*time.Minute, time.Millisecond, "rules do not wait for what is not installed")
			assert.Equal(t, []string{rules(), rules()}, []string{data()[store.RulesInForce], data()[store.RulesWithoutFeatures]})

			if restarted {
				judge = w.leader.newRollout()
				w.leader.rulesHeld = judge.Holds
			}
			for i := range 9 {
				_, err := w.features.Create(t.Context(), avxOf(fmt.Sprintf("other-%d", i)), metav1.CreateOptions{})
				require.NoError(t, err)
			}
			w.mu.Lock()
			w.denied = nil
			w.mu.Unlock()
			require.Eventually(t, func() bool { return w.leader.features.known(w.leader.Policy()) }, 3*time.Minute, time.Millisecond)
			for i := range 9 {
				n := w.node().DeepCopy()
				n.Name, n.UID, n.ResourceVersion = fmt.Sprintf("other-%d", i), types.UID(fmt.Sprintf("o%d", i)), "10"
				n.Labels = labels{"tier": "slow"}
				w.leader.observations.observeLive(observe.CompactNodeOf(observe.FromNode(n)))
			}
			assert.True(t, w.leader.rulesHeld(w.leader.Policy()), "what they change is known only now")
			judge.Check(t.Context())
			held, known := judge.HeldRules()
			require.True(t, known)
			assert.Equal(t, &rollout.HeldRules{Hash: rules(), Nodes: 9}, held)
			assert.NotEqual(t, rules(), data()[store.RulesInForce], "the webhook and operators see that they wait")
			judge.Check(t.Context())
			assert.True(t, w.leader.rulesHeld(w.leader.Policy()))

			require.NoError(t, w.leader.notes.Set(t.Context(), store.AcceptedConfigMap, true, map[string]*string{store.RulesAccepted: new(rules())}))
			judge.Check(t.Context())
			assert.False(t, w.leader.rulesHeld(w.leader.Policy()))
			assert.Equal(t, []string{rules(), ""}, []string{data()[store.RulesInForce], data()[store.RulesWithoutFeatures]})
		})
	}
}

func TestANodeFeatureThatCannotBeReadLeavesTheProcessAlone(t *testing.T) {
	r := newCluster(t, avxRule).leader()
	r.features.strip = func(any, classify.UsedFeatures) publication { panic("cannot read") }
	slim, ok := r.features.stripped(r.Controller, avxOf("n1"), nil).(*observe.NodeFeature)
	require.True(t, ok)
	assert.Equal(t, "n1", slim.Node())
	assert.Equal(t, observe.Features{}, observe.FeaturesOf([]*observe.NodeFeature{slim}))
	assert.Equal(t, 1, int(valueOf(t, r.Metrics.errors.WithLabelValues(panicked))))
}

// listedPages answers lists with three pages of one object.
type listedPages struct {
	dynamic.ResourceInterface
	asked []metav1.ListOptions
}

func (l *listedPages) List(_ context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	l.asked = append(l.asked, options)
	page := &unstructured.UnstructuredList{Items: []unstructured.Unstructured{*avxOf(strings.Repeat("n", len(l.asked)))}}
	page.SetResourceVersion("7")
	if len(l.asked) < 3 {
		page.SetContinue("more")
	}
	return page, nil
}

func TestNodeFeaturesAreListedPageByPageWithoutWhatRulesDoNotUse(t *testing.T) {
	pages := &listedPages{}
	list, err := nodeFeatures{pages, classify.UsedFeatures{"cpu.cpuid.SSE4"}}.List(t.Context(), metav1.ListOptions{ResourceVersion: "0", LabelSelector: "a"})
	require.NoError(t, err)
	first, next := metav1.ListOptions{Limit: nodeFeaturePage, LabelSelector: "a"}, metav1.ListOptions{Limit: nodeFeaturePage, LabelSelector: "a", Continue: "more"}
	assert.Equal(t, []metav1.ListOptions{first, next, next}, pages.asked, "with version 0, the API server would send all at once")
	assert.Len(t, list.Items, 3)
	assert.Empty(t, list.GetContinue())
	assert.Equal(t, "7", list.GetResourceVersion())
	assert.NotContains(t, fmt.Sprint(list.Items[2].Object), "AVX512F")
	assert.Equal(t, "nnn", list.Items[2].GetLabels()[observe.NodeFeatureLabel])
}
