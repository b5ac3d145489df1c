package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"nodekeep.dev/nodekeep/policy/policytest"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"
)

var workloads = schema.GroupVersionResource{Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: "workloads"}

// The labels of the levels of the topology.
const blockLabel, rackLabel = "cloud.provider.com/topology-block", "cloud.provider.com/topology-rack"

// queues is where Workloads of the tests wait, for Nodes of a topology.
const queues = `
apiVersion: kueue.x-k8s.io/v1beta2
kind: Topology
metadata: {name: racks}
spec:
  levels:
  - nodeLabel: ` + blockLabel + `
  - nodeLabel: ` + rackLabel + `
  - nodeLabel: kubernetes.io/hostname
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: gpu}
spec: {nodeLabels: {example.com/pool: gpu}, topologyName: racks}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: gpu}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - name: gpu
      resources: [{name: cpu, nominalQuota: 1000}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: gpu, namespace: default}
spec: {clusterQueue: gpu}
`

// workload makes a Workload of so many pods, each of which fills a Node, within one block, on Nodes with these labels. It ends with the test.
func workload(t *testing.T, name string, pods int, selector string) {
	t.Helper()
	t.Cleanup(func() {
		_ = objects.Resource(workloads).Namespace("default").Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{})
	})
	apply(t, fmt.Sprintf(`
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {name: %s, namespace: default}
spec:
  active: true
  queueName: gpu
  podSets:
  - name: main
    count: %d
    topologyRequest: {required: %s}
    template:
      spec:
        restartPolicy: Never
        nodeSelector: {%s}
        containers: [{name: c, image: none, resources: {requests: {cpu: "6"}}}]
`, name, pods, blockLabel, selector))
}

// assignment is where Kueue places a set of pods. The last level of the topology is the Node; several values are written as what they share, and roots.
type assignment struct {
	Slices []struct {
		ValuesPerLevel []struct {
			Universal  string
			Individual struct {
				Prefix, Suffix string
				Roots          []string
			}
		}
	}
}

// placed names the Nodes that a Workload is admitted to, none while it waits.
func placed(t *testing.T, name string) (nodes []string) {
	t.Helper()
	item, err := objects.Resource(workloads).Namespace("default").Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	var workload struct {
		Status struct {
			Admission struct {
				PodSetAssignments []struct{ TopologyAssignment assignment }
			}
		}
	}
	require.NoError(t, json.Unmarshal(harness.MustJSON(t, item.Object), &workload))
	for _, set := range workload.Status.Admission.PodSetAssignments {
		for _, slice := range set.TopologyAssignment.Slices {
			last := slice.ValuesPerLevel[len(slice.ValuesPerLevel)-1]
			if last.Universal != "" {
				nodes = append(nodes, last.Universal)
			}
			for _, root := range last.Individual.Roots {
				nodes = append(nodes, last.Individual.Prefix+root+last.Individual.Suffix)
			}
		}
	}
	return nodes
}

// pending reports whether Kueue has looked at a Workload and found no place.
func pending(t *testing.T, name string) bool {
	t.Helper()
	item, err := objects.Resource(workloads).Namespace("default").Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return condition(item, "QuotaReserved") == "False Pending"
}

// endWithRecord ends a Node and its record with the test.
func endWithRecord(t *testing.T, name string) {
	t.Helper()
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_ = nodekeep.Admin.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
		harness.Eventually(t, func() bool {
			err := nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace).Delete(ctx, store.Name(name), metav1.DeleteOptions{})
			return apierrors.IsNotFound(err)
		}, harness.Settles, 200*time.Millisecond, "the record of %s must stay deleted", name)
	})
}

