package webhook_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/webhook"
)

var update = flag.Bool("update", false, "write response.json of every golden review anew")

// Every folder of testdata/reviews is a case: review.json is what kube-apiserver 1.36 sends, record.json what is stored for the
// Node (any bytes; absent: nothing), policy.yaml the policy (absent: the default), response.json the answer, its patch
// decoded. After a change on purpose run
//
//	go test ./webhook -run TestGoldenReviews -update
//
// and read the difference.
const (
	goldenDir    = "testdata/reviews"
	reviewFile   = "review.json"
	recordFile   = "record.json"
	policyFile   = "policy.yaml"
	responseFile = "response.json"
)

func TestGoldenReviews(t *testing.T) {
	cases, err := os.ReadDir(goldenDir)
	require.NoError(t, err)
	require.NotEmpty(t, cases)
	for _, dir := range cases {
		t.Run(dir.Name(), func(t *testing.T) {
			t.Parallel()
			require.True(t, dir.IsDir(), "unexpected file")
			c := readGolden(t, filepath.Join(goldenDir, dir.Name()))
			h := newHook(c.records, c.policy)

			response := h.review(t, c.review)

			after := requireSafe(t, c.request, response)
			if response.Patch != nil {
				requireSettled(t, h, c.request, after)
			}
			c.compare(t, response)
			c.requireExplained(t, response)
			if response.Patch != nil {
				c.requireSameButTheGateWhileRecordsAreStale(t)
			}
		})
	}
}

// requireSameButTheGateWhileRecordsAreStale sends the review to a webhook that has received nothing for too long: what it knows is
// restored and stamped, and the gate stays.
func (c golden) requireSameButTheGateWhileRecordsAreStale(t *testing.T) {
	t.Helper()
	r, unreadable := c.known()
	c.records.age = webhook.StaleAfter + time.Second
	h := newHook(c.records, c.policy)
	after := requireSafe(t, c.request, h.review(t, c.review))
	requireSettled(t, h, c.request, after)
	s := situation{
		before: typed(t, c.request.Object.Raw), after: typed(t, after), policy: c.policy, unreadable: unreadable,
		byKubelet: c.request.UserInfo.Username != "kubernetes-admin",
	}
	if r != nil {
		s.record, _ = c.policy.Turn(s.machine(), *r, 0, time.Now())
		s.otherMachine = s.record.Isolated()
	}
	if c.policy.LabelRules().Empty() { // what rules set, requireAsDecided does not know
		requireAsDecided(t, s)
	}
}

func TestRecordsAreCurrentUntilStaleAfter(t *testing.T) {
	known := (&records{age: webhook.StaleAfter - 10*time.Second}).remember(t, map[string]string{"dedicated": "ci"})
	request := creation(byKubelet(), []byte(`{"metadata":{"name":"worker-1","annotations":{"nodekeep.dev/restored":"x"}},"spec":{"taints":[{"key":"nodekeep.dev/restoring","effect":"NoSchedule"}]}}`))

	node := typed(t, requireSafe(t, request, newHook(known, policy.Default()).review(t, bodyOf(t, request))))

	assert.Empty(t, node.Spec.Taints)
	assert.Equal(t, stampOf(map[string]string{"dedicated": "ci"}).String(), node.Annotations[policy.StampAnnotation])
}

// golden is one case.
type golden struct {
	dir     string
	review  []byte
	request *admissionv1.AdmissionRequest
	records *records
	policy  policy.Policy
}

func readGolden(t *testing.T, dir string) golden {
	t.Helper()
	files := filesOf(t, dir)
	c := golden{dir: dir, review: files[reviewFile], records: &records{}, policy: policy.Default()}
	var review admissionv1.AdmissionReview
	require.NoError(t, json.Unmarshal(c.review, &review))
	require.NotNil(t, review.Request)
	require.NotEmpty(t, review.Request.UID)
	c.request = review.Request
	if record, stored := files[recordFile]; stored {
		require.NotEmpty(t, c.request.Name, "a record of which Node?")
		c.records.Tamper(c.request.Name, record)
	}
	if file, configured := files[policyFile]; configured {
		var err error
		c.policy, err = policy.Load(file, policy.DefaultGate)
		require.NoError(t, err)
	}
	return c
}

// filesOf reads the files of a case; a stray or a missing one fails.
func filesOf(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	files := map[string][]byte{}
	for _, entry := range entries {
		require.Contains(t, []string{reviewFile, recordFile, policyFile, responseFile}, entry.Name(), "unexpected file")
		files[entry.Name()], err = os.ReadFile(filepath.Join(dir, entry.Name()))
		require.NoError(t, err)
	}
	require.Contains(t, files, reviewFile, "missing file")
	if !*update {
		require.Contains(t, files, responseFile, "missing file: run with -update and read what it writes")
	}
	return files
}

func (c golden) compare(t *testing.T, response *admissionv1.AdmissionResponse) {
	t.Helper()
	got := readable(t, response)
	path := filepath.Join(c.dir, responseFile)
	if *update {
		require.NoError(t, os.WriteFile(path, got, 0o644))
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got))
}

// readable returns a response in readable form: its patch decoded.
func readable(t *testing.T, response *admissionv1.AdmissionResponse) []byte {
	t.Helper()
	var fields map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(marshal(t, response), &fields))
	if response.Patch != nil {
		fields["patch"] = response.Patch
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	require.NoError(t, encoder.Encode(map[string]any{
		"apiVersion": reviewType.APIVersion, "kind": reviewType.Kind, "response": fields,
	}))
	return out.Bytes()
}

// Two cases with one uid would hide an answer with a uid that is not the request's.
func TestGoldenReviewsHaveAUIDEach(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(goldenDir, "*", reviewFile))
	require.NoError(t, err)
	var uids []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		var review admissionv1.AdmissionReview
		require.NoError(t, json.Unmarshal(data, &review))
		uids = append(uids, string(review.Request.UID))
	}
	slices.Sort(uids)
	assert.Len(t, slices.Compact(uids), len(files))
}
