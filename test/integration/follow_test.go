package integration

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"
)

const followPolicy = "apiVersion: nodekeep.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: default}\nspec:\n  machine: {follow: true}\n"

// oldName registers a Node on a machine, labels it and deletes it.
func oldName(t *testing.T, name, machine string, labels map[string]string) {
	t.Helper()
	node := registerAs(t, name, machine)
	nodekeep.Label(t, name, labels)
	nodekeep.WaitRecorded(t, node, labels)
	nodekeep.DeleteNode(t, name)
	waitGone(t, name)
}

func waitGone(t *testing.T, name string) {
	t.Helper()
	nodekeep.WaitDeletionRecorded(t, name)
	webhookHasRecords(t)
}

func TestAMachineUnderANewNameGetsWhatItHad(t *testing.T) {
	withPolicy(t, followPolicy, func() {
		t.Run("in the CREATE, and once", func(t *testing.T) {
			want := map[string]string{"disk": "fast", "rack": "r1"}
			oldName(t, "follow-1a", "m1", want)
			created := registerAs(t, "follow-1b", "m1")
			assert.True(t, harness.HasAll(created.Labels, want), "%v", created.Labels)
			r := nodekeep.WaitRecorded(t, created, want)
			assert.Equal(t, "follow-1a", r.Followed)
			assert.Contains(t, string(r.History), `"followed follow-1a"`)
			nodekeep.WaitEvent(t, "follow-1b", "MachineChanged")
			nodekeep.WaitRestored(t, "follow-1b", want)

			t.Log("the new name is the machine's; what an operator changes goes on to the third name")
			nodekeep.Label(t, "follow-1b", map[string]any{"disk": nil, "rack": "r2"})
			nodekeep.WaitRecorded(t, created, map[string]string{"rack": "r2"})
			nodekeep.DeleteNode(t, "follow-1b")
			waitGone(t, "follow-1b")
			third := registerAs(t, "follow-1c", "m1")
			assert.Equal(t, "r2", third.Labels["rack"])
			assert.NotContains(t, third.Labels, "disk")
			nodekeep.WaitRecorded(t, third, map[string]string{"rack": "r2"})

			t.Log("the first name has a record of its own still, which wins over following")
			first := registerAs(t, "follow-1a", "another")
			assert.True(t, harness.HasAll(first.Labels, want))
			nodekeep.WaitRecorded(t, first, want)
			assert.Equal(t, "r2", nodekeep.Node(t, "follow-1c").Labels["rack"])
		})
		t.Run("from capture where the webhook was down", func(t *testing.T) {
			want := map[string]string{"disk": "fast"}
			oldName(t, "follow-2a", "m2", want)
			nodekeep.WithoutWebhook(t, func() {
				nodekeep.WithoutCapture(t, func() {
					assert.NotContains(t, registerAs(t, "follow-2b", "m2").Labels, "disk")
				})
				nodekeep.WaitRecorded(t, nodekeep.WaitRestored(t, "follow-2b", want), want)
			})
		})
		t.Run("but not protected labels before an operator accepts them", func(t *testing.T) {
			for side, waits := range map[string]bool{"old": true, "new": false} {
				head, tail := "follow-3"+side+"a", "follow-3"+side+"b"
				oldName(t, head, side, map[string]string{"disk": "fast", worker: ""})
				hostile := registerAs(t, tail, side) // a kubelet's identity: it only claims to be that machine
				assert.Equal(t, "fast", hostile.Labels["disk"])
				nodekeep.WaitEvent(t, tail, "MachineChanged")
				harness.Eventually(t, func() bool { return nodekeep.RecordMap(t, tail).Data[store.QuarantinedKey] != "" }, settles, 20*time.Millisecond)
				nodekeep.WithoutCapture(t, func() {})
				nodekeep.Label(t, tail, map[string]any{"seen": "1"})
				recordComes(t, tail, func(r record.Record) bool { return r.Items()["seen"] == "1" })
				node := nodekeep.Node(t, tail)
				assert.NotContains(t, node.Labels, worker)
				assert.True(t, policy.DefaultGate.Present(node.Spec.Taints), "what waits keeps the gate on")

				nodekeep.MustKubectl(t, "-n", harness.Namespace, "annotate", "configmap", store.Name(tail), store.AcceptAnnotation+"="+side)
				node = nodekeep.WaitRestored(t, tail, map[string]string{"disk": "fast"})
				if waits {
					nodekeep.WaitRestored(t, tail, map[string]string{worker: ""})
				} else {
					assert.NotContains(t, node.Labels, worker)
				}
				assert.NotContains(t, nodekeep.RecordMap(t, tail).Data, store.QuarantinedKey)
			}
		})
		t.Run("but nothing where two machines claim one identity", func(t *testing.T) {
			oldName(t, "follow-4c", "m5", map[string]string{"disk": "slow"})
			live := registerAs(t, "follow-4d", "m5")
			nodekeep.WaitRecorded(t, live, map[string]string{"disk": "slow"})
			webhookHasRecords(t)
			clone := registerAs(t, "follow-4e", "m5")
			assert.NotContains(t, clone.Labels, "disk")
			nodekeep.WaitEvent(t, "follow-4e", "MachineAmbiguous")
			nodekeep.WaitRestored(t, "follow-4e", nil)
		})
	})
	withPolicy(t, followPolicy, func() {
		const tenant = "tenant=blue:NoExecute"
		tainted := func(t *testing.T, name, machine string) {
			t.Helper()
			node := registerAs(t, name, machine)
			nodekeep.Taint(t, name, tenant)
			nodekeep.Label(t, name, map[string]string{"disk": "fast"})
			nodekeep.WaitRecorded(t, node, map[string]string{"disk": "fast", "tenant:NoExecute": "blue"})
		}
		liar := func(t *testing.T, name string) {
			t.Helper()
			node := registerAs(t, name, name)
			nodekeep.Label(t, name, map[string]string{"own": "1"})
			nodekeep.WaitRecorded(t, node, map[string]string{"own": "1"})
		}
		claims := func(t *testing.T, name, machine string) {
			t.Helper()
			patch := fmt.Sprintf(`{"status":{"nodeInfo":{"systemUUID":"system-%s","machineID":"machine-%s"}}}`, machine, machine)
			_, err := nodekeep.Kubelet(t, name).CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
			require.NoError(t, err, "a kubelet claims what it wants")
			recordComes(t, name, func(r record.Record) bool { return r.Machine.SystemUUID == "system-"+machine })
		}
		hasTaint := func(node *corev1.Node) bool {
			return slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.ToString() == tenant })
		}
		t.Run("whatever a kubelet that lives claims since then", func(t *testing.T) {
			liar(t, "follow-6liar")
			tainted(t, "follow-6a", "m7")
			nodekeep.DeleteNode(t, "follow-6a")
			waitGone(t, "follow-6a")
			claims(t, "follow-6liar", "m7")
			webhookHasRecords(t)
			victim := registerAs(t, "follow-6b", "m7")
			assert.True(t, hasTaint(victim), "in the CREATE: %v", victim.Spec.Taints)
			assert.Equal(t, "fast", victim.Labels["disk"])
			nodekeep.WaitEvent(t, "follow-6b", "MachineChanged")
			assert.True(t, hasTaint(nodekeep.WaitRestored(t, "follow-6b", map[string]string{"disk": "fast"})))
		})
		t.Run("and its taints in any case, also where a kubelet claimed the identity before", func(t *testing.T) {
			for name, prepare := range map[string]func(t *testing.T){
				"follow-7b": func(t *testing.T) { // while the victim lives
					liar(t, "follow-7liar")
					tainted(t, "follow-7a", "follow-7b")
					claims(t, "follow-7liar", "follow-7b")
					nodekeep.DeleteNode(t, "follow-7a")
					waitGone(t, "follow-7a")
				},
				"follow-8b": func(t *testing.T) { // it registers first, follows the victim's record, and lives on as another machine
					tainted(t, "follow-8a", "follow-8b")
					nodekeep.DeleteNode(t, "follow-8a")
					waitGone(t, "follow-8a")
					liar := registerAs(t, "follow-8liar", "follow-8b")
					nodekeep.WaitRecorded(t, liar, map[string]string{"disk": "fast", "tenant:NoExecute": "blue"})
					claims(t, "follow-8liar", "liar-8")
				},
			} {
				prepare(t)
				webhookHasRecords(t)
				victim := registerAs(t, name, name)
				assert.True(t, hasTaint(victim), "%s, in the CREATE: %v", name, victim.Spec.Taints)
				assert.NotContains(t, victim.Labels, "disk", name)
				nodekeep.WaitEvent(t, name, "MachineAmbiguous")
				nodekeep.WaitRecorded(t, victim, map[string]string{"tenant:NoExecute": "blue"})
				assert.True(t, hasTaint(nodekeep.WaitRestored(t, name, nil)), name)
			}
		})
	})
	t.Run("only where the policy says so", func(t *testing.T) {
		oldName(t, "follow-5a", "m6", map[string]string{"disk": "fast"})
		created := registerAs(t, "follow-5b", "m6")
		assert.NotContains(t, created.Labels, "disk")
		assert.NotContains(t, nodekeep.RecordMap(t, "follow-5a").Data[store.DataKey], "followed")
	})
}