func TestKueuePlacesAWorkloadOnANodeThatHasJustReturned(t *testing.T) {
	bases := "config/components/crd/bases/kueue.x-k8s.io_"
	files := []string{}
	for _, kind := range []string{"admissionchecks", "clusterqueues", "cohorts", "localqueues", "resourceflavors", "topologies", "workloadpriorityclasses", "workloads"} {
		files = append(files, bases+kind+".yaml")
	}
	restorePolicy(t)
	program(t, "kueue", ".", "sigs.k8s.io/kueue", files, nil)
	playKubelets(t)
	apply(t, queues)
	nodekeep.SetPolicy(t, policytest.Manifest("{}"))

	// One block of two racks, with a Node in each.
	places := map[string]map[string]string{
		"gpu-1": {blockLabel: "b1", rackLabel: "r1", "example.com/pool": "gpu"},
		"gpu-2": {blockLabel: "b1", rackLabel: "r2", "example.com/pool": "gpu"},
	}
	for _, name := range []string{"gpu-1", "gpu-2", "gpu-3", "gpu-4"} {
		endWithRecord(t, name)
	}
	for name, labels := range places {
		nodekeep.RegisterRecorded(t, name, labels)
	}
	workload(t, "first", 2, "")
	harness.Eventually(t, func() bool { return len(placed(t, "first")) > 0 }, harness.Settles, 100*time.Millisecond, "both Nodes have their labels")
	require.NoError(t, objects.Resource(workloads).Namespace("default").Delete(t.Context(), "first", metav1.DeleteOptions{}))

	nodekeep.DeleteNode(t, "gpu-2")
	nodekeep.WaitDeletionRecorded(t, "gpu-2")
	workload(t, "second", 2, "")
	harness.Eventually(t, func() bool { return pending(t, "second") }, harness.Settles, 100*time.Millisecond, "one Node is not enough")

	watcher := nodekeep.WatchNodes(t)
	created := nodekeep.Register(t, "gpu-2") // as system:node:gpu-2
	assert.True(t, harness.HasAll(created.Labels, places["gpu-2"]), "the answer to the CREATE has them: %v", created.Labels)
	harness.Eventually(t, func() bool { return len(placed(t, "second")) > 0 }, harness.Settles, 100*time.Millisecond, "Kueue must count the Node that has returned")
	first := watcher.States("gpu-2")[0]
	assert.Equal(t, created.ResourceVersion, first.ResourceVersion)
	assert.True(t, harness.HasAll(first.Labels, places["gpu-2"]), "nobody has seen the Node without them")
	assert.ElementsMatch(t, []string{"gpu-1", "gpu-2"}, placed(t, "second"))
	require.NoError(t, objects.Resource(workloads).Namespace("default").Delete(t.Context(), "second", metav1.DeleteOptions{}))

	// A Node whose labels are late is what the recipe avoids.
	workload(t, "third", 3, "")
	harness.Eventually(t, func() bool { return pending(t, "third") }, harness.Settles, 100*time.Millisecond, "two Nodes are not enough")
	register := func(name string, labels map[string]string) {
		labels["example.com/pool"] = "gpu"
		nodekeep.RegisterNode(t, harness.RegistrationWith(name, labels))
		harness.Eventually(t, func() bool { return ready(nodekeep.Node(t, name)) }, harness.Settles, 50*time.Millisecond)
	}
	register("gpu-3", map[string]string{blockLabel: "b1"})
	// Kueue sees Nodes in their order, and tries what has waited longest first. Once it has placed a Workload on a later Node, it has counted gpu-3 or not.
	register("gpu-4", map[string]string{blockLabel: "b2", rackLabel: "r4"})
	workload(t, "fourth", 1, "kubernetes.io/hostname: gpu-4")
	harness.Eventually(t, func() bool { return len(placed(t, "fourth")) > 0 }, harness.Settles, 100*time.Millisecond)
	assert.Empty(t, placed(t, "third"), "Kueue does not count a Node that has the block without the rack")
	assert.True(t, pending(t, "third"))
	nodekeep.Label(t, "gpu-3", map[string]string{rackLabel: "r3"})
	harness.Eventually(t, func() bool { return len(placed(t, "third")) > 0 }, harness.Settles, 100*time.Millisecond)
}
