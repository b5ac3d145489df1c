package webhook_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/webhook"
)

// The dice of the fuzzer throw anything. Here chance stays where taints meet: few keys, few values, valid for the most part.
func TestTaintsHoldForManyNodes(t *testing.T) {
	t.Parallel()
	const enough, most = 1500, 20 * 1500 // Nodes; more than enough only while a sight was not seen often
	seed := rand.Uint64()                // one that failed is run again by writing it in here
	seen := map[string]int{}
	for number := uint64(0); number < enough || rare(seen) != "" && number < most; number++ {
		func() {
			defer func() {
				if t.Failed() {
					t.Logf("seed %d, Node number %d", seed, number)
				}
			}()
			s := chance{rand.New(rand.NewPCG(seed, number))}.situation(t)
			requireAsDecided(t, s)
			requireTaintsAsPromised(t, s)
			s.count(seen)
		}()
		if t.Failed() {
			return
		}
	}
	require.Empty(t, rare(seen), "hardly ever seen; seed %d, seen %v", seed, seen)
}

// rare names a sight that was not seen often enough to show anything, if there is one.
func rare(seen map[string]int) string {
	for _, sight := range []string{
		"valid", "invalid", "gated", "given", "replaced", "brought", "by rule", "by rule behind the gate", "unstamped",
		"by rule although nothing may be taken from the record", "once", "a rule kept out", "left to capture",
	} {
		if seen[sight] <= 5 {
			return sight
		}
	}
	return ""
}

// requireTaintsAsPromised says what nobody may ever find otherwise, whatever was decided.
func requireTaintsAsPromised(t *testing.T, s situation) {
	t.Helper()
	if len(mistakes(s.before)) == 0 {
		require.Empty(t, mistakes(s.after), "the API server would have taken the Node without us")
	}
	own, stored := record.Join(nil, s.before.Spec.Taints), record.Join(nil, s.after.Spec.Taints)
	for item, value := range own {
		if is, there := stored[item]; there && is != value {
			require.Contains(t, s.replaces, "restoreStored")
			require.Equal(t, s.remembered()[item], is)
		}
	}
	_, stamped := s.after.Annotations[policy.StampAnnotation]
	if policy.DefaultGate.On(s.after.Spec.Taints) && !stamped {
		require.Empty(t, s.after.Annotations[policy.TaintsAnnotation])
		return
	}
	for _, wanted := range s.policy.TaintsFor(s.labelsOf(s.after.Labels, s.missing().Protected)) {
		item := record.TaintKey(wanted)
		require.Contains(t, stored, item, "a rule wants it")
		if _, brought := own[item]; !brought && stored[item] != wanted.Value {
			require.Equal(t, s.remembered()[item], stored[item], "another value, and nobody put it there")
		}
	}
}

// count notes what the situation is an example of, so that a test of nothing is seen to be one.
func (s situation) count(seen map[string]int) {
	stamp, stamped := record.ParseStamp(s.after.Annotations[policy.StampAnnotation])
	gated, shown := policy.DefaultGate.On(s.after.Spec.Taints), s.after.Annotations[policy.TaintsAnnotation] != ""
	own := record.Join(nil, s.before.Spec.Taints)
	var given, brought, replaced, keptOut, once bool
	for item := range stamp.Given {
		_, was := own[item]
		given, replaced = given || record.IsTaint(item), replaced || was
	}
	for item := range stamp.Brought {
		brought = brought || record.IsTaint(item)
	}
	derived := policy.DerivedTaints(s.after.Annotations[policy.TaintsAnnotation])
	final := s.labelsOf(s.after.Labels, s.missing().Protected)
	for _, wanted := range s.policy.TaintsFor(final) {
		keptOut = keptOut || stamped && !slices.Contains(derived, wanted)
	}
	for _, wanted := range s.policy.RegistrationTaints(final) {
		_, was := own[record.TaintKey(wanted)]
		once = once || stamped && !was
	}
	for sight, is := range map[string]bool{
		"valid":                   len(mistakes(s.before)) == 0,
		"invalid":                 len(mistakes(s.before)) > 0,
		"gated":                   gated,
		"given":                   given,
		"replaced":                replaced,
		"brought":                 brought,
		"by rule":                 shown,
		"by rule behind the gate": shown && gated,
		"unstamped":               !stamped,
		"by rule although nothing may be taken from the record": shown && s.kept(),
		"once":            once,
		"a rule kept out": keptOut,
		"left to capture": gated && !stamped && len(s.policy.TaintsFor(final)) > 0,
	} {
		if is {
			seen[sight]++
		}
	}
}

