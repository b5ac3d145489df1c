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
func requireSafe(t testing.TB, request *admissionv1.AdmissionRequest, response *admissionv1.AdmissionResponse) (after []byte) {
	t.Helper()
	require.True(t, response.Allowed)
	require.Equal(t, request.UID, response.UID)
	if response.Patch == nil {
		require.Nil(t, response.PatchType)
		return request.Object.Raw
	}
	after = applied(t, request.Object.Raw, response)
	requireOnlyOursChanged(t, request.Object.Raw, after)
	before, result := typed(t, request.Object.Raw), typed(t, after)
	absent := policy.DerivedLabels(result.Annotations[policy.LabelsAnnotation])
	maps.DeleteFunc(absent, func(_ string, label record.Derived) bool { return !label.Absent })
	requireTaintsStay(t, request.Object.Raw, after, absent)
	requireOwnersStay(t, before, result)
	require.False(t, before.Spec.Unschedulable && !result.Spec.Unschedulable, "a cordon was removed")
	for key, value := range before.Labels {
		if absent[key].Absent {
			require.NotContains(t, result.Labels, key)
			continue
		}
		require.Contains(t, result.Labels, key, "a label was removed")
		if result.Labels[key] != value {
			require.True(t, record.Valid(key, result.Labels[key]))
		}
	}
	requireNoNewMistakes(t, before, result)
	if slices.Contains(request.UserInfo.Groups, "system:nodes") {
		requireKubeletMay(t, before.Labels, result.Labels)
	}
	return after
}

// applied returns the object after the patch, done as in the API server (plugin/webhook/mutating of k8s.io/apiserver).
func applied(t testing.TB, object []byte, response *admissionv1.AdmissionResponse) []byte {
	t.Helper()
	require.NotNil(t, response.PatchType)
	require.Equal(t, admissionv1.PatchTypeJSONPatch, *response.PatchType)
	patch, err := jsonpatch.DecodePatch(response.Patch)
	require.NoError(t, err)
	require.NotEmpty(t, patch, "a patch without operations")
	after, err := patch.Apply(object)
	require.NoErrorf(t, err, "patch %s does not apply to %s", response.Patch, object)
	return after
}

// typed decodes a Node as the API server does.
func typed(t testing.TB, object []byte) *corev1.Node {
	t.Helper()
	var node corev1.Node
	require.NoError(t, kjson.UnmarshalCaseSensitivePreserveInts(object, &node))
	return &node
}

// requireOnlyOursChanged compares the status byte by byte, and the rest less what is ours value by value.
func requireOnlyOursChanged(t testing.TB, before, after []byte) {
	t.Helper()
	old, changed := fieldsOf(t, before), fieldsOf(t, after)
	require.Equal(t, string(old["status"]), string(changed["status"]))
	require.Equal(t, withoutOurs(t, before), withoutOurs(t, withoutRestoredAnnotations(t, before, after)))
}

// withoutRestoredAnnotations returns the object after the patch less annotations that are new and that the stamp lists.
func withoutRestoredAnnotations(t testing.TB, before, after []byte) []byte {
	t.Helper()
	stamp, _ := record.ParseStamp(typed(t, after).Annotations[policy.StampAnnotation])
	var operations []string
	for key := range stamp.Given {
		annotation, ok := record.Annotation(key)
		if !ok {
			continue
		}
		if _, brought := typed(t, before).Annotations[annotation]; !brought {
			operations = append(operations, fmt.Sprintf(`{"op":"remove","path":%q}`, "/metadata/annotations/"+strings.ReplaceAll(annotation, "/", "~1")))
		}
	}
	if operations == nil {
		return after
	}
	patch, err := jsonpatch.DecodePatch([]byte("[" + strings.Join(operations, ",") + "]"))
	require.NoError(t, err)
	rest, err := patch.Apply(after)
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
	if metadata, is := rest["metadata"].(map[string]any); is {
		delete(metadata, "labels")
		delete(metadata, "managedFields")
		if annotations, is := metadata["annotations"].(map[string]any); is {
			maps.DeleteFunc(annotations, func(key string, _ any) bool { return strings.HasPrefix(key, "nodekeep.dev/") })
		}
		dropEmpty(metadata, "annotations")
	}
	if spec, is := rest["spec"].(map[string]any); is {
		delete(spec, "taints")
		if cordoned, is := spec["unschedulable"].(bool); is && cordoned {
			delete(spec, "unschedulable")
		}
	}
	dropEmpty(rest, "spec")
	return rest
}

