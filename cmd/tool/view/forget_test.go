package view

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/store"
)

func TestForgettingOf(t *testing.T) {
	both := set{"a": "1", "t:NoSchedule": "x"}
	tests := map[string]struct {
		sight        Sight
		keys         []string
		whole        bool
		items        []string
		withheldOnly []string
		why          string // part of the error
	}{
		"all of a Node that is gone":                {sight(nil, remembered(both, goneSince(1))), nil, true, []string{"a", "t:NoSchedule"}, nil, ""},
		"some of it":                                {sight(nil, remembered(both, goneSince(1))), []string{"t:NoSchedule", "t:NoSchedule"}, false, []string{"t:NoSchedule"}, nil, ""},
		"both sides of a Node that is gone":         {sight(nil, remembered(both, quarantining(set{"b": "2"}))), nil, true, []string{"a", "t:NoSchedule"}, nil, ""},
		"some where somebody has to decide":         {sight(nil, remembered(both, quarantining(set{"b": "2"}))), []string{"a"}, false, nil, nil, "nobody has decided yet"},
		"all where somebody has to decide":          {sight(live(both), remembered(both, quarantining(set{"b": "2"}))), nil, false, nil, nil, "nobody has decided yet"},
		"nothing is remembered":                     {sight(live(both), nil), nil, false, nil, nil, "nothing is remembered"},
		"a record that cannot be read":              {Sight{Name: "n1", Unreadable: errors.New("?")}, nil, true, nil, nil, ""},
		"some of it, which nobody can read":         {Sight{Name: "n1", Unreadable: errors.New("?")}, []string{"a"}, false, nil, nil, "as a whole only"},
		"what a live Node shows":                    {sight(live(both), remembered(both)), nil, false, nil, nil, "kubectl label node n1 a-\n  kubectl taint node n1 t:NoSchedule-"},
		"what it shows, and what it does not":       {sight(live(set{"a": "2"}), remembered(both)), nil, false, []string{"t:NoSchedule"}, nil, "nodekeep forget n1 t:NoSchedule"},
		"what it does not show":                     {sight(live(set{"a": "2"}), remembered(both)), []string{"t:NoSchedule"}, false, []string{"t:NoSchedule"}, nil, ""},
		"all, of which it shows nothing":            {sight(live(nil), remembered(both, withholding(set{"w": "1"}))), nil, false, []string{"a", "w", "t:NoSchedule"}, nil, ""},
		"what is withheld, and shown without us":    {sight(live(set{"w": "2"}), remembered(nil, withholding(set{"w": "1"}))), []string{"w"}, false, []string{"w"}, nil, ""},
		"a value that is withheld beside another":   {sight(live(both), remembered(both, withholding(set{"a": "0"}))), []string{"a"}, false, nil, []string{"a"}, ""},
		"a taint by the key of a label":             {sight(nil, remembered(both)), []string{"t"}, false, nil, nil, "the taint is called t:NoSchedule"},
		"what is only on the Node":                  {sight(live(set{"b": ""}), remembered(both)), []string{"b"}, false, nil, nil, "it is only on the Node"},
		"several mistakes at once":                  {sight(nil, remembered(both)), []string{"x", "y"}, false, nil, nil, "x: it is not remembered\n  y: it is not remembered"},
		"what a rule has put on":                    {sight(live(nil), remembered(both, ruled)), []string{"r:NoSchedule"}, false, nil, nil, "a rule of the policy puts it on"},
		"what was last seen on a later Node object": {sight(nil, remembered(both, later)), []string{"l"}, false, []string{"l"}, nil, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := ForgettingOf(tt.sight, tt.keys)
			assert.Equal(t, tt.whole, f.Whole)
			assert.Equal(t, tt.items, f.Items)
			assert.Equal(t, tt.withheldOnly, f.WithheldOnly)
			if tt.why == "" {
				assert.NoError(t, f.Err())
			} else {
				assert.ErrorContains(t, f.Err(), tt.why)
			}
		})
	}
}

func ruled(r *store.Record) { r.RuleTaints = []corev1.Taint{{Key: "r", Effect: "NoSchedule"}} }

func later(r *store.Record) { value := "1"; r.Later = map[string]*string{"l": &value} }

func TestWhatWasGivenBackInThatMomentIsTold(t *testing.T) {
	before := sight(live(set{"shown": ""}), remembered(set{"a": "1", "shown": ""}))
	f := Forgetting{Node: "n1", Items: []string{"a", "shown"}}
	require.NoError(t, f.Overtaken(before, sight(live(set{"shown": ""}), nil)))
	assert.ErrorContains(t, f.Overtaken(before, sight(live(set{"shown": "", "a": "1"}), nil)), "remembers again: a;")
}
