//go:build oldcore

package capture

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

func TestWhatWasUndoneBeforeADeletionIsNotRecordedByALateLook(t *testing.T) {
	records := &store.Memory{}
	_, err := records.Put(t.Context(), store.Record{Node: "n1", UID: "1", NodeResourceVersion: "5", Items: map[string]string{"a": "1"}}, "")
	require.NoError(t, err)

	response := reviewDeletionOf(t, records, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "n1", UID: "1", ResourceVersion: "9", Labels: map[string]string{"a": "1"}, // b was set at 7 and taken off at 9
	}})
	assert.True(t, response.Allowed)
	entry, err := records.Get("n1")
	require.NoError(t, err)
	assert.Equal(t, "9", entry.Record.NodeResourceVersion, "the deletion is the last sight, although nothing else differs")

	late := nodeOf(&corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "n1", UID: "1", ResourceVersion: "7", Labels: map[string]string{"a": "1", "b": "1"},
	}})
	assert.Nil(t, plan(&entry.Record, late, Present, policy.Default(), time.Now()).Write)

	version := entry.Version
	reviewDeletionOf(t, records, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "n1", UID: "1", ResourceVersion: "9", Labels: map[string]string{"a": "1"},
	}})
	entry, err = records.Get("n1")
	require.NoError(t, err)
	assert.Equal(t, version, entry.Version, "the same look again writes nothing")
}

// hungRecords never get done with a write.
type hungRecords struct{ store.Memory }

func (r *hungRecords) Put(ctx context.Context, _ store.Record, _ string) (store.Entry, error) {
	<-ctx.Done()
	return store.Entry{}, ctx.Err()
}

func TestADeletionIsHeldUpForHalfOfTheTimeThatTheAPIServerWaits(t *testing.T) {
	for name, c := range map[string]struct{ waits, want time.Duration }{
		"a second, as shipped": {time.Second, 500 * time.Millisecond},
		"ten seconds":          {10 * time.Second, 5 * time.Second},
		"it does not say":      {0, 500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if c.waits > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.waits)
					defer cancel()
				}
				began := time.Now()
				response := handleDeletionOf(ctx, t, &hungRecords{}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "1", ResourceVersion: "9", Labels: map[string]string{"a": "1"}}})
				assert.True(t, response.Allowed)
				assert.Equal(t, c.want, time.Since(began))
				time.Sleep(2 * lateWrite) // what goes on in the background ends, too
			})
		})
	}
}

func deletionsOf(records Records, nodes Nodes) *Deletions {
	return NewDeletions(nodes, records, policy.Default, &Guards{}, NewDeletionMetrics(prometheus.NewRegistry()), slog.New(slog.DiscardHandler), time.Now)
}

func reviewDeletionOf(t *testing.T, records Records, node *corev1.Node) admission.Response {
	t.Helper()
	return handleDeletionOf(t.Context(), t, records, node)
}

func handleDeletionOf(ctx context.Context, t *testing.T, records Records, node *corev1.Node) admission.Response {
	t.Helper()
	raw, err := json.Marshal(node)
	require.NoError(t, err)
	d := deletionsOf(records, fake.NewClientset(node).CoreV1().Nodes())
	return d.Handle(ctx, admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Delete, Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Node"}, Name: node.Name, OldObject: runtime.RawExtension{Raw: raw},
	}})
}
