package integration

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/harness"
)

const annotationsPolicy = `apiVersion: nodekeep.dev/v1alpha1
kind: NodePolicy
metadata: {name: default}
spec:
  annotations: ["metal3.io/BareMetalHost", "*.example.com/*"]
`

// annotate does what `kubectl annotate` does, as an admin; nil removes an annotation.
func annotate(t *testing.T, name string, annotations map[string]any) {
	t.Helper()
	nodekeep.MergeNode(t, name, map[string]any{"metadata": map[string]any{"annotations": annotations}})
}

// remembersAnnotations waits until the record of a Node has exactly these annotations.
func remembersAnnotations(t *testing.T, name string, want map[string]string) {
	t.Helper()
	recordComes(t, name, func(r record.Record) bool { return maps.Equal(record.SplitAnnotations(r.Items()), want) })
}

// annotationsOf returns the annotations of a Node, but nodekeep's own and those of the API server's components.
func annotationsOf(all map[string]string) map[string]string {
	rest := maps.Clone(all)
	maps.DeleteFunc(rest, func(key, _ string) bool {
		return strings.HasPrefix(key, "nodekeep.dev/") || strings.HasPrefix(key, "node.alpha.kubernetes.io/")
	})
	return rest
}

func TestAnnotationsThatThePolicyNamesOutliveTheirNode(t *testing.T) {
	type annotations = map[string]string
	const host, config = "metal3.io/BareMetalHost", "a.example.com/config"
	withPolicy(t, annotationsPolicy, func() {
		t.Run("they are in the CREATE, and others are not", func(t *testing.T) {
			const name = "annotated-1"
			long := `{"disks":["` + strings.Repeat("x", 4000) + `"]}`
			nodekeep.Register(t, name)
			annotate(t, name, map[string]any{host: "metal3/host-7", config: long, "plain": "1", "other.io/x": "1", "cluster.x-k8s.io/machine": "m1"})
			remembersAnnotations(t, name, annotations{host: "metal3/host-7", config: long})
			nodekeep.DeleteNode(t, name)

			returned := nodekeep.Register(t, name)
			assert.Equal(t, annotations{host: "metal3/host-7", config: long}, annotationsOf(returned.Annotations), "in the CREATE")
			assert.Less(t, len(returned.Annotations[policy.StampAnnotation]), 500, "the stamp does not repeat what is long")
			assert.False(t, harness.Gated(nodekeep.WaitRestored(t, name, nil)))
			staysAs(t, nodekeep.Node(t, name))

			annotate(t, name, map[string]any{host: nil})
			remembersAnnotations(t, name, annotations{config: long})
			webhookHasRecords(t)
			nodekeep.DeleteNode(t, name)
			assert.Equal(t, annotations{config: long}, annotationsOf(nodekeep.Register(t, name).Annotations), "what a client removed stays away")
		})
		t.Run("those that the kubelet brings win", func(t *testing.T) {
			const name = "annotated-2"
			nodekeep.Register(t, name)
			annotate(t, name, map[string]any{host: "metal3/old", config: "kept"})
			remembersAnnotations(t, name, annotations{host: "metal3/old", config: "kept"})
			nodekeep.DeleteNode(t, name)
			node := harness.Registration(name)
			node.Annotations = annotations{host: "metal3/brought", "volumes.kubernetes.io/controller-managed-attach-detach": "true"}
			returned := nodekeep.RegisterNode(t, node)
			assert.Equal(t, annotations{host: "metal3/brought", config: "kept", "volumes.kubernetes.io/controller-managed-attach-detach": "true"}, annotationsOf(returned.Annotations))
		})
		t.Run("a value that is too large is left alone, and the one from before is forgotten", func(t *testing.T) {
			const name = "annotated-3"
			nodekeep.Register(t, name)
			annotate(t, name, map[string]any{host: "metal3/host-7", config: "small"})
			remembersAnnotations(t, name, annotations{host: "metal3/host-7", config: "small"})
			annotate(t, name, map[string]any{config: strings.Repeat("x", record.MaxAnnotationBytes+1)})
			remembersAnnotations(t, name, annotations{host: "metal3/host-7"})
			full := map[string]any{}
			for _, key := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9"} {
				full["full.example.com/"+key] = strings.Repeat("x", record.MaxAnnotationBytes-100)
			}
			annotate(t, name, full)
			recordComes(t, name, func(r record.Record) bool { // 64 KiB are kept: eight of the nine, and the host
				kept := record.SplitAnnotations(r.Items())
				return len(kept) == 9 && kept["full.example.com/9"] == ""
			})
			assert.Len(t, nodekeep.Node(t, name).Annotations["full.example.com/9"], record.MaxAnnotationBytes-100)
			nodekeep.DeleteNode(t, name)
			assert.Len(t, annotationsOf(nodekeep.Register(t, name).Annotations), 9)
		})
		t.Run("capture restores what the webhook could not", func(t *testing.T) {
			const name = "annotated-4"
			nodekeep.Register(t, name)
			annotate(t, name, map[string]any{host: "metal3/host-7"})
			remembersAnnotations(t, name, annotations{host: "metal3/host-7"})
			nodekeep.DeleteNode(t, name)
			nodekeep.WithoutWebhook(t, func() {
				nodekeep.Register(t, name)
				harness.Eventually(t, func() bool {
					node := nodekeep.Node(t, name)
					return node.Annotations[host] == "metal3/host-7" && !harness.Gated(node)
				}, settles, 20*time.Millisecond)
			})
		})
		t.Run("a status report does not count, and an annotation of the kubelet is not remembered", func(t *testing.T) {
			const name = "annotated-5"
			nodekeep.Register(t, name)
			annotate(t, name, map[string]any{host: "metal3/host-7"})
			remembersAnnotations(t, name, annotations{host: "metal3/host-7"})
			head := nodekeep.RecordMap(t, name).ResourceVersion
			patch := []byte(`{"metadata":{"annotations":{"b.example.com/heartbeat":"1"}},"status":{"conditions":[{"type":"Ready","status":"False","reason":"again"}]}}`)
			_, err := nodekeep.Kubelet(t, name).CoreV1().Nodes().Patch(t.Context(), name, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: "kubelet"}, "status")
			require.NoError(t, err)
			captureHasSeenAll(t)
			assert.Equal(t, head, nodekeep.RecordMap(t, name).ResourceVersion)
		})
	})
}

