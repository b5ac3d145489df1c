package capture

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/capture/inventories"
	"nodekeep.dev/nodekeep/inventory"
	"nodekeep.dev/nodekeep/inventory/fetch"
)

const racksOfAMap = `labels: {rules: [{name: rack, set: {example.com/rack: "{inventory.cmdb.rack}"}}]}
inventory: [{name: cmdb, configMap: racks, attributes: [rack]}]
`

// readsRacks has ConfigMap racks have these entries, and reads it until they are in force.
func (r *replica) readsRacks(entries ...string) {
	t, maps := r.cluster.t, r.Client.CoreV1().ConfigMaps("")
	t.Helper()
	_ = maps.Delete(t.Context(), "racks", metav1.DeleteOptions{})
	document := `{"apiVersion":"nodekeep.dev/v1alpha1","kind":"Inventory","nodes":[` + strings.Join(entries, ",") + `]}`
	_, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "racks"}, Data: map[string]string{fetch.Key: document}}, metav1.CreateOptions{})
	require.NoError(t, err)
	head := r.inventories.InForceKey(r.Policy())
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.inventories.Run(ctx)
	}()
	assert.Eventually(t, func() bool { return r.inventories.InForceKey(r.Policy()) != head }, time.Minute, time.Millisecond)
	stop()
	<-done
}

func TestWhatAnInventoryHasWrongOfANodeIsAnEventOfThatNodeAndNoted(t *testing.T) {
	const wrong = `{"name":"n1","systemUUID":"other","attributes":{"rack":"r7"}}`
	for name, c := range map[string]struct{ entry, problem, shows string }{
		"another machine":        {wrong, `systemUUID is "other", and the Node reports "uuid-n1"`, "r1"},
		"no machine":             {`{"name":"n1","systemUUID":17,"attributes":{"rack":"r7"}}`, "systemUUID must be a string", "r1"},
		"an attribute":           {`{"name":"n1","systemUUID":"uuid-n1","attributes":{"rack":7,"unlisted":7}}`, "attribute rack must be a string", "r1"},
		"nothing but unlisted":   {`{"name":"n1","systemUUID":"uuid-n1","attributes":{"rack":"r7","unlisted":7}}`, "", "r7"},
		"a wrong one elsewhere":  {`{"name":"n1","attributes":{"rack":"r7"}},{"name":"n9","attributes":{"rack":7}}`, "", "r7"},
		"an entry of no machine": {`{"name":"n1","attributes":{"rack":"r7"}}`, "", "r7"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t, racksOfAMap)
			m := w.leader()
			m.releases(w.policy.RulesHash())
			w.register(node("a", "10", nil, machine("UUID-n1")))
			note := func() inventories.SourceStatus {
				from, err := m.Client.CoreV1().ConfigMaps("").Get(t.Context(), inventories.InventoryName, metav1.GetOptions{})
				require.NoError(t, err)
				status, ok := inventories.SourceStatusOf(from, "cmdb")
				require.True(t, ok)
				return status
			}
			reads := func(entries ...string) {
				w.passes(time.Second)
				m.readsRacks(entries...)
				require.Empty(t, m.works())
				m.wrote()
			}
			reads(`{"name":"n1","attributes":{"rack":"r1"}}`)
			assert.Equal(t, "r1", w.shows()["example.com/rack"])
			assert.NotContains(t, m.reported(), FactsUnknown)
			reads(c.entry)
			assert.Equal(t, c.shows, w.shows()["example.com/rack"])
			about := slices.DeleteFunc(note().Problems, func(p inventory.Problem) bool { return p.Node != "n1" })
			if c.problem == "" {
				assert.NotContains(t, m.reported(), FactsUnknown)
				assert.Empty(t, about)
				return
			}
			assert.Equal(t, []inventory.Problem{{Node: "n1", Message: c.problem}}, about)
			assert.Equal(t, 1, note().ProblemCount)
			assert.Contains(t, m.reported(), FactsUnknown)
			m.rests()
			assert.NotContains(t, m.reported(), FactsUnknown, "once")
			reads(`{"name":"n1","systemUUID":"uuid-n1","attributes":{"rack":"r8"}}`)
			assert.Equal(t, "r8", w.shows()["example.com/rack"])
			assert.Empty(t, note().Problems)
			assert.Zero(t, note().ProblemCount)
		})
	}
}
