package policy

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/record"
)

// limit is what all annotations of an object may have together.
const limit = 256 << 10

func TestAnnotationBytesAreThoseOfOthers(t *testing.T) {
	assert.Equal(t, len("a1")+len("example.com/b"), AnnotationBytes(map[string]string{"a": "1", "example.com/b": "", "nodekeep.dev/restored": "{}", "nodekeep.dev/taints": "x"}))
	assert.Zero(t, AnnotationBytes(nil))
}

func TestShown(t *testing.T) {
	assert.Empty(t, Shown(nil))
	assert.Equal(t, "dedicated=ci:NoSchedule", Shown(taints("dedicated=ci:NoSchedule")))
	assert.Equal(t, "a=1:PreferNoSchedule,b:NoExecute", Shown(taints("b:NoExecute", "a=1:PreferNoSchedule")), "in one order, however they come")
}

func TestAnnotationsFindRoomOrAreLeftOut(t *testing.T) {
	stamp := record.Stamp{}.Merge(map[string]string{"dedicated": "ci"}, record.Record{}, 0)
	derived := taints("dedicated=ci:NoSchedule")
	const list = "dedicated=ci:NoSchedule"
	stampBytes, listBytes := len(StampAnnotation)+len(stamp.String()), len(TaintsAnnotation)+len(list)
	for name, c := range map[string]struct {
		used           int
		stamped, shown bool
	}{
		"nothing else is there":               {0, true, true},
		"both just fit":                       {limit - stampBytes - listBytes, true, true},
		"the list leaves no room for a stamp": {limit - stampBytes - listBytes + 1, false, true},
		"the list just fits":                  {limit - listBytes, false, true},
		"neither fits":                        {limit, false, false},
		"others have more than there may be":  {limit + 1, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := AnnotationContent{Stamp: stamp, Taints: derived}.Annotations(c.used)
			want := map[string]string{}
			if c.stamped {
				want[StampAnnotation] = stamp.String()
			}
			if c.shown {
				want[TaintsAnnotation] = list
			}
			assert.Equal(t, want, got)
			total := c.used
			for key, value := range got {
				total += len(key) + len(value)
			}
			assert.LessOrEqual(t, total, max(limit, c.used), "beyond that the API server rejects the Node")
		})
	}
	assert.Equal(t, map[string]string{StampAnnotation: stamp.String()}, AnnotationContent{Stamp: stamp}.Annotations(limit-stampBytes), "a list that is not written needs no room")
	long := record.Stamp{}.Merge(map[string]string{"a": strings.Repeat("x", limit)}, record.Record{}, 0)
	assert.Equal(t, map[string]string{TaintsAnnotation: list}, AnnotationContent{Stamp: long, Taints: derived}.Annotations(0))
	labels := map[string]record.RuleLabel{"tier": {Value: strings.Repeat("x", 63), Rule: "r"}, "joined": {Rule: "r", Absent: true}, "a:NoSchedule": {Rule: "r", Absent: true}}
	assert.NotContains(t, AnnotationContent{Labels: labels}.Annotations(limit-50), LabelsAnnotation, "a list of labels that does not fit")
	assert.Equal(t, labels, RuleLabelsOf(AnnotationContent{Labels: labels}.Annotations(0)[LabelsAnnotation]), "it is read as it is written")
}

func TestWhatNodekeepCannotHaveListedIsNoLabelOfARule(t *testing.T) {
	for name, annotation := range map[string]string{
		"no JSON": "tier=gold", "another form": `["tier"]`, "a key that no label has": `{"a b":{"value":"x","rule":"r"}}`, "a taint": `{"a:NoSchedule":{"value":"x","rule":"r"}}`,
		"a taint that is absent, with a value": `{"a:NoSchedule":{"value":"x","rule":"r","absent":true}}`, "a label that is absent, with a value": `{"tier":{"value":"x","rule":"r","absent":true}}`, "an annotation that is absent": `{"@a":{"value":"","rule":"r","absent":true}}`,
		"a value that no label has": `{"tier":{"value":"a b","rule":"r"}}`, "no rule": `{"tier":{"value":"x"}}`, "a year that cannot be written": `{"tier":{"value":"x","rule":"r","until":"0000-01-01T00:00:00Z"}}`, "nothing": "", "null": "null",
	} {
		t.Run(name, func(t *testing.T) { assert.Empty(t, RuleLabelsOf(annotation)) })
	}
}

func TestDerivedTaintsAreReadAsTheyAreWritten(t *testing.T) {
	written := taints("a:NoExecute", "example.com/b=1:NoSchedule", "example.com/b=2:PreferNoSchedule")
	assert.Equal(t, written, DerivedTaints(Shown(written)))
	assert.Empty(t, DerivedTaints(""))
	assert.Equal(t, taints("a:NoExecute", "b=1:NoSchedule"), DerivedTaints(" a:NoExecute,, b=1:NoSchedule ,"), "a client may have edited it")
}

func FuzzDerivedTaints(f *testing.F) {
	for _, annotation := range []string{"", ",", "a=b:NoSchedule", "a=b=c:NoSchedule:x", "a:NoSchedule,a:NoSchedule", "\xff=\xfe:\xfd", ":,=:,="} {
		f.Add(annotation)
	}
	f.Fuzz(func(t *testing.T, annotation string) {
		derived := DerivedTaints(annotation)
		assert.LessOrEqual(t, len(derived), strings.Count(annotation, ",")+1)
		var valid []corev1.Taint
		for _, taint := range derived {
			assert.True(t, utf8.ValidString(taint.Key) && utf8.ValidString(taint.Value) && utf8.ValidString(string(taint.Effect)))
			if record.Valid(record.TaintKey(taint), taint.Value) {
				valid = append(valid, taint)
			}
		}
		require.ElementsMatch(t, valid, DerivedTaints(Shown(valid)))
	})
}
