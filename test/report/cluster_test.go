package report

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"nodekeep.dev/nodekeep/test/harness"
)

// tier is the label that capacity is added up by.
const tier = "hardware.tier"

// governed is the policy that the reports go by.
const governed = `apiVersion: nodekeep.dev/v1alpha1
kind: NodePolicy
metadata: {name: default}
spec:
  labels:
    rules:
    - {name: row, when: {labels: "rack in (r1,r2)"}, set: {example.com/row: a}} # not in force in the cluster: drift
  governance:
    keys:
    - {key: hardware.tier, values: [standard, high-performance, gpu], required: true, mode: warn}
    - {key: rack, pattern: '^r[0-9]+$', required: true, mode: deny}
    - {key: team.owner, required: true, mode: audit}
`

// howMany Nodes there are.
func howMany(t testing.TB) int {
	t.Helper()
	text := os.Getenv("NODEKEEP_REPORT_NODES")
	if text == "" {
		return 1000
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// populate makes the Nodes, as their kubelets and then an operator do, and some workloads. A Node is there once.
func populate(t testing.TB) (policyFile string) {
	t.Helper()
	policyFile = filepath.Join(t.TempDir(), "policy.yaml")
	require.NoError(t, os.WriteFile(policyFile, []byte(governed), 0o600))
	existing, err := nodekeep.Admin.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{Limit: 1})
	require.NoError(t, err)
	if len(existing.Items) > 0 {
		return policyFile
	}
	var group errgroup.Group
	group.SetLimit(16)
	began, all := time.Now(), howMany(t)
	for i := range all {
		group.Go(func() error {
			node := nodeOf(i)
			config := nodekeep.Cluster.Kubelet(node.Name)
			config.QPS, config.ContentType = -1, "application/vnd.kubernetes.protobuf"
			kubelet, err := kubernetes.NewForConfig(config)
			if err == nil {
				_, err = kubelet.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
			}
			return err
		})
	}
	require.NoError(t, group.Wait())
	t.Logf("%d Nodes registered in %s", all, time.Since(began).Round(time.Second))
	nodekeep.MustKubectl(t, "label", "nodes", "--overwrite", "-l", "rack=r3", tier+"=gpu")
	// What a kubelet sets is not recorded. What an operator sets makes a record, and a change of it a history.
	nodekeep.MustKubectl(t, "label", "nodes", "-l", "rack=r4", "example.com/pool=old")
	harness.Eventually(t, func() bool {
		r, recorded := nodekeep.Record(t, "worker-00004")
		return recorded && r.Items()["example.com/pool"] == "old"
	}, harness.Settles, 100*time.Millisecond)
	nodekeep.MustKubectl(t, "label", "nodes", "--overwrite", "-l", "rack=r4", "example.com/pool=new")
	harness.Eventually(t, func() bool {
		return strings.Contains(nodekeep.Command(t, "", "", "report", "summary", "-o", "json").Out, "kubectl-label")
	}, harness.Settles, time.Second, "capture records what an operator has changed")
	selecting := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "x"}},
		Spec: corev1.PodSpec{NodeSelector: map[string]string{tier: "gpu"}, Containers: []corev1.Container{{Name: "c", Image: "example.com/c"}},
			TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "rack", WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}}}},
	}
	_, err = nodekeep.Admin.AppsV1().DaemonSets("default").Create(t.Context(), &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "agent"}, Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}, Template: selecting}}, metav1.CreateOptions{})
	require.NoError(t, err)
	return policyFile
}

// nodeOf returns what a kubelet sends: each Node is a little different, and some are wrong.
func nodeOf(i int) *corev1.Node {
	node := harness.RegistrationWith(fmt.Sprintf("worker-%05d", i), map[string]string{"rack": fmt.Sprintf("r%d", i%24)})
	switch {
	case i%97 == 0: // no tier
	case i%53 == 0:
		node.Labels[tier] = "typo"
	case i%5 == 0:
		node.Labels[tier] = "high-performance"
	default:
		node.Labels[tier] = "standard"
	}
	if i%3 > 0 {
		node.Labels["team.owner"] = fmt.Sprintf("team-%d", i%7)
	}
	cpu := []string{"8", "16", "64"}[i%3]
	node.Status.Capacity = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse([]string{"32Gi", "65806664Ki", "262144Mi"}[i%3]), corev1.ResourcePods: resource.MustParse("110"),
	}
	if i%24 == 3 {
		node.Status.Capacity["nvidia.com/gpu"] = resource.MustParse("4")
	}
	node.Status.Allocatable = node.Status.Capacity
	for image := range 50 { // what makes a Node large
		node.Status.Images = append(node.Status.Images, corev1.ContainerImage{Names: []string{fmt.Sprintf("registry.example.com/department/team/component-%d-of-the-platform@sha256:%064x", image, image),
			fmt.Sprintf("registry.example.com/department/team/component-%d-of-the-platform:v1.%d.0-build.20260302.093000", image, image)}, SizeBytes: 75_118_234})
	}
	return node
}
