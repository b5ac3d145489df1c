package webhook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/bench/measure"
	"nodekeep.dev/nodekeep/webhook"
)

// manyRecords is as many as the largest clusters have Nodes.
const manyRecords = 100_000

// What a registration costs, from the AdmissionReview's bytes to the answer's: a Node of some 20 KiB with 50 images, 10
// remembered labels, two of them protected, and 100,000 records. To compare, the same with fewer records.
func BenchmarkHandle(b *testing.B) {
	for _, count := range []int{1_000, 10_000, manyRecords} {
		b.Run(fmt.Sprintf("records=%d", count), func(b *testing.B) {
			h := newHook(manyKnown(count), policy.Default())
			request := creation(byKubelet(), marshal(b, fullNode(50)))
			require.InDelta(b, 20<<10, len(request.Object.Raw), 1<<10)
			response := h.review(b, bodyOf(b, request))
			require.Len(b, typed(b, requireSafe(b, request, response)).Labels, 5+8)
			benchmark(b, h, 50)
		})
	}
}

// The same where two clients own what is restored, and own it again.
func BenchmarkHandleOwners(b *testing.B) {
	known := manyKnown(1_000)
	for node, entry := range known {
		for i, manager := range []string{"argocd-controller", "kustomize-controller"} {
			for pos := i; pos < len(entry.Record.Entries); pos += 2 {
				entry.Record.Entries[pos].Owners = record.OwnersOf(record.Manager{Name: manager, Operation: "Apply"})
			}
		}
		known[node] = entry
	}
	benchmark(b, newHook(known, policy.Default()), 50)
}

// The same with more and fewer images, which say nothing to us.
func BenchmarkHandleImages(b *testing.B) {
	h := newHook(manyKnown(1_000), policy.Default())
	for _, images := range []int{0, 10, 50} {
		b.Run(fmt.Sprintf("images=%d", images), func(b *testing.B) { benchmark(b, h, images) })
	}
}

// What 50 rules for labels cost that look at facts of every kind, measured in turn: none is true of the Node, or they set 3 labels. A review that sets labels
// has a larger patch. So it is compared with one without rules that restores 3 labels more, too.
func BenchmarkHandleRules(b *testing.B) {
	const restores = 8
	variants := func(names ...string) (variants []measure.Variant) {
		for _, name := range names {
			c := map[string]struct{ recorded, rules, set, cpu int }{
				"without-rules": {recorded: restores, cpu: 16}, "none-true": {recorded: restores, rules: 50, cpu: 1600},
				"3-set": {recorded: restores, rules: 50, set: 3, cpu: 16}, "3-more-restored": {recorded: restores + 3, cpu: 16},
			}[name]
			known := mapRecords{}
			known.add(worker, c.recorded)
			p, err := policy.Load([]byte(measure.PolicyOfRules(c.rules, c.cpu)), policy.DefaultGate)
			require.NoError(b, err)
			h := newHook(known, p)
			request := creation(byKubelet(), marshal(b, fullNode(50)))
			body := bodyOf(b, request)
			labels := typed(b, requireSafe(b, request, h.review(b, body))).Labels
			require.Len(b, labels, 5+c.recorded+c.set)
			variants = append(variants, measure.Variant{Name: name, Run: func() { h.ServeHTTP(httptest.NewRecorder(), post(body)) }})
		}
		return variants
	}
	b.Run("of=all", func(b *testing.B) { measure.InTurn(b, 100, variants("without-rules", "none-true", "3-set")...) })
	b.Run("of=same-patch", func(b *testing.B) { measure.InTurn(b, 100, variants("3-more-restored", "3-set")...) })
}

// A handler behind the same server that decodes the AdmissionReview and lets the Node pass.
func BenchmarkNoop(b *testing.B) {
	benchmark(b, newHookWith(func(context.Context, admission.Request) admission.Response { return admission.Allowed("") }, yes), 50)
}