func TestAnnotationsFollowThePolicy(t *testing.T) {
	const name, key = "annotated-6", "late.io/owner"
	narrow := annotationsPolicy
	wide := strings.Replace(narrow, "annotations: [", `annotations: ["late.io/owner", `, 1)
	nodekeep.Register(t, name)
	annotate(t, name, map[string]any{key: "ops"})
	withPolicy(t, narrow, func() {
		captureHasSeenAll(t)
		remembersAnnotations(t, name, nil)
		withPolicy(t, wide, func() { remembersAnnotations(t, name, map[string]string{key: "ops"}) }) // no report of the kubelet since
		annotate(t, name, map[string]any{"metal3.io/BareMetalHost": "h"})
		remembersAnnotations(t, name, map[string]string{key: "ops", "metal3.io/BareMetalHost": "h"}) // a key that is no longer kept is not forgotten
		nodekeep.DeleteNode(t, name)
		assert.Equal(t, map[string]string{"metal3.io/BareMetalHost": "h"}, annotationsOf(nodekeep.Register(t, name).Annotations), "but it is not restored")
		withPolicy(t, wide, func() {
			harness.Eventually(t, func() bool { return nodekeep.Node(t, name).Annotations[key] == "ops" }, settles, 20*time.Millisecond)
		})
	})
}

func TestAnnotationsOfAQuarantinedRecordAreNotRestored(t *testing.T) {
	const name, host = "annotated-7", "metal3.io/BareMetalHost"
	withPolicy(t, annotationsPolicy+"  machine: {onMismatch: quarantine}\n", func() {
		nodekeep.Register(t, name)
		annotate(t, name, map[string]any{host: "metal3/host-7"})
		remembersAnnotations(t, name, map[string]string{host: "metal3/host-7"})
		nodekeep.DeleteNode(t, name)
		assert.NotContains(t, registerAs(t, name, "another").Annotations, host)
		nodekeep.WaitEvent(t, name, "MachineMismatch")
		captureHasSeenAll(t)
		assert.NotContains(t, nodekeep.Node(t, name).Annotations, host)
	})
}
