package record

import (
	"slices"
	"strings"
	"unicode"
)

// Manager is who owns a field of a Node, as an entry of metadata.managedFields names it.
type Manager struct {
	Name        string
	Operation   string // Apply or Update
	Subresource string // empty for the Node itself
}

// Owners are the managers of one label or annotation, sorted, one in each line: "Apply argocd-controller". It is empty where none is known.
type Owners string

// What a record holds of owners at most. Clients choose their names, and a kubelet can write what it likes into managedFields.
const (
	maxOwners      = 10       // of one key
	MaxManagers    = 32       // of all keys
	MaxOwnersBytes = 32 << 10 // of all keys with their owners
	maxManagerName = 128      // as for the API server
)

// OwnersOf returns these managers, without those that the API server would refuse.
func OwnersOf(managers ...Manager) Owners {
	lines := make([]string, 0, len(managers))
	for _, m := range managers {
		if m.valid() {
			lines = append(lines, m.String())
		}
	}
	slices.Sort(lines)
	lines = slices.Compact(lines)
	return Owners(strings.Join(lines[:min(len(lines), maxOwners)], "\n"))
}

// valid follows ValidateManagedFields of k8s.io/apimachinery/pkg/apis/meta/v1/validation.
func (m Manager) valid() bool {
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	return m.Name != "" && len(m.Name) <= maxManagerName && !strings.ContainsFunc(m.Name, unprintable) &&
		(m.Operation == "Apply" || m.Operation == "Update") &&
		len(m.Subresource) <= maxManagerName && !strings.ContainsFunc(m.Subresource, func(r rune) bool { return r <= ' ' || unprintable(r) })
}

// String returns a line of [Owners].
func (m Manager) String() string {
	if m.Subresource != "" {
		return m.Operation + "/" + m.Subresource + " " + m.Name
	}
	return m.Operation + " " + m.Name
}

// Managers returns the owners one by one; nil is none.
func (o Owners) Managers() (managers []Manager) {
	if o == "" {
		return nil
	}
	for line := range strings.SplitSeq(string(o), "\n") {
		var m Manager
		m.Operation, m.Name, _ = strings.Cut(line, " ")
		m.Operation, m.Subresource, _ = strings.Cut(m.Operation, "/")
		managers = append(managers, m)
	}
	return managers
}

// subsetOf reports whether each of the owners is among the others.
func (o Owners) subsetOf(set Owners) bool {
	return o == "" || o == set || !slices.ContainsFunc(o.Managers(), func(m Manager) bool { return !slices.Contains(set.Managers(), m) })
}

// noteOwners returns an entry with the owners that an observation shows of its value. Where it shows none, those that are known stay: nodekeep
// set the value, or the API server has lost them. What nodekeep gave says nothing new.
func (o Observation) noteOwners(prev, e Entry, newest bool) Entry {
	if e.Removed {
		return e
	}
	if !prev.Removed && prev.Value == e.Value {
		e.Owners = prev.Owners
	}
	item := o.Items[e.Key]
	if item.Owners == "" || item.Owners == e.Owners {
		return e
	}
	fresh := newest && !o.untouched(e.Key) || e.Owners == "" && o.Version >= e.Version
	if value, shown := o.shows(e.Key); shown && value == e.Value && fresh {
		e.Owners = item.Owners
	}
	return e
}

// WithoutOwners returns the record for use where owners cannot be restored.
func (r Record) WithoutOwners() Record {
	if !slices.ContainsFunc(r.Entries, func(e Entry) bool { return e.Owners != "" }) {
		return r
	}
	r.Entries = slices.Clone(r.Entries)
	for i := range r.Entries {
		r.Entries[i].Owners = ""
	}
	return r
}

// boundOwners drops owners beyond what a record holds, those of the last keys first.
func boundOwners(entries []Entry) {
	managers, size := map[Manager]bool{}, 0
	for i, e := range entries {
		if e.Owners == "" {
			continue
		}
		size += len(e.Key) + len(e.Owners)
		for _, m := range e.Owners.Managers() {
			managers[m] = true
		}
		if size > MaxOwnersBytes || len(managers) > MaxManagers {
			entries[i].Owners = ""
		}
	}
}

// owning is a row of the table of managers in the JSON of a record.
type owning struct {
	Manager     string   `json:"manager"`
	Operation   string   `json:"operation"`
	Subresource string   `json:"subresource,omitempty"`
	Keys        []string `json:"keys"`
}

// ownings returns the table of managers of entries, sorted.
func ownings(entries []Entry) (table []owning) {
	rows := map[Manager]int{}
	for _, e := range entries {
		for _, m := range e.Owners.Managers() {
			i, ok := rows[m]
			if !ok {
				i = len(table)
				rows[m] = i
				table = append(table, owning{Manager: m.Name, Operation: m.Operation, Subresource: m.Subresource})
			}
			table[i].Keys = append(table[i].Keys, e.Key)
		}
	}
	slices.SortFunc(table, func(a, b owning) int { return strings.Compare(a.manager().String(), b.manager().String()) })
	return table
}

func (o owning) manager() Manager {
	return Manager{Name: o.Manager, Operation: o.Operation, Subresource: o.Subresource}
}

// assignOwners gives entries the owners of a table. What nodekeep cannot have written is left out.
func assignOwners(entries []Entry, table []owning) {
	owners := map[string][]Manager{}
	for _, row := range table {
		for _, key := range row.Keys {
			owners[key] = append(owners[key], row.manager())
		}
	}
	for i, e := range entries {
		if managers, ok := owners[e.Key]; ok && !e.Removed && !IsTaint(e.Key) {
			entries[i].Owners = OwnersOf(managers...)
		}
	}
	boundOwners(entries)
}
