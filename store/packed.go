package store

import (
	"maps"
	"slices"
	"strings"
	"unique"

	"k8s.io/apimachinery/pkg/types"
)

// packed is a record in little memory, for caches of 100,000 of them: what most records are made of stands in one string, and
// the keys of its items, which are the same on many Nodes, in one string for all of them.
type packed struct {
	keys unique.Handle[string]
	text string
	// rest is the record without what stands in the strings; nil where nothing is left.
	rest *Record
	// historyLeftOut says that there is a history, which is not held: it would be most of the memory, and who replaces the
	// record reads it live.
	historyLeftOut bool
}

// separator parts the strings; a record that has it in one of them, which only somebody else can have written, is not packed.
const separator = "\x00"

// pack makes a record small and leaves its history out. Nothing of it is shared with the caller.
func pack(r Record) packed {
	r = r.WithoutHistory()
	keys := slices.Sorted(maps.Keys(r.Items))
	texts := []string{r.Node, string(r.UID), r.NodeResourceVersion, r.Machine.ProviderID, r.Machine.SystemUUID, r.Machine.MachineID}
	for _, key := range keys {
		texts = append(texts, r.Items[key])
	}
	holdsSeparator := func(text string) bool { return strings.Contains(text, separator) }
	if slices.Contains(keys, "") || slices.ContainsFunc(keys, holdsSeparator) || slices.ContainsFunc(texts, holdsSeparator) {
		return packed{rest: &r}
	}
	p := packed{keys: unique.Make(strings.Join(keys, separator)), text: strings.Join(texts, separator), historyLeftOut: r.historyLeftOut}
	rest := r
	rest.Node, rest.UID, rest.NodeResourceVersion, rest.Machine, rest.Items, rest.historyLeftOut = "", "", "", Machine{}, nil, false
	if !rest.plain() {
		p.rest = &rest
	}
	return p
}

// plain reports whether the record holds nothing but what every record may have lost when it is packed.
func (r Record) plain() bool {
	return r.Version == Version && len(r.Later)+len(r.LaterVersions) == 0 && r.Withheld.IsZero() && len(r.RuleTaints)+len(r.RuleClaims)+len(r.FormerTaints) == 0 &&
		!r.Early && r.DeletedAt == nil && r.Quarantined == nil && r.Accepted == "" && len(r.unknown) == 0
}

// record is what was packed, without its history. Its Items are the caller's own; what few records have besides is shared and not to be changed.
func (p packed) record() Record {
	if p.text == "" {
		return *p.rest
	}
	r := Record{Version: Version}
	if p.rest != nil {
		r = *p.rest
	}
	r.historyLeftOut = p.historyLeftOut
	var uid string
	text := p.text
	for _, field := range []*string{&r.Node, &uid, &r.NodeResourceVersion, &r.Machine.ProviderID, &r.Machine.SystemUUID, &r.Machine.MachineID} {
		*field, text, _ = strings.Cut(text, separator)
	}
	r.UID = types.UID(uid)
	if keys := p.keys.Value(); keys != "" {
		r.Items = make(map[string]string, 1+strings.Count(keys, separator))
		for key := range strings.SplitSeq(keys, separator) {
			r.Items[key], text, _ = strings.Cut(text, separator)
		}
	}
	return r
}

// node is the name in the record.
func (p packed) node() string {
	if p.text == "" {
		return p.rest.Node
	}
	node, _, _ := strings.Cut(p.text, separator)
	return node
}
