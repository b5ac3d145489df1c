package observe

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

// usualNode returns a Node with the labels of its kubelet and ten of operators.
func usualNode(i int) *corev1.Node {
	name := fmt.Sprintf("worker-%d", i)
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(fmt.Sprintf("4a8c52fe-9a3c-4b54-8f6d-%012x", i)), ResourceVersion: fmt.Sprint(1_000_000 + i),
		Labels: map[string]string{
			"beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "kubernetes.io/hostname": name,
		},
	}}
	kubelet := `{"f:metadata":{"f:labels":{".":{},"f:beta.kubernetes.io/arch":{},"f:beta.kubernetes.io/os":{},"f:kubernetes.io/arch":{},"f:kubernetes.io/hostname":{},"f:kubernetes.io/os":{}}}}`
	given, people := map[string]string{}, map[string]any{}
	for k := range 10 {
		key := fmt.Sprintf("example.com/label-%d", k)
		n.Labels[key] = fmt.Sprintf("value-%d", i%50)
		given[key], people["f:"+key] = n.Labels[key], struct{}{}
	}
	owned, _ := json.Marshal(map[string]any{"f:metadata": map[string]any{"f:labels": people}})
	n.ManagedFields = []metav1.ManagedFieldsEntry{
		{Manager: "kubelet", FieldsV1: metav1.NewFieldsV1(kubelet)}, {Manager: "kubectl-label", FieldsV1: metav1.NewFieldsV1(string(owned))},
	}
	n.Annotations = map[string]string{policy.StampAnnotation: record.Stamp{}.Merge(given, record.Record{}, 0).String()}
	n.Status.NodeInfo.SystemUUID = fmt.Sprintf("ec2%05x-9a3c-4b54-8f6d-0d7e5b3f2a11", i)
	n.Status.NodeInfo.MachineID = n.Status.NodeInfo.SystemUUID
	n.Status.NodeInfo.Architecture, n.Status.NodeInfo.OperatingSystem = "amd64", "linux"
	n.Status.NodeInfo.KernelVersion, n.Status.NodeInfo.ContainerRuntimeVersion, n.Status.NodeInfo.KubeletVersion = "6.12.41-cloud", "containerd://2.1.4", "v1.36.3"
	n.Status.Capacity = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: *resource.NewQuantity(256<<30+int64(i)<<10, resource.BinarySI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(900<<30+int64(i)<<12, resource.BinarySI), corev1.ResourcePods: resource.MustParse("110"),
		"hugepages-2Mi": resource.MustParse("0"), "nvidia.com/gpu": resource.MustParse("8"),
	}
	n.Status.Allocatable = n.Status.Capacity.DeepCopy()
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(1_790_000_000+int64(i), 0)}}
	n.Spec.ProviderID = fmt.Sprintf("aws:///eu-central-1a/i-%017x", i)
	return n
}

