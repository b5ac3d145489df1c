package monitoring

import (
	"context"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/capture/inventories"
	"nodekeep.dev/nodekeep/inventory/fetch"
	"nodekeep.dev/nodekeep/policy/policytest"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/bench/measure"
	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/verify"
)

// night is an installation with which things go wrong.
type night struct {
	*harness.Installation
	fault  *atomic.Bool     // all Nodes fail their checks; otherwise those whose names begin with broken
	logged map[string]int64 // how long the logs were when the situation began, by process
	// counted are the series of each process when the situation began; none where it was started since, for it counts anew then.
	counted map[string]measure.Series
}

// settles bounds each wait. Some things are looked at once a minute.
const settles = harness.Settles

// startNight starts a control plane with all three processes.
func startNight(t *testing.T) night {
	t.Helper()
	installed, err := harness.Install(t.Context(), harness.ForTest(t, harness.Options{}))
	require.NoError(t, err)
	n := night{installed, &atomic.Bool{}, map[string]int64{}, map[string]measure.Series{}}
	n.TimeoutSeconds = harness.Patient
	require.NoError(t, n.ReapplyVerify(t.Context()))
	require.NoError(t, n.Start(t.Context()))
	require.NoError(t, n.StartVerify(t.Context()))
	n.RunWorkers(t, func(pod *corev1.Pod, task verify.Task) bool {
		message, code := harness.WorkerReport(task.Checks, verify.Passed, ""), int32(0)
		if n.fault.Load() || strings.HasPrefix(pod.Spec.NodeName, "broken") {
			message, code = harness.WorkerReport(task.Checks, verify.Failed, verify.ReasonTimeout), 1
		}
		harness.SetEnded(pod, message, code)
		return true
	})
	return n
}

// afresh deletes what the situation before has left: Nodes, records, reports, Events, what was removed, and what capture notes of rules and
// inventories.
func (n night) afresh(t *testing.T) {
	t.Helper()
	n.SetPolicy(t, policytest.Manifest(""))
	n.MustKubectl(t, "delete", "nodes", "--all", "--wait=false")
	n.MustKubectl(t, "delete", "events", "-A", "--all", "--wait=false")
	n.MustKubectl(t, "delete", "pods", "-n", verify.Namespace, "--all", "--grace-period=0", "--force", "--wait=false")
	n.MustKubectl(t, "delete", "configmap", "-n", verify.Namespace, verify.LedgerMap, "--ignore-not-found")
	n.MustKubectl(t, "delete", "configmap", "-n", verify.Namespace, "-l", verify.ReportLabel)
	n.MustKubectl(t, "delete", "configmap", "-n", harness.Namespace, store.AcceptedConfigMap, inventories.InventoryName, "racks", "--ignore-not-found")
	records := n.Admin.CoreV1().ConfigMaps(harness.Namespace)
	require.Eventually(t, func() bool { // capture still writes records of Nodes that were deleted
		_ = records.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: store.RecordLabel})
		time.Sleep(300 * time.Millisecond)
		left, err := records.List(t.Context(), metav1.ListOptions{LabelSelector: store.RecordLabel})
		nodes, nodesErr := n.Admin.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		return err == nil && nodesErr == nil && len(left.Items)+len(nodes.Items) == 0
	}, settles, 100*time.Millisecond)
	for _, process := range []string{"nodekeep-webhook", "nodekeep-capture", "nodekeep-verify"} {
		log, err := os.Stat(n.Cluster.LogPath(process))
		require.NoError(t, err)
		n.logged[process] = log.Size()
	}
	n.await(t, "capture", "nodekeep_controller_leading", isPositive)
	n.await(t, "verify", "nodekeep_controller_leading", isPositive)
	for _, series := range []string{"nodekeep_capture_nodes_gated", `nodekeep_store_records{state="unreadable"}`} {
		n.await(t, "capture", series, isZero)
	}
	for _, process := range []string{"webhook", "capture", "verify"} {
		page, err := measure.Scrape(t.Context(), http.DefaultClient, n.MetricsURL(process))
		require.NoError(t, err)
		n.counted[process] = page
	}
}

// rises waits until a counter of a process is above what it was when the situation began.
func (n night) rises(t *testing.T, process, series string) {
	t.Helper()
	name, labels, _ := strings.Cut(series, "{")
	began := n.counted[process].Sum(name, strings.TrimSuffix(labels, "}"))
	n.await(t, process, series, func(value float64) bool { return value > began })
}

// stops stops a process. At the end of the situation it is started again, whatever has become of it meanwhile.
func (n night) stops(t *testing.T, process string) {
	t.Helper()
	stop := map[string]func() error{"webhook": n.StopWebhook, "capture": n.StopCapture, "verify": n.StopVerify}[process]
	t.Cleanup(func() {
		require.NoError(t, stop())
		require.NoError(t, n.start(context.WithoutCancel(t.Context()), process))
	})
	require.NoError(t, stop())
	delete(n.counted, process)
}

func (n night) start(ctx context.Context, process string) error {
	switch process {
	case "webhook":
		return n.StartWebhook(ctx)
	case "capture":
		return n.StartCapture(ctx)
	default:
		return n.StartVerify(ctx)
	}
}

