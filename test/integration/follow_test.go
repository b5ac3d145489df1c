package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"
)

const followPolicy = "apiVersion: nodekeep.dev/v1alpha1\nkind: Policy\nmachine: {follow: true}\n"

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
			nodekeep.WaitEvent(t, "follow-1b", "MachineFollowed")
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
				before, after := "follow-3"+side+"a", "follow-3"+side+"b"
				oldName(t, before, side, map[string]string{"disk": "fast", worker: ""})
				hostile := registerAs(t, after, side) // a kubelet's identity: it only claims to be that machine
				assert.Equal(t, "fast", hostile.Labels["disk"])
				nodekeep.WaitEvent(t, after, "MachineFollowed")
				require.Eventually(t, func() bool { return nodekeep.RecordMap(t, after).Data[store.QuarantinedKey] != "" }, settles, 20*time.Millisecond)
				nodekeep.WithoutCapture(t, func() {})
				nodekeep.Label(t, after, map[string]any{"seen": "1"})
				recordComes(t, after, func(r record.Record) bool { return r.Items()["seen"] == "1" })
				node := nodekeep.Node(t, after)
				assert.NotContains(t, node.Labels, worker)
				assert.True(t, policy.DefaultGate.On(node.Spec.Taints), "what waits keeps the gate on")

				nodekeep.MustKubectl(t, "-n", harness.Namespace, "annotate", "configmap", store.Name(after), store.AcceptAnnotation+"="+side)
				node = nodekeep.WaitRestored(t, after, map[string]string{"disk": "fast"})
				if waits {
					nodekeep.WaitRestored(t, after, map[string]string{worker: ""})
				} else {
					assert.NotContains(t, node.Labels, worker)
				}
				assert.NotContains(t, nodekeep.RecordMap(t, after).Data, store.QuarantinedKey)
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
	t.Run("only where the policy says so", func(t *testing.T) {
		oldName(t, "follow-5a", "m6", map[string]string{"disk": "fast"})
		created := registerAs(t, "follow-5b", "m6")
		assert.NotContains(t, created.Labels, "disk")
		assert.NotContains(t, nodekeep.RecordMap(t, "follow-5a").Data[store.DataKey], "followed")
	})
}
