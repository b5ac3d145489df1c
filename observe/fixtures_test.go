package observe

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"

	"nodekeep.dev/nodekeep/policy/policytest"
)

type labels = map[string]string

const worker = "node-role.kubernetes.io/worker" // no kubelet may set it

var now = time.Date(2026, 5, 1, 12, 0, 0, 700_000_000, time.UTC)

// wrote returns an entry of managedFields: who owns these items, and when it last changed one, in minutes before now. "taints"
// stands for the list of taints, "@" and a key for an annotation.
func wrote(manager string, minutesAgo int, items ...string) metav1.ManagedFieldsEntry {
	fields, owned, annotated := map[string]any{}, map[string]any{}, map[string]any{}
	for _, item := range items {
		switch item {
		case "taints":
			fields["f:spec"] = map[string]any{"f:taints": struct{}{}}
		case "unschedulable":
			fields["f:spec"] = map[string]any{"f:unschedulable": struct{}{}}
		default:
			if annotation, ok := record.Annotation(item); ok {
				annotated["f:"+annotation] = struct{}{}
			} else {
				owned["f:"+item] = struct{}{}
			}
		}
	}
	fields["f:metadata"] = map[string]any{"f:labels": owned, "f:annotations": annotated}
	raw, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	stamp := metav1.NewTime(now.Add(-time.Duration(minutesAgo) * time.Minute))
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, Time: &stamp, FieldsV1: metav1.NewFieldsV1(string(raw))}
}

// object returns a Node as the API server has it, with labels and taints by their keys.
func object(uid types.UID, version record.Version, items labels, entries ...metav1.ManagedFieldsEntry) *corev1.Node {
	annotations, taints := record.Split(items)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: uid, ResourceVersion: version.String(), Labels: annotations, ManagedFields: entries, Annotations: labels{}},
		Spec:       corev1.NodeSpec{Taints: taints},
	}
}

func cordoned(item *corev1.Node) *corev1.Node {
	item.Spec.Unschedulable = true
	return item
}

// stamped returns the object with a stamp.
func stamped(item *corev1.Node, stamp record.Stamp) *corev1.Node {
	item.Annotations[policy.StampAnnotation] = stamp.String()
	return item
}

// given returns a stamp of values that nodekeep set in the CREATE.
func given(items labels) record.Stamp { return record.Stamp{}.Merge(items, record.Record{}, 0) }

// loaded returns a policy with these sections.
func loaded(t *testing.T, sections string) policy.Policy {
	t.Helper()
	p, err := policy.Load([]byte(policytest.Manifest(sections)), policy.DefaultGate)
	require.NoError(t, err)
	return p
}

// remembering returns a record of an object that showed these items.
func remembering(uid types.UID, version record.Version, items labels) record.Record {
	return record.New("n1", record.Object{UID: uid, Version: version}, items)
}

// parsed returns taints as kubectl taint writes them.
func parsed(texts ...string) (taints []corev1.Taint) {
	for _, text := range texts {
		taints = append(taints, policy.DerivedTaints(text)...)
	}
	return taints
}

// inMemory returns what each way of holding a Node has of it.
func inMemory(item *corev1.Node) map[string]*Node {
	return map[string]*Node{"as it was read": FromNode(item), "from memory": CompactNodeOf(FromNode(item)).Node()}
}

// merged returns the record after the Node was observed.
func merged(t *testing.T, r record.Record, n *Node, p policy.Policy) record.Record {
	t.Helper()
	current, transition := n.Transition(r, p, now)
	require.Equal(t, policy.Stays, transition)
	return n.Merge(current, n.Observation(current, p, true), p, now)
}
