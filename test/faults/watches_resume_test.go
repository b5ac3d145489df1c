package faults

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/test/harness/proxy"
)

// changeForeignConfigMaps changes ConfigMaps that are no records, in the namespace of the records and in another one, twice a second
// for five minutes.
func changeForeignConfigMaps(t *testing.T) (changes int) {
	t.Helper()
	namespaces := []string{harness.Namespace, metav1.NamespaceDefault}
	name := func(n int) string { return fmt.Sprintf("foreign-%d", n%10) }
	for n := range 20 {
		client := nodekeep.Admin.CoreV1().ConfigMaps(namespaces[n/10])
		_, err := client.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name(n)}}, metav1.CreateOptions{})
		require.NoError(t, err)
		defer func() { assert.NoError(t, client.Delete(t.Context(), name(n), metav1.DeleteOptions{})) }()
	}
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); changes++ {
		<-ticker.C
		patch := fmt.Appendf(nil, `{"data":{"n":"%d"}}`, changes)
		_, err := nodekeep.Admin.CoreV1().ConfigMaps(namespaces[changes/10%2]).Patch(t.Context(), name(changes), types.MergePatchType, patch, metav1.PatchOptions{})
		require.NoError(t, err)
	}
	return changes
}

// The API server remembers the last changes of ConfigMaps for little more than a minute. A watch that resumes from an older version
// is refused, and then all records are read again.
func TestOtherConfigMapsThatChangeHaveNobodyReadRecordsAgain(t *testing.T) {
	if !longFaults(t) {
		return
	}
	names := manyRemembered(t, "resume", 5, map[string]string{"dedicated": "ci"})
	defer deleteAll(t, names)
	processes := map[string]*proxy.Proxy{"capture": captureThrough(t), "webhook": webhookThrough(t)}
	type counts struct{ all, resumed atomic.Int64 }
	seen := map[string]*counts{}
	for process, p := range processes {
		c := &counts{}
		seen[process] = c
		p.Break(proxy.All(
			proxy.Report(proxy.Any(proxy.ReadsAll("configmaps"), proxy.ReadsAll("nodes")), func(r *http.Request) {
				c.all.Add(1)
				t.Logf("%s reads all again: %s", process, r.URL)
			}),
			proxy.Report(proxy.Watches("configmaps"), func(*http.Request) { c.resumed.Add(1) })))
	}
	time.Sleep(1100 * time.Millisecond) // client-go reads everything again where a watch lasted less than a second
	for _, p := range processes {
		p.CutConnections() // ends the watches that first streamed everything, which run for minutes
	}
	changes := changeForeignConfigMaps(t)
	for process, p := range processes {
		p.Break(nil)
		assert.Zero(t, seen[process].all.Load(), "%s read everything again", process)
		assert.GreaterOrEqual(t, seen[process].resumed.Load(), int64(3), "%s must have resumed its watch, or this test shows nothing", process)
		t.Logf("%s resumed its watch of records %d times while other ConfigMaps changed %d times", process, seen[process].resumed.Load(), changes)
	}
}

// Something between capture and the API server takes the watches and brings nothing on them, without ever ending them.
func TestCaptureReplacesWatchesThatAreHeldOpenAndBringNothing(t *testing.T) {
	if !longFaults(t) {
		return
	}
	p := captureThrough(t)
	const name = "held-open"
	node := remembered(t, name, map[string]string{"dedicated": "ci"})
	defer deleteNode(t, name)
	time.Sleep(1100 * time.Millisecond) // client-go reads everything again where a watch lasted less than a second
	var held, all atomic.Int64
	watches := proxy.Any(proxy.Watches("nodes"), proxy.Watches("configmaps"))
	p.Break(proxy.All(
		proxy.Report(proxy.Any(proxy.ReadsAll("configmaps"), proxy.ReadsAll("nodes")), func(*http.Request) { all.Add(1) }),
		proxy.Report(watches, func(*http.Request) { held.Add(1) }),
		proxy.Mute(proxy.Times(watches, 2), time.Hour)))
	p.CutConnections()
	require.True(t, within(settles, func() bool { return held.Load() == 2 }), "capture must watch again")
	started := time.Now()
	label(t, name, map[string]string{"dedicated": "gpu"})
	require.True(t, within(4*time.Minute, func() bool {
		record, ok := recordOf(t, name)
		return ok && record.Newest().UID == node.UID && record.Items()["dedicated"] == "gpu"
	}), "capture must give up watches that bring nothing")
	p.Break(nil)
	assert.Zero(t, all.Load(), "a watch that was given up is resumed, and nothing is read again")
	t.Logf("an edit was recorded %s after it, behind watches that were held open", time.Since(started).Round(time.Second))
}
