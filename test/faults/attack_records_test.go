package faults

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"
)

// foreignRecord returns the record of a Node as a backup of another cluster holds it. version is as of that cluster, and so is the UID.
func foreignRecord(name string, version int, labels map[string]string) record.Record {
	return record.New(name, record.Object{UID: "11111111-2222-3333-4444-555555555555", Version: record.Version(version)}, labels)
}

// impossible is a version that this API server has not given out yet; newest is the last one that it has.
const impossible = 999_999_999

func newest(t testing.TB) int {
	t.Helper()
	nodes, err := nodekeep.Admin.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{Limit: 1})
	require.NoError(t, err)
	return mustAtoi(t, nodes.ResourceVersion)
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
	harness.Eventually(t, func() bool {
		node, err := nodekeep.Kubelet(t, name).CoreV1().Nodes().Create(t.Context(), harness.Registration(name), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return false
		}
		_, restored := node.Labels[key]
		return restored
	}, harness.Settles, 20*time.Millisecond)
}

func TestARecordThatCanNeverBeRightBlocksNoNode(t *testing.T) {
	want := map[string]string{"rack": "r1", worker: ""}
	const o = "77777777-2222-3333-4444-555555555555"
	type backup struct {
		kind, name string
		version    int  // 0: the newest, and ahead
		ahead      int  // of the newest
		later      bool // impossible is an object that came after the one on which all was decided
		cluster    string
		reset      bool
	}
	for webhook, backups := range map[string][]backup{
		"up": {
			{kind: "of the future", name: "backup-up", version: impossible, reset: true},
			{kind: "a little ahead", name: "backup-ahead", ahead: 50},
			{kind: "of another cluster, older", name: "backup-other", version: 1, cluster: o, reset: true},
		},
		"down": {
			{kind: "of the future", name: "backup-down", version: impossible, reset: true},
			{kind: "only what came later is impossible", name: "backup-later", version: 1, later: true, reset: true},
			{kind: "as new as the API server", name: "backup-equal"},
			{kind: "of another cluster, newer", name: "backup-other-newer", version: impossible, cluster: o, reset: true},
			{kind: "a little older", name: "backup-older", ahead: -1},
		},
	} {
		restored := func() {
			for _, b := range backups {
				if b.version == 0 {
					b.version = newest(t) + b.ahead
				}
				backup := foreignRecord(b.name, b.version, want)
				if b.later {
					backup.Seen = append(backup.Seen, record.Object{UID: "66666666-2222-3333-4444-555555555555", Version: impossible})
				}
				backup.Cluster = b.cluster
				restoreBackup(t, backup)
				if webhook == "up" {
					untilKnown(t, b.name, "rack")
				}
				nodekeep.Register(t, b.name)
			}
		}
		if webhook == "down" {
			nodekeep.WithoutWebhook(t, restored)
		} else {
			restored()
		}
		for _, b := range backups {
			t.Run("webhook "+webhook+": "+b.kind, func(t *testing.T) {
				node := nodekeep.WaitRestored(t, b.name, want)
				nodekeep.WaitRecorded(t, node, want)
				if b.reset {
					nodekeep.WaitEvent(t, b.name, "RecordReset")
				}

				nodekeep.Label(t, b.name, map[string]any{"rack": "r2", worker: nil})
				nodekeep.WaitRecorded(t, node, map[string]string{"rack": "r2"})
				nodekeep.DeleteNode(t, b.name)
				nodekeep.WaitDeletionRecorded(t, b.name)
				nodekeep.Register(t, b.name)
				returned := nodekeep.WaitRestored(t, b.name, map[string]string{"rack": "r2"})
				assert.NotContains(t, returned.Labels, worker)
			})
		}
	}
}

// The Node was there before an operator restored the backup: no registration leads to a look at it.
func TestARecordThatIsAheadOfALivingNodeIsReset(t *testing.T) {
	for name, version := range map[string]int{"backup-lives": impossible, "backup-lives-just": 0} {
		t.Run(name, func(t *testing.T) {
			node := nodekeep.Register(t, name) // without labels there is no record
			nodekeep.WaitRestored(t, name, nil)
			if version == 0 {
				nodekeep.Register(t, name+"-other") // a later version than that of the Node
				version = newest(t)
			}
			restoreBackup(t, foreignRecord(name, version, map[string]string{"rack": "r1", worker: ""}))
			nodekeep.WaitRestored(t, name, map[string]string{"rack": "r1", worker: ""})
			nodekeep.WaitRecorded(t, node, map[string]string{"rack": "r1", worker: ""})
		})
	}
}

