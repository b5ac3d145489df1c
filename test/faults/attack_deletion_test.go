package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
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

	"nodekeep.dev/nodekeep/test/harness"
)

const controlPlane = "node-role.kubernetes.io/control-plane"

var evil = corev1.Taint{Key: "evil", Value: "1", Effect: corev1.TaintEffectNoExecute}

// forge sends reviews to the webhook's port without any identity. All must be answered, and no deletion may be denied.
func forge(t testing.TB, client *http.Client, nodes ...*corev1.Node) {
	t.Helper()
	for _, node := range nodes {
		response, err := client.Post("https://"+webhookAddress(t)+"/deletion?timeout=10s", "application/json", bytes.NewReader(review("DELETE", node.Name, "system:admin", string(harness.MustJSON(t, node)))))
		if err != nil {
			t.Errorf("send a review of the deletion of node %s: %v", node.Name, err)
			return
		}
		var answer admissionv1.AdmissionReview
		assert.Equal(t, http.StatusOK, response.StatusCode)
		assert.NoError(t, json.NewDecoder(response.Body).Decode(&answer))
		assert.NoError(t, response.Body.Close())
		assert.True(t, answer.Response != nil && answer.Response.Allowed)
	}
}

// recordMaps returns the names of all ConfigMaps other than the records.
func recordMaps(t testing.TB) (names []string) {
	t.Helper()
	all, err := nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for _, cm := range all.Items {
		names = append(names, cm.Name)
	}
	return names
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
	for subject, change := range forgeries {
		for _, lives := range []bool{true, false} {
			number++
			name := fmt.Sprintf("attacked-%d", number)
			t.Run(fmt.Sprintf("%s, the Node lives: %t", subject, lives), func(t *testing.T) {
				nodekeep.RegisterRecorded(t, name, want)
				node := nodekeep.Node(t, name)
				if !lives {
					nodekeep.DeleteNode(t, name)
					nodekeep.WaitDeletionRecorded(t, name)
				}
				prev, version := nodekeep.MustRecord(t, name), nodekeep.RecordMap(t, name).ResourceVersion
				forged := node.DeepCopy()
				forged.ResourceVersion = fmt.Sprint(number + mustAtoi(t, node.ResourceVersion))
				change(forged)
				forge(t, client, forged, forged)
				if !lives {
					assert.Equal(t, version, nodekeep.RecordMap(t, name).ResourceVersion, "nothing is written for a deleted Node")
				}
				next := nodekeep.MustRecord(t, name)
				assert.Equal(t, prev.Items(), next.Items())
				assert.Equal(t, prev.Newest().UID, next.Newest().UID)
				assert.Equal(t, prev.DeletedAt, next.DeletedAt)

				if lives { // a real edit afterwards is recorded
					nodekeep.Label(t, name, map[string]string{"edited": "1"})
					want := maps.Clone(want)
					want["edited"] = "1"
					nodekeep.WaitRecorded(t, node, want)
					nodekeep.DeleteNode(t, name)
					nodekeep.WaitDeletionRecorded(t, name)
				}
				nodekeep.Register(t, name)
				returned := nodekeep.WaitRestored(t, name, want)
				assert.NotContains(t, returned.Labels, controlPlane)
				assert.Equal(t, lives, returned.Labels["edited"] == "1")
				for _, taint := range returned.Spec.Taints {
					assert.NotEqual(t, evil.Key, taint.Key)
				}
			})
		}
	}
}

func mustAtoi(t testing.TB, number string) int {
	t.Helper()
	n, err := strconv.Atoi(number)
	require.NoError(t, err)
	return n
}

func TestForgedReviewsOfNodesThatNobodyHasStoreNothing(t *testing.T) {
	client := webhookClient(t)
	forge(t, client, harness.Registration("attack-warm-up"))
	args := recordMaps(t)
	pid := webhookPid()
	held := resident(t, pid, "VmRSS")
	large := map[string]string{}
	for n := range 3000 {
		large[fmt.Sprintf("example.com/%d", n)] = strings.Repeat("x", 60)
	}
	for n := range 100 {
		node := harness.RegistrationWith(fmt.Sprintf("nobody-%d", n), large)
		node.UID, node.ResourceVersion = types.UID(fmt.Sprintf("uid-%d", n)), "5"
		forge(t, client, node)
	}
	assert.ElementsMatch(t, args, recordMaps(t))
	assert.Less(t, resident(t, pid, "VmRSS")-held, 128<<20)
}