func TestACompactNodeIsTheNodeItWasMadeOf(t *testing.T) {
	for name, change := range map[string]func(n *corev1.Node){
		"a usual one": func(*corev1.Node) {},
		"with taints": func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "b", Effect: "NoSchedule", TimeAdded: &metav1.Time{}}, {Key: "a", Value: "x", Effect: "NoExecute"}}
		},
		"being deleted":           func(n *corev1.Node) { now := metav1.Now(); n.DeletionTimestamp = &now },
		"with a time of creation": func(n *corev1.Node) { n.CreationTimestamp = metav1.Now() },
		"without labels":          func(n *corev1.Node) { n.Labels, n.ManagedFields = map[string]string{}, nil },
		"without a stamp":         func(n *corev1.Node) { n.Annotations = nil },
		"opened without taints": func(n *corev1.Node) {
			n.Annotations[policy.StampAnnotation] = record.Stamp{TaintsBehindGate: []string{}}.String()
		},
		"with what rules set and removed": func(n *corev1.Node) {
			n.Annotations[policy.LabelsAnnotation] = policy.AnnotationContent{Labels: map[string]record.RuleLabel{
				"joined": {Rule: "r", Absent: true}, "a:NoSchedule": {Rule: "r", Absent: true}, "example.com/label-1": {Value: n.Labels["example.com/label-1"], Rule: "r"},
				"since": {Value: "v", Rule: "r", Version: 1 << 60, End: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)},
			}}.Annotations(0)[policy.LabelsAnnotation]
		},
		"with a stamp of others": func(n *corev1.Node) { n.Annotations[policy.StampAnnotation] = "no JSON" },
		"with a stamp that says everything": func(n *corev1.Node) {
			stamp := record.Stamp{Brought: map[string]string{"brought": "1", "example.com/label-1": "other", "example.com/label-2": n.Labels["example.com/label-2"]}}
			stamp.Followed, stamp.TaintsBehindGate = "old", []string{"c:NoSchedule"}
			stamp = stamp.Merge(map[string]string{"c:NoSchedule": "1", "example.com/label-3": n.Labels["example.com/label-3"], "gone": ""}, record.New("n", record.Object{UID: "z", Version: 1 << 59}, map[string]string{"c:NoSchedule": "1"}), 1<<60)
			n.Annotations[policy.StampAnnotation] = stamp.Merge(map[string]string{"in-the-create": "x"}, record.Record{}, 0).String()
		},
		"with derived taints": func(n *corev1.Node) {
			n.Annotations[policy.TaintsAnnotation] = "a=1:NoSchedule,b:NoExecute"
			n.Spec.Taints = []corev1.Taint{{Key: "a", Value: "1", Effect: "NoSchedule"}}
		},
		"with derived taints alone": func(n *corev1.Node) {
			n.Annotations = map[string]string{policy.TaintsAnnotation: "a=1:NoSchedule"}
		},
		"with a stamp that capture wrote": func(n *corev1.Node) {
			n.ManagedFields = append(n.ManagedFields, metav1.ManagedFieldsEntry{Manager: FieldManager, FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:nodekeep.dev/restored":{}}}}`)})
		},
		"with a version that is none": func(n *corev1.Node) { n.ResourceVersion = "x" },
		"cordoned": func(n *corev1.Node) {
			n.Spec.Unschedulable = true
			n.ManagedFields = append(n.ManagedFields, metav1.ManagedFieldsEntry{Manager: "kubectl-cordon", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:unschedulable":{}}}`)})
		},
		"with claims":      func(n *corev1.Node) { n.Annotations["nfd.node.kubernetes.io/feature-labels"] = "a,b" },
		"with annotations": func(n *corev1.Node) { n.Annotations["x"] = "yz" },
		"of the boot that its stamp names": func(n *corev1.Node) {
			n.Status.NodeInfo.BootID, n.Annotations[policy.StampAnnotation] = "boot-1", record.Stamp{Boot: "boot-1"}.String()
		},
		"of another boot than its stamp names": func(n *corev1.Node) {
			n.Status.NodeInfo.BootID, n.Annotations[policy.StampAnnotation] = "boot-2", record.Stamp{Boot: "boot-1"}.String()
		},
		"of a boot that no stamp names": func(n *corev1.Node) { n.Status.NodeInfo.BootID = "boot-1" },
		"without the boot that its stamp names": func(n *corev1.Node) {
			n.Annotations[policy.StampAnnotation] = record.Stamp{Boot: "boot-1"}.String()
		},
		"with a machine that says less": func(n *corev1.Node) { n.Status.NodeInfo = corev1.NodeSystemInfo{} },
		"with an empty value":           func(n *corev1.Node) { n.Labels["example.com/label-9"] = "" },
	} {
		t.Run(name, func(t *testing.T) {
			object := usualNode(7)
			change(object)
			want := FromNode(object)
			compact := CompactNodeOf(want)
			got := compact.Node()
			assert.Equal(t, want, got)
			assert.Equal(t, want.Name, compact.Name())
			assert.Equal(t, want.UID, compact.UID())
			assert.Equal(t, want.ResourceVersion, compact.GetObjectMeta().GetResourceVersion())
			assert.False(t, compact.DecisionsDiffer(CompactNodeOf(got)))
		})
	}
}

func TestAHeartbeatDiffersInNothingAndAllElseInSomething(t *testing.T) {
	prev := CompactNodeOf(FromNode(usualNode(7)))
	for name, tt := range map[string]struct {
		change  func(n *corev1.Node)
		differs bool
	}{
		"a heartbeat":        {func(n *corev1.Node) { n.ResourceVersion = "9"; n.Status.Conditions = []corev1.NodeCondition{{}} }, false},
		"an annotation":      {func(n *corev1.Node) { n.Annotations["x"] = "y" }, false},
		"a label's value":    {func(n *corev1.Node) { n.Labels["example.com/label-1"] = "new" }, true},
		"a label that goes":  {func(n *corev1.Node) { delete(n.Labels, "example.com/label-1") }, true},
		"a label that comes": {func(n *corev1.Node) { n.Labels["new"] = "" }, true},
		"a taint":            {func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "a", Effect: "NoSchedule"}} }, true},
		"a cordon":           {func(n *corev1.Node) { n.Spec.Unschedulable = true }, true},
		"another owner":      {func(n *corev1.Node) { n.ManagedFields[1].Manager = "edit" }, true},
		"another stamp":      {func(n *corev1.Node) { n.Annotations[policy.StampAnnotation] = record.Stamp{}.String() }, true},
		"another version in the stamp": {func(n *corev1.Node) {
			stamp, _ := record.ParseStamp(n.Annotations[policy.StampAnnotation])
			n.Annotations[policy.StampAnnotation] = stamp.Merge(map[string]string{"example.com/label-1": n.Labels["example.com/label-1"]}, record.Record{}, 7).String()
		}, true},
		"something that it brought": {func(n *corev1.Node) {
			stamp, _ := record.ParseStamp(n.Annotations[policy.StampAnnotation])
			stamp.Brought = map[string]string{"kubernetes.io/os": "linux"}
			n.Annotations[policy.StampAnnotation] = stamp.String()
		}, true},
		"a derived taint": {func(n *corev1.Node) { n.Annotations[policy.TaintsAnnotation] = "a:NoSchedule" }, true},
		"another writer of the stamp": {func(n *corev1.Node) {
			n.ManagedFields = append(n.ManagedFields, metav1.ManagedFieldsEntry{Manager: "edit", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:nodekeep.dev/restored":{}}}}`)})
		}, true},
		"another object":  {func(n *corev1.Node) { n.UID = "other" }, true},
		"another machine": {func(n *corev1.Node) { n.Spec.ProviderID = "other" }, true},
		"its deletion":    {func(n *corev1.Node) { now := metav1.Now(); n.DeletionTimestamp = &now }, true},
		"a claim":         {func(n *corev1.Node) { n.Annotations["nfd.node.kubernetes.io/feature-labels"] = "a" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			object := usualNode(7)
			tt.change(object)
			assert.Equal(t, tt.differs, prev.DecisionsDiffer(CompactNodeOf(FromNode(object))))
		})
	}
}

// A Node of 50 images is 20 KiB; 100,000 of them are what capture holds.
func TestCompactNodesTakeLittleMemory(t *testing.T) {
	const count = 1_000
	held := func(hold func(*Node) any) float64 {
		kept := make([]any, count)
		prev := liveBytes()
		for i := range kept {
			raw, err := json.Marshal(usualNode(i))
			require.NoError(t, err)
			var object corev1.Node
			require.NoError(t, json.Unmarshal(raw, &object))
			kept[i] = hold(FromNode(&object))
		}
		next := liveBytes()
		runtime.KeepAlive(kept)
		return (float64(next) - float64(prev)) / count
	}
	full, compact := held(func(n *Node) any { return n }), held(func(n *Node) any { return CompactNodeOf(n) })
	named := held(func(n *Node) any { // a rule copies a label that has another value on each Node
		n.annotations.derived = []corev1.Taint{{Key: "example.com/host", Value: n.Name, Effect: corev1.TaintEffectNoSchedule}}
		n.Taints, n.Items["example.com/host:NoSchedule"] = n.annotations.derived, n.Name
		return CompactNodeOf(n)
	})
	factless := held(func(n *Node) any {
		n.Reported = Reported{}
		return CompactNodeOf(n)
	})
	assert.Less(t, compact-factless, 200.0, "the facts that rules look at")
	assert.Less(t, named, compact+200, "what differs between Nodes stands in nothing that they share")
	t.Logf("a Node takes %.0f bytes, compact %.0f, of which its facts %.0f", full, compact, compact-factless)
	assert.Less(t, compact, full/4)
}

func liveBytes() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func BenchmarkCompactNode(b *testing.B) {
	n := FromNode(usualNode(7))
	b.Run("make", func(b *testing.B) {
		for b.Loop() {
			CompactNodeOf(n)
		}
	})
	b.Run("use", func(b *testing.B) {
		compact := CompactNodeOf(n)
		for b.Loop() {
			compact.Node()
		}
	})
	b.Run("read", func(b *testing.B) { // what a heartbeat costs before
		object := usualNode(7)
		for b.Loop() {
			FromNode(object)
		}
	})
}
