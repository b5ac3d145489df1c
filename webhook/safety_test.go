package webhook_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/record"
)

// requireSafe holds an answer to what the package promises, whatever the object was: the API server takes it, it changes
// nothing that is not ours, and it adds no error to the object. It returns the object as it will be stored.
func requireSafe(t testing.TB, request *admissionv1.AdmissionRequest, response *admissionv1.AdmissionResponse) (tail []byte) {
	t.Helper()
	require.True(t, response.Allowed)
	require.Equal(t, request.UID, response.UID)
	if response.Patch == nil {
		require.Nil(t, response.PatchType)
		return request.Object.Raw
	}
	tail = applied(t, request.Object.Raw, response)
	requireOnlyOursChanged(t, request.Object.Raw, tail)
	prev, result := typed(t, request.Object.Raw), typed(t, tail)
	absent := policy.RuleLabelsOf(result.Annotations[policy.LabelsAnnotation])
	maps.DeleteFunc(absent, func(_ string, label record.RuleLabel) bool { return !label.Absent })
	requireTaintsStay(t, request.Object.Raw, tail, absent)
	requireOwnersStay(t, prev, result)
	require.False(t, prev.Spec.Unschedulable && !result.Spec.Unschedulable, "a cordon was removed")
	for key, value := range prev.Labels {
		if absent[key].Absent {
			require.NotContains(t, result.Labels, key)
			continue
		}
		require.Contains(t, result.Labels, key, "a label was removed")
		if result.Labels[key] != value {
			require.True(t, record.Valid(key, result.Labels[key]))
		}
	}
	requireNoNewMistakes(t, prev, result)
	if slices.Contains(request.UserInfo.Groups, "system:nodes") {
		requireKubeletMay(t, prev.Labels, result.Labels)
	}
	return tail
}

// applied returns the object after the patch, done as in the API server (plugin/webhook/mutating of k8s.io/apiserver).
func applied(t testing.TB, object []byte, response *admissionv1.AdmissionResponse) []byte {
	t.Helper()
	require.NotNil(t, response.PatchType)
	require.Equal(t, admissionv1.PatchTypeJSONPatch, *response.PatchType)
	patch, err := jsonpatch.DecodePatch(response.Patch)
	require.NoError(t, err)
	require.NotEmpty(t, patch, "a patch without operations")
	tail, err := patch.Apply(object)
	require.NoErrorf(t, err, "patch %s does not apply to %s", response.Patch, object)
	return tail
}

// typed decodes a Node as the API server does.
func typed(t testing.TB, object []byte) *corev1.Node {
	t.Helper()
	var node corev1.Node
	require.NoError(t, kjson.UnmarshalCaseSensitivePreserveInts(object, &node))
	return &node
}

// requireOnlyOursChanged compares the status byte by byte, and the rest less what is ours value by value.
func requireOnlyOursChanged(t testing.TB, head, tail []byte) {
	t.Helper()
	old, changed := fieldsOf(t, head), fieldsOf(t, tail)
	require.Equal(t, string(old["status"]), string(changed["status"]))
	require.Equal(t, withoutOurs(t, head), withoutOurs(t, withoutRestoredAnnotations(t, head, tail)))
}

// withoutRestoredAnnotations returns the object after the patch less annotations that are new and that the stamp lists.
func withoutRestoredAnnotations(t testing.TB, head, tail []byte) []byte {
	t.Helper()
	stamp, _ := record.ParseStamp(typed(t, tail).Annotations[policy.StampAnnotation])
	var operations []string
	for key := range stamp.Given {
		annotation, ok := record.Annotation(key)
		if !ok {
			continue
		}
		if _, brought := typed(t, head).Annotations[annotation]; !brought {
			operations = append(operations, fmt.Sprintf(`{"op":"remove","path":%q}`, "/metadata/annotations/"+strings.ReplaceAll(annotation, "/", "~1")))
		}
	}
	if operations == nil {
		return tail
	}
	patch, err := jsonpatch.DecodePatch([]byte("[" + strings.Join(operations, ",") + "]"))
	require.NoError(t, err)
	rest, err := patch.Apply(tail)
	require.NoError(t, err)
	return rest
}

// fieldsOf returns the top fields of an object, each in the one way that encoding/json writes it.
func fieldsOf(t testing.TB, object []byte) map[string]json.RawMessage {
	t.Helper()
	var fields map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(object, &fields))
	for name, value := range fields {
		fields[name] = marshal(t, value)
	}
	return fields
}

