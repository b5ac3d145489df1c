package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
)

const hostileGrowth = 128 << 20

// reviewOf is an AdmissionReview of a CREATE by a kubelet, around whatever the object is.
func reviewOf(object string) []byte {
	return []byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"hostile","operation":"CREATE",` +
		`"kind":{"group":"","version":"v1","kind":"Node"},"resource":{"group":"","version":"v1","resource":"nodes"},"name":"hostile",` +
		`"userInfo":{"username":"system:node:hostile","groups":["system:nodes"]},"object":` + object + `}}`)
}

func hostileReviews() map[string][]byte {
	nested := func(depth int) string { return strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth) }
	var labels, taints, annotations strings.Builder
	for n := range 100_000 {
		comma := map[bool]string{true: ","}[n > 0]
		fmt.Fprintf(&labels, `%s"example.com/%d":"%d"`, comma, n, n)
		fmt.Fprintf(&taints, `%s{"key":"t%d","effect":"NoSchedule"}`, comma, n)
		fmt.Fprintf(&annotations, `%s"a%d":"x"`, comma, n)
	}
	node := func(rest string) string { return `{"metadata":{"name":"hostile"` + rest }
	return map[string][]byte{
		"lists 3,000,000 deep":                bytes.Repeat([]byte("["), 3_000_000),
		"a review 1,000,000 deep":             reviewOf(nested(1_000_000)),
		"an object 9,000 deep":                reviewOf(node(`},"status":` + nested(9_000) + `}`)),
		"an object 200,000 deep":              reviewOf(node(`},"status":` + nested(200_000) + `}`)),
		"10 MiB of spaces":                    bytes.Repeat([]byte(" "), 10<<20),
		"a Node of 10 MiB":                    reviewOf(node(`,"annotations":{"a":"` + strings.Repeat("x", 10<<20) + `"}}}`)),
		"a Node of 6 MiB":                     reviewOf(node(`,"annotations":{"a":"` + strings.Repeat("x", 6<<20) + `"}}}`)),
		"keys twice":                          reviewOf(node(`,"labels":{"a":"1","a":"2"},"labels":{"b":"1"}},"metadata":{"name":"other"}}`)),
		"a request twice":                     []byte(strings.Replace(string(reviewOf(node(`}}`))), `"request":`, `"request":{"uid":"first"},"request":`, 1)),
		"invalid UTF-8":                       reviewOf(node(",\"labels\":{\"a\xff\xfe\":\"\xc3\x28\"}}}")),
		"bytes that are no text":              {0x00, 0xff, 0xfe, 0x80, 0x1f, 0x8b},
		"100,000 labels":                      reviewOf(node(`,"labels":{` + labels.String() + `}}}`)),
		"100,000 taints":                      reviewOf(node(`},"spec":{"taints":[` + taints.String() + `]}}`)),
		"100,000 annotations":                 reviewOf(node(`,"annotations":{` + annotations.String() + `}}}`)),
		"a name of 5 MiB":                     reviewOf(`{"metadata":{"name":"` + strings.Repeat("n", 5<<20) + `"}}`),
		"labels that are a list":              reviewOf(node(`,"labels":[1,2]},"spec":[]}`)),
		"an object that is null":              reviewOf("null"),
		"a number that no number can hold":    reviewOf(node(`,"generation":1e999999999}}`)),
		"a stamp that is 200,000 lists deep":  reviewOf(node(`,"annotations":{"nodekeep.dev/restored":"` + strings.Repeat("[", 200_000) + `"}}}`)),
		"a content that never was a Node's":   reviewOf(`"` + strings.Repeat(`\u0000`, 100_000) + `"`),
		"a Node with 1,000,000 numbers in it": reviewOf(node(`},"status":{"images":[` + strings.Repeat("1,", 1_000_000) + `1]}}`)),
	}
}

func TestHostileReviewsAreAnsweredOrRefusedWithinASecondInBoundedMemoryAndTheWebhookServesOn(t *testing.T) {
	nodes := rememberNodes(t, "after-hostile", 3, ordinary)
	client := webhookClient(t)
	pid := nodekeep.Cluster.Process("nodekeep-webhook").Pid()
	before := resident(t, pid, "VmRSS")
	var slowest time.Duration
	answered, refused := 0, 0
	reviews := hostileReviews()
	for name, body := range reviews {
		fastest := settles
		for n := 0; n < 3 || n < 10 && fastest >= webhookTimeout; n++ {
			began := time.Now()
			status, answer := send(t, client, body)
			fastest = min(fastest, time.Since(began))
			if status == http.StatusOK {
				answered++
				assert.LessOrEqual(t, len(body), 7<<20, name)
				var review admissionv1.AdmissionReview
				require.NoError(t, json.Unmarshal(answer, &review), name)
				assert.True(t, review.Response.Allowed, "%s: never denied", name)
				continue
			}
			refused++
			assert.GreaterOrEqual(t, status, 400, name)
			assert.NotEqual(t, http.StatusInternalServerError, status, "%s: no panic", name)
			assert.Equal(t, len(body) > 7<<20, status == http.StatusRequestEntityTooLarge, "%s: %d", name, status)
		}
		assert.Less(t, fastest, webhookTimeout, name)
		slowest = max(slowest, fastest)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { send(t, client, reviews["100,000 labels"]) })
		all.Go(func() { send(t, client, reviews["a Node of 10 MiB"]) })
	}
	all.Wait()
	grown := resident(t, pid, "VmHWM") - before
	t.Logf("%d reviews answered, %d refused, the slowest kind after %s; memory grew from %d MiB by %d MiB at most",
		answered, refused, round(slowest), before>>20, grown>>20)
	assert.Less(t, grown, hostileGrowth)
	assert.Equal(t, pid, nodekeep.Cluster.Process("nodekeep-webhook").Pid())

	nodes.areRestored(t) // it serves on
}

func send(t testing.TB, client *http.Client, body []byte) (status int, answer []byte) {
	t.Helper()
	response, err := client.Post("https://"+webhookAddress(t)+"/restore", "application/json", bytes.NewReader(body))
	require.NoError(t, err)
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	assert.NoError(t, err)
	return response.StatusCode, answer
}

// resident is how much memory a process holds (VmRSS), or held at most so far (VmHWM), in bytes.
func resident(t testing.TB, pid int, what string) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skipf("needs /proc: %v", err)
	}
	found := regexp.MustCompile(what + `:\s+(\d+) kB`).FindSubmatch(status)
	require.NotNil(t, found)
	kibibytes, err := strconv.Atoi(string(found[1]))
	require.NoError(t, err)
	return kibibytes << 10
}
