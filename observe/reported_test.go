package observe

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/quantity"
)

// reporting returns a Node that is ready since some time and has these resources.
func reporting(ready time.Duration, resources map[string]string) *corev1.Node {
	list := corev1.ResourceList{}
	for name, amount := range resources {
		list[corev1.ResourceName(name)] = resource.MustParse(amount)
	}
	return &corev1.Node{Status: corev1.NodeStatus{
		Capacity: list, Allocatable: list, NodeInfo: corev1.NodeSystemInfo{Architecture: "amd64", KubeletVersion: "v1.36.3"},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-ready))}},
	}}
}

// FuzzReported makes statuses of bytes as the API server's protobuf does: what a kubelet reports is read from memory, within bounds.
func FuzzReported(f *testing.F) {
	for _, node := range append(hostileNodes(), reporting(time.Hour, map[string]string{"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "2"}), crowded(), misnamed(), declaring()) {
		data, err := node.Status.Marshal()
		require.NoError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var object corev1.Node
		if object.Status.Unmarshal(data) != nil {
			return
		}
		want, got := FromNode(&object), CompactNodeOf(FromNode(&object)).Node()
		require.Equal(t, want.Reported, got.Reported)
		facts := got.Facts(nil, lookingAt(t, &object), now)
		for _, row := range []struct{ reported, known corev1.ResourceList }{{object.Status.Capacity, facts.Capacity}, {object.Status.Allocatable, facts.Allocatable}} {
			require.LessOrEqual(t, len(row.known), mostResources)
			for name, amount := range row.known {
				reported, ok := row.reported[name]
				require.True(t, ok, "%q was not reported", name)
				require.Zero(t, amount.Cmp(reported), "%s: %s, reported %s", name, &amount, &reported)
			}
			if len(row.reported) <= mostResources {
				for name, amount := range row.reported {
					_, ok := row.known[name]
					_, err := resource.ParseQuantity(amount.String())
					require.Equal(t, quantity.WrongName(string(name)) == "" && err == nil, ok, "%q", name)
				}
			}
		}
		for _, text := range []string{facts.System.Arch, facts.System.OS, facts.System.Kernel, facts.System.Runtime, facts.System.Kubelet} {
			require.True(t, utf8.ValidString(text))
			require.LessOrEqual(t, len(text), 1024)
		}
		require.LessOrEqual(t, len(facts.Declared), mostDeclared)
		for _, name := range facts.Declared {
			require.Contains(t, object.Status.DeclaredFeatures, name)
			require.LessOrEqual(t, len(name), longestDeclared)
		}
		require.True(t, got.Reported.SameRuleFacts(want.Reported, classify.Rules{}))
	})
}

// misnamed reports a resource whose name is no text.
func misnamed() *corev1.Node {
	n := reporting(time.Hour, map[string]string{"cpu": "8"})
	n.Status.Capacity["a\xff/b"] = resource.MustParse("1")
	return n
}

// declaring declares more features than are kept, and some that are none.
func declaring() *corev1.Node {
	n := reporting(time.Hour, nil)
	n.Status.DeclaredFeatures = []string{"GuaranteedQoSPodCPUResize", "a.b.c", "a\xff", strings.Repeat("x", longestDeclared+1)}
	for i := range mostDeclared + 1 {
		n.Status.DeclaredFeatures = append(n.Status.DeclaredFeatures, fmt.Sprintf("Feature%03d", i))
	}
	return n
}

func TestDeclaredFeaturesAreRead(t *testing.T) {
	rules, errs := classify.Compile([]classify.Rule{{
		Name: "a", Condition: classify.Condition{Clause: classify.Clause{Features: map[string]string{"GuaranteedQoSPodCPUResize": "*"}}}, Set: map[string]string{"a": "b"},
	}}, nil)
	require.Empty(t, errs)
	n := CompactNodeOf(FromNode(declaring()))
	facts := n.Node().Facts(nil, rules, now)
	assert.Len(t, facts.Declared, mostDeclared)
	assert.Equal(t, []string{"GuaranteedQoSPodCPUResize", "Feature000"}, facts.Declared[:2])
	o := declaring()
	o.Status.DeclaredFeatures = o.Status.DeclaredFeatures[:3]
	assert.True(t, n.SameRuleFacts(CompactNodeOf(FromNode(o)), rules), "rules use no other")
	o.Status.DeclaredFeatures = nil
	assert.False(t, n.SameRuleFacts(CompactNodeOf(FromNode(o)), rules))
	assert.Empty(t, CompactNodeOf(FromNode(o)).Node().Facts(nil, rules, now).Declared, "an older API server has no such field")
}

// crowded reports more resources than are kept.
func crowded() *corev1.Node {
	resources := map[string]string{"cpu": "8", "memory": "32Gi", "ephemeral-storage": "1Ti", "pods": "110", "hugepages-2Mi": "0"}
	for n := range 5000 {
		resources[fmt.Sprintf("%04d.example.com/%s", n, strings.Repeat("x", 60))] = fmt.Sprint(n)
	}
	return reporting(time.Hour, resources)
}

// lookingAt returns rules that look at all resources that a Node reports.
func lookingAt(t *testing.T, n *corev1.Node) classify.Rules {
	t.Helper()
	all := func(list corev1.ResourceList) map[string]string {
		compared := map[string]string{}
		for name := range list {
			if quantity.WrongName(string(name)) == "" { // no rule can look at others
				compared[string(name)] = ">=0"
			}
		}
		return compared
	}
	set := map[string]string{"a": "b"}
	for name := range n.Status.Allocatable {
		if quantity.WrongName(string(name)) == "" {
			set[fmt.Sprintf("a%d", len(set))] = "{allocatable." + string(name) + "}"
		}
	}
	rules, errs := classify.Compile([]classify.Rule{{
		Name: "all", Condition: classify.Condition{Clause: classify.Clause{Capacity: all(n.Status.Capacity)}}, Set: set,
	}}, nil)
	require.Empty(t, errs)
	return rules
}

func TestOnlyResourcesThatRulesLookAtAreFacts(t *testing.T) {
	p := loaded(t, "labels:\n  rules:\n  - {name: gpu, when: {capacity: {nvidia.com/gpu: \">=1\"}}, set: {memory: \"{allocatable.memory}\"}}\n")
	for kind, n := range inMemory(reporting(time.Hour, map[string]string{"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "2"})) {
		facts := n.Facts(nil, p.LabelRules(), now)
		assert.Equal(t, corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("2")}, facts.Capacity, kind)
		assert.Equal(t, corev1.ResourceList{"memory": resource.MustParse("32Gi")}, facts.Allocatable, kind)
	}
}

func TestAKubeletThatHasReportedNoResourceIsNotOneWithoutThem(t *testing.T) {
	p := loaded(t, "labels:\n  rules:\n  - {name: gpu, when: {capacity: {nvidia.com/gpu: \">=1\"}}, set: {gpu: present}}\n")
	blank, o := reporting(time.Hour, nil), reporting(time.Hour, map[string]string{"cpu": "8"})
	for kind, n := range inMemory(blank) {
		assert.Nil(t, n.Facts(nil, p.LabelRules(), now).Capacity, kind)
	}
	for kind, n := range inMemory(o) {
		assert.Equal(t, corev1.ResourceList{}, n.Facts(nil, p.LabelRules(), now).Capacity, kind)
	}
	assert.False(t, FromNode(blank).Reported.SameRuleFacts(FromNode(o).Reported, p.LabelRules()), "one has no GPU, of the other it is not known")
}

func TestAKubeletWithThousandsOfResourcesCostsLittleAndItsOwnAreKnown(t *testing.T) {
	n := FromNode(crowded())
	facts := n.Facts(nil, lookingAt(t, crowded()), now)
	assert.Len(t, facts.Capacity, mostResources)
	for _, name := range []corev1.ResourceName{"cpu", "memory", "ephemeral-storage", "pods", "hugepages-2Mi"} {
		assert.Contains(t, facts.Capacity, name, "a kubelet's own resources come first")
	}
	assert.Less(t, len(n.Reported.shape.Value())+len(n.Reported.amounts), 16<<10)
}

func TestPluginsHadTimeOnceTheNodeWasReadyForFiveMinutes(t *testing.T) {
	for name, c := range map[string]struct {
		node *corev1.Node
		want bool
	}{
		"ready for an hour":                 {reporting(time.Hour, nil), true},
		"ready for five minutes":            {reporting(classify.PluginGrace, nil), true},
		"ready for less":                    {reporting(classify.PluginGrace-2*time.Second, nil), false},
		"ready from the future on":          {reporting(-time.Hour, nil), false},
		"without a word about conditions":   {&corev1.Node{}, false},
		"ready since the zero time":         {&corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}, false},
		"not ready, whatever else there is": {&corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))}}}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			for kind, n := range inMemory(c.node) {
				assert.Equal(t, c.want, n.Facts(nil, classify.Rules{}, now).PluginsRegistered, kind)
			}
		})
	}
}

