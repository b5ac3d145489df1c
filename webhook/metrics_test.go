package webhook_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"

	"nodekeep.dev/nodekeep/policy"
)

// The outcomes of what is answered by an HTTP error are counted in the tests of those errors.
func TestReviewsAreCountedByOutcome(t *testing.T) {
	const bare = `{"metadata":{"name":"worker-1"}}`
	tests := map[string]struct {
		records func(*testing.T) *records
		object  string
		change  func(*admissionv1.AdmissionRequest)
		outcome string
	}{
		"labels are restored":                 {records: remembering(map[string]string{"dedicated": "ci"}), object: bare, outcome: "restored"},
		"a protected label waits":             {records: remembering(map[string]string{"dedicated": "ci", "node-role.kubernetes.io/ci": ""}), object: bare, outcome: "deferred"},
		"no record":                           {records: noRecords, object: bare, outcome: "nothing_missing"},
		"the Node has all":                    {records: remembering(map[string]string{"dedicated": "ci"}), object: `{"metadata":{"name":"worker-1","labels":{"dedicated":"ci"}}}`, outcome: "nothing_missing"},
		"the record cannot be read":           {records: garbage, object: bare, outcome: "unreadable_record"},
		"the object cannot be read":           {records: noRecords, object: `{"metadata":{"name":7}}`, outcome: "malformed_node"},
		"it is an UPDATE":                     {records: noRecords, object: bare, change: func(r *admissionv1.AdmissionRequest) { r.Operation = admissionv1.Update }, outcome: "not_ours"},
		"the Node has no name yet":            {records: noRecords, object: `{"metadata":{"generateName":"worker-"}}`, outcome: "not_ours"},
		"it is the creation of a subresource": {records: noRecords, object: bare, change: func(r *admissionv1.AdmissionRequest) { r.SubResource = "status" }, outcome: "not_ours"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h := newHook(test.records(t), policy.Default())
			request := creation(byKubelet(), []byte(test.object))
			if test.change != nil {
				test.change(request)
			}

			require.True(t, h.review(t, bodyOf(t, request)).Allowed)

			assert.Equal(t, map[string]int{test.outcome: 1}, h.outcomes(t))
		})
	}
}

func TestLabelsAreCountedByWhatBecameOfThem(t *testing.T) {
	known := (&records{}).remember(t, map[string]string{
		"dedicated": "ci", "team": "", "disktype": "nvme", // restored; on the Node already; on the Node with another value
		"node-role.kubernetes.io/ci": "", // deferred
		"example.com/note":           "not a label value", "bad key": "", "a~b": "", "maintenance:Never": "",
	})
	h := newHook(known, policy.Default())

	h.review(t, bodyOf(t, creation(byKubelet(), []byte(`{"metadata":{"name":"worker-1","labels":{"team":"","disktype":"ssd"}}}`))))

	for outcome, want := range map[string]int{"restored": 1, "deferred": 1, "withheld": 1, "invalid": 3} {
		assert.Equal(t, want, h.count(t, itemsTotal, "label/"+outcome), outcome)
	}
	assert.Equal(t, 1, h.count(t, itemsTotal, "taint/invalid"))
}

func TestWhatRulesDoAtARegistrationIsCounted(t *testing.T) {
	p := load(t, `
labels:
  rules:
  - {name: tier, when: {names: [worker-1]}, set: {tier: one, team: red, node-role.kubernetes.io/worker: ""}}
  - {name: clean, ensureAbsent: [left-over, not-there, "left-over:NoSchedule"]}
`)
	h := newHook((&records{}), p)

	h.review(t, bodyOf(t, creation(byKubelet(), []byte(
		`{"metadata":{"name":"worker-1","labels":{"team":"red","left-over":"1"}},"spec":{"taints":[{"key":"left-over","effect":"NoSchedule"}]}}`))))

	for series, want := range map[string]int{"label/rule_set": 1, "label/rule_deferred": 1, "label/rule_removed": 1, "taint/rule_removed": 1} {
		assert.Equal(t, want, h.count(t, itemsTotal, series), series)
	}
}

func remembering(labels map[string]string) func(*testing.T) *records {
	return func(t *testing.T) *records {
		t.Helper()
		return (&records{}).remember(t, labels)
	}
}

func noRecords(*testing.T) *records { return &records{} }

func garbage(t *testing.T) *records {
	t.Helper()
	known := &records{}
	known.Tamper(worker, []byte("{"))
	_, err := known.Get(worker)
	require.Error(t, err)
	return known
}