// chance makes a Node that registers, and what there is to know of it.
type chance struct{ *rand.Rand }

func (c chance) in(n int) bool { return c.IntN(n) == 0 }

func pick[T any](c chance, of ...T) T { return of[c.IntN(len(of))] }

// situation is a Node that has registered.
func (c chance) situation(t *testing.T) situation {
	t.Helper()
	s := situation{current: !c.in(4), unreadable: c.in(12), replaces: pick(c, "keepNode", "restoreStored"), byKubelet: !c.in(4)}
	var quarantine bool
	s.policy, quarantine = c.policy(t, s.replaces)
	known, remembersAnother := &records{}, c.in(3)
	if !s.current {
		known.age = 2 * webhook.StaleAfter
	}
	switch {
	case s.unreadable:
		known.Tamper(worker, []byte(`{"version":1,"node":"worker-1","labels":{"dedicated":"ci"},"taints":{}}`))
	case !c.in(8):
		known.Tamper(worker, marshal(t, c.record(remembersAnother)))
		s.otherMachine = quarantine && remembersAnother
	}
	user := byKubelet()
	if !s.byKubelet {
		user = authenticationv1.UserInfo{Username: "admin", Groups: []string{"system:masters"}}
	}
	request := creation(user, marshal(t, c.node()))
	h := newHook(known, s.policy)

	after := requireSafe(t, request, h.review(t, bodyOf(t, request)))

	requireSettled(t, h, request, after)
	s.before, s.after = typed(t, request.Object.Raw), typed(t, after)
	entry, err := known.Get(worker)
	require.Equal(t, s.unreadable, errors.Is(err, store.ErrUnreadable))
	s.record = entry.Record
	return s
}

// policy has rules and registration taints; those that cannot be together are thrown again.
func (c chance) policy(t *testing.T, onConflict string) (p policy.Policy, quarantine bool) {
	t.Helper()
	quarantine = c.in(4)
	for range 1000 {
		file := "apiVersion: nodekeep.dev/v1alpha1\nkind: Policy\nlabels: {onConflict: " + onConflict + "}\n"
		if quarantine {
			file += "machine: {onMismatch: quarantine}\n"
		}
		file += "taints:\n  keep: " + pick(c, `["*"]`, `["*"]`, `[maintenance, "example.com/*", node.kubernetes.io/not-ready]`, "[]")
		file += "\n  ignore: " + pick(c, "[]", "[]", "[maintenance]") + "\n  rules:\n"
		for range c.IntN(5) {
			file += fmt.Sprintf("  - {selector: %q, taint: %q}\n", c.selector(), c.written(pick(c, "", "a", "b", "{value}")))
		}
		file += "  register:\n"
		for range c.IntN(3) {
			file += fmt.Sprintf("  - {nodeSelector: %q, taint: %q}\n", pick(c, "", c.selector()), c.written(pick(c, "", "a")))
		}
		var err error
		if p, err = policy.Load([]byte(file), policy.DefaultGate); err == nil {
			return p, quarantine
		}
	}
	t.Fatal("no policy is valid")
	return p, quarantine
}

