package record

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// placeholders returns identifiers that vendors and images ship on many machines, in lower case.
func placeholders() []string {
	return []string{
		"03000200-0400-0500-0006-000700080009", "00020003-0004-0005-0006-000700080009",
		"12345678-1234-5678-90ab-cddeefaabbcc", "not settable", "not specified", "default string", "to be filled by o.e.m.", "uninitialized", "none", "unknown",
	}
}

// identifies reports whether an identifier can be that of one machine. One of fewer than four different characters, such as
// all zeros, cannot.
func identifies(id string) bool {
	different := map[rune]bool{}
	for _, char := range id {
		if char != '-' {
			different[char] = true
		}
	}
	return len(different) > 3 && !slices.Contains(placeholders(), strings.ToLower(strings.TrimSpace(id)))
}

// Identifiers returns those that can be of one machine only, each with a mark of its kind.
func (m Machine) Identifiers() (ids []string) {
	for _, id := range [][2]string{{"providerID ", m.ProviderID}, {"systemUUID ", m.SystemUUID}, {"machineID ", m.MachineID}} {
		if identifies(id[1]) {
			ids = append(ids, id[0]+id[1])
		}
	}
	return ids
}

// Agrees reports whether two Nodes of different names are on one machine. They have an identifier in common, and no identifier that both
// know differs.
func (m Machine) Agrees(o Machine) bool {
	common := false
	for _, id := range [][2]string{{m.ProviderID, o.ProviderID}, {m.SystemUUID, o.SystemUUID}, {m.MachineID, o.MachineID}} {
		if !identifies(id[0]) || !identifies(id[1]) {
			continue
		}
		if id[0] != id[1] {
			return false
		}
		common = true
	}
	return common
}

// ClaimedMachineAfter reports whether a Node that exists began to claim its machine after another Node was last seen. The same object has
// claimed another machine before, and no machine changes while it is one Node object. So the claim says nothing about the other Node.
func (r Record) ClaimedMachineAfter(o Record) bool {
	return r.DeletedAt.IsZero() && r.Cluster == o.Cluster && r.Followed != o.Node && r.MachineSince > o.Newest().Version
}

// Predecessor finds the record that a Node without a record follows. It is the only record of the machine, and its Node is deleted. If no
// record can be followed, several names the Nodes with a record of this machine. Either there is more than one record, or its Node is not
// deleted, or it waits for an operator. Of deleted Nodes, a record that another record has followed since is not among them. Versions of
// two clusters have no order, so a record followed in another cluster counts as followed. Of Nodes that exist, one that claims the machine only
// since then does not count either.
func Predecessor(node string, machine Machine, records []Record) (old Record, found bool, several []string) {
	var matching []Record
	for _, r := range records {
		followed := slices.ContainsFunc(records, func(later Record) bool {
			return later.Followed == r.Node && (!SetAsideByAnother(r, records) || later.Machine.Agrees(r.Machine)) && (later.Cluster != r.Cluster || later.Newest().Version > r.Newest().Version)
		})
		if r.Preloaded() {
			continue // no process has observed that its machine had the name
		}
		if r.Node != node && machine.Agrees(r.Machine) && (!followed || r.DeletedAt.IsZero()) {
			matching = append(matching, r)
		}
	}
	for _, old := range matching {
		rest := slices.DeleteFunc(slices.Clone(matching), func(r Record) bool { return r.Node == old.Node || r.ClaimedMachineAfter(old) })
		if len(rest) == 0 && !old.DeletedAt.IsZero() && !old.WholeRecordQuarantined() {
			return old, true, nil
		}
	}
	for _, r := range matching {
		several = append(several, r.Node)
	}
	slices.Sort(several)
	return Record{}, false, several
}