// Each heartbeat gives a Node a later version, and a real deletion writes that one down. A forged review must not do so each time.
func TestForgedReviewsOfNodesThatLiveCostOneRecordWriteEachAtMost(t *testing.T) {
	const count, heartbeats = 10, 8
	client := webhookClient(t)
	var all sync.WaitGroup
	for n := range count {
		name := fmt.Sprintf("heartbeat-%d", n)
		nodekeep.RegisterRecorded(t, name, map[string]string{"team": "a"})
		all.Go(func() {
			writes, version := 0, nodekeep.RecordMap(t, name).ResourceVersion
			for beat := range heartbeats {
				beaten, err := nodekeep.Admin.CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType,
					[]byte(fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":"True","reason":"beat-%d"}]}}`, beat)), metav1.PatchOptions{}, "status")
				if err != nil {
					t.Errorf("update the status of node %s: %v", name, err)
					return
				}
				forge(t, client, beaten, beaten)
				if now := nodekeep.RecordMap(t, name).ResourceVersion; now != version {
					writes, version = writes+1, now
				}
			}
			assert.LessOrEqual(t, writes, 1, name)
		})
	}
	all.Wait()
}

// deletions returns the webhook's own count of reviews of deletions that ended so.
func deletions(t testing.TB, outcome string) int {
	t.Helper()
	return int(webhookSeries(t, `nodekeep_webhook_deletions_total{outcome="`+outcome+`"}`))
}

func TestADeletionIsRecordedDuringAFloodOfForgedReviews(t *testing.T) {
	const count, attackers = 10, 6
	names := recordedNodes(t, "flooded", count, map[string]string{"edited": "before"}).names
	target := nodekeep.Node(t, names[0])
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
	lost, _ := editedAndDeleted(t, names, 1)
	assert.Less(t, lost, count)
}

// editedAndDeleted edits and deletes Nodes while capture is down, so many at once, and returns how many of the edits no record has, and how
// many records were written more often than once. None may be lost but for calls that failed, or that the API server gave up on.
func editedAndDeleted(t *testing.T, names []string, atOnce int) (lost, rewritten int) {
	t.Helper()
	nodekeep.WithoutCapture(t, func() {
		harness.Parallel(names, 8, func(name string) { nodekeep.Label(t, name, map[string]string{"edited": "after"}) })
		patches := func() int {
			return int(nodekeep.APIServerSeries(t).Sum("apiserver_request_total", `verb="PATCH"`, `,resource="configmaps"`))
		}
		called, failed, writes := webhookCalls(t), deletions(t, "failed"), patches()
		var mu sync.Mutex
		var took []time.Duration
		harness.Parallel(names, atOnce, func(name string) {
			began := time.Now()
			err := nodekeep.Admin.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Errorf("delete node %s: %v; a Node can always be deleted", name, err)
			}
			took = append(took, time.Since(began))
		})
		writes = patches() - writes
		excused := webhookCalls(t).minus(called).deletionsFailed + deletions(t, "failed") - failed
		for _, name := range names {
			if nodekeep.MustRecord(t, name).Items()["edited"] != "after" {
				lost++
			}
		}
		slices.Sort(took)
		t.Logf("%d Nodes deleted, %d at once: p50 %s, p99 %s, longest %s; %d edits left to the watch; %d calls failed or failed open; %d record writes",
			len(names), atOnce, round(took[len(names)/2]), round(p99(took)), round(took[len(names)-1]), lost, excused, writes)
		assert.LessOrEqual(t, lost, excused)
		rewritten = writes - len(names) - excused
	})
	return lost, rewritten
}

// deletionsVariable says how many Nodes are deleted at once. deletersAtOnce is as many as a controller that removes a pool of Nodes
// may run.
const (
	deletionsVariable = "NODEKEEP_DELETIONS"
	deletersAtOnce    = 50
)

// A pool of Nodes is deleted at once while capture is down. What no call that failed open excuses is in the records.
func TestThePoolThatIsDeletedAtOnceIsRecorded(t *testing.T) {
	count := 60
	if set := os.Getenv(deletionsVariable); set != "" {
		var err error
		count, err = strconv.Atoi(set)
		require.NoError(t, err)
	}
	_, rewritten := editedAndDeleted(t, recordedNodes(t, "pool", count, map[string]string{"edited": "before"}).names, deletersAtOnce)
	assert.LessOrEqual(t, rewritten, 0, "a deletion costs one record write")
}