func (c chance) selector() string {
	key := c.labelKey()
	return pick(c, key, key, key+"=a", key+"!=a", "!"+key, key+" in (a, b)")
}

func (c chance) written(value string) string {
	return strings.Replace(c.taintKey()+"="+value+":"+c.effect(), "=:", ":", 1)
}

func (c chance) labelKey() string {
	return pick(c, "dedicated", "team", "example.com/rack", "node-role.kubernetes.io/infra")
}

func (c chance) taintKey() string {
	return pick(c, "dedicated", "maintenance", "example.com/rack", "node-role.kubernetes.io/infra")
}

func (c chance) effect() string { return pick(c, "NoSchedule", "PreferNoSchedule", "NoExecute") }

func (c chance) value() string { return pick(c, "", "a", "b") }

func (c chance) labels() map[string]any {
	labels := map[string]any{}
	for range c.IntN(4) {
		labels[c.labelKey()] = c.value()
	}
	return labels
}

// taints are a list as somebody may have written it: every other one is such as the API server takes.
func (c chance) taints() []any {
	valid, taken := c.in(2), map[string]bool{}
	taints := []any{}
	for range c.IntN(6) {
		taint := map[string]any{"key": pick(c, c.taintKey(), c.taintKey(), string(policy.DefaultGate), "node.kubernetes.io/not-ready"), "effect": c.effect()}
		if value := c.value(); value != "" {
			taint["value"] = value
		}
		if c.in(6) {
			taint["timeAdded"] = "2026-03-02T09:30:00Z"
		}
		if !valid && c.in(3) {
			taint[pick(c, "key", "value", "effect")] = "not valid!"
		}
		name := fmt.Sprint(taint["key"], taint["effect"])
		if !valid || !taken[name] {
			taints = append(taints, taint)
		}
		taken[name] = true
	}
	return taints
}

// node has any of its parts, or has them empty, or null.
func (c chance) node() map[string]any {
	metadata := map[string]any{"name": worker}
	if !c.in(6) {
		metadata["labels"] = pick[any](c, nil, c.labels(), c.labels(), c.labels())
	}
	if !c.in(3) {
		metadata["annotations"] = pick[any](c, nil, map[string]any{}, map[string]any{"example.com/note": "x"}, map[string]any{
			policy.TaintsAnnotation: pick(c, "", "dedicated=forged:NoSchedule"),
			policy.StampAnnotation:  `{"given":{"maintenance:NoExecute":{"value":"a"}}}`,
		})
	}
	if c.in(20) { // no room for a stamp
		metadata["annotations"] = map[string]any{"example.com/full": strings.Repeat("x", 262_100)}
	}
	node := map[string]any{"kind": "Node", "apiVersion": "v1", "metadata": metadata, "status": map[string]any{"nodeInfo": map[string]any{"systemUUID": "machine-1"}}}
	if !c.in(8) {
		node["spec"] = pick[any](c, nil, map[string]any{}, map[string]any{"podCIDR": "10.0.0.0/24", "taints": nil},
			map[string]any{"taints": c.taints()}, map[string]any{"taints": c.taints()}, map[string]any{"taints": c.taints()}, map[string]any{"taints": c.taints()})
	}
	return node
}

func (c chance) record(ofAnother bool) map[string]any {
	record := map[string]any{
		"version": 1, "node": worker, "labels": c.labels(), "taints": c.taints(),
		"notShown": map[string]any{"labels": c.labels(), "taints": c.taints()},
		"machine":  map[string]any{"systemUUID": "machine-1"},
	}
	if ofAnother {
		record["machine"] = map[string]any{"systemUUID": "machine-2"}
	}
	if c.in(3) {
		record["uid"], record["nodeResourceVersion"] = "u1", "81234"
		record["removed"] = map[string]any{c.labelKey(): "81230", c.taintKey() + ":" + c.effect(): "81234"}
		record["inherited"] = map[string]any{c.labelKey(): "81000"}
	}
	return record
}
