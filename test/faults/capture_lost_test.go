package faults

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"
)

// remembering is for Nodes of which everything was restored: ordinary labels and a taint by the webhook, a protected label by capture.
var remembering = map[string]string{"dedicated": "ci", worker: "", "tenant:NoSchedule": "blue"}

// restoredNodes returns live Nodes that were deleted and have registered again, so that all they have is from their records.
func restoredNodes(t *testing.T, prefix string, count int) (all []string) {
	t.Helper()
	all = names(prefix, count)
	harness.Parallel(all, 8, func(name string) {
		nodekeep.RegisterRecorded(t, name, protected)
		nodekeep.WaitRecorded(t, nodekeep.Taint(t, name, "tenant=blue:NoSchedule"), remembering)
		returns(t, name, protected)
	})
	return all
}

// returns deletes a Node, has it register again, and waits until it is restored and recorded.
func returns(t *testing.T, name string, want map[string]string) {
	t.Helper()
	nodekeep.DeleteNode(t, name)
	nodekeep.Register(t, name)
	node := nodekeep.WaitRestored(t, name, want)
	harness.Eventually(t, func() bool {
		r, ok := nodekeep.Record(t, name)
		return ok && r.Newest().UID == node.UID
	}, patience, 20*time.Millisecond, "the record of node %s must be of the object that lives", name)
}

// patience is for many Nodes on a busy machine.
const patience = 3 * time.Minute

// unchanged says that nobody changes Nodes while something is done to their records, and that each is recorded again in the end.
func unchanged(t *testing.T, names []string, want map[string]string, fn func()) {
	t.Helper()
	prev := map[string]*corev1.Node{}
	for _, name := range names {
		prev[name] = nodekeep.Node(t, name)
	}
	watcher := nodekeep.WatchNodes(t)
	fn()
	for _, name := range names {
		harness.Eventually(t, func() bool {
			r, ok := nodekeep.Record(t, name)
			return ok && maps.Equal(r.Items(), want) && r.Newest().UID == prev[name].UID
		}, patience, 20*time.Millisecond, "the record of node %s must come to hold %v", name, want)
	}
	isCurrent(t)
	for _, state := range watcher.Stop() {
		if old, ours := prev[state.Name]; ours && !assert.Equal(t, old.ResourceVersion, state.ResourceVersion, "node %s was changed: %v, taints %v", state.Name, state.Labels, harness.TaintsOf(state.Node)) {
			return
		}
	}
}

// isCurrent waits until capture has nothing to do.
func isCurrent(t *testing.T) {
	t.Helper()
	harness.Eventually(t, func() bool {
		return captureSeries(t, "nodekeep_capture_nodes") > 0 && captureSeries(t, "nodekeep_capture_nodes") == captureSeries(t, "nodekeep_capture_nodes_current")
	}, patience, 50*time.Millisecond, "every record must be current")
}

func deleteRecords(t *testing.T, names []string) {
	t.Helper()
	harness.Parallel(names, 8, func(name string) {
		assert.NoError(t, nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace).Delete(t.Context(), store.Name(name), metav1.DeleteOptions{}))
	})
}

// ways returns how records can vanish, and whether a process sees each of them go.
func ways(t *testing.T, names []string) map[string]struct{ vanish, see func() } {
	deleted := func() { deleteRecords(t, names) }
	all := func() {
		harness.Eventually(t, func() bool { return captureSeries(t, "nodekeep_capture_records_vanished_total") >= float64(len(names)) }, patience, 50*time.Millisecond, "each must be counted")
		nodekeep.WaitEvent(t, names[0], "RecordVanished")
	}
	return map[string]struct{ vanish, see func() }{
		"while capture runs": {deleted, all},
		"while it is down":   {func() { nodekeep.WithoutCapture(t, deleted) }, all},
		"while it restarts": {func() {
			half := len(names) / 2
			deleteRecords(t, names[:half])
			nodekeep.WithoutCapture(t, func() {})
			deleteRecords(t, names[half:])
		}, func() {}}, // what the process before has counted is lost
	}
}