func TestWhichReportsAreNews(t *testing.T) {
	p := loaded(t, "labels:\n  rules:\n  - {name: gpu, when: {capacity: {nvidia.com/gpu: \">=1\"}}, set: {gpu: present}}\n")
	prev := FromNode(reporting(time.Hour, map[string]string{"cpu": "8", "nvidia.com/gpu": "2"})).Reported
	for name, c := range map[string]struct {
		node  *corev1.Node
		equal bool
	}{
		"the same":                             {reporting(time.Hour, map[string]string{"cpu": "8", "nvidia.com/gpu": "2"}), true},
		"the same amount, written differently": {reporting(time.Hour, map[string]string{"cpu": "8", "nvidia.com/gpu": "2000m"}), true},
		"ready since another moment: it may be about to report less": {reporting(time.Minute, map[string]string{"cpu": "8", "nvidia.com/gpu": "2"}), false},
		"less of a resource that no rule looks at":                   {reporting(time.Hour, map[string]string{"cpu": "4", "nvidia.com/gpu": "2"}), true},
		"less of a resource that a rule looks at":                    {reporting(time.Hour, map[string]string{"cpu": "8", "nvidia.com/gpu": "1"}), false},
		"the resource is missing that a rule looks at":               {reporting(time.Hour, map[string]string{"cpu": "8"}), false},
		"no resource at all":                                         {reporting(time.Hour, nil), false},
		"not ready":                                                  {&corev1.Node{Status: corev1.NodeStatus{Capacity: reporting(0, map[string]string{"nvidia.com/gpu": "2"}).Status.Capacity}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			next := FromNode(c.node).Reported
			assert.Equal(t, c.equal, prev.SameRuleFacts(next, p.LabelRules()))
			assert.Equal(t, c.equal, next.SameRuleFacts(prev, p.LabelRules()))
		})
	}
}