// await waits for a series of a process.
func (n night) await(t *testing.T, process, series string, current func(float64) bool) {
	t.Helper()
	harness.Eventually(t, func() bool { return current(harness.Series(t, n.MetricsURL(process), series)) }, settles, 100*time.Millisecond,
		"series %s of %s; its log is %s", series, process, n.Cluster.LogPath("nodekeep-"+process))
}

func isPositive(value float64) bool { return value > 0 }

func isZero(value float64) bool { return value == 0 }

// crashes writes what the kubelet says of a component whose process ends again and again, until the end of the situation.
func (n night) crashes(t *testing.T, component string) {
	t.Helper()
	name := "nodekeep-" + component
	deployment, err := n.Admin.AppsV1().Deployments(harness.Namespace).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: deployment.Spec.Template.Labels}, Spec: deployment.Spec.Template.Spec}
	pod.Spec.PriorityClassName = ""
	pods := n.Admin.CoreV1().Pods(harness.Namespace)
	made, err := pods.Create(t.Context(), pod, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, pods.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	})
	made.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
		Name: made.Spec.Containers[0].Name, Image: "i", ImageID: "i", RestartCount: 7,
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
	}}}
	_, err = pods.UpdateStatus(t.Context(), made, metav1.UpdateOptions{})
	require.NoError(t, err)
}

// deprived takes a verb from a component's Role, or its ClusterRole for Nodes, until the end of the situation.
func (n night) deprived(t *testing.T, component, group, resource, verb string) {
	t.Helper()
	name, ctx := "nodekeep-"+component, context.WithoutCancel(t.Context())
	asked := authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: resource}
	rest := func(rules []rbacv1.PolicyRule) (left []rbacv1.PolicyRule) {
		for _, rule := range rules {
			if slices.Contains(rule.Resources, resource) {
				rule.Verbs = slices.DeleteFunc(slices.Clone(rule.Verbs), func(value string) bool { return value == verb })
				if len(rule.ResourceNames) > 0 {
					asked.Name = rule.ResourceNames[0]
				}
			}
			left = append(left, rule)
		}
		return left
	}
	change := func(rules []rbacv1.PolicyRule) (prev []rbacv1.PolicyRule) {
		if resource == "nodes" {
			roles := n.Admin.RbacV1().ClusterRoles()
			role, err := roles.Get(ctx, name, metav1.GetOptions{})
			require.NoError(t, err)
			prev = role.Rules
			if role.Rules = rules; rules == nil {
				role.Rules = rest(prev)
			}
			_, err = roles.Update(ctx, role, metav1.UpdateOptions{})
			require.NoError(t, err)
			return prev
		}
		asked.Namespace = harness.Namespace
		roles := n.Admin.RbacV1().Roles(harness.Namespace)
		role, err := roles.Get(ctx, name, metav1.GetOptions{})
		require.NoError(t, err)
		prev = role.Rules
		if role.Rules = rules; rules == nil {
			role.Rules = rest(prev)
		}
		_, err = roles.Update(ctx, role, metav1.UpdateOptions{})
		require.NoError(t, err)
		return prev
	}
	old := change(nil)
	account := "system:serviceaccount:" + harness.Namespace + ":" + name
	t.Cleanup(func() {
		change(old)
		n.WaitRight(t, account, nil, asked, true)
	})
	n.WaitRight(t, account, nil, asked, false)
}

// joins registers a Node that is Ready, and as old as it must be for nodekeep to take it for one that should be open.
func (n night) joins(t *testing.T, name string, labels map[string]string) {
	t.Helper()
	node := harness.RegistrationWith(name, labels)
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now()}}
	n.RegisterNode(t, node)
	n.Untaint(t, name, corev1.TaintNodeNotReady+":NoSchedule") // no lifecycle controller runs here
}

// hasLabels waits until a Node has labels.
func (n night) hasLabels(t *testing.T, name string, want map[string]string) {
	t.Helper()
	harness.Eventually(t, func() bool { return harness.HasAll(n.Node(t, name).Labels, want) }, settles, 50*time.Millisecond, "Node %s must get %v", name, want)
}

// lists writes the document of inventory racks, whether it is there or not.
func (n night) lists(t *testing.T, document string) {
	t.Helper()
	configMaps := n.Admin.CoreV1().ConfigMaps(harness.Namespace)
	wanted := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "racks"}, Data: map[string]string{fetch.Key: document}}
	if _, err := configMaps.Update(t.Context(), wanted, metav1.UpdateOptions{}); err != nil {
		_, err = configMaps.Create(t.Context(), wanted, metav1.CreateOptions{})
		require.NoError(t, err)
	}
}

// writes replaces what the record of a Node is, as another client does.
func (n night) writes(t *testing.T, node, record string) {
	t.Helper()
	patch := harness.MustJSON(t, map[string]any{"data": map[string]string{store.DataKey: record}})
	_, err := n.Admin.CoreV1().ConfigMaps(harness.Namespace).Patch(t.Context(), store.Name(node), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "another"})
	require.NoError(t, err)
}

// leaves registers a Node with labels, and deletes it: the record stays.
func (n night) leaves(t *testing.T, name string, labels map[string]string) {
	t.Helper()
	n.Register(t, name)
	n.Label(t, name, maps.Clone(labels))
	n.WaitRecorded(t, n.Node(t, name), labels)
	n.DeleteNode(t, name)
	n.WaitDeletionRecorded(t, name)
}
