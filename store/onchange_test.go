package store_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/store"
)

func TestOnChange(t *testing.T) {
	long, second := strings.Repeat("a", 253), strings.Repeat("b", 253)
	garbage, extra := []byte("{"), []byte(`{"version": 1, "node": "another"}`)
	recordOf := func(node string) []byte {
		return []byte(`{"version": 1, "node": "` + node + `"}`)
	}
	tests := map[string]struct {
		prev   map[string][]byte // what there is when the handler comes
		change func(c *cluster)
		want   []string
	}{
		"a record that is there already":            {map[string][]byte{"worker-1": recordOf("worker-1")}, func(*cluster) {}, []string{"worker-1"}},
		"one that is there and cannot be read":      {map[string][]byte{"worker-1": garbage}, func(*cluster) {}, []string{"worker-1"}},
		"one that is there and has a long name":     {map[string][]byte{long: recordOf(long)}, func(*cluster) {}, []string{long}},
		"a record is created":                       {nil, func(c *cluster) { c.put("worker-1", "ci", "") }, []string{"worker-1"}},
		"a record of a name with dots":              {nil, func(c *cluster) { c.put("node.worker-1.example.com", "ci", "") }, []string{"node.worker-1.example.com"}},
		"a record of a long name":                   {nil, func(c *cluster) { c.put(long, "ci", "") }, []string{long}},
		"a record is changed":                       {nil, func(c *cluster) { c.put("worker-1", "gpu", c.put("worker-1", "ci", "").Version) }, []string{"worker-1", "worker-1"}},
		"a record is removed":                       {nil, func(c *cluster) { c.put("worker-1", "ci", ""); c.Remove("worker-1") }, []string{"worker-1", "worker-1"}},
		"a record becomes garbage":                  {nil, func(c *cluster) { c.put("worker-1", "ci", ""); c.Tamper("worker-1", garbage) }, []string{"worker-1", "worker-1"}},
		"a record comes to name another Node":       {nil, func(c *cluster) { c.put("worker-1", "ci", ""); c.Tamper("worker-1", extra) }, []string{"worker-1", "worker-1"}},
		"garbage is mended":                         {nil, func(c *cluster) { c.Tamper("worker-1", garbage); c.Tamper("worker-1", recordOf("worker-1")) }, []string{"worker-1", "worker-1"}},
		"garbage is removed":                        {nil, func(c *cluster) { c.Tamper("worker-1", garbage); c.Remove("worker-1") }, []string{"worker-1", "worker-1"}},
		"the record of a long name is removed":      {nil, func(c *cluster) { c.put(long, "ci", ""); c.Remove(long) }, []string{long, long}},
		"the record of a long name becomes garbage": {nil, func(c *cluster) { c.put(long, "ci", ""); c.Tamper(long, garbage) }, []string{long, long}},
		"that of a long name comes to name another": {nil, func(c *cluster) { c.put(long, "ci", ""); c.Tamper(long, recordOf(second)) }, []string{long, long}},
		"the garbage of a long name is mended":      {map[string][]byte{long: recordOf(long)}, func(c *cluster) { c.Tamper(long, garbage); c.Tamper(long, recordOf(long)) }, []string{long, long, long}},
		"the record lost the label it is listed by": {nil, func(c *cluster) { c.put("worker-1", "ci", ""); c.edit("worker-1", unlist) }, []string{"worker-1", "worker-1"}},
		"a ConfigMap without our label is not ours": {nil, func(c *cluster) { foreign(c, "node.worker-1"); c.put("worker-2", "ci", "") }, []string{"worker-2"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			for node, data := range tt.prev {
				c.Tamper(node, data)
			}
			var changed nodes
			require.NoError(t, c.OnChange(changed.add, func(string) {}))
			tt.change(c)
			changed.awaits(t, tt.want...)
		})
	}
}

// A process has its own writes in memory until the watch brings them.
func TestARecordThatIsReportedGoneIsNotFoundInMemory(t *testing.T) {
	c := newCluster(t)
	var reported nodes
	var found sync.Map
	require.NoError(t, c.OnChange(func(node string) {
		_, err := c.Get(node)
		found.Store(node, err == nil)
		reported.add(node)
	}, func(string) {}))
	for round := range 25 {
		var want []string
		for n := range 20 {
			name := fmt.Sprintf("worker-%d-%d", round, n)
			c.put(name, "ci", "")
			c.edit(name, unlist)
			want = append(want, name, name)
		}
		reported.awaits(t, want...)
	}
	found.Range(func(node, current any) bool { return assert.False(t, current.(bool), node) })
}

func unlist(cm *corev1.ConfigMap) { cm.Labels = nil }

func foreign(c *cluster, name string) {
	cm := configMapOf(name, "worker-1")
	cm.Labels = nil
	require.NoError(c.t, c.api.Create(configMaps, cm, namespace))
}

// nodes collects the names that OnChange calls with.
type nodes struct {
	mu    sync.Mutex
	names []string
}

func (n *nodes) add(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.names = append(n.names, name)
}

// awaits waits until the names are exactly these, each as often as it is listed, and starts over. Among them may be
// the hashed ends of ConfigMap names: where a record does not tell whose it is, there is no better name.
func (n *nodes) awaits(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		n.mu.Lock()
		defer n.mu.Unlock()
		got = slices.DeleteFunc(slices.Clone(n.names), func(name string) bool {
			return slices.ContainsFunc(want, func(w string) bool { return name != w && "node."+name == store.Name(w) })
		})
		assert.ElementsMatch(c, want, got)
	}, patience, 5*time.Millisecond)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.names = nil
}

func TestARecordThatIsRemovedOrReplacedByAnOlderOneIsSaidToBeLost(t *testing.T) {
	pos := func(version int, value string) []byte {
		return fmt.Appendf(nil, `{"version": 1, "node": "worker-1", "uid": "U1", "nodeResourceVersion": "%d", "labels": {"rack": %q}}`, version, value)
	}
	for name, tt := range map[string]struct {
		change func(c *cluster)
		lost   []string
	}{
		"removed":                  {func(c *cluster) { c.Remove("worker-1") }, []string{"worker-1"}},
		"no longer listed":         {func(c *cluster) { c.edit("worker-1", unlist) }, []string{"worker-1"}},
		"replaced by an older one": {func(c *cluster) { c.Tamper("worker-1", pos(8, "r0")) }, []string{"worker-1"}},
		"written manually":         {func(c *cluster) { c.Tamper("worker-1", []byte(`{"version": 1, "node": "worker-1"}`)) }, []string{"worker-1"}},
		"written anew":             {func(c *cluster) { c.Tamper("worker-1", pos(10, "r2")) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.Tamper("worker-1", pos(9, "r1"))
			var changed, lost nodes
			require.NoError(t, c.OnChange(changed.add, lost.add))
			changed.awaits(t, "worker-1")
			tt.change(c)
			changed.awaits(t, "worker-1")
			lost.awaits(t, tt.lost...)
		})
	}
}
