package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/test/harness"
)

// written returns an entry of managedFields.
func written(manager string, labels ...string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:` + strings.Join(labels, `":{},"f:`) + `":{}}}}`),
	}
}

func TestAPlatformFileDoesNotNameTheMachine(t *testing.T) {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        "db-7",
			Labels:      map[string]string{corev1.LabelHostname: "db-7", "pool": "a", "csi/node": "db-7", "rack": "r1", "shared": "1", "injected": "1", harness.Worker: "true"},
			Annotations: map[string]string{"vendor/node-ip": "192.0.2.7", "nfd.node.kubernetes.io/feature-labels": "cpu", "nodekeep.dev/restored": "{}"},
			ManagedFields: []metav1.ManagedFieldsEntry{
				written("k3s", corev1.LabelHostname, "pool", "shared", harness.Worker), written("k3s-supervisor@db-7", "csi/node"), written("kubectl-label", "rack", "shared"),
			},
		},
		Spec: corev1.NodeSpec{ProviderID: "k3s://db-7-serial", Taints: []corev1.Taint{
			harness.TaintOf("own=db-7:NoSchedule"), harness.TaintOf("nodekeep.dev/restoring:NoSchedule"), harness.TaintOf("node.kubernetes.io/not-ready:NoSchedule"),
		}},
	}
	var out, warnings bytes.Buffer
	require.NoError(t, run([]string{"example"}, bytes.NewReader(harness.MustJSON(t, node)), &out, &warnings))
	assert.JSONEq(t, `{
		"name": "example", "pid": "k3s://example", "kubelet_manager": "k3s", "kubelet": {"pool": "a", "shared": "1"},
		"by": {"k3s": {"node-role.kubernetes.io/worker": "true"}, "k3s-supervisor@example": {"csi/node": "example"}, "kubectl-label": {"rack": "r1", "shared": "1"}},
		"ann": {"vendor/node-ip": "x", "nfd.node.kubernetes.io/feature-labels": "cpu"},
		"taints": [{"key": "own", "value": "example", "effect": "NoSchedule"}]
	}`, out.String())
	assert.Equal(t, "platforms: label injected is left out: managedFields do not show who set it\n", warnings.String())
}

func TestAPlatformFileIsOfOneNodeWithItsManagedFields(t *testing.T) {
	const node = `{"metadata":{"name":"a","labels":{"rack":"r1"}}}`
	for name, tt := range map[string]struct {
		args       []string
		in, wanted string
	}{
		"no name of the platform":  {nil, node, "the name of the platform"},
		"kubectl without the flag": {[]string{"example"}, node, "--show-managed-fields"},
		"kubectl without -o json":  {[]string{"example"}, "NAME   STATUS", "read Node as JSON"},
		"all Nodes":                {[]string{"example"}, `{"kind":"List","items":[` + node + `]}`, "one Node is expected"},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, run(tt.args, strings.NewReader(tt.in), &bytes.Buffer{}, &bytes.Buffer{}), tt.wanted)
		})
	}
}
