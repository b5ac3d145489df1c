package record_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
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

func TestValid(t *testing.T) {
	for key, valid := range map[string]bool{
		"a": true, "example.com/a": true, "a:NoSchedule": true, "a:NoExecute": true, "a:PreferNoSchedule": true,
		"": false, "a:": false, ":NoSchedule": false, "a:Never": false, "a:b:NoSchedule": false, "a b": false, strings.Repeat("a", 64): false,
	} {
		assert.Equal(t, valid, record.Valid(key, "value"), key)
		assert.False(t, record.Valid(key, "two words"), key)
	}
}

func TestVersionsAreThoseOfKubernetes(t *testing.T) {
	for text, ok := range map[string]bool{"1": true, "18446744073709551615": true, "0": true, "": false, "01": false, "-1": false, "+1": false, "1.0": false, "18446744073709551616": false, "a": false} {
		version, err := record.ParseVersion(text)
		assert.Equal(t, ok, err == nil, text)
		if ok {
			assert.Equal(t, text, version.String())
		}
	}
}

func TestTheStampIsWrittenAndRead(t *testing.T) {
	stamp := record.Stamp{
		Given:   map[string]record.Given{"rack": {Value: "r1"}, "tenant:NoSchedule": {Value: "blue", Since: 1 << 60}},
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
