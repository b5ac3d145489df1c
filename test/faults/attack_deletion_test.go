package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"
)

const controlPlane = "node-role.kubernetes.io/control-plane"

var evil = corev1.Taint{Key: "evil", Value: "1", Effect: corev1.TaintEffectNoExecute}

// deletionOf is a review of the deletion of a Node, as anybody can write one.
func deletionOf(t testing.TB, node *corev1.Node) []byte {
	t.Helper()
	return []byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"forged","operation":"DELETE",` +
		`"kind":{"group":"","version":"v1","kind":"Node"},"resource":{"group":"","version":"v1","resource":"nodes"},"name":"` + node.Name + `",` +
		`"userInfo":{"username":"system:admin","groups":["system:masters"]},"oldObject":` + string(mustJSON(t, node)) + `}}`)
}

// forge sends reviews to the webhook's port without any identity. All must be answered, and no deletion may be denied.
func forge(t testing.TB, client *http.Client, nodes ...*corev1.Node) {
	t.Helper()
	for _, node := range nodes {
		response, err := client.Post("https://"+webhookAddress(t)+"/capture?timeout=10s", "application/json", bytes.NewReader(deletionOf(t, node)))
		if err != nil {
			t.Errorf("send a review of the deletion of node %s: %v", node.Name, err)
			return
		}
		var review admissionv1.AdmissionReview
		assert.Equal(t, http.StatusOK, response.StatusCode)
		assert.NoError(t, json.NewDecoder(response.Body).Decode(&review))
		assert.NoError(t, response.Body.Close())
		assert.True(t, review.Response != nil && review.Response.Allowed)
	}
}

// recordMap is the ConfigMap of a record as it is stored.
func recordMap(t testing.TB, node string) *corev1.ConfigMap {
	t.Helper()
	cm, err := nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace).Get(t.Context(), store.Name(node), metav1.GetOptions{})
	require.NoError(t, err)
	return cm
}

// recordMaps are the names of all ConfigMaps beside the records.
func recordMaps(t testing.TB) (names []string) {
	t.Helper()
	all, err := nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for _, cm := range all.Items {
		names = append(names, cm.Name)
	}
	return names
}

// isGone waits until the record of a deleted Node says so.
func isGone(t testing.TB, name string) {
	t.Helper()
	require.Eventually(t, func() bool {
		record, ok := recordOf(t, name)
		return ok && !record.DeletedAt.IsZero()
	}, settles, 20*time.Millisecond)
}

func TestForgedReviewsOfADeletionChangeNoRecordAndNoRegistration(t *testing.T) {
	client := webhookClient(t)
	forgeries := map[string]func(*corev1.Node){
		"with a role and a taint": func(n *corev1.Node) {
			n.Labels[controlPlane] = ""
			n.Spec.Taints = append(n.Spec.Taints, evil)
		},
		"with fewer labels":            func(n *corev1.Node) { delete(n.Labels, "team"); delete(n.Labels, worker) },
		"with other labels":            func(n *corev1.Node) { n.Labels["team"] = "evil" },
		"with a great resourceVersion": func(n *corev1.Node) { n.ResourceVersion = "999999999" },
		"with a deletionTimestamp":     func(n *corev1.Node) { n.DeletionTimestamp, n.Labels["team"] = &metav1.Time{Time: time.Now()}, "evil" },
		"with the identity of a guess": func(n *corev1.Node) { n.UID, n.Labels["team"] = "00000000-0000-0000-0000-000000000000", "evil" },
		"without any UID":              func(n *corev1.Node) { n.UID, n.Labels["team"] = "", "evil" },
		"of another machine":           func(n *corev1.Node) { n.Status.NodeInfo.SystemUUID, n.Spec.ProviderID = "evil", "evil://1" },
		"with a stamp that lists labels": func(n *corev1.Node) {
			n.Annotations = map[string]string{"nodekeep.dev/restored": `{"given":{"team":{"value":"a"},"` + worker + `":{"value":""}}}`}
			delete(n.Labels, "team")
		},
	}
	want := map[string]string{"team": "a", worker: ""}
	number := 0
	for what, change := range forgeries {
		for _, lives := range []bool{true, false} {
			number++
			name := fmt.Sprintf("attacked-%d", number)
			t.Run(fmt.Sprintf("%s, the Node lives: %t", what, lives), func(t *testing.T) {
				remembered(t, name, want)
				node := getNode(t, name)
				if !lives {
					deleteNode(t, name)
					isGone(t, name)
				}
				before, version := mustRecord(t, name), recordMap(t, name).ResourceVersion
				forged := node.DeepCopy()
				forged.ResourceVersion = fmt.Sprint(number + mustAtoi(t, node.ResourceVersion))
				change(forged)
				forge(t, client, forged, forged)
				if !lives {
					assert.Equal(t, version, recordMap(t, name).ResourceVersion, "nothing is written for a Node that is gone")
				}
				after := mustRecord(t, name)
				assert.Equal(t, before.Items(), after.Items())
				assert.Equal(t, before.Newest().UID, after.Newest().UID)
				assert.Equal(t, before.DeletedAt, after.DeletedAt)

				if lives { // a real edit afterwards is recorded
					label(t, name, map[string]string{"edited": "1"})
					want := maps.Clone(want)
					want["edited"] = "1"
					remembers(t, node, want)
					deleteNode(t, name)
					isGone(t, name)
				}
				register(t, name)
				back := complete(t, name, want)
				assert.NotContains(t, back.Labels, controlPlane)
				assert.Equal(t, lives, back.Labels["edited"] == "1")
				for _, taint := range back.Spec.Taints {
					assert.NotEqual(t, evil.Key, taint.Key)
				}
			})
		}
	}
}

func mustRecord(t testing.TB, name string) record.Record {
	t.Helper()
	found, ok := recordOf(t, name)
	require.True(t, ok)
	return found
}

func mustAtoi(t testing.TB, number string) int {
	t.Helper()
	n, err := strconv.Atoi(number)
	require.NoError(t, err)
	return n
}

func TestForgedReviewsOfNodesThatNobodyHasStoreNothing(t *testing.T) {
	client := webhookClient(t)
	forge(t, client, registration("attack-warm-up", nil))
	before := recordMaps(t)
	pid := nodekeep.Cluster.Process("nodekeep-webhook").Pid()
	held := resident(t, pid, "VmRSS")
	large := map[string]string{}
	for n := range 3000 {
		large[fmt.Sprintf("example.com/%d", n)] = strings.Repeat("x", 60)
	}
	for n := range 100 {
		node := registration(fmt.Sprintf("nobody-%d", n), large)
		node.UID, node.ResourceVersion = types.UID(fmt.Sprintf("uid-%d", n)), "5"
		forge(t, client, node)
	}
	assert.ElementsMatch(t, before, recordMaps(t))
	assert.Less(t, resident(t, pid, "VmRSS")-held, 128<<20)
}

// Each heartbeat gives a Node a later version, and a real deletion writes that one down. A forged review must not do so each time.
func TestForgedReviewsOfNodesThatLiveCostOneRecordWriteEachAtMost(t *testing.T) {
	const count, heartbeats = 10, 8
	client := webhookClient(t)
	var all sync.WaitGroup
	for n := range count {
		name := fmt.Sprintf("heartbeat-%d", n)
		remembered(t, name, map[string]string{"team": "a"})
		all.Go(func() {
			writes, version := 0, recordMap(t, name).ResourceVersion
			for beat := range heartbeats {
				beaten, err := nodekeep.Admin.CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType,
					[]byte(fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":"True","reason":"beat-%d"}]}}`, beat)), metav1.PatchOptions{}, "status")
				if err != nil {
					t.Errorf("update the status of node %s: %v", name, err)
					return
				}
				forge(t, client, beaten, beaten)
				if now := recordMap(t, name).ResourceVersion; now != version {
					writes, version = writes+1, now
				}
			}
			assert.LessOrEqual(t, writes, 1, name)
		})
	}
	all.Wait()
}