// The deletion is recorded although capture, which would have reset the record, is down.
func TestAnEditRightBeforeADeletionIsRecordedOverARecordThatCanNeverBeRight(t *testing.T) {
	const name = "backup-deleted"
	nodekeep.WithoutCapture(t, func() {
		nodekeep.Register(t, name)
		restoreBackup(t, foreignRecord(name, impossible, map[string]string{"rack": "r1", "tier": "gold"}))
		nodekeep.Label(t, name, map[string]string{"rack": "r2"})
		nodekeep.DeleteNode(t, name)
		want := map[string]string{"rack": "r2", "tier": "gold"}
		harness.Eventually(t, func() bool { return maps.Equal(want, nodekeep.MustRecord(t, name).Items()) }, harness.Settles, 20*time.Millisecond)
	})
}

// tenant returns a client that may do everything with ConfigMaps in a namespace of its own, and nothing elsewhere.
func tenant(t testing.TB, namespace string) *kubernetes.Clientset {
	t.Helper()
	_, err := nodekeep.Admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	require.NoError(t, err)
	name := metav1.ObjectMeta{Name: "tenant", Namespace: namespace}
	_, err = nodekeep.Admin.RbacV1().Roles(namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: name, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"*"}},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = nodekeep.Admin.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: name,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "tenant"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: namespace}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	nodekeep.WaitRight(t, namespace, nil, authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "create", Resource: "configmaps"}, true)
	config := rest.CopyConfig(nodekeep.Cluster.Admin())
	config.Impersonate = rest.ImpersonationConfig{UserName: namespace, Groups: []string{"system:authenticated"}}
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return client
}

// forgedRecord says of a Node that it had a protected label and a taint that evicts all pods.
func forgedRecord(namespace, node string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: store.Name(node), Namespace: namespace, Labels: map[string]string{store.RecordLabel: "true"}},
		Data: map[string]string{store.DataKey: `{"version":1,"node":"` + node + `","uid":"forged","nodeResourceVersion":"1",` +
			`"labels":{"` + worker + `":"","dedicated":"attacker"},"taints":[{"key":"attacker","effect":"NoExecute"}]}`},
	}
}

func TestAClientThatMayWriteConfigMapsElsewhereCannotLabelANodeOrChangeARecord(t *testing.T) {
	const namespace, known, unknown = "attack-tenant", "attack-tenant-known", "attack-tenant-unknown"
	attacker := tenant(t, namespace)
	node := nodekeep.RegisterRecorded(t, known, map[string]string{"dedicated": "ci"})
	prev, found := nodekeep.Record(t, known)
	require.True(t, found)

	for _, name := range []string{known, unknown} {
		_, err := attacker.CoreV1().ConfigMaps(namespace).Create(t.Context(), forgedRecord(namespace, name), metav1.CreateOptions{})
		require.NoError(t, err, "the attacker may write ConfigMaps in the own namespace")
		_, err = attacker.CoreV1().ConfigMaps(harness.Namespace).Create(t.Context(), forgedRecord(harness.Namespace, name), metav1.CreateOptions{})
		assert.True(t, apierrors.IsForbidden(err), "the release namespace is not the attacker's: %v", err)
	}
	// The policy and the TLS Secret cannot be replaced from another namespace either: a NodePolicy has no namespace, and the Secret is read from the
	// release namespace only. A label that arrives by the watch after the forged records shows that they had time to arrive.
	nodekeep.Label(t, known, map[string]string{"rack": "r1"})
	next := nodekeep.WaitRecorded(t, node, map[string]string{"dedicated": "ci", "rack": "r1"})
	assert.Equal(t, prev.Newest().UID, next.Newest().UID)

	nodekeep.DeleteNode(t, known)
	reread := nodekeep.Register(t, known)
	assert.Equal(t, "ci", reread.Labels["dedicated"])
	for _, got := range []*corev1.Node{reread, nodekeep.Register(t, unknown)} {
		assert.NotContains(t, got.Labels, worker)
		assert.NotEqual(t, "attacker", got.Labels["dedicated"])
		assert.False(t, harness.Carries(got, "attacker:NoExecute"))
		assert.False(t, harness.Gated(got))
	}
	_, err := nodekeep.Admin.CoreV1().ConfigMaps(namespace).Get(t.Context(), store.Name(unknown), metav1.GetOptions{})
	require.NoError(t, err, "what is not in the release namespace is not touched")
}

// overwrite replaces what is stored for a Node and leaves the rest of the ConfigMap.
func overwrite(t *testing.T, node, data string) {
	t.Helper()
	_, err := nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace).Patch(t.Context(), store.Name(node), types.MergePatchType,
		harness.MustJSON(t, map[string]any{"data": map[string]string{store.DataKey: data}}), metav1.PatchOptions{})
	require.NoError(t, err)
}

