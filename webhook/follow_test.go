package webhook_test

import (
	"cmp"
	"encoding/json"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"

	"nodekeep.dev/nodekeep/policy/policytest"
)

const (
	follows  = "machine: {follow: true}\n"
	forgets  = "machine: {follow: true, onMismatch: forget}\n"
	machineA = "4c4c4544-0051-3010-8052-b4c04f4a3132"
	machineB = "9e3a1f70-77aa-4d0e-a8c1-0b5d52f1c9aa"
	ciRole   = "node-role.kubernetes.io/ci"
)

// load returns a policy with these sections.
func load(t testing.TB, sections string) policy.Policy {
	t.Helper()
	p, err := policy.Load([]byte(policytest.Manifest(sections)), policy.DefaultGate)
	require.NoError(t, err)
	return p
}

// gone returns the record of a Node on machine A that is deleted.
func gone(node string, items map[string]string, modify ...func(*record.Record)) record.Record {
	r := record.New(node, record.Object{UID: "old", Version: 10}, items)
	r.Machine.SystemUUID, r.DeletedAt = machineA, time.Unix(1_700_000_000, 0).UTC()
	for _, m := range modify {
		m(&r)
	}
	return r
}

// begun returns the record of a Node that another machine has, since machine A had the name.
func begun(node string, items map[string]string, age time.Duration) record.Record {
	machine := record.Machine{SystemUUID: machineB}
	r := record.SetAside(gone(node, items, func(r *record.Record) { r.DeletedAt = time.Now().Add(-age) }), machine, 49, record.EarlierRetention{})
	return record.Merge(r, record.Observation{UID: "new", Version: 50, Items: map[string]record.Item{"rack": {Value: "9", Owner: record.Client}}})
}

func lives(r *record.Record) { r.DeletedAt = time.Time{} }

// registration is worker-1 on a machine, as its kubelet creates it.
func registration(machine string, labels map[string]string) []byte {
	object, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"name": worker, "labels": labels},
		"spec":     map[string]any{"taints": []map[string]string{{"key": "nodekeep.dev/restoring", "effect": "NoSchedule"}}},
		"status":   map[string]any{"nodeInfo": map[string]string{"systemUUID": machine}},
	})
	if err != nil {
		panic(err)
	}
	return object
}

