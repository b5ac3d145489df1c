package faults

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"
)

// renaming is a policy that renames a label key which only this test uses.
const renaming = `apiVersion: nodekeep.dev/v1alpha1
kind: NodePolicy
metadata: {name: default}
spec:
  labels:
    migrations: [{from: renamed.old, to: example.com/renamed.new, phase: new}]
`

func TestCaptureKilledAtAnyWriteOfAMigrationEndsAsIfItHadNotBeenKilled(t *testing.T) {
	const oldKey, newKey = "renamed.old", "example.com/renamed.new"
	head := nodekeep.Policy(t)
	t.Cleanup(func() { nodekeep.SetPolicy(t, head) })
	p := captureProxy(t)
	nodekeep.SetPolicy(t, renaming)
	rules, err := policy.Load([]byte(renaming), policy.DefaultGate)
	require.NoError(t, err)
	require.Eventually(t, func() bool { // no Node has the key yet, so no operator has to accept it
		state, err := nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace).Get(context.WithoutCancel(t.Context()), store.AcceptedConfigMap, metav1.GetOptions{})
		return err == nil && state.Data[store.RulesInForce] == rules.RulesHash()
	}, harness.Settles, 20*time.Millisecond)
	nodekeep.RulesInForce(t)

	watched := nodekeep.WatchNodes(t)
	killedAtEveryWrite(t, p, "renamed", func(name string) {
		nodekeep.Register(t, name)
		nodekeep.WaitRestored(t, name, nil)
	}, func(name string) { // capture copies the label, renames it in the record, and removes the old key
		nodekeep.Label(t, name, map[string]string{oldKey: "a"})
	}, func(name string) bool {
		node := nodekeep.Node(t, name)
		record, ok := nodekeep.Record(t, name)
		_, old := node.Labels[oldKey]
		_, remembered := record.Items()[oldKey]
		return ok && !old && node.Labels[newKey] == "a" && !remembered && record.Items()[newKey] == "a"
	})
	prev, states := map[string]bool{}, 0
	for _, state := range watched.Stop() {
		_, old := state.Labels[oldKey]
		_, renamed := state.Labels[newKey]
		uid := string(state.UID)
		prev[uid] = prev[uid] || old
		if prev[uid] {
			states++
			assert.True(t, old || renamed, "Node %s lacks both keys at resourceVersion %s", state.Name, state.ResourceVersion)
		}
	}
	t.Logf("none of %d states of %d Nodes lacked both keys", states, len(prev))
}
