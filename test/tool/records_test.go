package tool

import (
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/install"
	"nodekeep.dev/nodekeep/test/kubelet"
)

// worker is a label that a kubelet may not set.
const worker = "node-role.kubernetes.io/worker"

// records is where they are kept.
func records(t *testing.T) *store.ConfigMaps {
	t.Helper()
	r, err := store.NewConfigMaps(nodekeep.Admin, install.Namespace, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	return r
}

// recordOf is the record of a Node as it is now; nil where there is none.
func recordOf(t *testing.T, node string) *store.Record {
	t.Helper()
	entry, err := records(t).GetLive(t.Context(), node)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	require.NoError(t, err)
	return &entry.Record
}

// labelsOf are those of the live Node.
func labelsOf(t *testing.T, node string) map[string]string {
	t.Helper()
	found, err := nodekeep.Admin.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
	require.NoError(t, err)
	return found.Labels
}

// registerWith makes a Node as a kubelet with --node-labels does.
func registerWith(t *testing.T, name string, labels map[string]string) {
	t.Helper()
	client, err := kubernetes.NewForConfig(nodekeep.Cluster.Kubelet(name))
	require.NoError(t, err)
	node := kubelet.Registration(name)
	for key, value := range labels {
		node.Labels[key] = value
	}
	_, err = client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = nodekeep.Kubectl(t.Context(), "delete", "node", name, "--ignore-not-found") })
}

// spoil makes the record of a Node one that cannot be read.
func spoil(t *testing.T, node string) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"data": map[string]string{store.DataKey: "{"}})
	require.NoError(t, err)
	kubectl(t, "-n", install.Namespace, "patch", "configmap", store.Name(node), "--type=merge", "-p", string(patch))
}

// nodeFile is a file that a Node can be created from.
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