func TestARegistrationFollowsTheRecordThatItsMachineHasUnderAnotherName(t *testing.T) {
	fast := map[string]string{"disk": "fast"}
	admin := authenticationv1.UserInfo{Username: "kubernetes-admin", Groups: []string{"system:masters"}}
	for name, c := range map[string]struct {
		policy  string
		records []record.Record
		user    *authenticationv1.UserInfo // nil: the kubelet
		machine string                     // empty: A
		brings  map[string]string
		labels  map[string]string // what it gets
		taints  []string
		gated   bool
		outcome string
	}{
		"of a Node that is deleted": {
			records: []record.Record{gone("old", map[string]string{"disk": "fast", "tenant:NoSchedule": "blue"})}, labels: fast, taints: []string{"tenant"}, outcome: "restored",
		},
		"but for what it brings itself": {
			records: []record.Record{gone("old", map[string]string{"disk": "fast", "rack": "r1"})}, brings: map[string]string{"disk": "slow"}, labels: map[string]string{"rack": "r1"}, outcome: "restored",
		},
		"but a protected label waits for an operator, behind the gate": {
			records: []record.Record{gone("old", map[string]string{"disk": "fast", ciRole: "", "node-restriction.kubernetes.io/tier": "gold"})}, labels: fast, gated: true, outcome: "deferred",
		},
		"but a protected label waits whatever the policy does with protected labels": {
			policy:  "labels: {keep: ['*', 'node-restriction.kubernetes.io/*'], protected: inline}\nmachine: {follow: true}\n",
			records: []record.Record{gone("old", map[string]string{"disk": "fast", ciRole: "", "node-restriction.kubernetes.io/tier": "gold"})}, labels: fast, gated: true, outcome: "deferred",
		},
		"but a protected label waits also where an administrator creates the Node": {
			records: []record.Record{gone("old", map[string]string{ciRole: ""})}, user: &admin, gated: true, outcome: "deferred",
		},
		"of the machine that had a name before": {
			policy: forgets, records: []record.Record{begun("old", fast, time.Hour)}, labels: fast, outcome: "restored",
		},
		"but none of a machine that had a name longer ago than retention": {
			policy: forgets + "retention: 1h\n", records: []record.Record{begun("old", fast, 2*time.Hour)}, outcome: "nothing_missing",
		},
		"and of the machine that had its own name before, also what no kubelet may set": {
			policy: forgets, records: []record.Record{begun(worker, map[string]string{"disk": "fast", ciRole: ""}, time.Hour)}, labels: fast, gated: true, outcome: "deferred",
		},
		"of another cluster": {
			records: []record.Record{gone("old", fast, func(r *record.Record) { r.Cluster = "there" })}, labels: fast, outcome: "restored",
		},
		"but its own record comes first, whatever its machine has besides": {
			records: []record.Record{gone("old", fast), gone(worker, map[string]string{"disk": "slow"}, func(r *record.Record) { r.Machine.SystemUUID = machineB })}, labels: map[string]string{"disk": "slow"}, outcome: "restored",
		},
		"but none where no record is of the machine": {
			records: []record.Record{gone("old", fast, func(r *record.Record) { r.Machine.SystemUUID = machineB })}, outcome: "nothing_missing",
		},
		"but none where the kubelet does not say what machine it is on": {
			records: []record.Record{gone("old", fast, func(r *record.Record) { r.Machine = record.Machine{} })}, machine: " ", outcome: "nothing_missing",
		},
		"but none where the policy does not say so": {
			policy: "machine: {onMismatch: quarantine}\n", records: []record.Record{gone("old", fast)}, outcome: "nothing_missing",
		},
		"but none of two, as of cloned images": {
			records: []record.Record{gone("old", fast), gone("older", fast)}, gated: true, outcome: "nothing_missing",
		},
		"but the taints of two, as of cloned images": {
			records: []record.Record{gone("old", map[string]string{"disk": "fast", "tenant:NoExecute": "blue"}), gone("older", fast)}, taints: []string{"tenant"}, gated: true, outcome: "restored",
		},
		"but the taints of one that is deleted, though another one that lives has its identity": {
			records: []record.Record{gone("old", map[string]string{"disk": "fast", "tenant:NoExecute": "blue"}), gone("live", fast, lives)}, taints: []string{"tenant"}, gated: true, outcome: "restored",
		},
		"of a Node that is deleted, whatever a kubelet that lives claims since then": {
			records: []record.Record{gone("old", fast), gone("live", fast, lives, func(r *record.Record) { r.Seen[0].Version = 1000; r.MachineSince = 1000 })}, labels: fast, outcome: "restored",
		},
		"but none of one that is deleted and one that lives": {
			records: []record.Record{gone("old", fast), gone("live", fast, lives)}, gated: true, outcome: "nothing_missing",
		},
		"but none of a Node that lives, whose identity a kubelet claims": {
			records: []record.Record{gone("live", fast, lives)}, gated: true, outcome: "nothing_missing",
		},
		"but none that waits for an operator to decide between two machines": {
			records: []record.Record{gone("old", fast, func(r *record.Record) { prev := gone("old", fast); r.Quarantined = &prev })}, gated: true, outcome: "nothing_missing",
		},
	} {
		t.Run(name, func(t *testing.T) {
			known := &records{}
			for _, r := range c.records {
				_, err := known.Put(t.Context(), r, "")
				require.NoError(t, err)
			}
			user := byKubelet()
			if c.user != nil {
				user = *c.user
			}
			request := creation(user, registration(cmp.Or(c.machine, machineA), c.brings))
			h := newHook(known, load(t, cmp.Or(c.policy, follows)))

			updated := typed(t, requireSafe(t, request, h.review(t, bodyOf(t, request))))

			want := map[string]string{}
			maps.Copy(want, c.labels)
			maps.Copy(want, c.brings)
			if len(want) == 0 {
				want = nil
			}
			assert.Equal(t, want, updated.Labels)
			var taints []string
			for _, taint := range policy.DefaultGate.RemoveFrom(updated.Spec.Taints) {
				taints = append(taints, taint.Key)
			}
			assert.Equal(t, c.taints, taints)
			assert.Equal(t, c.gated, policy.DefaultGate.Present(updated.Spec.Taints))
			assert.Equal(t, 1, h.count(t, reviewsTotal, c.outcome))
			given, _ := record.ParseStamp(updated.Annotations[policy.StampAnnotation])
			assert.Len(t, given.Given, len(c.labels)+len(c.taints), "what it gets is listed, so that capture can correct it")
		})
	}
}

func TestARegistrationFollowsNothingWhereTheRecordsOfAMachineCannotBeFound(t *testing.T) {
	p := load(t, follows)
	request := creation(byKubelet(), registration(machineA, map[string]string{"own": "x"}))
	updated := typed(t, requireSafe(t, request, newHook(unindexed{&records{}}, p).review(t, bodyOf(t, request))))
	assert.Equal(t, map[string]string{"own": "x"}, updated.Labels)
	assert.True(t, policy.DefaultGate.Present(updated.Spec.Taints), "capture decides whether there is one to follow")

	known := &records{}
	_, err := known.Put(t.Context(), gone("old", map[string]string{"disk": "fast"}), "")
	require.NoError(t, err)
	known.Tamper(worker, []byte("{"))
	updated = typed(t, requireSafe(t, request, newHook(known, p).review(t, bodyOf(t, request))))
	assert.Equal(t, map[string]string{"own": "x"}, updated.Labels, "a record that cannot be read is a record")
	assert.True(t, policy.DefaultGate.Present(updated.Spec.Taints))
}

// unindexed are records that cannot be looked up by machine.
type unindexed struct{ *records }

func (unindexed) Get(string) (store.Entry, error) { return store.Entry{}, store.ErrNotFound }

func (unindexed) ListByMachine(record.Machine) ([]record.Record, error) { return nil, assert.AnError }
