package policy

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/record"
)

func TestItemsAndSplit(t *testing.T) {
	type values = map[string]string
	tests := map[string]struct {
		labels values
		taints []corev1.Taint // sorted
		items  values
	}{
		"labels alone":               {values{"a": "1", "example.com/b": ""}, nil, values{"a": "1", "example.com/b": ""}},
		"taints alone":               {values{}, taints("a=1:NoSchedule", "example.com/b:NoExecute"), values{"a:NoSchedule": "1", "example.com/b:NoExecute": ""}},
		"a key as both":              {values{"a": "1"}, taints("a=2:NoSchedule"), values{"a": "1", "a:NoSchedule": "2"}},
		"a key with all its effects": {values{}, taints("a=1:NoExecute", "a=2:NoSchedule", "a=3:PreferNoSchedule"), values{"a:NoExecute": "1", "a:NoSchedule": "2", "a:PreferNoSchedule": "3"}},
		"nothing":                    {values{}, nil, values{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before := maps.Clone(tt.labels)
			items := record.Join(tt.labels, tt.taints)
			assert.Equal(t, tt.items, items)
			labels, taints := record.Split(items)
			assert.Equal(t, tt.labels, labels)
			assert.Equal(t, tt.taints, taints)
			labels["more"] = "x"
			assert.Equal(t, tt.items, items, "what was split is the caller's own")
			assert.Equal(t, before, tt.labels)
		})
	}
}

func TestItemsOfANodeWithoutTaintsAreItsLabels(t *testing.T) {
	assert.Nil(t, record.Join(nil, nil))
	labels := map[string]string{"a": "1"}
	record.Join(labels, []corev1.Taint{})["b"] = "2"
	assert.Equal(t, map[string]string{"a": "1", "b": "2"}, labels, "the map itself, without a copy")
	record.Join(labels, taints("a:NoSchedule"))["c"] = "3"
	assert.NotContains(t, labels, "c")
	assert.Equal(t, map[string]string{"a:NoSchedule": "1"}, record.Join(nil, taints("a=1:NoSchedule")))
}

func TestSplitIsNeverNil(t *testing.T) {
	labels, taints := record.Split(nil)
	assert.NotNil(t, labels)
	assert.Empty(t, labels)
	assert.Nil(t, taints)
}

func TestTheMomentOfATaintIsNotRemembered(t *testing.T) {
	now := metav1.NewTime(time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC))
	_, taints := record.Split(record.Join(nil, []corev1.Taint{{Key: "a", Value: "1", Effect: corev1.TaintEffectNoExecute, TimeAdded: &now}}))
	assert.Equal(t, []corev1.Taint{{Key: "a", Value: "1", Effect: corev1.TaintEffectNoExecute}}, taints)
}

func TestTaintOf(t *testing.T) {
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

func TestSortTaints(t *testing.T) {
	sorted := taints("b:NoSchedule", "a=2:NoSchedule", "a=1:NoSchedule", "a=3:NoExecute", "a:PreferNoSchedule", "B:NoSchedule", "a.b/c:NoSchedule")
	record.SortTaints(sorted)
	assert.Equal(t, taints("B:NoSchedule", "a=3:NoExecute", "a=1:NoSchedule", "a=2:NoSchedule", "a:PreferNoSchedule", "a.b/c:NoSchedule", "b:NoSchedule"), sorted)
}

func TestValidTaint(t *testing.T) {
	tests := map[string]struct {
		item, value string
		want        bool
	}{
		"a taint":                          {"maintenance:NoExecute", "disk", true},
		"no value":                         {"maintenance:NoSchedule", "", true},
		"a mere preference":                {"example.com/x:PreferNoSchedule", "a.b_c-1", true},
		"the longest of everything":        {strings.Repeat("d", 63) + ".com/" + strings.Repeat("n", 63) + ":NoSchedule", strings.Repeat("v", 63), true},
		"a name one letter too long":       {strings.Repeat("n", 64) + ":NoSchedule", "", false},
		"a value one letter too long":      {"x:NoSchedule", strings.Repeat("v", 64), false},
		"a value with a space":             {"x:NoSchedule", "a b", false},
		"a value that is no text":          {"x:NoSchedule", "\xff", false},
		"no key":                           {":NoSchedule", "", false},
		"a key with a colon":               {"a:b:NoSchedule", "", false},
		"a key with a space":               {"a b:NoSchedule", "", false},
		"no effect":                        {"x:", "", false},
		"an effect that there is not":      {"x:Sometimes", "", false},
		"an effect in small letters":       {"x:noschedule", "", false},
		"an effect with a space":           {"x: NoSchedule", "", false},
		"the old effect that nobody built": {"x:NoScheduleNoAdmit", "", false},
		"a colon alone":                    {":", "", false},
		"a key and a value as one":         {"a=b:NoSchedule", "", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want, record.Valid(tt.item, tt.value))
		})
	}
}

func FuzzTaintOf(f *testing.F) {
	for _, item := range []string{"", ":", "a", "a:NoSchedule", "a:b:NoExecute", "a/b/c:NoExecute", "\xff:\xff", "a=b:PreferNoSchedule", "a:NoSchedule:"} {
		f.Add(item, "")
		f.Add(item, "two words")
	}
	f.Fuzz(func(t *testing.T, item, value string) {
		taint := record.Taint(item, value)
		labels, taints := record.Split(map[string]string{item: value})
		if !record.IsTaint(item) {
			assert.Equal(t, map[string]string{item: value}, labels)
			assert.Empty(t, taints)
			return
		}
		assert.Equal(t, item, record.TaintKey(taint))
		assert.Equal(t, []corev1.Taint{taint}, taints)
		assert.Equal(t, map[string]string{item: value}, record.Join(labels, taints))
		if record.Valid(item, value) {
			assert.Equal(t, taint, parseTaint(taint.ToString()), "a valid taint is read as it is written")
			assert.Equal(t, 1, strings.Count(item, ":"))
		}
	})
}
