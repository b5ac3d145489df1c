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

	"nodekeep.dev/nodekeep/policy/policytest"
)

// dice turn bytes into choices; when they run out, every choice is the first.
type dice struct {
	thrown []byte
	text   string
	wild   bool // text and anything odd may stand anywhere; else few keys and few values meet often
}

// diceOf returns dice that a random source has thrown.
func diceOf(seed, number uint64, count int, text string) *dice {
	random, thrown := rand.New(rand.NewPCG(seed, number)), make([]byte, count)
	for i := range thrown {
		thrown[i] = byte(random.Uint32())
	}
	return &dice{thrown: thrown, text: text}
}

// throw returns a number from 0 to sides-1.
func (d *dice) throw(sides int) int {
	if len(d.thrown) == 0 {
		return 0
	}
	n := int(d.thrown[0]) % sides
	d.thrown = d.thrown[1:]
	return n
}

// in is true once in so many throws.
func (d *dice) in(sides int) bool { return d.throw(sides) == sides-1 }

func oneOf[T any](d *dice, item ...T) T { return item[d.throw(len(item))] }

// situation returns a Node that has registered under one of the policies.
func (d *dice) situation(t *testing.T, policies []drawnPolicy) situation {
	t.Helper()
	d.wild = d.in(3)
	p, user, known, extra := policies[d.throw(len(policies))], d.user(), &records{}, d.in(3)
	if d.in(4) {
		known.age = 2 * webhook.StaleAfter
	}
	data := d.record(t, extra)
	if data != nil {
		known.Tamper(worker, data)
	}
	request := creation(user, marshal(t, d.object()))
	h := newHook(known, p.Policy)

	tail := requireSafe(t, request, h.review(t, bodyOf(t, request)))

	requireSettled(t, h, request, tail)
	entry, err := known.Get(worker)
	protects := slices.ContainsFunc(entry.Record.Entries, func(e record.Entry) bool { return !e.Removed && p.Restores(e.Key) })
	return situation{
		old: typed(t, request.Object.Raw), updated: typed(t, tail), policy: p.Policy, replaces: p.replaces, record: entry.Record,
		byKubelet: user.Username != "admin", current: known.age == 0,
		unreadable: errors.Is(err, store.ErrUnreadable), otherMachine: data != nil && err == nil && extra && p.quarantines && protects,
	}
}

func (d *dice) user() authenticationv1.UserInfo {
	return oneOf(d,
		byKubelet(),
		authenticationv1.UserInfo{Username: "admin", Groups: []string{"system:masters", "system:authenticated"}},
		authenticationv1.UserInfo{Username: "system:node:" + worker},
		authenticationv1.UserInfo{Username: "kubelet", Groups: []string{"system:nodes"}},
	)
}

func (d *dice) key() string {
	if !d.wild || d.in(2) {
		return oneOf(d, "dedicated", "maintenance", "example.com/rack", "node-role.kubernetes.io/infra")
	}
	return oneOf(d,
		"node-restriction.kubernetes.io/tier", d.text, "topology.kubernetes.io/zone", "bad key!", "a~1b", "example.com/a.b_c-d",
		"node-role.kubernetes.io/", "", "x.node.kubernetes.io/y", "nodekeep.dev/z", "k8s.io/a",
	)
}

func (d *dice) value() any {
	if d.wild {
		return oneOf[any](d, "ci", "", d.text, "not a value", strings.Repeat("v", 64), nil)
	}
	return oneOf[any](d, "", "a", "b")
}

func (d *dice) effect() string {
	if d.wild && d.in(4) {
		return oneOf(d, "NoWay", d.text)
	}
	return oneOf(d, "NoSchedule", "NoExecute", "PreferNoSchedule")
}

