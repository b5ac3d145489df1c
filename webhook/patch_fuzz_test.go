package webhook_test

import (
	"errors"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
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
		thrown := make([]byte, 192)
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
	before, after                                *corev1.Node
	policy                                       policy.Policy
	record                                       record.Record
	byKubelet, unreadable, otherMachine, current bool
	replaces                                     string // what the policy says of conflicts, where the test knows
}

// requireAsDecided holds the object as it will be stored to docs/design.md, section 6.1: it has every label and taint that it
// may have now, it is gated while something waits, and it is neither gated nor unstamped when all that could be done is
// done.
func requireAsDecided(t *testing.T, s situation) {
	t.Helper()
	restore := s.missing()
	want := s.labelsOf(restore.Add)
	if len(want) > 0 || len(s.after.Labels) > 0 {
		require.Equal(t, want, s.after.Labels)
	}
	switch {
	case len(restore.Protected) > 0:
		require.True(t, policy.DefaultGate.Holds(s.after.Spec.Taints), "a label waits and nothing keeps workloads off")
	case s.current && !s.kept():
		require.False(t, policy.DefaultGate.On(s.after.Spec.Taints), "nothing waits and the gate is on")
	default:
		require.Equal(t, apart(s.before.Spec.Taints, true), apart(s.after.Spec.Taints, true))
	}
	requireTaintsAsDecided(t, s, restore)
	requireTrueStamp(t, s, restore)
}

// kept reports whether the record is kept from the Node.
func (s situation) kept() bool { return s.unreadable || s.otherMachine }

// missing is what the Node must get of the record by docs/design.md, section 4.
func (s situation) missing() policy.Restore {
	if s.kept() {
		return policy.Restore{}
	}
	occasion := policy.CreateByOther
	if s.byKubelet {
		occasion = policy.CreateByKubelet
	}
	have := record.Join(s.before.Labels, s.before.Spec.Taints)
	return s.policy.Missing(policy.Kept{Items: have}, policy.Kept{Items: s.record.Items()}, occasion)
}

// labelsOf are the Node's own labels and those among the items.
func (s situation) labelsOf(items ...map[string]string) map[string]string {
	labels := map[string]string{}
	maps.Copy(labels, s.before.Labels)
	for _, more := range items {
		for item, value := range more {
			if !record.IsTaint(item) {
				labels[item] = value
			}
		}
	}
	return labels
}

// requireTaintsAsDecided says which taints stand behind the Node's own, whose order requireSafe looks after.
func requireTaintsAsDecided(t *testing.T, s situation, restore policy.Restore) {
	t.Helper()
	own, stored := apart(s.before.Spec.Taints, false), apart(s.after.Spec.Taints, false)
	require.GreaterOrEqual(t, len(stored), len(own))
	taken := map[string]bool{}
	for i, taint := range own {
		taken[record.TaintKey(taint)] = true
		if value, replaced := restore.Add[record.TaintKey(taint)]; replaced {
			taint.Value = value
		}
		require.Equal(t, taint, stored[i])
	}
	var want, byRule []corev1.Taint
	put := func(taint corev1.Taint) bool {
		item := record.TaintKey(taint)
		if taken[item] {
			return false
		}
		taken[item], want = true, append(want, taint)
		return true
	}
	for item, value := range restore.Add {
		if record.IsTaint(item) {
			put(record.Taint(item, value))
		}
	}
	_, stamped := s.after.Annotations[policy.StampAnnotation]
	if final := s.labelsOf(restore.Add, restore.Protected); stamped || !policy.DefaultGate.On(s.after.Spec.Taints) {
		for _, taint := range s.policy.TaintsFor(final) {
			if put(taint) {
				byRule = append(byRule, taint)
			}
		}
		for _, taint := range s.policy.RegistrationTaints(final) {
			put(taint)
		}
	}
	require.ElementsMatch(t, want, stored[len(own):])
	if shown, is := s.after.Annotations[policy.TaintsAnnotation]; is || s.annotationBytes() < 100<<10 {
		require.Equal(t, policy.Shown(byRule), shown)
		require.Equal(t, len(byRule) > 0, is)
	}
}

// apart are the copies of the gate among the taints, or all the others.
func apart(taints []corev1.Taint, gate bool) (some []corev1.Taint) {
	for _, taint := range taints {
		if policy.DefaultGate.Is(taint) == gate {
			some = append(some, taint)
		}
	}
	return some
}

func (s situation) annotationBytes() (size int) {
	for key, annotation := range s.after.Annotations {
		size += len(key) + len(annotation)
	}
	return size
}

func requireTrueStamp(t *testing.T, s situation, restore policy.Restore) {
	t.Helper()
	value, stamped := s.after.Annotations[policy.StampAnnotation]
	if !stamped {
		require.Greater(t, s.annotationBytes(), 200<<10, "there was room for a stamp")
		return
	}
	stamp, ok := record.ParseStamp(value)
	require.True(t, ok)
	given, brought := map[string]record.Given{}, map[string]string{}
	for item, value := range restore.Add {
		given[item] = record.Given{Value: value}
	}
	for item, value := range record.Join(s.before.Labels, s.before.Spec.Taints) {
		_, remembered := s.remembered()[item]
		if _, replaced := given[item]; remembered && !replaced && !policy.DefaultGate.Is(record.Taint(item, "")) {
			brought[item] = value
		}
	}
	require.True(t, maps.Equal(given, stamp.Given), "%v and %v", given, stamp.Given)
	require.Equal(t, brought, orEmpty(stamp.Brought))
	after := record.Join(s.after.Labels, s.after.Spec.Taints)
	for key, set := range stamp.Given {
		require.Equal(t, set.Value, after[key], "the stamp says that the object has it")
	}
}

// remembered is what may be taken from the record.
func (s situation) remembered() map[string]string {
	if s.kept() {
		return nil
	}
	return s.record.Items()
}

func orEmpty(items map[string]string) map[string]string {
	if items == nil {
		return map[string]string{}
	}
	return items
}

func fuzzPolicies(t testing.TB) []policy.Policy {
	t.Helper()
	policies := []policy.Policy{policy.Default()}
	for _, sections := range []string{
		`labels: {onConflict: restoreStored}`,
		`labels: {protected: never}`,
		`labels: {protected: never, onConflict: restoreStored}`,
		`labels: {keep: ["*", "*.node-restriction.kubernetes.io/*", "node-restriction.kubernetes.io/*", "topology.kubernetes.io/zone"], onConflict: restoreStored}`,
		`labels: {keep: [dedicated], ignore: ["*.com/*"]}`,
		`labels: {keep: []}`,
		`taints: {keep: [], register: [{taint: "node-ready/a:NoSchedule"}, {taint: "maintenance=new:NoExecute", nodeSelector: dedicated}]}`,
		`taints: {rules: [{selector: dedicated=ci, taint: "maintenance=ci:NoExecute"}, {selector: dedicated, taint: "dedicated={value}:NoSchedule"}, {selector: "!dedicated", taint: "dedicated=none:NoSchedule"}]}`,
		`labels: {onConflict: restoreStored}, taints: {rules: [{selector: node-role.kubernetes.io/worker, taint: "dedicated={value}:NoExecute"}, {selector: example.com/rack, taint: "example.com/rack={value}:PreferNoSchedule"}], register: [{taint: "dedicated=unverified:NoSchedule"}]}`,
	} {
		p, err := policy.Load([]byte("{apiVersion: nodekeep.dev/v1alpha1, kind: Policy, "+sections+"}"), policy.DefaultGate)
		require.NoError(t, err)
		policies = append(policies, p)
	}
	return policies
}
