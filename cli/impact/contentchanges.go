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
	Field   string `json:"field"`
	Now     string `json:"now"`
	Planned string `json:"planned"`
}

// statement is a field of a policy and its value.
type statement struct{ field, value string }

// ContentChanges returns all that two policies say differently, in the order of their fields. It is empty if they say the same. An entry that only one of
// them has, such as a rule, is one change.
func ContentChanges(now, planned []policy.Line) []SettingChange {
	prev, next := newPolicyLines(now), newPolicyLines(planned)
	nowOnly, plannedOnly := prev.minus(next), next.minus(prev)
	changes := []SettingChange{}
	for _, field := range slices.Sorted(maps.Keys(union(nowOnly, plannedOnly))) {
		nowValues, plannedValues := nowOnly[field], plannedOnly[field]
		for i := range max(len(nowValues), len(plannedValues)) {
			change := SettingChange{Field: field}
			if i < len(nowValues) {
				change.Now = nowValues[i]
			}
			if i < len(plannedValues) {
				change.Planned = plannedValues[i]
			}
			changes = append(changes, change)
		}
	}
	return append(changes, orderChanges(now, planned)...)
}

func union(a, b map[string][]string) map[string][]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// policyLines is one of the two policies.
type policyLines struct {
	lines   []policy.Line
	says    map[statement]bool
	entries map[string]bool
}

func newPolicyLines(lines []policy.Line) policyLines {
	s := policyLines{lines, map[statement]bool{}, map[string]bool{}}
	for _, line := range lines {
		s.says[statement{line.Field, line.Value}] = true
		for _, entry := range line.Entries {
			s.entries[entry] = true
		}
	}
	return s
}

// minus returns what only this policy says, by field. The text of an entry that the other one does not have is all that it says.
func (s policyLines) minus(o policyLines) map[string][]string {
	diff, entries := map[string][]string{}, map[string][]policy.Line{}
	for _, line := range s.lines {
		pos := slices.IndexFunc(line.Entries, func(entry string) bool { return !o.entries[entry] })
		switch {
		case line.Order != nil:
		case pos >= 0:
			entries[line.Entries[pos]] = append(entries[line.Entries[pos]], line)
		case !o.says[statement{line.Field, line.Value}]:
			diff[line.Field] = append(diff[line.Field], line.Value)
		}
	}
	for entry, lines := range entries {
		diff[entry] = []string{entryText(entry, lines)}
	}
	return diff
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
func orderChanges(now, planned []policy.Line) (changes []SettingChange) {
	orders := map[string][]string{}
	for _, line := range now {
		if line.Order != nil {
			orders[line.Field] = line.Order
		}
	}
	for _, line := range planned {
		nowOrder, plannedOrder := orders[line.Field], line.Order
		nowOrder, plannedOrder = inBoth(nowOrder, plannedOrder), inBoth(plannedOrder, nowOrder)
		if !slices.Equal(nowOrder, plannedOrder) {
			changes = append(changes, SettingChange{Field: line.Field + " (order)", Now: strings.Join(nowOrder, ", "), Planned: strings.Join(plannedOrder, ", ")})
		}
	}
	return changes
}

// inBoth returns a list without what the other one does not have.
func inBoth(list, other []string) []string {
	others := sets.New(other...)
	return slices.DeleteFunc(slices.Clone(list), func(name string) bool { return !others.Has(name) })
}