// object returns a Node with any part missing, null or empty, but of the right types.
func (d *dice) object() map[string]any {
	metadata := map[string]any{"name": worker}
	d.put(metadata, "labels", d.labels)
	d.put(metadata, "annotations", d.annotations)
	object := map[string]any{"kind": "Node", "apiVersion": "v1", "metadata": metadata}
	d.put(object, "spec", d.spec)
	if d.in(12) { // no room for a stamp, and a gate that may have to stay
		metadata["annotations"] = map[string]any{"example.com/full": strings.Repeat("x", 262_100)}
		if d.in(2) {
			object["spec"] = map[string]any{"taints": []any{policy.DefaultGate.Taint()}}
		}
	}
	object["status"] = map[string]any{"nodeInfo": map[string]any{"systemUUID": "machine-1", "osImage": d.text}, "images": nil}
	return object
}

// put sets a field, or leaves it out, or makes it null.
func (d *dice) put(object map[string]any, name string, value func() any) {
	switch d.throw(10) {
	case 0:
	case 1:
		object[name] = nil
	default:
		object[name] = value()
	}
}

func (d *dice) labels() any {
	labels := map[string]any{}
	for range d.throw(5) {
		labels[d.key()] = d.value()
	}
	return labels
}

func (d *dice) annotations() any {
	annotations := map[string]any{}
	if d.in(2) {
		annotations[policy.StampAnnotation] = oneOf[any](d, `{}`, `{"given":{"dedicated":{"value":"ci"}},"brought":{"maintenance:NoExecute":"disk"}}`, d.text, nil)
	}
	if d.in(2) {
		annotations[policy.TaintsAnnotation] = oneOf[any](d, "dedicated=forged:NoSchedule", "", d.text, nil)
	}
	if d.wild {
		annotations[d.key()] = oneOf[any](d, d.text, nil)
	}
	if d.in(3) {
		annotations[d.annotation()] = d.value()
	}
	return annotations
}

func (d *dice) annotation() string {
	return oneOf(d, "kept.io/a", "kept.io/b", "kept.kubernetes.io/c", "other.io/a", "volumes.kubernetes.io/a", d.text)
}

func (d *dice) rememberedAnnotations() any {
	annotations := map[string]any{}
	for range d.throw(4) {
		annotations[d.annotation()] = oneOf[any](d, "", "a", d.text, strings.Repeat("<", 8000), strings.Repeat("v", 9000), nil)
	}
	return annotations
}

func (d *dice) spec() any {
	spec := map[string]any{}
	d.put(spec, "taints", d.taints)
	d.put(spec, "podCIDRs", func() any { return []any{"10.0.0.0/24"} })
	return spec
}

// taints returns a list as a client may have written it: every other one that is not wild is such as the API server takes.
func (d *dice) taints() any {
	valid, taken, taints := !d.wild && d.in(2), map[string]bool{}, []any{}
	for range d.throw(6) {
		if d.wild && d.in(3) {
			taints = append(taints, oneOf[any](d, nil, map[string]any{}, map[string]any{"key": string(policy.DefaultGate)},
				map[string]any{"key": d.text, "effect": d.text, "note": "unknown"},
				map[string]any{"key": "maintenance", "value": "network", "effect": "NoExecute", "note": map[string]any{"of": "later"}}))
			continue
		}
		taint := map[string]any{"key": oneOf(d, d.key(), d.key(), string(policy.DefaultGate), "node.kubernetes.io/not-ready"), "effect": d.effect()}
		if value := d.value(); value != "" {
			taint["value"] = value
		}
		if d.in(6) {
			taint["timeAdded"] = oneOf[any](d, "2026-03-02T09:30:00Z", nil)
		}
		if !valid && d.in(3) {
			taint[oneOf(d, "key", "value", "effect")] = "not valid!"
		}
		name := fmt.Sprint(taint["key"], taint["effect"])
		if !valid || !taken[name] {
			taints = append(taints, taint)
		}
		taken[name] = true
	}
	return taints
}

// versions are of keys, as a record has them.
func (d *dice) versions() any {
	versions := map[string]any{}
	for range d.throw(3) {
		versions[oneOf(d, d.key(), d.key()+":"+d.effect())] = oneOf[any](d, "7", "81234", d.text, "99999999")
	}
	return versions
}

