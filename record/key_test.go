package record_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/record"
)

func TestLabelsAndTaintsAreJoinedAndSplit(t *testing.T) {
	labels := map[string]string{"a": "1", "example.com/a": "", "no:label": "x"}
	taints := []corev1.Taint{
		{Key: "b", Value: "2", Effect: corev1.TaintEffectNoSchedule}, {Key: "a", Effect: corev1.TaintEffectNoExecute, TimeAdded: &metav1.Time{}},
		{Key: "b", Value: "3", Effect: corev1.TaintEffectNoSchedule}, {Key: "b", Value: "3", Effect: corev1.TaintEffectNoExecute},
	}
	items := record.Join(labels, taints)
	assert.Equal(t, map[string]string{"a": "1", "example.com/a": "", "a:NoExecute": "", "b:NoSchedule": "2", "b:NoExecute": "3"}, items)
	gotLabels, gotTaints := record.Split(items)
	assert.Equal(t, map[string]string{"a": "1", "example.com/a": ""}, gotLabels)
	assert.Equal(t, []corev1.Taint{
		{Key: "a", Effect: corev1.TaintEffectNoExecute}, {Key: "b", Value: "3", Effect: corev1.TaintEffectNoExecute}, {Key: "b", Value: "2", Effect: corev1.TaintEffectNoSchedule},
	}, gotTaints)
	gotLabels, gotTaints = record.Split(nil)
	assert.Nil(t, gotLabels)
	assert.Nil(t, gotTaints)
	assert.NotNil(t, record.Join(nil, nil))
}

func TestAKeyNamesALabelOrATaint(t *testing.T) {
	tests := map[string]struct {
		item        string
		isTaint     bool
		key, effect string
	}{
		"a taint":                      {"a:NoSchedule", true, "a", "NoSchedule"},
		"a taint with a domain":        {"example.com/a:NoExecute", true, "example.com/a", "NoExecute"},
		"a taint without an effect":    {"a:", true, "a", ""},
		"a taint without a key":        {":NoExecute", true, "", "NoExecute"},
		"a colon":                      {":", true, "", ""},
		"the last colon is the effect": {"a:b:NoExecute", true, "a:b", "NoExecute"},
		"a label":                      {"a", false, "a", ""},
		"nothing":                      {"", false, "", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			taint := record.Taint(tt.item, "v")
			assert.Equal(t, tt.isTaint, record.IsTaint(tt.item))
			assert.Equal(t, corev1.Taint{Key: tt.key, Value: "v", Effect: corev1.TaintEffect(tt.effect)}, taint)
			if tt.isTaint {
				assert.Equal(t, tt.item, record.TaintKey(taint))
			}
		})
	}
}

func TestValid(t *testing.T) {
	domain := strings.Repeat("a", 63) + "." + strings.Repeat("b", 63) + "." + strings.Repeat("c", 63) + "." + strings.Repeat("d", 61)
	tests := map[string]struct {
		item, value string
		want        bool
	}{
		"a label: a plain label":                    {"dedicated", "ci", true},
		"a label: no value":                         {"dedicated", "", true},
		"a label: a domain":                         {"example.com/x", "a.b_c-1", true},
		"a label: the longest of everything":        {domain + "/" + strings.Repeat("n", 63), strings.Repeat("v", 63), true},
		"a label: a domain one letter too long":     {domain + "d/x", "", false},
		"a label: a name one letter too long":       {strings.Repeat("n", 64), "", false},
		"a label: a value one letter too long":      {"x", strings.Repeat("v", 64), false},
		"a label: no name":                          {"example.com/", "", false},
		"a label: no domain":                        {"/x", "", false},
		"a label: a domain in capitals":             {"Example.com/x", "", false},
		"a label: a value with a space":             {"x", "a b", false},
		"a label: a value that ends in a dash":      {"x", "a-", false},
		"a label: a value that is no text at all":   {"x", "\xff", false},
		"a taint: a taint":                          {"maintenance:NoExecute", "disk", true},
		"a taint: no value":                         {"maintenance:NoSchedule", "", true},
		"a taint: a mere preference":                {"example.com/x:PreferNoSchedule", "a.b_c-1", true},
		"a taint: the longest of everything":        {strings.Repeat("d", 63) + ".com/" + strings.Repeat("n", 63) + ":NoSchedule", strings.Repeat("v", 63), true},
		"a taint: a name one letter too long":       {strings.Repeat("n", 64) + ":NoSchedule", "", false},
		"a taint: a value one letter too long":      {"x:NoSchedule", strings.Repeat("v", 64), false},
		"a taint: a value with a space":             {"x:NoSchedule", "a b", false},
		"a taint: a value that is no text":          {"x:NoSchedule", "\xff", false},
		"a taint: no key":                           {":NoSchedule", "", false},
		"a taint: a key with a colon":               {"a:b:NoSchedule", "", false},
		"a taint: a key with a space":               {"a b:NoSchedule", "", false},
		"a taint: no effect":                        {"x:", "", false},
		"a taint: an effect that there is not":      {"x:Sometimes", "", false},
		"a taint: an effect in small letters":       {"x:noschedule", "", false},
		"a taint: an effect with a space":           {"x: NoSchedule", "", false},
		"a taint: the old effect that nobody built": {"x:NoScheduleNoAdmit", "", false},
		"a taint: a colon alone":                    {":", "", false},
		"a taint: a key and a value as one":         {"a=b:NoSchedule", "", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want, record.Valid(tt.item, tt.value))
		})
	}
}

