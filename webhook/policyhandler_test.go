package webhook_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/webhook"
)

func newPolicyHook() *hook {
	reviews, registry := newReviews(quiet())
	return &hook{reviews.Handler(webhook.PolicyReview, webhook.NewPolicyHandler(policy.DefaultGate)), registry}
}

func TestGoldenPolicies(t *testing.T) {
	for _, name := range caseNames(t, policiesDir) {
		t.Run(name, func(t *testing.T) {
			c := readGolden(t, policiesDir, name)
			response := newPolicyHook().review(t, c.review)
			require.Nil(t, response.Patch)
			c.compare(t, response)
		})
	}
}

// policyReview returns a review of a NodePolicy with this spec, in JSON.
func policyReview(operation admissionv1.Operation, object, old string) []byte {
	if old != "" {
		old = `,"oldObject":` + old
	}
	return []byte(fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","operation":%q,"name":"default",
		"kind":{"group":"nodekeep.dev","version":"v1alpha1","kind":"NodePolicy"},"object":%s%s}}`, operation, object, old))
}

func policyWith(spec string) string {
	return `{"apiVersion":"nodekeep.dev/v1alpha1","kind":"NodePolicy","metadata":{"name":"default","uid":"1"},"spec":` + spec + `}`
}

func TestAPolicyThatIsTooLargeIsRefused(t *testing.T) {
	plural := policyWith(`{"labels":{"ignore":["` + strings.Repeat("a", 500<<10) + `"]}}`)
	response := newPolicyHook().review(t, policyReview(admissionv1.Create, plural, ""))
	assert.False(t, response.Allowed)
	assert.Contains(t, response.Result.Message, "are the most")
}

// Other reviews of its caller wait while a policy is judged. So its size is bounded, and that of the answer.
func TestTheAnswerToAHostilePolicyIsBounded(t *testing.T) {
	keys, wrong, rules := map[string]int{}, []any{}, []any{}
	for i := range 25_000 {
		keys[fmt.Sprint("k", i)] = i
		wrong = append(wrong, i)
		if i < 5000 {
			rules = append(rules, map[string]any{"name": i, "set": 7, fmt.Sprint("x", i): nil})
		}
	}
	for name, spec := range map[string]any{
		"fields that are not known":             keys,
		"values of the wrong type":              map[string]any{"labels": map[string]any{"keep": wrong}},
		"rules with everything wrong":           map[string]any{"labels": map[string]any{"rules": rules}},
		"wrong values behind many fields":       map[string]any{"labels": map[string]any{"keep": wrong[:10_000], "z": keys}},
		"lists in lists":                        json.RawMessage(strings.Repeat("[", 5000) + strings.Repeat("]", 5000)),
		"patterns, each of which is no pattern": map[string]any{"labels": map[string]any{"keep": strings.Split(strings.Repeat("a b ", 12_000), " ")}},
	} {
		t.Run(name, func(t *testing.T) {
			encoded, err := json.Marshal(spec)
			require.NoError(t, err)
			answer := newPolicyHook().send(policyReview(admissionv1.Create, policyWith(string(encoded)), ""))
			require.Equal(t, http.StatusOK, answer.Code, answer.Body)
			assert.Less(t, answer.Body.Len(), 256<<10)
		})
	}
}

func FuzzPolicyReview(f *testing.F) {
	for _, seed := range []string{
		`null`, `{}`, `[]`, `7`, `"\ud800"`, `{"spec":null}`, `{"spec":[]}`, `{"metadata":[],"spec":{}}`, `{"apiVersion":7,"kind":{},"metadata":{"name":[]}}`,
		policyWith(`{"labels":null,"taints":[],"retention":1e999,"verify":{"profiles":[null,{}]}}`),
		policyWith(`{"labels":{"rules":[{"set":{"a":"{b}"},"match":[{}]}],"migrations":[{}]},"inventory":[{"name":"\u0000"}],"governance":{"keys":[{}]}}`),
		policyWith(`{"labels":{"keep":["\u2028","---","*a","&a"]},"taints":{"rules":[{"selector":"a in (","taint":"="}]}}`),
		policyWith(`{"labels":{"labels":{"labels":{}}},"labels":1}`),
	} {
		f.Add([]byte(seed), []byte(`{}`))
	}
	h := newPolicyHook()
	f.Fuzz(func(t *testing.T, object, old []byte) {
		if !json.Valid(object) || !json.Valid(old) {
			return
		}
		answer := h.send(policyReview(admissionv1.Update, string(object), string(old)))
		require.NotEqual(t, http.StatusInternalServerError, answer.Code, answer.Body)
		if answer.Code != http.StatusOK {
			return
		}
		var review admissionv1.AdmissionReview
		require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &review))
		if !review.Response.Allowed {
			require.NotEmpty(t, review.Response.Result.Message, "the user must see why")
		}
	})
}

func TestAFieldOfANewerVersionIsWarnedOfAndAnyOtherErrorIsRefused(t *testing.T) {
	newer := newPolicyHook().review(t, policyReview(admissionv1.Create, policyWith(`{"cordon":"keep","fromTheFuture":{"a":1}}`), ""))
	assert.True(t, newer.Allowed)
	require.NotEmpty(t, newer.Warnings)
	assert.Contains(t, newer.Warnings[0], "spec.fromTheFuture")
	combined := newPolicyHook().review(t, policyReview(admissionv1.Create, policyWith(`{"cordon":"keeep","fromTheFuture":{"a":1}}`), ""))
	assert.False(t, combined.Allowed)
}

func TestTheMetadataOfAPolicyThatIsTooLargeCanBeChanged(t *testing.T) {
	plural := policyWith(`{"labels":{"ignore":["` + strings.Repeat("a", 500<<10) + `"]}}`)
	assert.True(t, newPolicyHook().review(t, policyReview(admissionv1.Update, plural, plural)).Allowed)
}