// record returns what is stored for the Node, if anything.
func (d *dice) record(t *testing.T, ofAnother bool) []byte {
	t.Helper()
	switch d.throw(12) {
	case 0:
		return nil
	case 1:
		return []byte(d.text)
	case 2:
		return []byte(`{"version":1,"node":"worker-1","labels":{"dedicated":"ci"},"taints":{}}`)
	}
	record := map[string]any{"version": 1, "node": worker, "machine": map[string]any{"systemUUID": "machine-1"}}
	if ofAnother {
		record["machine"] = map[string]any{"systemUUID": "machine-2"}
	}
	if d.wild {
		record["version"], record["node"] = oneOf(d, 1, 1, 1, 2, 3, 0), oneOf(d, worker, worker, worker, "worker-2")
	}
	d.put(record, "labels", d.labels)
	d.put(record, "notShown", func() any { return map[string]any{"labels": d.labels(), "taints": d.taints(), "later": d.text} })
	d.put(record, "taints", d.taints)
	d.put(record, "annotations", d.rememberedAnnotations)
	if d.in(2) {
		d.put(record, "inherited", d.versions)
		d.put(record, "removed", d.versions)
		record["uid"], record["nodeResourceVersion"] = "u1", oneOf(d, "81234", "7", d.text)
	}
	return marshal(t, record)
}

// drawnPolicy is a policy, and what the tests must know of it.
type drawnPolicy struct {
	policy.Policy
	replaces    string // labels.onConflict
	quarantines bool
}

// drawPolicies loads policies of all kinds, the default first; rules that cannot be together are thrown again.
func drawPolicies(t testing.TB, seed uint64) []drawnPolicy {
	t.Helper()
	const keepOwned = `["*", "*.node-restriction.kubernetes.io/*", "node-restriction.kubernetes.io/*", "topology.kubernetes.io/zone"]`
	drawn := []drawnPolicy{{Policy: policy.Default()}}
	for number := uint64(0); len(drawn) < 200; number++ {
		require.Less(t, number, uint64(20_000), "no policy is valid")
		d := diceOf(seed, number, 256, "")
		next := drawnPolicy{replaces: oneOf(d, "keepNode", "restoreStored"), quarantines: d.in(4)}
		sections := fmt.Sprintf("labels: {onConflict: %s, protected: %s, keep: %s, ignore: %s}\n", next.replaces,
			oneOf(d, "deferred", "deferred", "deferred", "never"), oneOf(d, `["*"]`, `["*"]`, `["*"]`, `["*"]`, keepOwned, "[dedicated]", "[]"), oneOf(d, "[]", "[]", `["*.com/*"]`))
		if d.in(2) {
			sections += "annotations: [\"kept.io/*\", \"*.kubernetes.io/*\"]\n"
		}
		if next.quarantines {
			sections += "machine: {onMismatch: quarantine}\n"
		}
		sections += "taints:\n  keep: " + oneOf(d, `["*"]`, `["*"]`, `[maintenance, "example.com/*", node.kubernetes.io/not-ready]`, "[]")
		sections += "\n  ignore: " + oneOf(d, "[]", "[]", "[maintenance]") + "\n  rules:\n"
		for range d.throw(5) {
			sections += fmt.Sprintf("  - {selector: %q, taint: %q}\n", d.selector(), d.written(oneOf(d, "", "a", "b", "{value}")))
		}
		sections += "  register:\n"
		for range d.throw(3) {
			taint := d.written(oneOf(d, "", "a"))
			sections += fmt.Sprintf("  - {nodeSelector: %q, taint: %q, onReboot: %t}\n", oneOf(d, "", d.selector()), taint, d.in(2) && !strings.HasSuffix(taint, ":NoExecute"))
		}
		var err error
		if next.Policy, err = policy.Load([]byte(policytest.Manifest(sections)), policy.DefaultGate); err == nil {
			drawn = append(drawn, next)
		}
	}
	return drawn
}

func (d *dice) selector() string {
	key := d.key()
	return oneOf(d, key, key, key+"=a", key+"!=a", "!"+key, key+" in (a, b)")
}

func (d *dice) written(value string) string {
	return strings.Replace(d.key()+"="+value+":"+d.effect(), "=:", ":", 1)
}
