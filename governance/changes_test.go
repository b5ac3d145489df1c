package governance

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The kinds of violations that only a change shows. Only the API server judges changes; this is the model that its policies are compared with.
const (
	removed   Kind = "removed"   // a required label is removed
	immutable Kind = "immutable" // a set label is changed or removed
	owners    Kind = "owners"    // the requester may not change the label
)

// requester is who makes a request.
type requester struct {
	user   string
	groups []string
}

// violationsOf returns what a change of labels from old to labels adds to what was wrong before. A required label counts where it is removed: a request
// is not denied for what a Node lacks already.
func (r Rules) violationsOf(old, labels map[string]string, by requester) (all []Violation) {
	for i := range r.keys {
		key := &r.keys[i]
		prev, ok := old[key.Key.Key]
		value, found := labels[key.Key.Key]
		changed := ok != found || prev != value
		if kind, wrong := key.wrong(value); found && changed && wrong {
			all = append(all, key.violation(kind, value))
		}
		for _, second := range key.Requires {
			_, hasOther := labels[second]
			_, hadOther := old[second]
			if found && !hasOther && (!ok || hadOther) {
				all = append(all, key.violation(Requires, second))
			}
		}
		if key.Required && ok && !found {
			all = append(all, key.violation(removed, value))
		}
		if key.Immutable && ok && changed {
			all = append(all, key.violation(immutable, value))
		}
		if changed && !key.ownedBy(by) {
			all = append(all, key.violation(owners, value))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if _, ok := old[key]; ok {
			continue
		}
		if glob, reserved := r.reservedBy(key); reserved {
			all = append(all, Violation{Rule: glob, Kind: Reserved, Mode: Deny, Key: key, Value: labels[key]})
		}
	}
	return all
}

// ownedBy reports whether a requester may change the label.
func (k *compiledKey) ownedBy(by requester) bool {
	return len(k.Owners) == 0 || slices.ContainsFunc(k.Owners, func(owner string) bool {
		owner, open := strings.CutSuffix(owner, "*")
		current := func(name, owner string) bool { return name == owner || open && strings.HasPrefix(name, owner) }
		if group, ok := strings.CutPrefix(owner, groupPrefix); ok {
			return slices.ContainsFunc(by.groups, func(name string) bool { return current(name, group) })
		}
		if account, ok := strings.CutPrefix(owner, serviceAccountPrefix); ok {
			return current(by.user, "system:serviceaccount:"+strings.Replace(account, "/", ":", 1))
		}
		return current(by.user, strings.TrimPrefix(owner, userPrefix))
	})
}

// lines returns violations as KIND KEY VALUE.
func lines(violations []Violation) (all []string) {
	for _, v := range violations {
		all = append(all, strings.TrimSpace(string(v.Kind)+" "+v.Key+" "+v.Value))
	}
	return all
}

func TestAChangeIsJudgedByWhatItAdds(t *testing.T) {
	rules := compiled(t, example())
	admin := requester{user: "bob", groups: []string{"platform-admins"}}
	for name, tt := range map[string]struct {
		old, labels labels
		by          requester
		want        []string
	}{
		"what was wrong before stays":           {labels{"hardware.tier": "x", "rack": "7", "gpu.count": "1", "b.example.com/x": ""}, labels{"hardware.tier": "x", "rack": "7", "gpu.count": "1", "b.example.com/x": "", "new": ""}, requester{}, nil},
		"a required label is removed":           {labels{"hardware.tier": "standard"}, nil, requester{}, []string{"removed hardware.tier"}},
		"a required label is not there":         {nil, labels{"new": ""}, requester{}, nil},
		"one wrong value replaces another":      {labels{"hardware.tier": "x"}, labels{"hardware.tier": "y"}, requester{}, []string{"value hardware.tier y"}},
		"a wrong value is corrected":            {labels{"hardware.tier": "x"}, labels{"hardware.tier": "standard"}, requester{}, nil},
		"an immutable label is set":             {nil, labels{"rack": "r1"}, requester{}, nil},
		"an immutable label is changed":         {labels{"rack": "r1"}, labels{"rack": "r2"}, requester{}, []string{"immutable rack r2"}},
		"an immutable label is removed":         {labels{"rack": "r1"}, nil, requester{}, []string{"immutable rack"}},
		"a label comes without what it needs":   {nil, labels{"gpu.count": "1"}, requester{}, []string{"requires gpu.count accelerator"}},
		"what a label needs is removed":         {labels{"gpu.count": "1", "accelerator": ""}, labels{"gpu.count": "1"}, requester{}, []string{"requires gpu.count accelerator"}},
		"both are removed":                      {labels{"gpu.count": "1", "accelerator": ""}, nil, requester{}, nil},
		"a label changes without what it needs": {labels{"gpu.count": "1"}, labels{"gpu.count": "2"}, requester{}, nil},
		"a stranger sets an owned label":        {nil, labels{"team.owner": "x"}, requester{user: "bob", groups: []string{"ann"}}, []string{"owners team.owner x"}},
		"a stranger removes an owned label":     {labels{"team.owner": "x"}, nil, requester{user: "platform-admins"}, []string{"owners team.owner"}},
		"a stranger leaves an owned label":      {labels{"team.owner": "x"}, labels{"team.owner": "x", "a": ""}, requester{user: "bob"}, nil},
		"the owning group":                      {nil, labels{"team.owner": "x"}, admin, nil},
		"the owning user":                       {nil, labels{"team.owner": "x"}, requester{user: "ann"}, nil},
		"the owning service account":            {nil, labels{"team.owner": "x"}, requester{user: "system:serviceaccount:ops:labeler"}, nil},
		"a service account of the same name":    {nil, labels{"team.owner": "x"}, requester{user: "system:serviceaccount:default:labeler"}, []string{"owners team.owner x"}},
		"an account by the beginning of a name": {nil, labels{"zone.owner": "x"}, requester{user: "system:serviceaccount:ops:label-7"}, nil},
		"an account of another beginning":       {nil, labels{"zone.owner": "x"}, requester{user: "system:serviceaccount:ops2:label-7"}, []string{"owners zone.owner x"}},
		"a group by the beginning of a name":    {nil, labels{"zone.owner": "x"}, requester{user: "bob", groups: []string{"team-a"}}, nil},
		"a user with the name of such a group":  {nil, labels{"zone.owner": "x"}, requester{user: "team-a", groups: []string{"a-team-a"}}, []string{"owners zone.owner x"}},
		"a reserved key is added":               {nil, labels{"b.example.com/x": "1"}, admin, []string{"reserved b.example.com/x 1"}},
		"a reserved key that is there changes":  {labels{"b.example.com/x": "1"}, labels{"b.example.com/x": "2"}, admin, nil},
		"a listed key is added":                 {nil, labels{"a.example.com/known": "1"}, admin, nil},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tt.want, lines(rules.violationsOf(tt.old, tt.labels, tt.by))) })
	}
}
