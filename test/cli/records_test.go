package cli

import (
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"
)

// worker is a label that a kubelet may not set.
const worker = "node-role.kubernetes.io/worker"

// records returns where they are kept.
func records(t *testing.T) *store.ConfigMaps {
	t.Helper()
	r, err := store.NewConfigMaps(nodekeep.Admin, harness.Namespace, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	return r
}

// changeRecord rewrites the record of a Node.
func changeRecord(t *testing.T, node string, change func(*record.Record)) {
	t.Helper()
	harness.Eventually(t, func() bool { // capture may write it, too
		entry, err := records(t).GetFromAPI(t.Context(), node)
		require.NoError(t, err)
		change(&entry.Record)
		if _, err = records(t).Put(t.Context(), entry.Record, entry.Version); errors.Is(err, store.ErrConflict) {
			return false
		}
		require.NoError(t, err)
		return true
	}, settles, 20*time.Millisecond)
}

// loseEverything deletes all Nodes and then all records.
func loseEverything(t *testing.T) {
	t.Helper()
	nodekeep.MustKubectl(t, "delete", "nodes", "--all")
	nodekeep.WithoutCapture(t, func() {
		harness.Eventually(t, func() bool { // kubectl takes its time, and of very many the API server deletes some at a call
			_ = nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: store.RecordLabel})
			found, _, err := records(t).List(t.Context(), metav1.ListOptions{Limit: 1})
			return err == nil && len(found) == 0
		}, 10*settles, settles/1000)
	})
}

// recordOf returns the record of a Node as it is now; nil where there is none.
func recordOf(t *testing.T, node string) *record.Record {
	t.Helper()
	entry, err := records(t).GetFromAPI(t.Context(), node)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	require.NoError(t, err)
	return &entry.Record
}

// spoil makes the record of a Node one that cannot be read.
func spoil(t *testing.T, node string) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"data": map[string]string{store.DataKey: "{"}})
	require.NoError(t, err)
	nodekeep.MustKubectl(t, "-n", harness.Namespace, "patch", "configmap", store.Name(node), "--type=merge", "-p", string(patch))
}

// nodeFile returns a file that a Node can be created from.
func nodeFile(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "node.json")
	content, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]string{"name": name}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

func containsGate(keys string) bool {
	return slices.Contains(strings.Fields(keys), string(policy.DefaultGate))
}

// arrangeChanges makes what the examples of commands that change something speak of: the Nodes worker-3 and worker-4, whose names two
// machines have had, and of which worker-4 waits behind the gate.
func arrangeChanges(t *testing.T) {
	t.Helper()
	if r := recordOf(t, "worker-3"); r == nil {
		quarantined(t, "worker-3")
	} else if r.Quarantined == nil {
		changeRecord(t, "worker-3", func(r *record.Record) {
			old := record.New(r.Node, record.Object{UID: "old", Version: 1}, map[string]string{"rack": "r1"})
			r.Quarantined = &old
		})
	}
	if recordOf(t, "worker-4") == nil {
		quarantined(t, "worker-4")
		received(t, "worker-4")
		registerWith(t, "worker-4", nil)
	}
}