// The least that any webhook has to do: find the uid, which the answer must carry, and the name.
func BenchmarkFindUIDAndName(b *testing.B) {
	benchmark(b, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var review struct {
			Request struct {
				UID  string `json:"uid"`
				Name string `json:"name"`
			} `json:"request"`
		}
		if err := jsonv2.Unmarshal(body, &review); err != nil || review.Request.Name != worker {
			http.Error(w, "no review of the worker", http.StatusBadRequest)
			return
		}
		_, _ = fmt.Fprintf(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%q,"allowed":true}}`, review.Request.UID)
	}), 50)
}

// The usual way: controller-runtime decodes the whole Node, a Defaulter changes it, and the whole of it is encoded and
// compared again. What the Defaulter does costs nothing compared with that.
func BenchmarkUsualWay(b *testing.B) {
	known := manyKnown(1_000)
	usual := admission.WithDefaulter[*corev1.Node](clientgoscheme.Scheme, defaulter(func(_ context.Context, node *corev1.Node) error {
		entry, err := known.Get(node.Name)
		for key, value := range entry.Record.Items() {
			if _, ok := node.Labels[key]; !ok && policy.AllowedForKubelet(key) {
				node.Labels[key] = value
			}
		}
		return err
	}))
	usual.LogConstructor = func(logr.Logger, *admission.Request) logr.Logger { return logr.Discard() }
	answer := httptest.NewRecorder()
	usual.ServeHTTP(answer, post(bodyOf(b, creation(byKubelet(), marshal(b, fullNode(50))))))
	var review admissionv1.AdmissionReview
	require.NoError(b, json.Unmarshal(answer.Body.Bytes(), &review))
	require.True(b, review.Response.Allowed)
	require.Equal(b, 8, strings.Count(string(review.Response.Patch), `"/metadata/labels/example.com~1label-`))
	benchmark(b, usual, 50)
}

type defaulter func(ctx context.Context, node *corev1.Node) error

func (d defaulter) Default(ctx context.Context, node *corev1.Node) error { return d(ctx, node) }

// How much is allocated must not grow with what is not looked at.
func TestImagesCostNoAllocations(t *testing.T) {
	h := newHook(manyKnown(10), policy.Default())
	allocations := func(images int) float64 {
		body := bodyOf(t, creation(byKubelet(), marshal(t, fullNode(images))))
		return testing.AllocsPerRun(100, func() { h.ServeHTTP(httptest.NewRecorder(), post(body)) })
	}
	// 49 more images have 98 more names. The race detector and the garbage collector take buffers out of pools at
	// random, which costs a few allocations now and then: hence the least of several, and a bound below one an image.
	minimum := func(images int) float64 {
		return min(allocations(images), allocations(images), allocations(images))
	}
	assert.InDelta(t, minimum(1), minimum(50), 49/2, "a decoder that looks at images allocates for each")
}

func benchmark(b *testing.B, h http.Handler, images int) {
	b.Helper()
	body := bodyOf(b, creation(byKubelet(), marshal(b, fullNode(images))))
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, post(body))
	require.Equal(b, http.StatusOK, answer.Code)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(httptest.NewRecorder(), post(body))
	}
}

func manyKnown(count int) mapRecords {
	known := mapRecords{}
	for i := range count {
		known.add(fmt.Sprintf("worker-%d", i), 8)
	}
	return known
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

func (m mapRecords) ListByMachine(record.Machine) ([]record.Record, error) { return nil, nil }

func (m mapRecords) Progress() time.Time { return time.Now() }

// add remembers labels of a Node: two that a kubelet may not set, and so many others.
func (m mapRecords) add(node string, used int) {
	labels := map[string]string{"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/ci": "true"}
	for i := range used {
		labels[fmt.Sprintf("example.com/label-%d", i)] = node
	}
	m[node] = store.Entry{Record: record.New(node, record.Object{}, labels), Version: "1"}
}

// fullNode returns what a kubelet registers that has run for a while: 50 images are the most that it reports.
func fullNode(images int) *corev1.Node {
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
		Architecture: "amd64", OperatingSystem: "linux",
	}
	for i := range images {
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