// TaintsOnlyOf returns the first record of a Node that may be one of several machines. Another Node may also have followed its record. Nothing says which labels
// it had. But what kept workloads away from one of them keeps them away from it. So it has the taints of all records of this machine whose Nodes are
// deleted. The newest one decides about a value. The names are of the Nodes whose taints they are.
func TaintsOnlyOf(node string, machine Machine, records []Record) (r Record, names []string) {
	var candidates []Record
	for _, candidate := range records {
		if candidate.Node != node && machine.Agrees(candidate.Machine) && !candidate.DeletedAt.IsZero() && !candidate.WholeRecordQuarantined() && !candidate.Preloaded() {
			candidates = append(candidates, candidate)
		}
	}
	slices.SortFunc(candidates, func(a, b Record) int {
		return cmp.Or(cmp.Compare(a.Newest().Version, b.Newest().Version), cmp.Compare(a.Node, b.Node))
	})
	r = Record{Node: node, Machine: machine}
	taints := map[string]Entry{}
	for _, candidate := range candidates {
		if slices.ContainsFunc(candidates, func(later Record) bool { return later.Followed == candidate.Node }) {
			continue // what it had was decided on since
		}
		for _, e := range candidate.Entries {
			if IsTaint(e.Key) && !e.Removed {
				e.NotShown = true
				taints[e.Key] = e
				names = append(names, candidate.Node)
			}
		}
		r.Cluster, r.Floor = candidate.Cluster, max(r.Floor, candidate.Newest().Version)
	}
	if len(taints) == 0 {
		return Record{}, nil
	}
	for _, key := range slices.Sorted(maps.Keys(taints)) {
		r.Entries = append(r.Entries, taints[key])
	}
	slices.Sort(names)
	return r, slices.Compact(names)
}

// Follow returns the first record of a Node whose machine had another name before. It has all entries of the old record, as lost with an older
// object: they are below the floor. Values of keys for which waits is true go to Quarantined, until an operator accepts them.
func Follow(old Record, node string, machine Machine, waits func(key string) bool) Record {
	if old.Quarantined != nil {
		old = AcceptOld(old, Object{})
	}
	r := Record{Node: node, Cluster: old.Cluster, Machine: machine, Followed: old.Node, Floor: old.Newest().Version}
	quarantined := Record{Node: node, Machine: old.Machine}
	for _, e := range old.Entries {
		dest := &r
		if e.NotShown = !e.Removed; e.NotShown && waits(e.Key) {
			dest = &quarantined
		}
		dest.Entries = append(dest.Entries, e)
	}
	if len(quarantined.Entries) > 0 {
		r.Quarantined = &quarantined
	}
	return r
}

// Unfollow returns the record of a Node which does not follow the record that a webhook restored from. What the Node got from the other record
// counts as removed since, unless its own record knows the key.
func Unfollow(r Record, o Observation) Record {
	for key := range o.Stamp.Given {
		given, listed := o.listed(key)
		if _, known := r.Entry(key); known || !listed || !o.untouched(key) || o.Unconfirmed[key] {
			continue
		}
		refused := Entry{Key: key, Removed: true, Version: max(given.From, 1)}
		r.Entries = append(slices.Clone(r.Entries), refused)
		slices.SortFunc(r.Entries, func(a, b Entry) int { return cmp.Compare(a.Key, b.Key) })
		r.presume(refused.Version)
	}
	return r
}

// WholeRecordQuarantined reports whether nothing may be restored, because another machine has the name. A record that followed another one may have
// something quarantined too: only that waits then.
func (r Record) WholeRecordQuarantined() bool { return r.Quarantined != nil && r.Followed == "" }

// withQuarantined returns a record that followed another one, once an operator accepts the waiting entries. Entries that are known since come first.
func (r Record) withQuarantined() Record {
	waiting := r.Quarantined.Entries
	r.Quarantined, r.Entries = nil, slices.Clone(r.Entries)
	for _, e := range waiting {
		if _, known := r.Entry(e.Key); !known {
			e.Version, e.NotShown = 0, true
			r.Entries = append(r.Entries, e)
			slices.SortFunc(r.Entries, func(a, b Entry) int { return cmp.Compare(a.Key, b.Key) })
		}
	}
	return r
}
