package faults

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// deletionsVariable says how many Nodes are deleted at once. deletersAtOnce is as many as a controller that removes a pool of Nodes
// may run.
const (
	deletionsVariable = "NODEKEEP_DELETIONS"
	deletersAtOnce    = 50
)

// requestsTo counts the requests of a kind that the API server has served.
func requestsTo(t testing.TB, verb, resource string) (total int) {
	t.Helper()
	stream, err := nodekeep.Admin.RESTClient().Get().AbsPath("/metrics").Stream(t.Context())
	require.NoError(t, err)
	defer stream.Close()
	body, err := io.ReadAll(stream)
	require.NoError(t, err)
	for _, line := range regexp.MustCompile(`(?m)^apiserver_request_total\{([^}]*)\} (\S+)$`).FindAllSubmatch(body, -1) {
		is := func(label, value string) bool {
			return regexp.MustCompile(`(^|,)` + label + `="` + value + `"`).Match(line[1])
		}
		if is("verb", verb) && is("resource", resource) && is("subresource", "") {
			value, err := strconv.ParseFloat(string(line[2]), 64)
			require.NoError(t, err)
			total += int(value)
		}
	}
	return total
}

// inParallel does something for each name, so many at a time.
func inParallel(names []string, atOnce int, do func(name string)) {
	todo := make(chan string)
	var all sync.WaitGroup
	for range atOnce {
		all.Go(func() {
			for name := range todo {
				do(name)
			}
		})
	}
	for _, name := range names {
		todo <- name
	}
	close(todo)
	all.Wait()
}

// A pool of Nodes is deleted at once while capture is down. What no call that failed open excuses is in the records.
func TestThePoolThatIsDeletedAtOnceIsRecorded(t *testing.T) {
	count := 60
	if set := os.Getenv(deletionsVariable); set != "" {
		var err error
		count, err = strconv.Atoi(set)
		require.NoError(t, err)
	}
	names := make([]string, count)
	for n := range names {
		names[n] = fmt.Sprintf("pool-%d", n)
	}
	inParallel(names, 8, func(name string) {
		register(t, name)
		label(t, name, map[string]string{"edited": "before"})
	})
	for _, name := range names {
		remembers(t, getNode(t, name), map[string]string{"edited": "before"})
	}
	withoutCapture(t, func() {
		inParallel(names, 8, func(name string) { label(t, name, map[string]string{"edited": "after"}) })
		calls, outcomes := webhookCalls(t), deletionOutcomes(t)
		reads, records, writes := requestsTo(t, "GET", "nodes"), requestsTo(t, "GET", "configmaps"), requestsTo(t, "PATCH", "configmaps")
		var mu sync.Mutex
		var took []time.Duration
		began := time.Now()
		inParallel(names, deletersAtOnce, func(name string) {
			began := time.Now()
			err := nodekeep.Admin.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Errorf("delete node %s: %v; a deletion is always allowed", name, err)
			}
			took = append(took, time.Since(began))
		})
		all := time.Since(began)
		reads, records, writes = requestsTo(t, "GET", "nodes")-reads, requestsTo(t, "GET", "configmaps")-records, requestsTo(t, "PATCH", "configmaps")-writes
		failed := webhookCalls(t).since(calls).deletionsFailed
		after := deletionOutcomes(t)
		for outcome := range after {
			after[outcome] -= outcomes[outcome]
		}
		lost := 0
		for _, name := range names {
			if mustRecord(t, name).Items()["edited"] != "after" {
				lost++
			}
		}
		slices.Sort(took)
		t.Logf("%d Nodes deleted, %d at once, in %s: p50 %s, p99 %s, longest %s; %d edits left to the watch; outcomes %v, %d calls failed open; API calls: %d GET Node, %d GET record, %d PATCH record",
			count, deletersAtOnce, round(all), round(took[count/2]), round(took[count*99/100]), round(took[count-1]), lost, after, failed, reads, records, writes)
		assert.LessOrEqual(t, lost, after["failed"]+failed)
		assert.LessOrEqual(t, writes, count+after["failed"]+failed, "a deletion costs one record write")
	})
}
