package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/test/harness"
)

// tier is a label that no kubelet may set, and that the attackers here want to have another value.
const tier = "node-role.kubernetes.io/tier"

// shifted returns an identity that holds further texts behind NULs, up to the value of the label tier. A format that separates texts by NUL reads
// the next identity from the first text, and so on. before is how many identities come between this one and the labels.
func shifted(name string, index int) string {
	texts := []string{"machine"}
	for range index {
		texts = append(texts, "")
	}
	return strings.Join(append(texts, "amd64", name, "linux", "gold", "", ""), "\x00")
}

// bytesAttack is what a kubelet does to its own Node, with its own identity and by protobuf.
type bytesAttack struct {
	create  func(node *corev1.Node) // what it brings at its registration
	update  func(node *corev1.Node) // what it changes in an update of the Node
	status  func(node *corev1.Node) // what it changes in an update of the status
	manager string                  // the field manager of its update
}

func (a bytesAttack) register(t testing.TB, name string) *corev1.Node {
	t.Helper()
	node := harness.Registration(name)
	if a.create != nil {
		a.create(node)
	}
	created, err := clientFor(t, nodekeep.Cluster.Kubelet(name), asProtobuf).CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	require.NoError(t, err, "the API server accepts what this test is about")
	return created
}

// carryOut changes the Node that lives, as its kubelet.
func (a bytesAttack) carryOut(t testing.TB, name string) {
	t.Helper()
	nodes := clientFor(t, nodekeep.Cluster.Kubelet(name), asProtobuf).CoreV1().Nodes()
	change := func(edit func(*corev1.Node), update func(context.Context, *corev1.Node, metav1.UpdateOptions) (*corev1.Node, error)) {
		if edit == nil {
			return
		}
		require.NoError(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error { // capture may change the Node in between
			node, err := nodes.Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			edit(node)
			_, err = update(t.Context(), node, metav1.UpdateOptions{FieldManager: a.manager})
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
	current := func(node *corev1.Node) { node.Labels["mine"] = "1" }
	return map[string]bytesAttack{
		"claims":     {update: annotate("cluster.x-k8s.io/labels-from-machine", "a\xff")},
		"annotation": {update: annotate("example.com/note", "a\xff\x00")},
		"stamp":      {update: annotate(policy.StampAnnotation, "{\"given\":{\"a\xff\x00b\":{\"value\":\"\xff\",\"since\":\"7\"},\"x:NoExecute\":{\"value\":\"\"}},\"brought\":{\"\xfe:NoSchedule\":\"\xff\"}}")},
		"manager":    {update: current, manager: "kube\xff"},
		"managed-fields": {update: func(node *corev1.Node) {
			current(node)
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

// What an admin set stands in the record of each attacked Node, and is restored after its deletion. All other Nodes and the
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
	prev := webhookSeries(t, "nodekeep_webhook_deletions_total")
	t.Run("at once", func(t *testing.T) {
		for kind, attack := range attacks {
			t.Run(kind, func(t *testing.T) {
				t.Parallel()
				name := "strings-" + kind
				attacked := attack.register(t, name)
				nodekeep.Label(t, name, map[string]string{tier: "bronze"})
				nodekeep.WaitRecordedAtLeast(t, attacked, map[string]string{tier: "bronze"})

				attack.carryOut(t, name)
				nodekeep.Label(t, name, map[string]string{"rack": "r1"})
				nodekeep.WaitRecordedAtLeast(t, attacked, map[string]string{tier: "bronze", "rack": "r1"})
				comesToRest(t, name, 0)
				bystander := nodekeep.Register(t, name+"-other")
				nodekeep.Label(t, bystander.Name, map[string]string{"rack": "r2"})
				nodekeep.WaitRecordedAtLeast(t, bystander, map[string]string{"rack": "r2"})
				runs(t)

				nodekeep.DeleteNode(t, name)
				attack.register(t, name)
				nodekeep.WaitRestored(t, name, map[string]string{tier: "bronze", "rack": "r1"})
				attack.carryOut(t, name) // for the processes that start below
				runs(t)
			})
		}
	})
	harness.Eventually(t, func() bool {
		return webhookSeries(t, "nodekeep_webhook_deletions_total") >= prev+float64(len(attacks))
	}, harness.Settles, 20*time.Millisecond, "the webhook reads the review of each deletion")
	assert.Zero(t, captureSeries(t, `nodekeep_controller_errors_total{kind="panic"}`))

	t.Run("a standby starts while such Nodes exist", func(t *testing.T) {
		metrics := nodekeep.StartReplica(t, "capture").UntilReady(t).Metrics
		assert.Zero(t, harness.Series(t, metrics, `nodekeep_controller_errors_total{kind="panic"}`))
	})
	t.Run("capture starts again while such Nodes exist", func(t *testing.T) {
		nodekeep.WithoutCapture(t, func() {})
		for kind := range attacks {
			name := "strings-" + kind
			nodekeep.Label(t, name, map[string]string{"rack": "r3"})
			nodekeep.WaitRecordedAtLeast(t, nodekeep.Node(t, name), map[string]string{tier: "bronze", "rack": "r3"})
		}
		assert.Zero(t, captureSeries(t, `nodekeep_controller_errors_total{kind="panic"}`))
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

func TestANodeWith500LabelsHasAllOfThemInItsCreate(t *testing.T) {
	const name = "many-labels"
	want := map[string]string{}
	for n := range 500 {
		want[fmt.Sprintf("label-%03d.example.com/%s", n, strings.Repeat("k", 63))] = strings.Repeat("v", 63)
	}
	nodekeep.RegisterRecorded(t, name, want)
	nodekeep.DeleteNode(t, name)
	began := time.Now()
	returned := nodekeep.Register(t, name)
	t.Logf("registered after %s", round(time.Since(began)))
	assert.False(t, harness.Gated(returned))
	assert.True(t, harness.HasAll(returned.Labels, want))
	nodekeep.WaitRecorded(t, returned, want)
}

func TestNoLabelValueAndNoTaintValueIsLogged(t *testing.T) {
	const name = "discreet"
	const secret = "distinct-value-4711"
	ofWebhook, ofCapture := logged(t, nodekeep.Cluster.LogPath(webhookProcess)), logged(t, nodekeep.Cluster.LogPath(captureProcess))
	want := map[string]string{"dedicated": secret, worker: secret, "conflict": secret + "-stored", "maintenance:NoExecute": secret}
	node := nodekeep.Register(t, name)
	nodekeep.Label(t, name, map[string]string{"dedicated": secret, worker: secret, "conflict": secret + "-stored"})
	nodekeep.MergeNode(t, name, map[string]any{"spec": map[string]any{"taints": []map[string]string{{"key": "maintenance", "value": secret, "effect": "NoExecute"}}}})
	nodekeep.WaitRecorded(t, node, want)
	nodekeep.DeleteNode(t, name)
	_, err := nodekeep.Kubelet(t, name).CoreV1().Nodes().Create(t.Context(), harness.RegistrationWith(name, map[string]string{"conflict": secret + "-brought"}), metav1.CreateOptions{})
	require.NoError(t, err)
	nodekeep.WaitRestored(t, name, map[string]string{"dedicated": secret, worker: secret})
	nodekeep.WithoutWebhook(t, func() {
		nodekeep.DeleteNode(t, name)
		nodekeep.Register(t, name)
		nodekeep.WaitRestored(t, name, map[string]string{"dedicated": secret, worker: secret})
	})
	nodekeep.Label(t, name, map[string]string{"dedicated": secret + "-changed"})
	nodekeep.Label(t, name, map[string]any{"conflict": nil})
	nodekeep.WaitRecorded(t, nodekeep.Node(t, name), map[string]string{"dedicated": secret + "-changed", worker: secret, "maintenance:NoExecute": secret})

	for process, base := range map[string]func() string{"webhook": ofWebhook, "capture": ofCapture} {
		log := base()
		assert.NotContains(t, log, secret, process)
		t.Logf("%s logged %d bytes", process, len(log))
	}
	assert.Contains(t, ofCapture(), name, "it does log about the Node")
}
