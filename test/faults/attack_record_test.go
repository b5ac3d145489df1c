package faults

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"
)

// elsewhere is the record of a Node as a backup of another cluster holds it. version is as of that cluster, and so is the UID.
func elsewhere(name, version string, labels map[string]string) record.Record {
	number, err := record.ParseVersion(version)
	if err != nil {
		panic(err)
	}
	return record.New(name, record.Object{UID: "11111111-2222-3333-4444-555555555555", Version: number}, labels)
}

// restoreBackup puts a record into the cluster as kubectl does.
func restoreBackup(t testing.TB, record record.Record) {
	t.Helper()
	body, err := store.Encode(record)
	require.NoError(t, err)
	_, err = nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: store.Name(record.Node), Labels: map[string]string{store.RecordLabel: "true"}},
		Data:       map[string]string{store.DataKey: string(body)},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// untilKnown waits until the webhook restores a label, so its memory holds the record.
func untilKnown(t testing.TB, name, key string) {
	t.Helper()
	require.Eventually(t, func() bool {
		node, err := kubelet(t, name).CoreV1().Nodes().Create(t.Context(), registration(name, nil), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return false
		}
		_, restored := node.Labels[key]
		return restored
	}, settles, 20*time.Millisecond)
}

func hasEvent(t testing.TB, name, reason string) bool {
	t.Helper()
	events, err := nodekeep.Admin.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.kind=Node,involvedObject.name=" + name + ",reason=" + reason})
	require.NoError(t, err)
	return len(events.Items) > 0
}

func TestARecordThatCanNeverBeRightBlocksNoNode(t *testing.T) {
	want := map[string]string{"rack": "r1", worker: ""}
	now := func(t *testing.T, add int) string {
		nodes, err := nodekeep.Admin.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{Limit: 1})
		require.NoError(t, err)
		version, err := strconv.Atoi(nodes.ResourceVersion)
		require.NoError(t, err)
		return strconv.Itoa(version + add)
	}
	for what, c := range map[string]struct {
		name    string
		version func(*testing.T) string
		later   bool // of an object that came after the one on which all was decided
		cluster string
		down    bool
		reset   bool
	}{
		"the webhook is up":                  {"backup-up", func(*testing.T) string { return "999999999" }, false, "", false, true},
		"the webhook is down":                {"backup-down", func(*testing.T) string { return "999999999" }, false, "", true, true},
		"only what came later is impossible": {"backup-later", func(*testing.T) string { return "1" }, true, "", true, true},
		"a little ahead":                     {"backup-ahead", func(t *testing.T) string { return now(t, 50) }, false, "", false, false},
		"as new as the API server":           {"backup-equal", func(t *testing.T) string { return now(t, 0) }, false, "", true, false},
		"of another cluster, older":          {"backup-other", func(*testing.T) string { return "1" }, false, "77777777-2222-3333-4444-555555555555", false, true},
		"of another cluster, newer":          {"backup-other-newer", func(*testing.T) string { return "999999999" }, false, "77777777-2222-3333-4444-555555555555", true, true},
		"a little older":                     {"backup-older", func(t *testing.T) string { return now(t, -1) }, false, "", true, false},
	} {
		t.Run(what, func(t *testing.T) {
			backup := elsewhere(c.name, c.version(t), want)
			if c.later {
				backup.Seen = append(backup.Seen, record.Object{UID: "66666666-2222-3333-4444-555555555555", Version: 999999999})
			}
			backup.Cluster = c.cluster
			registers := func() { register(t, c.name) }
			restoreBackup(t, backup)
			if c.down {
				withoutWebhook(t, registers)
			} else {
				untilKnown(t, c.name, "rack")
				registers()
			}
			node := complete(t, c.name, want)
			remembers(t, node, want)
			if c.reset {
				require.Eventually(t, func() bool { return hasEvent(t, c.name, "RecordReset") }, settles, 50*time.Millisecond)
			}

			label(t, c.name, map[string]string{"rack": "r2"})
			unlabel(t, c.name, worker)
			remembers(t, node, map[string]string{"rack": "r2"})
			deleteNode(t, c.name)
			isGone(t, c.name)
			register(t, c.name)
			back := complete(t, c.name, map[string]string{"rack": "r2"})
			assert.NotContains(t, back.Labels, worker)
		})
	}
}

// The Node was there before somebody restored the backup: no registration leads to a look at it.
func TestARecordThatIsAheadOfALivingNodeIsReset(t *testing.T) {
	for name, version := range map[string]string{"backup-lives": "999999999", "backup-lives-just": ""} {
		t.Run(name, func(t *testing.T) {
			node := register(t, name) // without labels there is no record
			complete(t, name, nil)
			if version == "" {
				register(t, name+"-other") // a later version than that of the Node
				nodes, err := nodekeep.Admin.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{Limit: 1})
				require.NoError(t, err)
				version = nodes.ResourceVersion
			}
			restoreBackup(t, elsewhere(name, version, map[string]string{"rack": "r1", worker: ""}))
			complete(t, name, map[string]string{"rack": "r1", worker: ""})
			remembers(t, node, map[string]string{"rack": "r1", worker: ""})
		})
	}
}

// The deletion is recorded although capture, which would have reset the record, is down.
func TestAnEditRightBeforeADeletionIsRecordedOverARecordThatCanNeverBeRight(t *testing.T) {
	const name = "backup-deleted"
	withoutCapture(t, func() {
		register(t, name)
		restoreBackup(t, elsewhere(name, "999999999", map[string]string{"rack": "r1", "tier": "gold"}))
		label(t, name, map[string]string{"rack": "r2"})
		deleteNode(t, name)
		assert.Equal(t, map[string]string{"rack": "r2", "tier": "gold"}, mustRecord(t, name).Items())
	})
}
