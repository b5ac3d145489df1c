package record_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/record"
)

func TestAnItemIsALabelOrATaintOrAnAnnotation(t *testing.T) {
	items := map[string]string{"a": "1", "a:NoSchedule": "2", "@a": "3", "@a:NoSchedule": "4"}
	labels, taints := record.Split(items)
	assert.Equal(t, map[string]string{"a": "1"}, labels)
	assert.Equal(t, []corev1.Taint{{Key: "a", Value: "2", Effect: "NoSchedule"}}, taints)
	assert.Equal(t, map[string]string{"a": "3", "a:NoSchedule": "4"}, record.SplitAnnotations(items))
	joined := record.Join(map[string]string{"a": "1", "@a": "x"}, append(taints, corev1.Taint{Key: "@a", Effect: "NoSchedule"}))
	assert.Equal(t, map[string]string{"a": "1", "a:NoSchedule": "2"}, joined, "no label or taint can pass for an annotation")
	record.JoinAnnotations(joined, map[string]string{"a": "3", "a:NoSchedule": "4"})
	assert.Equal(t, items, joined)
}

func TestAnnotationsThatAreValid(t *testing.T) {
	for name, tt := range map[string]struct {
		key, value string
		valid      bool
	}{
		"a key with a domain":                  {"@metal3.io/BareMetalHost", "metal3/host-7", true},
		"a key without one":                    {"@owner", "", true},
		"keys are compared without their case": {"@Example.com/Owner", "", true},
		"any text is a value":                  {"@a", "{\"x\": [1,\n2]} \x00<&>", true},
		"the largest value":                    {"@a", strings.Repeat("x", record.MaxAnnotationBytes), true},
		"a larger value":                       {"@a", strings.Repeat("x", record.MaxAnnotationBytes+1), false},
		"no key":                               {"@", "", false},
		"two marks":                            {"@@a", "", false},
		"a colon, which would make it look like a taint": {"@a:NoSchedule", "", false},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tt.valid, record.Valid(tt.key, tt.value)) })
	}
}

func TestARecordKeepsAnnotations(t *testing.T) {
	long := strings.Repeat("<x>", 1000)
	r := record.New("n1", record.Object{UID: "a", Version: 5}, map[string]string{"k": "1", "@owner": "ops", "@b.io/long": long})
	hidden, i := r.Entries, 1
	require.Equal(t, "@owner", hidden[i].Key)
	hidden[i].NotShown = true
	data, err := record.Encode(r)
	require.NoError(t, err)
	assert.Contains(t, string(data), "\"annotations\": {\n    \"b.io/long\": ")
	assert.Contains(t, string(data), "\"notShown\": {\n    \"annotations\": {\n      \"owner\": \"ops\"")
	returned, err := record.Decode(data)
	require.NoError(t, err)
	assert.Equal(t, r.Entries, returned.Entries)

	spoilt, err := record.Decode([]byte(`{"version":1,"node":"n","labels":{"@x":"1"},"annotations":{"not a key":"1","ok":"` + strings.Repeat("x", record.MaxAnnotationBytes+1) + `"}}`))
	require.NoError(t, err)
	assert.Empty(t, spoilt.Entries)
	assert.Equal(t, record.Dropped{Annotations: 2}, spoilt.Dropped)
}

func TestAStampDoesNotRepeatALongAnnotation(t *testing.T) {
	long := strings.Repeat("x", 1000)
	stamp := record.Stamp{}.Merge(map[string]string{"@long": long, "@short": "v", "label": "v"}, record.Record{}, 0)
	assert.Less(t, len(stamp.String()), 200)
	assert.Equal(t, "v", stamp.Given["@short"].Value)

	r := record.New("n1", record.Object{UID: "a", Version: 5}, map[string]string{"@long": long})
	observed := func(value string) record.Observation {
		return record.Observation{UID: "b", Version: 9, Items: map[string]record.Item{"@long": {Value: value}}, Stamp: stamp}
	}
	e, _ := record.Merge(r, observed(long)).Entry("@long")
	assert.Equal(t, record.Version(5), e.Version, "what nodekeep set is no decision of a client")
	e, _ = record.Merge(r, observed(long+"y")).Entry("@long")
	assert.Equal(t, record.Entry{Key: "@long", Value: long + "y", Version: 9}, e, "a client changed it")
	_, remove := record.Stale(record.Forget(r, []string{"@long"}), observed(long))
	assert.Equal(t, []string{"@long"}, remove, "restored from a stale record")
	adopted, known := record.Merge(record.Record{}, observed(long)).Entry("@long")
	assert.True(t, known, "the record is lost")
	assert.Equal(t, long, adopted.Value, "the Node has the value itself")
}

func TestAValueThatIsTooLargeEndsTheOneBefore(t *testing.T) {
	large := func(version record.Version) record.Observation {
		return record.Observation{UID: "b", Version: version, Items: map[string]record.Item{"@a": {Owner: record.TooLarge}}}
	}
	r := record.New("n1", record.Object{UID: "a", Version: 5}, map[string]string{"@a": "small"})
	next := record.Merge(r, large(9))
	e, _ := next.Entry("@a")
	assert.Equal(t, record.Entry{Key: "@a", Removed: true, Version: 9}, e)
	assert.Empty(t, record.Missing(r, large(9)), "it is on the Node")
	reread := record.Merge(next, record.Observation{UID: "b", Version: 12, Items: map[string]record.Item{"@a": {Value: "small again"}}})
	assert.Equal(t, map[string]string{"@a": "small again"}, reread.Items())
	assert.Empty(t, record.Merge(record.Record{}, large(9)).Entries)
}