// withoutOurs returns an object less what a patch may touch: the labels, our annotations, a cordon, the taints, see [requireTaintsStay], and the
// owners, see [requireOwnersStay]. What holds nothing then is as good as absent.
func withoutOurs(t testing.TB, object []byte) map[string]any {
	t.Helper()
	var rest map[string]any
	require.NoError(t, kjson.UnmarshalCaseSensitivePreserveInts(object, &rest))
	if metadata, ok := rest["metadata"].(map[string]any); ok {
		delete(metadata, "labels")
		delete(metadata, "managedFields")
		if annotations, ok := metadata["annotations"].(map[string]any); ok {
			maps.DeleteFunc(annotations, func(key string, _ any) bool { return strings.HasPrefix(key, "nodekeep.dev/") })
		}
		dropEmpty(metadata, "annotations")
	}
	if spec, ok := rest["spec"].(map[string]any); ok {
		delete(spec, "taints")
		if cordoned, ok := spec["unschedulable"].(bool); ok && cordoned {
			delete(spec, "unschedulable")
		}
	}
	dropEmpty(rest, "spec")
	return rest
}

// requireOwnersStay says that managedFields keep what they had, and gain no owner but those that the stamp lists.
func requireOwnersStay(t testing.TB, prev, updated *corev1.Node) {
	t.Helper()
	if reflect.DeepEqual(prev.ManagedFields, updated.ManagedFields) {
		return
	}
	stamp, _ := record.ParseStamp(updated.Annotations[policy.StampAnnotation])
	require.GreaterOrEqual(t, len(updated.ManagedFields), len(prev.ManagedFields), "an owner was removed")
	for i, entry := range updated.ManagedFields {
		current, old := fieldsOwned(t, entry), fieldpath.NewSet()
		if i < len(prev.ManagedFields) {
			former := prev.ManagedFields[i]
			old = fieldsOwned(t, former)
			require.True(t, old.Difference(current).Empty(), "an owner has lost a field")
			former.FieldsV1, entry.FieldsV1 = nil, nil
			require.Equal(t, former, entry)
		}
		owner := record.Manager{Name: entry.Manager, Operation: string(entry.Operation), Subresource: entry.Subresource}
		current.Difference(old).Iterate(func(path fieldpath.Path) {
			key := *path[len(path)-1].FieldName
			if path.String() == ".metadata.annotations."+key {
				key = record.AnnotationKey(key)
			} else {
				require.Equal(t, ".metadata.labels."+key, path.String())
			}
			require.Contains(t, stamp.Given[key].Owners.Managers(), owner)
		})
	}
}

func fieldsOwned(t testing.TB, entry metav1.ManagedFieldsEntry) *fieldpath.Set {
	t.Helper()
	fields := fieldpath.NewSet()
	require.NoError(t, fields.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes())))
	return fields
}

// requireTaintsStay says that the taints which an object brought are still there, in their order and with all their fields,
// also those that this version does not know; only copies of the gate and what rules remove may be gone, and values may be others. What is new
// stands behind them, is no more than a taint that the API server takes, and doubles none.
func requireTaintsStay(t testing.TB, head, tail []byte, absent map[string]record.RuleLabel) {
	t.Helper()
	brought, stored := taintsOf(t, head), taintsOf(t, tail)
	removed := func(taint map[string]any) bool { return absent[fmt.Sprint(taint["key"], ":", taint["effect"])].Absent }
	require.False(t, slices.ContainsFunc(stored, removed))
	brought = slices.DeleteFunc(brought, removed)
	require.GreaterOrEqual(t, len(stored), len(brought), "a taint was removed")
	taken := map[[2]any]bool{}
	for i, taint := range brought {
		if taint == nil {
			require.Nil(t, stored[i])
			continue
		}
		value, replaced := stored[i]["value"]
		if prev, ok := taint["value"]; ok != replaced || prev != value {
			require.Contains(t, stored[i], "value", "a value was removed")
			require.True(t, record.Valid(fmt.Sprint(taint["key"], ":", taint["effect"]), fmt.Sprint(value)))
		}
		require.Equal(t, withoutField(taint, "value"), withoutField(stored[i], "value"))
		taken[[2]any{taint["key"], taint["effect"]}] = true
	}
	for _, taint := range stored[len(brought):] {
		name := [2]any{taint["key"], taint["effect"]}
		require.NotContains(t, taken, name, "a taint was doubled")
		taken[name] = true
		require.Empty(t, withoutField(withoutField(withoutField(taint, "key"), "value"), "effect"))
		require.True(t, record.Valid(fmt.Sprint(name[0], ":", name[1]), fmt.Sprint(cmp.Or(taint["value"], any("")))))
	}
}

