package webhook_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/webhook"
)

// FuzzPatch throws dice for an object, a record, a policy, a user and the age of the records, and holds the answer to all that
// the package promises. text comes in wherever a text may be anything.
func FuzzPatch(f *testing.F) {
	for _, seed := range []struct{ dice, text string }{
		{"", ""},
		{"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "x"},
		{"\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01", "bad key!"},
		{"\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02", "a~b/c"},
		{"\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03", "<&>\xff\u2028"},
		{"\x04\x03\x02\x01\x04\x03\x02\x01\x04\x03\x02\x01\x04\x03\x02\x01\x04\x03\x02\x01\x04\x03\x02\x01", "{"},
		{"\x03\x04\x00\x01\x02\x03\x04\x05\x06\x07\x03\x02\x00\x01\x03\x04\x03\x07\x00\x01\x02\x03\x04\x05\x06\x07\x01\x04\x00\x01\x02\x03\x04\x05", "v"},
		{"nodekeep keeps labels and taints of Nodes that come back", strings.Repeat("n", 64)},
		{"the quick brown fox jumps over the lazy dog, 0123456789", `{"version":1,"node":"worker-1","labels":{"dedicated":"ci"}}`},
		{"labels:5 dedicated team node-role.kubernetes.io/worker", "worker-1"},
		{"~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~", "~0"},
	} {
		f.Add([]byte(seed.dice), seed.text)
	}
	policies := fuzzPolicies(f)
	f.Fuzz(func(t *testing.T, thrown []byte, text string) {
		checkPatch(t, policies, &dice{thrown, text})
	})
}

// The fuzzer starts from few seeds and runs short; these throws are many and the same in every run.
func TestPatchHoldsForManyThrows(t *testing.T) {
	policies := fuzzPolicies(t)
	random := rand.NewChaCha8([32]byte{})
	texts := []string{"", "ci", "bad key!", "a~b/c", "<&>\xff\u2028", "{", strings.Repeat("n", 64), "\x00"}
	for i := range 1000 {
		thrown := make([]byte, 128)
		_, _ = random.Read(thrown) // never fails
		checkPatch(t, policies, &dice{thrown, texts[i%len(texts)]})
	}
}

func checkPatch(t *testing.T, policies []policy.Policy, d *dice) {
	t.Helper()
	p, user := policies[d.throw(len(policies))], d.user()
	known := &records{age: time.Duration(d.throw(2)) * 2 * webhook.StaleAfter}
	if data, stored := d.record(t); stored {
		known.Tamper(worker, data)
	}
	request := creation(user, marshal(t, d.object()))
	h := newHook(known, p)

	after := requireSafe(t, request, h.review(t, bodyOf(t, request)))

	requireSettled(t, h, request, after)
	entry, err := known.Get(worker)
	requireAsDecided(t, situation{
		before: typed(t, request.Object.Raw), after: typed(t, after), policy: p, record: entry.Record,
		byKubelet: user.Username != "admin", unreadable: errors.Is(err, store.ErrUnreadable), current: known.age == 0,
	})
}

// situation is all that an answer depends on, and what came of it.
type situation struct {
	before, after                  *corev1.Node
	policy                         policy.Policy
	record                         store.Record
	byKubelet, unreadable, current bool
}

// requireAsDecided holds the object as it will be stored to the words of the design: it has every label that it may have
// now, it is gated while something waits, and it is neither gated nor unstamped when all that could be done is done.
func requireAsDecided(t *testing.T, s situation) {
	t.Helper()
	occasion := policy.CreateByOther
	if s.byKubelet {
		occasion = policy.CreateByKubelet
	}
	restore := s.policy.Missing(policy.Kept{Items: s.before.Labels}, policy.Kept{Items: s.record.Remembered()}, occasion)
	want := map[string]string{}
	for _, labels := range []map[string]string{s.before.Labels, restore.Add} {
		for key, value := range labels {
			want[key] = value
		}
	}
	if len(want) > 0 || len(s.after.Labels) > 0 {
		require.Equal(t, want, s.after.Labels)
	}
	switch {
	case len(restore.Protected) > 0:
		require.True(t, policy.DefaultGate.Holds(s.after.Spec.Taints), "a label waits and nothing keeps workloads off")
	case s.current && !s.unreadable:
		require.False(t, policy.DefaultGate.On(s.after.Spec.Taints), "nothing waits and the gate is on")
	default:
		require.Equal(t, s.before.Spec.Taints, s.after.Spec.Taints)
	}
	requireTrueStamp(t, s, restore)
}

func requireTrueStamp(t *testing.T, s situation, restore policy.Restore) {
	t.Helper()
	value, stamped := s.after.Annotations[policy.StampAnnotation]
	if !s.current {
		require.False(t, stamped, "records that may be old were taken for the truth")
		return
	}
	if !stamped {
		size := 0
		for key, annotation := range s.after.Annotations {
			size += len(key) + len(annotation)
		}
		require.Greater(t, size, 200<<10, "there was room for a stamp")
		return
	}
	stamp, ok := policy.ParseStamp(value)
	require.True(t, ok)
	for _, key := range stamp.Restored {
		require.Contains(t, s.after.Labels, key, "the stamp says that the object has it")
	}
	for key := range restore.Add {
		require.True(t, stamp.Lists(key))
	}
	require.Len(t, stamp.Pending, len(restore.Protected))
	for _, key := range stamp.Pending {
		require.Contains(t, restore.Protected, key)
	}
	assert.True(t, slices.IsSorted(stamp.Restored) && slices.IsSorted(stamp.Pending))
}

func fuzzPolicies(t testing.TB) []policy.Policy {
	t.Helper()
	policies := []policy.Policy{policy.Default()}
	for _, labels := range []string{
		`{onConflict: restoreStored}`,
		`{protected: never}`,
		`{protected: never, onConflict: restoreStored}`,
		`{keep: ["*", "*.node-restriction.kubernetes.io/*", "node-restriction.kubernetes.io/*", "topology.kubernetes.io/zone"], onConflict: restoreStored}`,
		`{keep: [dedicated], ignore: ["*.com/*"]}`,
		`{keep: []}`,
	} {
		p, err := policy.Load([]byte("apiVersion: nodekeep.dev/v1alpha1\nkind: Policy\nlabels: "+labels), policy.DefaultGate)
		require.NoError(t, err)
		policies = append(policies, p)
	}
	return policies
}