// requireOwnersStay says that managedFields keep what they had, and gain no owner but those that the stamp lists.
func requireOwnersStay(t testing.TB, before, after *corev1.Node) {
	t.Helper()
	if reflect.DeepEqual(before.ManagedFields, after.ManagedFields) {
		return
	}
	stamp, _ := record.ParseStamp(after.Annotations[policy.StampAnnotation])
	require.GreaterOrEqual(t, len(after.ManagedFields), len(before.ManagedFields), "an owner was removed")
	for i, entry := range after.ManagedFields {
		has, had := fieldsOwned(t, entry), fieldpath.NewSet()
		if i < len(before.ManagedFields) {
			was := before.ManagedFields[i]
			had = fieldsOwned(t, was)
			require.True(t, had.Difference(has).Empty(), "an owner has lost a field")
			was.FieldsV1, entry.FieldsV1 = nil, nil
			require.Equal(t, was, entry)
		}
		owner := record.Manager{Name: entry.Manager, Operation: string(entry.Operation), Subresource: entry.Subresource}
		has.Difference(had).Iterate(func(path fieldpath.Path) {
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
func requireTaintsStay(t testing.TB, before, after []byte, absent map[string]record.Derived) {
	t.Helper()
	brought, stored := taintsOf(t, before), taintsOf(t, after)
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
		if was, is := taint["value"]; is != replaced || was != value {
			require.Contains(t, stored[i], "value", "a value was removed")
			require.True(t, record.Valid(fmt.Sprint(taint["key"], ":", taint["effect"]), fmt.Sprint(value)))
		}
		require.Equal(t, without(taint, "value"), without(stored[i], "value"))
		taken[[2]any{taint["key"], taint["effect"]}] = true
	}
	for _, taint := range stored[len(brought):] {
		name := [2]any{taint["key"], taint["effect"]}
		require.NotContains(t, taken, name, "a taint was doubled")
		taken[name] = true
		require.Empty(t, without(without(without(taint, "key"), "value"), "effect"))
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

func without(fields map[string]any, name string) map[string]any {
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
func requireNoNewMistakes(t testing.TB, before, after *corev1.Node) {
	t.Helper()
	known := mistakes(before)
	for _, mistake := range mistakes(after) {
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
		same := corev1.Taint{Key: taint.Key, Effect: taint.Effect}
		if seen[same] {
			found = append(found, fmt.Sprintf("taint %s:%s is there twice", taint.Key, taint.Effect))
		}
		seen[same] = true
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
func requireKubeletMay(t testing.TB, before, after map[string]string) {
	t.Helper()
	for _, key := range slices.Sorted(maps.Keys(after)) {
		if value, brought := before[key]; !brought || value != after[key] {
			require.Truef(t, policy.AllowedForKubelet(key), "label %s on a kubelet's CREATE keeps the Node out", key)
		}
	}
}

// requireSettled says that the object as it will be stored, sent again, is left as it is. Only of taints the second answer
// may differ, for now the object brings them itself; that one then stays.
func requireSettled(t testing.TB, h *hook, request *admissionv1.AdmissionRequest, after []byte) {
	t.Helper()
	again := *request
	again.Object.Raw = after
	told := requireSafe(t, &again, h.review(t, bodyOf(t, &again)))
	first, second := typed(t, after), typed(t, told)
	require.Equal(t, first.Labels, second.Labels)
	require.Equal(t, first.Spec.Taints, second.Spec.Taints)
	was, stamped := record.ParseStamp(first.Annotations[policy.StampAnnotation])
	is, stampedAgain := record.ParseStamp(second.Annotations[policy.StampAnnotation])
	if stamped && stampedAgain {
		require.Empty(t, is.Given)
		require.Subset(t, keysOf(is), keysOf(was), "what it was given it brings now")
	}
	if stamped == stampedAgain && was.String() == is.String() && first.Annotations[policy.TaintsAnnotation] == "" && first.Annotations[policy.LabelsAnnotation] == "" {
		require.Equal(t, string(after), string(told), "the second patch")
	}
	again.Object.Raw = told
	require.Empty(t, string(h.review(t, bodyOf(t, &again)).Patch), "the third patch")
}

func keysOf(stamp record.Stamp) []string {
	return slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Keys(stamp.Given)), slices.Collect(maps.Keys(stamp.Brought)))))
}
