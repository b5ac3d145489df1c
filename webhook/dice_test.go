package webhook_test

import (
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"

	"nodekeep.dev/nodekeep/policy"
)

// dice turn the bytes of the fuzzer into choices; when they run out, every choice is the first.
type dice struct {
	thrown []byte
	text   string
}

// throw is a number from 0 to sides-1.
func (d *dice) throw(sides int) int {
	if len(d.thrown) == 0 {
		return 0
	}
	n := int(d.thrown[0]) % sides
	d.thrown = d.thrown[1:]
	return n
}

func oneOf[T any](d *dice, of ...T) T { return of[d.throw(len(of))] }

func (d *dice) user() authenticationv1.UserInfo {
	return oneOf(d,
		byKubelet(),
		authenticationv1.UserInfo{Username: "admin", Groups: []string{"system:masters", "system:authenticated"}},
		authenticationv1.UserInfo{Username: "system:node:" + worker},
		authenticationv1.UserInfo{Username: "kubelet", Groups: []string{"system:nodes"}},
	)
}

func (d *dice) key() string {
	return oneOf(d,
		"dedicated", "example.com/rack", "node-role.kubernetes.io/worker", "node-restriction.kubernetes.io/tier", d.text,
		"topology.kubernetes.io/zone", "bad key!", "a~1b", "example.com/a.b_c-d", "node-role.kubernetes.io/", "",
		"x.node.kubernetes.io/y", "nodekeep.dev/z", "k8s.io/a",
	)
}

func (d *dice) value() string {
	return oneOf(d, "ci", "", d.text, "not a value", strings.Repeat("v", 64))
}

// object is a Node with any part missing, null or empty, but of the right types.
func (d *dice) object() map[string]any {
	metadata := map[string]any{"name": worker}
	d.put(metadata, "labels", d.labels)
	d.put(metadata, "annotations", d.annotations)
	object := map[string]any{"kind": "Node", "apiVersion": "v1", "metadata": metadata}
	d.put(object, "spec", d.spec)
	d.put(object, "status", func() any { return map[string]any{"nodeInfo": map[string]any{"osImage": d.text}, "images": nil} })
	return object
}

// put sets a field, or leaves it out, or makes it null.
func (d *dice) put(object map[string]any, name string, value func() any) {
	switch d.throw(5) {
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
		labels[d.key()] = oneOf[any](d, d.value(), nil)
	}
	return labels
}

func (d *dice) annotations() any {
	annotations := map[string]any{}
	for range d.throw(4) {
		switch roll := d.throw(64); {
		case roll < 16:
			annotations[policy.StampAnnotation] = oneOf[any](d, `{}`, `{"given":{"dedicated":{"value":"ci"}},"brought":{"maintenance:NoExecute":"disk"}}`, d.text, nil)
		case roll > 56:
			annotations[policy.TaintsAnnotation] = oneOf[any](d, "dedicated=ci:NoSchedule", "", d.text, nil)
		case roll == 16: // seldom: it costs as much as all the rest
			annotations["example.com/long"] = strings.Repeat("n", 256<<10-d.throw(256)-len("example.com/long"))
		default:
			annotations[d.key()] = oneOf[any](d, d.text, nil)
		}
	}
	return annotations
}

func (d *dice) spec() any {
	spec := map[string]any{}
	d.put(spec, "taints", d.taints)
	d.put(spec, "podCIDRs", func() any { return []any{"10.0.0.0/24"} })
	return spec
}

func (d *dice) taints() any {
	taints := []any{}
	for range d.throw(6) {
		taints = append(taints, oneOf[any](d,
			map[string]any{"key": string(policy.DefaultGate), "effect": "NoSchedule"},
			map[string]any{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
			map[string]any{"key": string(policy.DefaultGate), "effect": "PreferNoSchedule"},
			map[string]any{"key": string(policy.DefaultGate), "effect": "NoExecute", "value": d.text, "timeAdded": "2026-03-02T09:30:00Z"},
			map[string]any{"key": "maintenance", "value": "disk", "effect": "NoExecute", "timeAdded": nil},
			map[string]any{"key": "maintenance", "value": "network", "effect": "NoExecute", "note": map[string]any{"of": "later"}},
			map[string]any{"key": "dedicated", "value": d.value(), "effect": d.effect()},
			map[string]any{"key": d.key(), "value": d.value(), "effect": d.effect()},
			map[string]any{"key": string(policy.DefaultGate)},
			map[string]any{"key": d.text, "effect": d.text, "note": "unknown"},
			nil,
			map[string]any{},
		))
	}
	return taints
}

func (d *dice) effect() string {
	return oneOf(d, "NoSchedule", "NoExecute", "PreferNoSchedule", "NoWay", d.text)
}

// versions are of keys, as a record has them.
func (d *dice) versions() any {
	versions := map[string]any{}
	for range d.throw(3) {
		versions[oneOf(d, d.key(), d.key()+":"+d.effect())] = oneOf[any](d, "7", "81234", d.text, "99999999")
	}
	return versions
}

// record is what is stored for the Node, if anything.
func (d *dice) record(t *testing.T) (data []byte, stored bool) {
	t.Helper()
	switch d.throw(8) {
	case 0:
		return nil, false
	case 1:
		return []byte(d.text), true
	default:
		record := map[string]any{"version": oneOf(d, 1, 1, 1, 1, 2, 3, 0), "node": oneOf(d, worker, worker, worker, worker, "worker-2")}
		d.put(record, "labels", d.labels)
		d.put(record, "notShown", func() any { return map[string]any{"labels": d.labels(), "taints": d.taints(), "later": d.text} })
		d.put(record, "taints", d.taints)
		d.put(record, "inherited", d.versions)
		d.put(record, "removed", d.versions)
		if d.throw(2) == 0 {
			record["uid"], record["nodeResourceVersion"] = "u1", oneOf(d, "81234", "7", d.text)
		}
		return marshal(t, record), true
	}
}