func FuzzKey(f *testing.F) {
	for _, item := range []string{"", ":", "a", "a:NoSchedule", "a:b:NoExecute", "a/b/c:NoExecute", "\xff:\xff", "a=b:PreferNoSchedule", "a:NoSchedule:", "@", "@example.com/a", "@a:NoSchedule"} {
		f.Add(item, "")
		f.Add(item, "two words")
	}
	f.Fuzz(func(t *testing.T, item, value string) {
		taint := record.Taint(item, value)
		labels, taints := record.Split(map[string]string{item: value})
		if annotation, ok := record.Annotation(item); ok {
			assert.Empty(t, labels)
			assert.Empty(t, taints)
			assert.Equal(t, map[string]string{annotation: value}, record.SplitAnnotations(map[string]string{item: value}))
			return
		}
		if !record.IsTaint(item) {
			assert.Equal(t, map[string]string{item: value}, labels)
			assert.Empty(t, taints)
			return
		}
		assert.Equal(t, item, record.TaintKey(taint))
		assert.Equal(t, []corev1.Taint{taint}, taints)
		assert.Equal(t, map[string]string{item: value}, record.Join(labels, taints))
		if record.Valid(item, value) {
			assert.Equal(t, 1, strings.Count(item, ":"))
		}
	})
}

func TestVersionsAreThoseOfKubernetes(t *testing.T) {
	for text, ok := range map[string]bool{"1": true, "18446744073709551615": true, "0": true, "": false, "01": false, "-1": false, "+1": false, "1.0": false, "18446744073709551616": false, "a": false} {
		version, err := record.ParseVersion(text)
		assert.Equal(t, ok, err == nil, text)
		if ok {
			assert.Equal(t, text, version.String())
		} else {
			assert.Zero(t, version, text)
		}
	}
}

func TestTheStampIsWrittenAndRead(t *testing.T) {
	stamp := record.Stamp{
		Given:   map[string]record.Given{"rack": {Value: "r1"}, "tenant:NoSchedule": {Value: "blue", Version: 1 << 60}},
		Brought: map[string]string{"zone": "z1"},
	}
	const text = `{"given":{"rack":{"value":"r1"},"tenant:NoSchedule":{"value":"blue","since":"1152921504606846976"}},"brought":{"zone":"z1"}}`
	if written := stamp.String(); written != text {
		t.Errorf("equal stamps have equal bytes: %s", written)
	}
	read, ok := record.ParseStamp(text)
	assert.True(t, ok)
	assert.Equal(t, stamp, read)
	for _, broken := range []string{``, `[]`, `{"given":[]}`, `{"given":{"a":{"value":"b","since":"-1"}}}`, `{"given":{"a":"b"}}`, `{"brought":{"a":1}}`} {
		read, ok := record.ParseStamp(broken)
		assert.False(t, ok, broken)
		assert.Zero(t, read, broken)
	}
}

func TestAStampGrowsAndShrinksByCopies(t *testing.T) {
	prev := record.Stamp{Given: map[string]record.Given{"a": {Value: "1"}}, Brought: map[string]string{"b": "2"}}
	text := prev.String()
	next := prev.Merge(map[string]string{"a": "2", "c:NoSchedule": ""}, record.New("n", record.Object{UID: "z", Version: 5}, map[string]string{"a": "2"}), 7)
	assert.Equal(t, record.Stamp{
		Given: map[string]record.Given{"a": {Value: "2", From: 5, Version: 7}, "c:NoSchedule": {Version: 7}}, Brought: map[string]string{"b": "2"},
	}, next)
	shorter := next.Remove([]string{"a", "b", "unknown"})
	assert.Equal(t, map[string]record.Given{"c:NoSchedule": {Version: 7}}, shorter.Given)
	assert.Empty(t, shorter.Brought, "the Node does not have it any more, and that is nodekeep's doing")
	assert.Len(t, next.Given, 2)
	assert.Equal(t, []bool{true, true, false}, []bool{prev.Lists("a"), prev.Lists("b"), prev.Lists("c:NoSchedule")})
	assert.Equal(t, text, prev.String())
	assert.Equal(t, prev, prev.Merge(nil, record.Record{}, 9), "nothing was set")
	assert.Equal(t, record.Stamp{}, record.Stamp{}.Merge(nil, record.Record{}, 0).Remove([]string{"a"}))
	assert.JSONEq(t, `{"given":{"a":{"value":"1"}}}`, record.Stamp{}.Merge(map[string]string{"a": "1"}, record.Record{}, 0).String(), "the CREATE has no version")
}

func FuzzStamp(f *testing.F) {
	for _, value := range []string{
		"", "null", "{}", `[]`, `{"given":{"a":{"value":"1"}}}`, `{"given":{"a:NoSchedule":{"value":"1","since":"18446744073709551615"}},"brought":{"b:NoExecute":""}}`,
		`{"given":{"a":null},"brought":null}`, `{"Given":{"a":{"VALUE":"1","since":"01"}}}`, "{\"given\":{\"\xff\":{\"value\":\"\xff\"}}}", `{"brought":{"\ud800":"\ud801"}}`,
		`{"given":{"a":{"value":"1","since":""}}}`, `{"given":{"a":{"value":"1","since":"0"}}}`, `{"given":{"a":{"value":"1","since":null}}}`,
	} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		stamp, ok := record.ParseStamp(value)
		if !ok {
			assert.Zero(t, stamp)
			return
		}
		written := stamp.String()
		assert.True(t, utf8.ValidString(written), "an annotation is text")
		returned, ok := record.ParseStamp(written)
		require.True(t, ok)
		assert.Equal(t, written, returned.String())
		assert.Len(t, returned.Given, len(stamp.Given))
		assert.Len(t, returned.Brought, len(stamp.Brought))
	})
}