// deletionOutcomes are the webhook's own counts of reviews of deletions.
func deletionOutcomes(t testing.TB) map[string]int {
	t.Helper()
	response, err := http.Get(nodekeep.MetricsURL("webhook"))
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	outcomes := map[string]int{}
	for _, line := range regexp.MustCompile(`(?m)^nodekeep_capture_deletions_total\{outcome="(\w+)"\} (\S+)$`).FindAllSubmatch(body, -1) {
		value, err := strconv.ParseFloat(string(line[2]), 64)
		require.NoError(t, err)
		outcomes[string(line[1])] = int(value)
	}
	return outcomes
}

func TestADeletionIsRecordedDuringAFloodOfForgedReviews(t *testing.T) {
	const count, attackers = 10, 6
	names := make([]string, count)
	for n := range names {
		names[n] = fmt.Sprintf("flooded-%d", n)
		remembered(t, names[n], map[string]string{"edited": "before"})
	}
	target := getNode(t, names[0])
	ended := make(chan struct{})
	var flood sync.WaitGroup
	defer flood.Wait()
	defer func() { close(ended) }()
	for n := range attackers {
		client := webhookClient(t)
		flood.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-ended:
					return
				default:
				}
				invented := target.DeepCopy()
				invented.Name, invented.UID = fmt.Sprintf("invented-%d-%d", n, i), types.UID(fmt.Sprintf("%d-%d", n, i))
				forge(t, client, invented, target)
			}
		})
	}
	withoutCapture(t, func() {
		before, called := deletionOutcomes(t), webhookCalls(t)
		lost := 0
		for _, name := range names {
			label(t, name, map[string]string{"edited": "after"})
			deleteNode(t, name)
			if mustRecord(t, name).Items()["edited"] != "after" {
				lost++
			}
		}
		excused := webhookCalls(t).since(called).deletionsFailed + deletionOutcomes(t)["failed"] - before["failed"]
		t.Logf("%d of %d edits were recorded, %d calls took too long", count-lost, count, excused)
		assert.LessOrEqual(t, lost, excused)
		assert.Less(t, lost, count)
	})
}