func TestLiveNodesKeepWhatTheyHaveWhenTheirRecordsVanish(t *testing.T) {
	names := restoredNodes(t, "lost", 10)
	for name, way := range ways(t, names) {
		t.Run(name, func(t *testing.T) {
			captureWith(t, nodekeep.Route) // its counters begin anew
			unchanged(t, names, remembering, way.vanish)
			way.see()
		})
	}
	for _, name := range names { // and what was learnt is as good as what was lost
		returns(t, name, protected)
		assert.True(t, harness.Carries(nodekeep.Node(t, name), "tenant=blue:NoSchedule"))
	}
	deleteAll(t, names)
}

func TestAThousandLiveNodesKeepWhatTheyHaveWhenTheirRecordsVanish(t *testing.T) {
	takesMinutes(t)
	names := restoredNodes(t, "thousand", 1000)
	for name, way := range ways(t, names) {
		t.Run(name, func(t *testing.T) {
			started := time.Now()
			unchanged(t, names, remembering, way.vanish)
			t.Logf("1,000 records were there again %s after the first was deleted", time.Since(started).Round(time.Second))
		})
	}
	deleteAll(t, names)
}

// waysToPutBack returns how an older record gets into the place of a newer one.
func waysToPutBack(t *testing.T) map[string]func(backup *corev1.ConfigMap) {
	records := nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace)
	return map[string]func(backup *corev1.ConfigMap){
		"over the newer ones": func(backup *corev1.ConfigMap) {
			backup.ResourceVersion = ""
			_, err := records.Update(t.Context(), backup, metav1.UpdateOptions{})
			assert.NoError(t, err)
		},
		"in their place, as kubectl replace --force does": func(backup *corev1.ConfigMap) {
			backup.ResourceVersion, backup.UID = "", ""
			require.NoError(t, records.Delete(t.Context(), backup.Name, metav1.DeleteOptions{}))
			_, err := records.Create(t.Context(), backup, metav1.CreateOptions{})
			if err != nil { // capture was faster
				_, err = records.Update(t.Context(), backup, metav1.UpdateOptions{})
			}
			assert.NoError(t, err)
		},
	}
}

// today is what the Nodes of a backup of yesterday have.
var today = map[string]string{"dedicated": "build", "new": "1", worker: "", "tenant:NoSchedule": "red"}

// backedUp returns live Nodes with their records of yesterday: every value was another one then, one label was not there yet, and all have
// registered since.
func backedUp(t *testing.T, prefix string, count int) (names []string, backups []*corev1.ConfigMap) {
	t.Helper()
	names = restoredNodes(t, prefix, count)
	for _, name := range names {
		backups = append(backups, nodekeep.RecordMap(t, name))
	}
	harness.Parallel(names, 8, func(name string) {
		nodekeep.Label(t, name, map[string]string{"dedicated": "build", "new": "1"})
		nodekeep.Untaint(t, name, "tenant=blue:NoSchedule")
		nodekeep.WaitRecorded(t, nodekeep.Taint(t, name, "tenant=red:NoSchedule"), today)
		returns(t, name, map[string]string{"dedicated": "build", "new": "1", worker: ""})
	})
	return names, backups
}

func TestOlderRecordsThatArePutBackChangeNoLiveNode(t *testing.T) {
	for name, put := range waysToPutBack(t) {
		for _, stopped := range []bool{false, true} {
			moment := map[bool]string{false: ", while capture runs", true: ", while it is down"}[stopped]
			t.Run(name+moment, func(t *testing.T) {
				names, backups := backedUp(t, "backup", 5)
				restore := func() {
					for _, backup := range backups {
						put(backup)
					}
				}
				if stopped {
					restore = func(restore func()) func() { return func() { nodekeep.WithoutCapture(t, restore) } }(restore)
				}
				unchanged(t, names, today, restore)
				deleteAll(t, names)
				for _, name := range names {
					nodekeep.WaitDeletionRecorded(t, name)
				}
				deleteRecords(t, names)
			})
		}
	}
}

func TestABackupThatIsPutBackOverTwoHundredLiveNodesChangesNone(t *testing.T) {
	takesMinutes(t)
	for name, put := range waysToPutBack(t) {
		t.Run(name, func(t *testing.T) {
			names, backups := backedUp(t, "two-hundred", 200)
			unchanged(t, names, today, func() {
				for _, backup := range backups {
					put(backup)
				}
			})
			deleteAll(t, names)
			for _, name := range names {
				nodekeep.WaitDeletionRecorded(t, name)
			}
			deleteRecords(t, names)
		})
	}
}