func stored(t *testing.T, node string) string {
	t.Helper()
	return nodekeep.RecordMap(t, node).Data[store.DataKey]
}

// untilSeen waits until the webhook has all records as they are now: they come in order, so a good one that is written behind
// them and takes effect in a dry run proves it.
func untilSeen(t *testing.T) {
	t.Helper()
	last := fmt.Sprintf("seen-%d", time.Now().UnixNano())
	restoreBackup(t, record.New(last, record.Object{}, map[string]string{"seen": "1"}))
	require.Eventually(t, func() bool {
		dry, err := nodekeep.Admin.CoreV1().Nodes().Create(t.Context(), harness.Registration(last), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && dry.Labels["seen"] == "1"
	}, harness.Settles, 20*time.Millisecond, "the webhook must come to see a record")
	require.NoError(t, nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace).Delete(t.Context(), store.Name(last), metav1.DeleteOptions{}))
}

// What test/integration shows of records that cannot be read from the start is not repeated here: TestNoRecordKeepsANodeOut,
// TestAnUnreadableRecordKeepsTheGateUntilItIsMended, TestAForeignConfigMapOfThatNameIsLeftAlone and
// TestARecordThatLostItsLabelIsFoundAgain.
func TestARecordSpoiledUnderItsNodeIsLeftAsItIsAndCostsNothingOnceItIsMended(t *testing.T) {
	want := map[string]string{"dedicated": "ci", worker: ""}
	for _, c := range []struct {
		name, node string
		spoil      func(good, second string) string
	}{
		{"truncated", "truncated", func(good, _ string) string { return good[:len(good)/2] }},
		{"swapped with that of another Node", "swapped", func(_, second string) string { return second }},
		{"of almost 1 MiB", "huge", func(good, _ string) string { return good + strings.Repeat(" ", 1<<20-len(good)-1000) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			second := c.node + "-other"
			nodekeep.RegisterRecorded(t, c.node, want)
			nodekeep.RegisterRecorded(t, second, map[string]string{"dedicated": "gpu"})
			good, suffix := stored(t, c.node), stored(t, second)
			spoiled := c.spoil(good, suffix)
			overwrite(t, c.node, spoiled)
			if c.node == "swapped" {
				overwrite(t, second, good)
			}
			untilSeen(t)
			nodekeep.Label(t, c.node, map[string]string{"edited": "1"})
			nodekeep.DeleteNode(t, c.node)
			returned := nodekeep.Register(t, c.node)
			assert.NotContains(t, returned.Labels, "dedicated", "nothing is restored from it")
			time.Sleep(300 * time.Millisecond)
			assert.True(t, harness.Gated(nodekeep.Node(t, c.node)), "no workload comes onto the Node")
			assert.Equal(t, spoiled, stored(t, c.node), "it is left for an operator to look at")

			started := time.Now()
			overwrite(t, c.node, good)
			if c.node == "swapped" {
				overwrite(t, second, suffix)
			}
			nodekeep.WaitRecorded(t, nodekeep.WaitRestored(t, c.node, want), want)
			t.Logf("whole %s after the record was mended; the edit made meanwhile went with the Node object", time.Since(started).Round(time.Millisecond))
			nodekeep.WaitRecorded(t, nodekeep.Node(t, second), map[string]string{"dedicated": "gpu"})
			nodekeep.DeleteNode(t, c.node)
			nodekeep.DeleteNode(t, second)
		})
	}
}

func TestARecordOfTheNextVersionIsUsedAndItsUnknownFieldsSurviveARollback(t *testing.T) {
	const name = "rolled-back"
	nodekeep.RegisterRecorded(t, name, map[string]string{"a": "1", worker: ""})
	var fields map[string]any
	require.NoError(t, json.Unmarshal([]byte(stored(t, name)), &fields))
	fields["version"], fields["invented"] = record.Format+1, map[string]any{"later": []any{"x"}}
	overwrite(t, name, string(harness.MustJSON(t, fields)))

	nodekeep.Label(t, name, map[string]string{"a": "2"})
	nodekeep.WaitRecorded(t, nodekeep.Node(t, name), map[string]string{"a": "2", worker: ""})
	nodekeep.DeleteNode(t, name)
	nodekeep.Register(t, name)
	nodekeep.WaitRecorded(t, nodekeep.WaitRestored(t, name, map[string]string{"a": "2", worker: ""}), map[string]string{"a": "2", worker: ""})
	var next map[string]any
	require.NoError(t, json.Unmarshal([]byte(stored(t, name)), &next))
	assert.Equal(t, fields["invented"], next["invented"], "written back as it was read")
	assert.InDelta(t, record.Format+1, next["version"], 0)
	nodekeep.DeleteNode(t, name)
}
