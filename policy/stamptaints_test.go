package policy

import (
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// full is a stamp with everything that one can hold.
func full() Stamp {
	stamp := NewStamp([]string{"dedicated"}, []string{"node-role.kubernetes.io/worker"})
	stamp.Taints = map[string]string{"maintenance:NoExecute": "disk", "both:NoSchedule": "given"}
	stamp.Brought = map[string]string{"wall:NoSchedule": "", "both:NoSchedule": "brought"}
	stamp.RuleTaints = map[string]string{"dedicated:NoSchedule": "ci"}
	return stamp
}

func TestAStampWithTaintsIsReadAsItWasWritten(t *testing.T) {
	labelled := NewStamp([]string{"dedicated"}, []string{"rack"})
	const prefix = `{"restored":["dedicated"],"pending":["rack"]`
	tests := map[string]struct {
		change func(*Stamp)
		want   string
	}{
		"no taints, as ever": {func(*Stamp) {}, prefix + `}`},
		"maps that are empty": {func(s *Stamp) {
			s.Taints, s.Brought, s.RuleTaints = map[string]string{}, map[string]string{}, map[string]string{}
		}, prefix + `}`},
		"taints that were given":      {func(s *Stamp) { s.Taints = map[string]string{"b:NoSchedule": "", "a:NoExecute": "1"} }, prefix + `,"taints":{"a:NoExecute":"1","b:NoSchedule":""}}`},
		"taints that were brought":    {func(s *Stamp) { s.Brought = map[string]string{"a:NoExecute": "1"} }, prefix + `,"brought":{"a:NoExecute":"1"}}`},
		"taints that rules put on":    {func(s *Stamp) { s.RuleTaints = map[string]string{"a:NoExecute": "1"} }, prefix + `,"ruleTaints":{"a:NoExecute":"1"}}`},
		"everything that can be said": {func(s *Stamp) { *s = full() }, `{"restored":["dedicated"],"pending":["node-role.kubernetes.io/worker"],"taints":{"both:NoSchedule":"given","maintenance:NoExecute":"disk"},"brought":{"both:NoSchedule":"brought","wall:NoSchedule":""},"ruleTaints":{"dedicated:NoSchedule":"ci"}}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			stamp := labelled
			tt.change(&stamp)
			assert.Equal(t, tt.want, stamp.String())
			back, ok := ParseStamp(stamp.String())
			assert.True(t, ok)
			assert.True(t, back.Equal(stamp))
			assert.True(t, stamp.Equal(back))
			assert.Equal(t, tt.want, back.String())
		})
	}
}

func TestParseStampWithTaints(t *testing.T) {
	tests := map[string]struct {
		value string
		want  Stamp
		ok    bool
	}{
		"taints in a list":          {`{"taints":["a:NoSchedule"]}`, Stamp{}, false},
		"a taint that is no text":   {`{"taints":{"a:NoSchedule":1}}`, Stamp{}, false},
		"rule taints in a list":     {`{"restored":["a"],"ruleTaints":[]}`, Stamp{}, false},
		"brought taints as a text":  {`{"brought":"a:NoSchedule"}`, Stamp{}, false},
		"taints that are nothing":   {`{"taints":null,"brought":null,"ruleTaints":null}`, Stamp{}, true},
		"taints that are no taints": {`{"taints":{"a":"1"}}`, Stamp{Taints: map[string]string{"a": "1"}}, true},
		"taints and nothing else":   {`{"taints":{"a:NoSchedule":"1"}}`, Stamp{Taints: map[string]string{"a:NoSchedule": "1"}}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			stamp, ok := ParseStamp(tt.value)
			assert.Equal(t, tt.ok, ok)
			assert.Equal(t, tt.want, stamp)
		})
	}
}

func TestGivenAndWithoutTaints(t *testing.T) {
	type values = map[string]string
	tainted := func(taints values) Stamp { return Stamp{Restored: []string{}, Pending: []string{}, Taints: taints} }
	tests := map[string]struct {
		stamp Stamp
		apply func(Stamp) Stamp
		want  Stamp
	}{
		"the first taint is given":        {Stamp{}, func(s Stamp) Stamp { return s.Given(values{"a:NoSchedule": "1"}) }, tainted(values{"a:NoSchedule": "1"})},
		"one more is given":               {tainted(values{"a:NoSchedule": "1"}), func(s Stamp) Stamp { return s.Given(values{"b:NoSchedule": ""}) }, tainted(values{"a:NoSchedule": "1", "b:NoSchedule": ""})},
		"one is given with another value": {tainted(values{"a:NoSchedule": "1"}), func(s Stamp) Stamp { return s.Given(values{"a:NoSchedule": "2"}) }, tainted(values{"a:NoSchedule": "2"})},
		"a label and a taint of one key":  {NewStamp(nil, []string{"a", "b"}), func(s Stamp) Stamp { return s.Given(values{"a": "1", "a:NoSchedule": "1"}) }, Stamp{Restored: []string{"a"}, Pending: []string{"b"}, Taints: values{"a:NoSchedule": "1"}}},
		"a label alone makes no taints":   {NewStamp(nil, nil), func(s Stamp) Stamp { return s.Given(values{"a": "1"}) }, NewStamp([]string{"a"}, nil)},
		"nothing is given":                {full(), func(s Stamp) Stamp { return s.Given(nil) }, full()},
		"a taint is taken off":            {tainted(values{"a:NoSchedule": "1", "b:NoSchedule": "2"}), func(s Stamp) Stamp { return s.Without([]string{"a:NoSchedule"}) }, tainted(values{"b:NoSchedule": "2"})},
		"a label and a taint are taken off": {full(), func(s Stamp) Stamp { return s.Without([]string{"dedicated", "maintenance:NoExecute"}) }, func() Stamp {
			s := full()
			s.Restored = []string{}
			delete(s.Taints, "maintenance:NoExecute")
			return s
		}()},
		"the label alone is taken off":     {full().Given(values{"maintenance": "x"}), func(s Stamp) Stamp { return s.Without([]string{"maintenance"}) }, full()},
		"what it brought is not taken off": {full(), func(s Stamp) Stamp { return s.Without([]string{"wall:NoSchedule", "dedicated:NoSchedule"}) }, full()},
		"what is not there is taken off":   {NewStamp([]string{"a"}, []string{"b"}), func(s Stamp) Stamp { return s.Without([]string{"x", "x:NoSchedule"}) }, NewStamp([]string{"a"}, []string{"b"})},
		"nothing is taken off":             {full(), func(s Stamp) Stamp { return s.Without(nil) }, full()},
		"what waits goes on waiting":       {NewStamp(nil, []string{"a"}), func(s Stamp) Stamp { return s.Without([]string{"a"}) }, NewStamp(nil, []string{"a"})},
		"given and taken off again": {full(), func(s Stamp) Stamp {
			return s.Given(values{"x:NoSchedule": "1", "x": "1"}).Without([]string{"x", "x:NoSchedule"})
		}, full()},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before := tt.stamp.String()
			got := tt.apply(tt.stamp)
			assert.True(t, tt.want.Equal(got), "%s", got)
			assert.Equal(t, tt.want.String(), got.String())
			for _, m := range []values{got.Taints, got.Brought, got.RuleTaints} {
				if m != nil {
					m["scribble"] = "x"
				}
			}
			for _, keys := range [][]string{got.Restored, got.Pending} {
				for i := range keys {
					keys[i] = "scribble"
				}
			}
			assert.Equal(t, before, tt.stamp.String(), "the old stamp is as it was, and shares nothing with the new one")
		})
	}
}

func TestWhatAStampSaysOfTaints(t *testing.T) {
	tests := map[string]struct {
		item   string
		lists  bool
		value  string
		byRule string // the taint that is asked about
		rule   bool
	}{
		"a taint that was given":                {"maintenance:NoExecute", true, "disk", "maintenance=disk:NoExecute", false},
		"a taint that was brought":              {"wall:NoSchedule", true, "", "wall:NoSchedule", false},
		"a taint that was given over another":   {"both:NoSchedule", true, "given", "both=given:NoSchedule", false},
		"a taint that a rule put on":            {"dedicated:NoSchedule", false, "", "dedicated=ci:NoSchedule", true},
		"its key and effect with another value": {"dedicated:NoSchedule", false, "", "dedicated=db:NoSchedule", false},
		"its key and effect without a value":    {"dedicated:NoSchedule", false, "", "dedicated:NoSchedule", false},
		"its key with another effect":           {"dedicated:NoExecute", false, "", "dedicated=ci:NoExecute", false},
		"another effect of what was given":      {"maintenance:NoSchedule", false, "", "maintenance=disk:NoSchedule", false},
		"a taint that nobody knows":             {"x:NoSchedule", false, "", "x:NoSchedule", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			value, listed := full().TaintValue(tt.item)
			assert.Equal(t, tt.value, value)
			assert.Equal(t, tt.lists, listed)
			assert.Equal(t, tt.lists, full().Lists(tt.item))
			assert.False(t, full().Proves(tt.item), "a kubelet could claim it")
			assert.Equal(t, tt.rule, full().ByRule(parseTaint(tt.byRule)))
			assert.False(t, Stamp{}.Lists(tt.item))
			assert.False(t, Stamp{}.ByRule(parseTaint(tt.byRule)))
		})
	}
	assert.True(t, full().Proves("dedicated"), "the label of the same key is a kubelet's own")
	assert.False(t, Stamp{Restored: []string{"a:NoSchedule"}}.Lists("a:NoSchedule"), "the keys of a stamp are labels")
	assert.False(t, Stamp{Taints: map[string]string{"a": "1"}}.Lists("a"), "and its taints are taints")
}

func TestStampsAreEqualIfTheySayTheSame(t *testing.T) {
	tests := map[string]struct {
		change func(*Stamp)
		equal  bool
	}{
		"the same":                       {func(*Stamp) {}, true},
		"a label more":                   {func(s *Stamp) { s.Restored = append(s.Restored, "x") }, false},
		"another label waits":            {func(s *Stamp) { s.Pending = []string{"x"} }, false},
		"a taint more":                   {func(s *Stamp) { s.Taints["x:NoSchedule"] = "" }, false},
		"a taint with another value":     {func(s *Stamp) { s.Taints["maintenance:NoExecute"] = "" }, false},
		"no taints":                      {func(s *Stamp) { s.Taints = nil }, false},
		"brought with another value":     {func(s *Stamp) { s.Brought["wall:NoSchedule"] = "x" }, false},
		"nothing was brought":            {func(s *Stamp) { s.Brought = nil }, false},
		"a rule taint with other values": {func(s *Stamp) { s.RuleTaints["dedicated:NoSchedule"] = "db" }, false},
		"no rule taints":                 {func(s *Stamp) { s.RuleTaints = map[string]string{} }, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			other := full()
			tt.change(&other)
			assert.Equal(t, tt.equal, full().Equal(other))
			assert.Equal(t, tt.equal, other.Equal(full()))
		})
	}
	empty := map[string]string{}
	assert.True(t, NewStamp(nil, nil).Equal(Stamp{Taints: empty, Brought: empty, RuleTaints: empty}), "nothing and empty say the same")
}

func TestShown(t *testing.T) {
	assert.Empty(t, Shown(nil))
	assert.Equal(t, "dedicated=ci:NoSchedule", Shown(taints("dedicated=ci:NoSchedule")))
	assert.Equal(t, "b:NoExecute,a=1:PreferNoSchedule", Shown(taints("b:NoExecute", "a=1:PreferNoSchedule")), "in the order in which they are given")
}

func TestRoomForWhatIsShown(t *testing.T) {
	const half = 128 << 10
	shown := "dedicated=ci:NoSchedule"
	room := half - len("nodekeep.dev/taints") - len(shown)
	assert.True(t, RoomFor(0, ""))
	assert.True(t, RoomFor(room, shown), "half of what an object may have is for others and this")
	assert.False(t, RoomFor(room+1, shown))
	assert.False(t, RoomFor(room, shown+"x"))
	assert.False(t, RoomFor(0, strings.Repeat("x", half)))
}

func TestAnnotationBytesOfANodeWithTaints(t *testing.T) {
	annotations := map[string]string{"a": "1", "nodekeep.dev/restored": "{}", "nodekeep.dev/taints": "x"}
	assert.Equal(t, len("a1")+len("nodekeep.dev/taints")+1, AnnotationBytes(annotations), "all but the stamp, which is made anew")
}

func TestFitsCountsTaints(t *testing.T) {
	const limit = 256 << 10
	stamp := full()
	room := limit - len("nodekeep.dev/restored") - len(stamp.String())
	assert.True(t, stamp.Fits(room))
	assert.False(t, stamp.Fits(room+1))
	more := maps.Clone(stamp.Taints)
	more["x:NoSchedule"] = ""
	stamp.Taints = more
	assert.False(t, stamp.Fits(room))
}

func TestStampsOfAnyTaintsAreReadAsTheyWereWritten(t *testing.T) {
	random, seed := seeded(t)
	some := func() map[string]string {
		items := map[string]string{}
		for range random.IntN(4) {
			items[[]string{"a:NoSchedule", "a:NoExecute", "example.com/b:PreferNoSchedule", "<&>:", "\"", "größe:x"}[random.IntN(6)]] = []string{"", "1", "two words", "<&>\u2028"}[random.IntN(4)]
		}
		return items
	}
	for range 2000 {
		stamp := NewStamp(nil, nil).Given(some())
		stamp.Brought, stamp.RuleTaints = some(), some()
		back, ok := ParseStamp(stamp.String())
		require.True(t, ok, "seed %d: %s", seed, stamp)
		require.True(t, stamp.Equal(back), "seed %d: %s and %s", seed, stamp, back)
	}
}
