package impact

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"nodekeep.dev/nodekeep/policy"
)

// SettingChange is a field, or an entry of a list, of which the two policies say different things. What one of them does not say is empty.
type SettingChange struct {
	Field string `json:"field"`
	Now   string `json:"now"`
	Then  string `json:"then"`
}

// said is a line of a policy, without what follows from it.
type said struct{ field, value string }

// ContentChanges returns all that two policies say differently, in the order of their fields. It is empty if they say the same. An entry that only one of
// them has, such as a rule, is one change.
func ContentChanges(now, then []policy.Line) []SettingChange {
	before, after := newSide(now), newSide(then)
	nowOnly, thenOnly := before.without(after), after.without(before)
	changes := []SettingChange{}
	for _, field := range slices.Sorted(maps.Keys(union(nowOnly, thenOnly))) {
		was, is := nowOnly[field], thenOnly[field]
		for i := range max(len(was), len(is)) {
			change := SettingChange{Field: field}
			if i < len(was) {
				change.Now = was[i]
			}
			if i < len(is) {
				change.Then = is[i]
			}
			changes = append(changes, change)
		}
	}
	return append(changes, orderChanges(now, then)...)
}

func union(a, b map[string][]string) map[string][]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// side is one of the two policies.
type side struct {
	lines   []policy.Line
	says    map[said]bool
	entries map[string]bool
}

func newSide(lines []policy.Line) side {
	s := side{lines, map[said]bool{}, map[string]bool{}}
	for _, line := range lines {
		s.says[said{line.Field, line.Value}] = true
		for _, entry := range line.Entries {
			s.entries[entry] = true
		}
	}
	return s
}

// without returns what only this policy says, by field. The text of an entry that the other one does not have is all that it says.
func (s side) without(other side) map[string][]string {
	only, entries := map[string][]string{}, map[string][]policy.Line{}
	for _, line := range s.lines {
		alone := slices.IndexFunc(line.Entries, func(entry string) bool { return !other.entries[entry] })
		switch {
		case line.Order != nil:
		case alone >= 0:
			entries[line.Entries[alone]] = append(entries[line.Entries[alone]], line)
		case !other.says[said{line.Field, line.Value}]:
			only[line.Field] = append(only[line.Field], line.Value)
		}
	}
	for entry, lines := range entries {
		only[entry] = []string{entryText(entry, lines)}
	}
	return only
}

// entryText returns what an entry says beyond the defaults.
func entryText(entry string, lines []policy.Line) string {
	var parts []string
	last := ""
	for _, line := range lines {
		switch {
		case line.Default:
			continue
		case line.Field == last: // one more item of a list
			parts[len(parts)-1] += ", " + line.Value
		default:
			parts = append(parts, strings.TrimPrefix(strings.TrimPrefix(line.Field, entry), ".")+": "+line.Value)
		}
		last = line.Field
	}
	return cmp.Or(strings.Join(parts, "; "), "{}")
}

// orderChanges returns the lists whose order differs, of the entries that both policies have.
func orderChanges(now, then []policy.Line) (changes []SettingChange) {
	orders := map[string][]string{}
	for _, line := range now {
		if line.Order != nil {
			orders[line.Field] = line.Order
		}
	}
	for _, line := range then {
		was, is := orders[line.Field], line.Order
		was, is = inBoth(was, is), inBoth(is, was)
		if !slices.Equal(was, is) {
			changes = append(changes, SettingChange{Field: line.Field + " (order)", Now: strings.Join(was, ", "), Then: strings.Join(is, ", ")})
		}
	}
	return changes
}

// inBoth returns a list without what the other one does not have.
func inBoth(list, other []string) []string {
	others := sets.New(other...)
	return slices.DeleteFunc(slices.Clone(list), func(name string) bool { return !others.Has(name) })
}
