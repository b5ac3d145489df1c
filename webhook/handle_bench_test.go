package webhook_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/webhook"
)

// BenchmarkHandle is what a registration costs: a Node of some 20 KiB with 50 images, 10 remembered labels, two of them
// protected, and 10,000 records. BenchmarkNoop is the part of it that any webhook has to pay.
func BenchmarkHandle(b *testing.B) {
	known := mapRecords{}
	for i := range 10_000 {
		known.add(fmt.Sprintf("worker-%d", i))
	}
	h := newHook(known, policy.Default())
	request := creation(byKubelet(), marshal(b, fullNode()))
	require.InDelta(b, 20<<10, len(request.Object.Raw), 1<<10)
	response := h.review(b, bodyOf(b, request))
	require.Len(b, typed(b, requireSafe(b, request, response)).Labels, 5+8)
	benchmark(b, h)
}

// BenchmarkNoop only reads the AdmissionReview and lets the Node pass.
func BenchmarkNoop(b *testing.B) {
	benchmark(b, newHookWith(func(context.Context, admission.Request) admission.Response { return admission.Allowed("") }, always))
}

func benchmark(b *testing.B, h *hook) {
	b.Helper()
	body := bodyOf(b, creation(byKubelet(), marshal(b, fullNode())))
	require.Equal(b, http.StatusOK, h.send(body).Code)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(httptest.NewRecorder(), post(body))
	}
}

// mapRecords hold decoded records, as the informer's cache does.
type mapRecords map[string]store.Entry

func (m mapRecords) Get(node string) (store.Entry, error) {
	entry, found := m[node]
	if !found {
		return store.Entry{}, store.ErrNotFound
	}
	return entry, nil
}

func (m mapRecords) Progress() time.Time { return time.Now() }

func (m mapRecords) add(node string) {
	labels := map[string]string{"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/ci": "true"}
	for i := range 8 {
		labels[fmt.Sprintf("example.com/label-%d", i)] = node
	}
	m[node] = store.Entry{Record: store.Record{Version: store.Version, Node: node, Items: labels}, Version: "1"}
}

// fullNode is what a kubelet registers that has run for a while: 50 images are the most that it reports.
func fullNode() *corev1.Node {
	node := &corev1.Node{
		TypeMeta: metav1.TypeMeta{Kind: "Node", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{
			Name: worker,
			Labels: map[string]string{
				"beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
				"kubernetes.io/hostname": worker, "kubernetes.io/os": "linux",
			},
			Annotations: map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
		},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "node.kubernetes.io/not-ready", Effect: corev1.TaintEffectNoSchedule}}},
	}
	node.Status.Capacity = corev1.ResourceList{
		"cpu": resource.MustParse("16"), "memory": resource.MustParse("65806664Ki"), "pods": resource.MustParse("110"),
		"ephemeral-storage": resource.MustParse("203056560Ki"), "hugepages-1Gi": resource.MustParse("0"),
	}
	node.Status.Allocatable = node.Status.Capacity
	for _, condition := range []corev1.NodeConditionType{"MemoryPressure", "DiskPressure", "PIDPressure", "Ready"} {
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
			Type: condition, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficient", Message: "kubelet has sufficient resources available",
		})
	}
	node.Status.NodeInfo = corev1.NodeSystemInfo{
		MachineID: "2d3f7a0e4b1c4c0f8a6e5d9b7c1a2f30", SystemUUID: "4c4c4544-0051-3510-8052-b4c04f4d3132", KubeletVersion: "v1.36.3",
		KernelVersion: "6.8.0-52-generic", OSImage: "Ubuntu 24.04.2 LTS", ContainerRuntimeVersion: "containerd://2.1.4",
	}
	for i := range 50 {
		image := fmt.Sprintf("registry.example.com/some-department/some-team-with-a-longer-name/some-component-%d-of-the-platform-that-they-run", i)
		node.Status.Images = append(node.Status.Images, corev1.ContainerImage{
			Names: []string{
				fmt.Sprintf("%s@sha256:%064x", image, i),
				fmt.Sprintf("%s:v1.%d.0-build.20260302.093000", image, i),
			},
			SizeBytes: 75_118_234,
		})
	}
	return node
}

var _ webhook.Records = mapRecords{}