// taintsOf returns the taints of an object less the gate, as they stand there.
func taintsOf(t testing.TB, object []byte) []map[string]any {
	t.Helper()
	var node struct {
		Spec struct {
			Taints []map[string]any `json:"taints"`
		} `json:"spec"`
	}
	require.NoError(t, kjson.UnmarshalCaseSensitivePreserveInts(object, &node))
	return slices.DeleteFunc(node.Spec.Taints, func(taint map[string]any) bool { return taint["key"] == string(policy.DefaultGate) })
}

func withoutField(fields map[string]any, name string) map[string]any {
	rest := maps.Clone(fields)
	delete(rest, name)
	return rest
}

func dropEmpty(object map[string]any, name string) {
	switch value := object[name].(type) {
	case nil:
		delete(object, name)
	case []any:
		if len(value) == 0 {
			delete(object, name)
		}
	case map[string]any:
		if len(value) == 0 {
			delete(object, name)
		}
	}
}

// requireNoNewMistakes says that the API server finds nothing wrong that it would not have found without us.
func requireNoNewMistakes(t testing.TB, prev, updated *corev1.Node) {
	t.Helper()
	known := mistakes(prev)
	for _, mistake := range mistakes(updated) {
		require.Contains(t, known, mistake)
	}
}

// mistakes returns the errors that the API server's validation would find in the parts that we touch (ValidateNode of k8s.io/kubernetes).
func mistakes(node *corev1.Node) []string {
	errs := metavalidation.ValidateLabels(node.Labels, field.NewPath("labels"))
	errs = append(errs, apivalidation.ValidateAnnotations(node.Annotations, field.NewPath("annotations"))...)
	var found []string
	for _, err := range errs {
		found = append(found, err.Error())
	}
	seen := map[corev1.Taint]bool{}
	for _, taint := range node.Spec.Taints {
		found = append(found, mistakesInTaint(taint)...)
		match := corev1.Taint{Key: taint.Key, Effect: taint.Effect}
		if seen[match] {
			found = append(found, fmt.Sprintf("taint %s:%s is there twice", taint.Key, taint.Effect))
		}
		seen[match] = true
	}
	return found
}

func mistakesInTaint(taint corev1.Taint) (found []string) {
	for _, message := range slices.Concat(validation.IsQualifiedName(taint.Key), validation.IsValidLabelValue(taint.Value)) {
		found = append(found, fmt.Sprintf("taint %q=%q: %s", taint.Key, taint.Value, message))
	}
	switch taint.Effect {
	case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
	default:
		found = append(found, fmt.Sprintf("taint %q has effect %q", taint.Key, taint.Effect))
	}
	return found
}

// requireKubeletMay says that NodeRestriction will not find a label that a kubelet may not set and did not bring.
func requireKubeletMay(t testing.TB, prev, next map[string]string) {
	t.Helper()
	for _, key := range slices.Sorted(maps.Keys(next)) {
		if value, brought := prev[key]; !brought || value != next[key] {
			require.Truef(t, policy.AllowedForKubelet(key), "label %s on a kubelet's CREATE keeps the Node out", key)
		}
	}
}

// requireSettled says that the object as it will be stored, sent again, is left as it is. Only of taints the second answer
// may differ, for now the object brings them itself; that one then stays.
func requireSettled(t testing.TB, h *hook, request *admissionv1.AdmissionRequest, tail []byte) {
	t.Helper()
	reread := *request
	reread.Object.Raw = tail
	reported := requireSafe(t, &reread, h.review(t, bodyOf(t, &reread)))
	first, second := typed(t, tail), typed(t, reported)
	require.Equal(t, first.Labels, second.Labels)
	require.Equal(t, first.Spec.Taints, second.Spec.Taints)
	prev, stamped := record.ParseStamp(first.Annotations[policy.StampAnnotation])
	current, stampedAgain := record.ParseStamp(second.Annotations[policy.StampAnnotation])
	if stamped && stampedAgain {
		require.Empty(t, current.Given)
		require.Subset(t, keysOf(current), keysOf(prev), "what it was given it brings now")
	}
	if stamped == stampedAgain && prev.String() == current.String() && first.Annotations[policy.TaintsAnnotation] == "" && first.Annotations[policy.LabelsAnnotation] == "" {
		require.Equal(t, string(tail), string(reported), "the second patch")
	}
	reread.Object.Raw = reported
	require.Empty(t, string(h.review(t, bodyOf(t, &reread)).Patch), "the third patch")
}

func keysOf(stamp record.Stamp) []string {
	return slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Keys(stamp.Given)), slices.Collect(maps.Keys(stamp.Brought)))))
}
