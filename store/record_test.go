package store_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/store"
)

func TestRemembered(t *testing.T) {
	type labels = map[string]string
	tests := map[string]struct {
		labels, withheld, want labels
	}{
		"nothing":                                {nil, nil, labels{}},
		"what was given":                         {labels{"a": "1"}, nil, labels{"a": "1"}},
		"what is withheld":                       {nil, labels{"a": "1"}, labels{"a": "1"}},
		"both":                                   {labels{"a": "1"}, labels{"b": "2"}, labels{"a": "1", "b": "2"}},
		"taints":                                 {labels{"a:NoSchedule": "1"}, labels{"a:NoSchedule": "2", "a:NoExecute": "2"}, labels{"a:NoSchedule": "1", "a:NoExecute": "2"}},
		"the value last seen on the Node counts": {labels{"a": "1"}, labels{"a": "2", "b": "2"}, labels{"a": "1", "b": "2"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			record := store.Record{Items: tt.labels, Withheld: store.Withheld{Items: tt.withheld}}
			got := record.Remembered()
			assert.Equal(t, tt.want, got)
			got["more"] = "x"
			assert.NotContains(t, record.Items, "more", "the map is the caller's own")
			assert.NotContains(t, record.Withheld.Items, "more", "the map is the caller's own")
		})
	}
}

func TestSame(t *testing.T) {
	at := func(hour int) *metav1.Time { return &metav1.Time{Time: time.Date(2026, 5, 1, hour, 0, 0, 0, time.UTC)} }
	tests := map[string]struct {
		change func(r *store.Record)
		same   bool
	}{
		"nothing changed":                            {func(*store.Record) {}, true},
		"a heartbeat is no change":                   {func(r *store.Record) { r.NodeResourceVersion = "2" }, true},
		"the version that was left out is no change": {func(r *store.Record) { r.Version = store.Version }, true},
		"no map is as good as an empty one":          {func(r *store.Record) { r.Withheld.Items = map[string]string{} }, true},
		"another Node":                               {func(r *store.Record) { r.Node = "worker-2" }, false},
		"another object of that name":                {func(r *store.Record) { r.UID = "uid-2" }, false},
		"another value":                              {func(r *store.Record) { r.Items = map[string]string{"dedicated": "gpu"} }, false},
		"another label":                              {func(r *store.Record) { r.Items = map[string]string{"dedicated": "ci", "more": ""} }, false},
		"no labels":                                  {func(r *store.Record) { r.Items = nil }, false},
		"another key with no value":                  {func(r *store.Record) { r.Items = map[string]string{"other": "ci"} }, false},
		"something is withheld":                      {func(r *store.Record) { r.Withheld.Items = map[string]string{"a": ""} }, false},
		"another value of a taint":                   {func(r *store.Record) { r.Items = map[string]string{"dedicated": "ci", "a:NoExecute": "2"} }, false},
		"a rule taint":                               {func(r *store.Record) { r.RuleTaints = []corev1.Taint{{Key: "a", Effect: "NoSchedule"}} }, false},
		"no list of rule taints is an empty one":     {func(r *store.Record) { r.RuleTaints = []corev1.Taint{} }, true},
		"something is later":                         {func(r *store.Record) { r.Later = map[string]*string{"a:NoExecute": nil} }, false},
		"the same later is no change":                {func(r *store.Record) { r.LaterVersions = map[string]string{"dedicated": "2"} }, true},
		"the Node is gone":                           {func(r *store.Record) { r.DeletedAt = at(1) }, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			one := store.Record{Node: "worker-1", UID: "uid-1", NodeResourceVersion: "1", Items: map[string]string{"dedicated": "ci"}}
			other := one
			tt.change(&other)
			assert.Equal(t, tt.same, one.Same(other))
			assert.Equal(t, tt.same, other.Same(one))
		})
	}
	one := store.Record{RuleTaints: []corev1.Taint{{Key: "a", Value: "1", Effect: "NoSchedule"}}}
	for _, other := range []corev1.Taint{{Key: "b", Value: "1", Effect: "NoSchedule"}, {Key: "a", Value: "2", Effect: "NoSchedule"}, {Key: "a", Value: "1", Effect: "NoExecute"}} {
		assert.False(t, one.Same(store.Record{RuleTaints: []corev1.Taint{other}}))
	}
	assert.True(t, one.Same(store.Record{RuleTaints: slices.Clone(one.RuleTaints)}))
	gone, goneToo := store.Record{DeletedAt: at(1)}, store.Record{DeletedAt: at(2)}
	assert.True(t, gone.Same(goneToo), "gone is gone, whenever it was seen")
}

func TestWithheldIsZero(t *testing.T) {
	assert.True(t, store.Withheld{}.IsZero())
	assert.True(t, store.Withheld{Items: map[string]string{}}.IsZero())
	assert.False(t, store.Withheld{Items: map[string]string{"a": ""}}.IsZero())
}

func TestHoldsNothing(t *testing.T) {
	tests := map[string]struct {
		record string // its fields beside version and node
		other  func(*store.Record)
		want   bool
	}{
		"nothing":                               {``, nil, true},
		"which object it was of":                {`, "uid": "1", "nodeResourceVersion": "5", "deletedAt": "2026-05-01T12:00:00Z"`, nil, true},
		"the machine alone":                     {`, "machine": {"systemUUID": "one"}`, nil, true},
		"empty fields":                          {`, "labels": {}, "taints": [], "withheld": {"labels": {}}, "ruleTaints": []`, nil, true},
		"a label":                               {`, "labels": {"a": "1"}`, nil, false},
		"a taint":                               {`, "taints": [{"key": "a", "effect": "NoSchedule"}]`, nil, false},
		"something withheld":                    {`, "withheld": {"labels": {"a": "1"}}`, nil, false},
		"something withheld by a later version": {`, "withheld": {"ofTomorrow": 1}`, nil, false},
		"what was shown later":                  {`, "later": {"a": null}`, nil, false},
		"a rule's taint":                        {`, "ruleTaints": [{"key": "a", "effect": "NoSchedule"}]`, nil, false},
		"a taint that may be a rule's":          {`, "ruleClaims": [{"key": "a", "effect": "NoSchedule"}]`, nil, false},
		"a former taint":                        {`, "formerTaints": [{"key": "a", "effect": "NoSchedule"}]`, nil, false},
		"an end that is still to come":          {`, "early": true`, nil, false},
		"a field of a later version":            {`, "ofTomorrow": null`, nil, false},
		"a decision that a person has to take":  {``, func(r *store.Record) { r.Quarantined = &store.Record{Node: "n1"} }, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			record, err := store.Decode([]byte(`{"version": 1, "node": "n1"`+tt.record+`}`), "n1")
			require.NoError(t, err)
			if tt.other != nil {
				tt.other(&record)
			}
			assert.Equal(t, tt.want, record.HoldsNothing())
		})
	}
}
