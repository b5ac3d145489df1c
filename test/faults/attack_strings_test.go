package faults

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/test/harness"
)

// tier is a label that no kubelet may set, and that the attackers here want to have another value.
const tier = "node-role.kubernetes.io/tier"

// protobufKubelet is a client with the identity of a Node's kubelet. Protobuf carries bytes that JSON cannot.
func protobufKubelet(t testing.TB, node string) *kubernetes.Clientset {
	t.Helper()
	config := nodekeep.Cluster.Kubelet(node)
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return client
}

// shifted is an identity that holds further texts behind NULs, up to the value of the label tier. A format that separates texts by NUL reads
// the next identity from the first text, and so on. before is how many identities come between this one and the labels.
func shifted(name string, before int) string {
	texts := []string{"machine"}
	for range before {
		texts = append(texts, "")
	}
	return strings.Join(append(texts, "amd64", name, "linux", "gold", "", ""), "\x00")
}

// bytesAttack is what a kubelet does to its own Node, with its own identity and by protobuf.
type bytesAttack struct {
	create func(node *corev1.Node) // what it brings at its registration
	update func(node *corev1.Node) // what it changes in an update of the Node
	status func(node *corev1.Node) // what it changes in an update of the status
	as     string                  // the field manager of its update
}

func (a bytesAttack) register(t testing.TB, name string) *corev1.Node {
	t.Helper()
	node := registration(name, nil)
	if a.create != nil {
		a.create(node)
	}
	created, err := protobufKubelet(t, name).CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	require.NoError(t, err, "the API server accepts what this test is about")
	return created
}

// carryOut changes the Node that lives, as its kubelet.
func (a bytesAttack) carryOut(t testing.TB, name string) {
	t.Helper()
	nodes := protobufKubelet(t, name).CoreV1().Nodes()
	change := func(how func(*corev1.Node), update func(context.Context, *corev1.Node, metav1.UpdateOptions) (*corev1.Node, error)) {
		if how == nil {
			return
		}
		require.NoError(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error { // capture may change the Node in between
			node, err := nodes.Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			how(node)
			_, err = update(t.Context(), node, metav1.UpdateOptions{FieldManager: a.as})
			return err
		}), "the API server accepts what this test is about")
	}
	change(a.update, nodes.Update)
	change(a.status, nodes.UpdateStatus)
}

func bytesAttacks() map[string]bytesAttack {
	annotate := func(key, value string) func(*corev1.Node) {
		return func(node *corev1.Node) {
			if node.Annotations == nil {
				node.Annotations = map[string]string{}
			}
			node.Annotations[key] = value
		}
	}
	own := func(node *corev1.Node) { node.Labels["mine"] = "1" }
	return map[string]bytesAttack{
		"claims":     {update: annotate("cluster.x-k8s.io/labels-from-machine", "a\xff")},
		"annotation": {update: annotate("example.com/note", "a\xff\x00")},
		"stamp":      {update: annotate(policy.StampAnnotation, "{\"given\":{\"a\xff\x00b\":{\"value\":\"\xff\",\"since\":\"7\"},\"x:NoExecute\":{\"value\":\"\"}},\"brought\":{\"\xfe:NoSchedule\":\"\xff\"}}")},
		"manager":    {update: own, as: "kube\xff"},
		"managed-fields": {update: func(node *corev1.Node) {
			own(node)
			node.ManagedFields = append(node.ManagedFields, metav1.ManagedFieldsEntry{
				Manager: strings.Repeat("\xff", 128), Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
				Time: &metav1.Time{Time: time.Date(20_000, 1, 1, 0, 0, 0, 0, time.UTC)}, FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:mine":{}}}}`),
			})
		}},
		"provider-id": {create: func(node *corev1.Node) { node.Spec.ProviderID = shifted(node.Name, 2) }},
		"system-uuid": {status: func(node *corev1.Node) { node.Status.NodeInfo.SystemUUID = shifted(node.Name, 1) }},
		"machine-id":  {status: func(node *corev1.Node) { node.Status.NodeInfo.MachineID = shifted(node.Name, 0) }},
		"machine-utf": {create: func(node *corev1.Node) { node.Spec.ProviderID, node.Status.NodeInfo.SystemUUID = "a\xff\xfe", "\xff" }},
		"huge-ids":    {status: func(node *corev1.Node) { node.Status.NodeInfo.MachineID = strings.Repeat("m", 600<<10) }},
		"resources": {status: func(node *corev1.Node) {
			node.Status.Capacity["example.com/\xff"], node.Status.Capacity["example.com/\xfe"] = resource.MustParse("1"), resource.MustParse("2")
		}},
	}
}

