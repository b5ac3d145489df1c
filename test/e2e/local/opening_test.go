package local

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"nodekeep.dev/nodekeep/test/bench/measure"
	"nodekeep.dev/nodekeep/verify"
)

// registrationsVariable is how many registrations are measured; few where it is not set.
const registrationsVariable = "NODEKEEP_E2E_REGISTRATIONS"

// openingPolicy is policy.verify of the measurement: what docs/verification.md begins with, at the default pace.
const openingPolicy = `{"profiles": [{"name": "all", "checks": [
	{"name": "dns", "dns": {"names": ["kubernetes.default.svc"], "servers": "each"}},
	{"name": "api", "api": {}},
	{"name": "service", "service": {"name": "kube-system/kube-dns", "port": 53}}]}]}`

// How long a Node takes from Ready to open, compared with what a plain pod takes on the same kubelet: the worker is a pod, too. Nothing is asserted but that
// every Node opens; docs/benchmarks.md has figures of a hundred registrations.
func TestHowLongANodeTakesToOpen(t *testing.T) {
	count := 3
	if text := os.Getenv(registrationsVariable); text != "" {
		var err error
		count, err = strconv.Atoi(text)
		require.NoError(t, err, registrationsVariable)
	}
	c := forTest(t)
	c.startDNS(t)
	c.verifying(t, openingPolicy)
	k := c.add(t, "node-2")
	c.opens(t, k.name)
	seen := c.observes(t)

	var whole, opening, worker, closing, running, plain measure.Times
	for range count {
		k.losesNode(t)
		k.start(t)
		node := c.opens(t, k.name)
		isReady, opened := seen.time(t, node.UID, "ready"), seen.time(t, node.UID, "open")
		check := seen.workerOf(t, node.UID)
		created, ended := seen.time(t, check, "created"), seen.time(t, check, "ended")
		whole = append(whole, opened.Sub(isReady))
		opening, worker, closing = append(opening, created.Sub(isReady)), append(worker, ended.Sub(created)), append(closing, opened.Sub(ended))

		pod := c.createPod(t, corev1.PodSpec{NodeName: k.name}, "version")
		c.untilPod(t, pod.Name, succeeded)
		created = seen.time(t, pod.UID, "created")
		running = append(running, seen.time(t, pod.UID, "started").Sub(created))
		plain = append(plain, seen.time(t, pod.UID, "ended").Sub(created))
		require.NoError(t, c.Admin.CoreV1().Pods(pod.Namespace).Delete(t.Context(), pod.Name, *metav1.NewDeleteOptions(0)))
	}
	var out strings.Builder
	table := measure.NewTable(&out, strconv.Itoa(count)+" registrations of one kubelet", "from", "to", "p50", "p90", "p99", "longest")
	for _, row := range []struct {
		from, to string
		times    measure.Times
	}{
		{"Node Ready", "taint removed", whole},
		{"Node Ready", "worker Pod created", opening},
		{"worker Pod created", "its end reported", worker},
		{"its end reported", "taint removed", closing},
		{"plain Pod created", "reported to run", running},
		{"plain Pod created", "its end reported", plain},
	} {
		table.Row(row.from, row.to, row.times.Milliseconds(0.5, 0.9, 0.99, 1))
	}
	for _, row := range []struct {
		to    string
		times measure.Times
	}{{"/ plain Pod to run", running}, {"/ plain Pod to its end", plain}} {
		ratio := func(q float64) string {
			return measure.Ratio(whole.Quantile(q).Seconds(), row.times.Quantile(q).Seconds())
		}
		table.Row("Ready to taint removed", row.to, ratio(0.5), ratio(0.9), ratio(0.99), ratio(1))
	}
	table.Flush()
	t.Log(out.String())
}

// moments are when clients could first see something of Nodes and Pods.
type moments struct {
	mu      sync.Mutex
	times   map[types.UID]map[string]time.Time
	workers map[types.UID]types.UID // the last worker Pod by the Node's uid
}

// observes notes from now on when Nodes become ready and open, and when Pods are created, run and end.
func (c *cluster) observes(t *testing.T) *moments {
	t.Helper()
	m := &moments{times: map[types.UID]map[string]time.Time{}, workers: map[types.UID]types.UID{}}
	factory := informers.NewSharedInformerFactory(c.Admin, 0)
	follow := cache.ResourceEventHandlerFuncs{AddFunc: m.see, UpdateFunc: func(_, object any) { m.see(object) }}
	for _, informer := range []cache.SharedIndexInformer{factory.Core().V1().Nodes().Informer(), factory.Core().V1().Pods().Informer()} {
		_, err := informer.AddEventHandler(follow)
		require.NoError(t, err)
	}
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	return m
}

func (m *moments) see(object any) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	switch object := object.(type) {
	case *corev1.Node:
		m.note(object.UID, "ready", now, ready(object))
		m.note(object.UID, "open", now, ready(object) && !unverified(object) && object.Labels[verify.Label] == "true")
	case *corev1.Pod:
		m.note(object.UID, "created", now, true)
		if len(object.OwnerReferences) == 1 && object.Namespace == verify.Namespace {
			m.workers[object.OwnerReferences[0].UID] = object.UID
		}
		for _, status := range object.Status.ContainerStatuses {
			m.note(object.UID, "started", now, status.State.Running != nil || status.State.Terminated != nil)
			m.note(object.UID, "ended", now, status.State.Terminated != nil)
		}
	}
}

// note notes what is so for the first time.
func (m *moments) note(uid types.UID, subject string, now time.Time, ok bool) {
	if m.times[uid] == nil {
		m.times[uid] = map[string]time.Time{}
	}
	if _, known := m.times[uid][subject]; ok && !known {
		m.times[uid][subject] = now
	}
}

// time waits until something was seen.
func (m *moments) time(t *testing.T, uid types.UID, subject string) (instant time.Time) {
	t.Helper()
	require.Eventually(t, func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		instant = m.times[uid][subject]
		return !instant.IsZero()
	}, settles, 10*time.Millisecond, "%s of %s must be seen", subject, uid)
	return instant
}

// workerOf returns the worker Pod that opened a Node.
func (m *moments) workerOf(t *testing.T, node types.UID) types.UID {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	require.NotEmpty(t, m.workers[node], "a worker Pod must have opened the Node")
	return m.workers[node]
}
