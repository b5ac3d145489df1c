package webhook_test

import (
	"cmp"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	yamlv3 "go.yaml.in/yaml/v3"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/policy/policytest"
	"nodekeep.dev/nodekeep/webhook"
)

var update = flag.Bool("update", false, "write the answer of every golden review anew")

// Every file of reviewsDir and policiesDir is a case in two YAML documents. The first says what the API server sends:
//
//	base:   a file of testdata/base, an AdmissionReview as kube-apiserver 1.36 sends it
//	review: a JSON Patch (RFC 6902) of its request; the uid is the name of the case
//	record: what is stored for the Node: a file of testdata/records by its name, or a record; absent: nothing
//	policy: a file of testdata/policies by its name, or the spec of a policy; absent: the default
//
// The second document is the answer. To write it, or to write it anew after a change on purpose, run
//
//	go test ./webhook -run TestGolden -update
//
// and read the difference.
const (
	reviewsDir  = "testdata/reviews"
	policiesDir = "testdata/policy-reviews"
	sharedDir   = "testdata"
	caseSuffix  = ".yaml"
	separator   = "---\n"
)

func TestGoldenReviews(t *testing.T) {
	for _, name := range caseNames(t, reviewsDir) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := readGolden(t, reviewsDir, name)
			h := newHook(c.records, c.policy)

			response := h.review(t, c.review)

			tail := requireSafe(t, c.request, response)
			if response.Patch != nil {
				requireSettled(t, h, c.request, tail)
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
func (c *golden) requireSameButTheGateWhileRecordsAreStale(t *testing.T) {
	t.Helper()
	r, unreadable := c.known()
	c.records.age = webhook.StaleAfter + time.Second
	h := newHook(c.records, c.policy)
	tail := requireSafe(t, c.request, h.review(t, c.review))
	requireSettled(t, h, c.request, tail)
	s := situation{
		old: typed(t, c.request.Object.Raw), updated: typed(t, tail), policy: c.policy, unreadable: unreadable,
		byKubelet: c.request.UserInfo.Username != "kubernetes-admin",
	}
	if r != nil {
		s.record, _ = c.policy.Transition(s.machine(), *r, 0, time.Now())
		s.otherMachine = s.record.WholeRecordQuarantined()
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
	path    string
	text    string // of the first document
	answer  string
	review  []byte
	request *admissionv1.AdmissionRequest
	records *records
	policy  policy.Policy
	shared  []string // the files that it shares with other cases
	record  []byte
}

// caseNames returns the names of the cases in a folder.
func caseNames(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.NotEmpty(t, entries)
	var names []string
	for _, entry := range entries {
		name, isCase := strings.CutSuffix(entry.Name(), caseSuffix)
		require.True(t, isCase, "unexpected file %s", entry.Name())
		names = append(names, name)
	}
	return names
}

func readGolden(t testing.TB, dir, name string) *golden {
	t.Helper()
	c := &golden{path: filepath.Join(dir, name+caseSuffix), records: &records{}, policy: policy.Default()}
	data, err := os.ReadFile(c.path)
	require.NoError(t, err)
	c.text, c.answer, _ = strings.Cut(string(data), "\n"+separator)
	c.text = strings.TrimSuffix(c.text, "\n") + "\n"
	var file struct {
		Base                   string
		Review, Record, Policy json.RawMessage
	}
	require.NoError(t, yaml.UnmarshalStrict([]byte(c.text), &file))

	c.patch(t, c.readShared(t, "base", file.Base+".json"), name, file.Review)
	if file.Record != nil {
		require.NotEmpty(t, c.request.Name, "a record of which Node?")
		c.record = c.content(t, "records", ".json", file.Record)
		c.records.Tamper(c.request.Name, c.record)
	}
	if file.Policy != nil {
		manifest := policytest.Manifest(string(c.content(t, "policies", ".yaml", file.Policy)))
		c.policy, err = policy.Load([]byte(manifest), policy.DefaultGate)
		require.NoError(t, err)
	}
	return c
}

// patch makes the review of the case. A uid of its own shows that the answer has the uid of the request.
func (c *golden) patch(t testing.TB, base []byte, uid string, operations json.RawMessage) {
	t.Helper()
	var review struct {
		metav1.TypeMeta
		Request json.RawMessage `json:"request"`
	}
	require.NoError(t, json.Unmarshal(base, &review))
	for _, operations := range []string{`[{"op":"replace","path":"/uid","value":"` + uid + `"}]`, cmp.Or(string(operations), "[]")} {
		patch, err := jsonpatch.DecodePatch([]byte(operations))
		require.NoError(t, err)
		review.Request, err = patch.Apply(review.Request)
		require.NoError(t, err)
	}
	c.review = marshal(t, review)
	require.NoError(t, json.Unmarshal(review.Request, &c.request))
}

// content returns what a case has inline, or what is in the file that it names.
func (c *golden) content(t testing.TB, dir, suffix string, value json.RawMessage) []byte {
	t.Helper()
	var name string
	if json.Unmarshal(value, &name) != nil {
		return value
	}
	return c.readShared(t, dir, name+suffix)
}

func (c *golden) readShared(t testing.TB, dir, file string) []byte {
	t.Helper()
	c.shared = append(c.shared, filepath.Join(dir, file))
	data, err := os.ReadFile(filepath.Join(sharedDir, dir, file))
	require.NoError(t, err)
	return data
}

func TestEverySharedFileIsUsedAndEachRecordIsThereOnce(t *testing.T) {
	var used, found []string
	places := map[string]string{} // where a record is, by its content
	for _, dir := range []string{reviewsDir, policiesDir} {
		for _, name := range caseNames(t, dir) {
			c := readGolden(t, dir, name)
			used = append(used, c.shared...)
			if c.record == nil {
				continue
			}
			place := c.path
			if n := slices.IndexFunc(c.shared, func(file string) bool { return filepath.Dir(file) == "records" }); n >= 0 {
				place = c.shared[n]
			}
			content := canonical(c.record)
			assert.Equal(t, place, cmp.Or(places[content], place), "the same record is in two places: give it a name in testdata/records")
			places[content] = place
		}
	}
	for _, dir := range []string{"base", "records", "policies"} {
		entries, err := os.ReadDir(filepath.Join(sharedDir, dir))
		require.NoError(t, err)
		for _, entry := range entries {
			found = append(found, filepath.Join(dir, entry.Name()))
		}
	}
	slices.Sort(used)
	slices.Sort(found)
	assert.Equal(t, slices.Compact(used), found)
}

// canonical returns a record without what is nothing in JSON, if it is JSON.
func canonical(content []byte) string {
	var value any
	if json.Unmarshal(content, &value) != nil {
		return string(content)
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(err) // what was JSON always is
	}
	return string(encoded)
}

func (c *golden) compare(t *testing.T, response *admissionv1.AdmissionResponse) {
	t.Helper()
	require.Equal(t, c.request.UID, response.UID)
	got := readable(t, response)
	if *update {
		require.NoError(t, os.WriteFile(c.path, []byte(c.text+separator+got), 0o644))
		return
	}
	require.NotEmpty(t, c.answer, "no answer: run with -update and read what it writes")
	assert.Equal(t, c.answer, got)
}

// readable returns a response without its uid, in YAML: each operation of its patch is a line.
func readable(t *testing.T, response *admissionv1.AdmissionResponse) string {
	t.Helper()
	var fields map[string]any
	require.NoError(t, json.Unmarshal(marshal(t, response), &fields))
	delete(fields, "uid")
	delete(fields, "patch")
	var out strings.Builder
	encoder := yamlv3.NewEncoder(&out)
	encoder.SetIndent(2)
	require.NoError(t, encoder.Encode(fields))
	if response.Patch == nil {
		return out.String()
	}
	var operations []json.RawMessage
	require.NoError(t, json.Unmarshal(response.Patch, &operations))
	out.WriteString("patch:\n")
	for _, operation := range operations {
		out.WriteString("- " + string(operation) + "\n")
	}
	return out.String()
}