// What an admin set stands in the record of each attacked Node, and comes back after its deletion. All other Nodes and the
// process itself notice nothing.
// The guard policies, which would deny some of these bytes, are not there.
func TestNoBytesThatAKubeletSendsStopCaptureOrChangeItsProtectedLabels(t *testing.T) {
	withoutGuards(t, func() { noBytesDoHarm(t) })
}

func noBytesDoHarm(t *testing.T) {
	t.Helper()
	capture := nodekeep.Cluster.Process(captureProcess)
	pid := capture.Pid()
	runs := func(t *testing.T) {
		t.Helper()
		select {
		case <-capture.Exited():
			require.Fail(t, "capture ended")
		default:
		}
		require.Equal(t, pid, nodekeep.Cluster.Process(captureProcess).Pid())
	}
	attacks := bytesAttacks()
	for kind, attack := range attacks {
		t.Run(kind, func(t *testing.T) {
			name := "strings-" + kind
			attacked := attack.register(t, name)
			label(t, name, map[string]string{tier: "bronze"})
			recordHolds(t, attacked, map[string]string{tier: "bronze"})

			attack.carryOut(t, name)
			label(t, name, map[string]string{"rack": "r1"})
			recordHolds(t, attacked, map[string]string{tier: "bronze", "rack": "r1"})
			recordRests(t, name)
			bystander := register(t, name+"-other")
			label(t, bystander.Name, map[string]string{"rack": "r2"})
			recordHolds(t, bystander, map[string]string{"rack": "r2"})
			runs(t)

			deletions := series(t, nodekeep.MetricsURL("webhook"), `nodekeep_capture_deletions_total`)
			deleteNode(t, name)
			assert.Eventually(t, func() bool {
				return series(t, nodekeep.MetricsURL("webhook"), `nodekeep_capture_deletions_total`) > deletions
			}, settles, 20*time.Millisecond, "the webhook reads the review of the deletion")
			attack.register(t, name)
			complete(t, name, map[string]string{tier: "bronze", "rack": "r1"})
			attack.carryOut(t, name) // for the processes that start below
			runs(t)
		})
	}
	assert.Zero(t, series(t, nodekeep.MetricsURL("capture"), "nodekeep_capture_panics_total"))

	t.Run("a standby starts while such Nodes exist", func(t *testing.T) {
		_, metrics := secondCapture(t) // returns when it is ready
		assert.Zero(t, series(t, metrics, "nodekeep_capture_panics_total"))
	})
	t.Run("capture starts again while such Nodes exist", func(t *testing.T) {
		withoutCapture(t, func() {})
		for kind := range attacks {
			name := "strings-" + kind
			label(t, name, map[string]string{"rack": "r3"})
			recordHolds(t, getNode(t, name), map[string]string{tier: "bronze", "rack": "r3"})
		}
		assert.Zero(t, series(t, nodekeep.MetricsURL("capture"), "nodekeep_capture_panics_total"))
	})
	t.Run("the tool reads such Nodes", func(t *testing.T) {
		for _, args := range [][]string{{"list"}, {"list", "-o", "json"}, {"show", "strings-claims"}, {"show", "strings-machine-utf", "-o", "json"}, {"explain", "strings-managed-fields"}, {"doctor"}} {
			out := tool(t, args...)
			assert.NotContains(t, out, "panic", args)
			if args[0] != "doctor" {
				assert.Contains(t, out, "strings-", args)
			}
			if args[len(args)-1] == "json" {
				assert.True(t, json.Valid([]byte(out)), args)
			}
		}
	})
}

// recordHolds waits until the record of a Node object holds at least these items.
func recordHolds(t testing.TB, node *corev1.Node, want map[string]string) {
	t.Helper()
	last := map[string]string{}
	require.Eventually(t, func() bool {
		record, ok := recordOf(t, node.Name)
		last = maps.Clone(record.Items())
		return ok && record.Newest().UID == node.UID && hasAll(record.Items(), want)
	}, settles, 20*time.Millisecond, "the record of node %s must come to hold %v; last seen %v", node.Name, want, &last)
}

// recordRests waits until the record of a Node is not written for a while. One that can never equal its Node is written again at each look.
func recordRests(t testing.TB, name string) {
	t.Helper()
	version := func() string {
		cm, err := nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace).Get(t.Context(), "node."+name, metav1.GetOptions{})
		require.NoError(t, err)
		return cm.ResourceVersion
	}
	require.Eventually(t, func() bool {
		before := version()
		time.Sleep(500 * time.Millisecond)
		return version() == before
	}, settles, time.Millisecond, "the record of node %s is written again and again", name)
}

// tool runs a command of nodekeep as an admin and returns what it prints, errors included. doctor ends with an error where it
// finds anything.
func tool(t testing.TB, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), nodekeep.Binary(), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+nodekeep.AdminKubeconfig())
	out, err := command.CombinedOutput()
	if args[0] != "doctor" {
		require.NoError(t, err, "%v: %s", args, out)
	}
	return string(out)
}
