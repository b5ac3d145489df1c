package impact

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"slices"

	"nodekeep.dev/nodekeep/cli/nodestate"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/selection"
)

// Migration is how far the renaming of one label is, and what stands in its way.
type Migration struct {
	From  string                `json:"from"`
	To    string                `json:"to"`
	Phase policy.MigrationPhase `json:"phase,omitempty"` // empty: the policy has no such migration
	// Problems are why the policy cannot have the migration.
	Problems []string         `json:"problems,omitempty"`
	Groups   []MigrationGroup `json:"nodes"`
	// Selecting is what selects on the old key, and Named where the policy names it.
	Selecting []MigrationUse     `json:"selecting"`
	Named     []policy.Reference `json:"namedByPolicy"`
	// Unread are the kinds that could not be listed: nothing is known of what they select on.
	Unread []string `json:"unread,omitempty"`
	Notes  []string `json:"notes,omitempty"`

	migration policy.Migration
	groups    countMap[MigrationGroup, MigrationGroup]
	uses      countMap[MigrationUse, MigrationUse]
}

// MigrationGroup counts Nodes, or records of Nodes that do not exist, of which the same is true.
type MigrationGroup struct {
	State policy.MigrationState `json:"state"`
	Old   string                `json:"old"` // the values; "-" is none
	New   string                `json:"new"`
	Nodes int                   `json:"count"`
	First string                `json:"first"` // the first of these Nodes
}

// MigrationUse counts objects of one kind that select on the old key.
type MigrationUse struct {
	Kind  string          `json:"kind"`
	Field selection.Field `json:"how"`
	Count int             `json:"count"`
	First string          `json:"first"` // the first of these objects
}

// NewMigration returns a migration of which nothing is counted yet.
func NewMigration(migration policy.Migration, p policy.Policy) *Migration {
	m := &Migration{From: migration.From, To: migration.To, Named: []policy.Reference{}, migration: migration}
	if known, ok := p.MigrationOf(migration.From); ok && known.To == migration.To {
		m.migration, m.Phase = known, known.Phase
	}
	for _, reference := range p.References() {
		if reference.Key == migration.From {
			m.Named = append(m.Named, reference)
		}
	}
	m.Notes = notesOn(migration)
	return m
}

// notesOn returns what changes with the key, whatever Nodes show.
func notesOn(migration policy.Migration) (notes []string) {
	from, to := policy.AllowedForKubelet(migration.From), policy.AllowedForKubelet(migration.To)
	switch {
	case from && !to:
		notes = append(notes, fmt.Sprintf("%s is protected: kubelets may not set it. capture adds it behind the gate when a Node registers, and kubelets that set %s by --node-labels can no longer do so under the new key.", migration.To, migration.From))
	case !from && to:
		notes = append(notes, fmt.Sprintf("%s is an ordinary key: a kubelet can change it on its own Node, which it cannot with %s.", migration.To, migration.From))
	}
	return notes
}

// Add counts a Node or a record.
func (m *Migration) Add(s nodestate.State, inputs plan.Inputs) {
	state, items := policy.MigrationNone, nodestate.ItemsOf(s.Record)
	if s.Node != nil {
		metadata := s.Judge(inputs).Metadata
		state, items = m.migration.StateOn(inputs.Policy, metadata), metadata.Items
	} else if s.Record != nil {
		state = m.migration.StateInRecord(*s.Record)
	}
	key := MigrationGroup{State: state}
	switch state {
	case policy.MigrationNone:
		return
	case policy.MigrationDone, policy.MigrationCopied: // whatever the value is
	default:
		key.Old, key.New = nodestate.FormatValue(nodestate.ValueIn(items, m.From)), nodestate.FormatValue(nodestate.ValueIn(items, m.To))
	}
	group := m.groups.entry(key, maxChanges, key)
	if group == nil {
		return
	}
	if group.Nodes++; group.Nodes <= firstNodes {
		group.First = joinedBy(group.First, s.Name)
	}
}

func joinedBy(list, name string) string {
	if list == "" {
		return name
	}
	return list + "," + name
}

// AddUses counts an object that selects on labels.
func (m *Migration) AddUses(uses []selection.Use) {
	for _, use := range uses {
		if use.Key != m.From {
			continue
		}
		key := MigrationUse{Kind: use.Kind, Field: use.Field}
		counted := m.uses.entry(key, math.MaxInt, key) // there are few kinds
		if counted.Count++; counted.Count <= firstNodes {
			counted.First = joinedBy(counted.First, path.Join(use.Namespace, use.Name))
		}
	}
}

// Summarize completes the migration once all was counted.
func (m *Migration) Summarize(unread []string) {
	order := func(s policy.MigrationState) int { return slices.Index(policy.MigrationStates(), s) }
	m.Groups = m.groups.sorted(func(a, b MigrationGroup) int {
		return cmp.Or(cmp.Compare(order(a.State), order(b.State)), cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Old, b.Old), cmp.Compare(a.New, b.New))
	})
	m.Selecting = m.uses.sorted(func(a, b MigrationUse) int {
		return cmp.Or(cmp.Compare(rankOf(a.Kind), rankOf(b.Kind)), cmp.Compare(a.Field, b.Field))
	})
	m.Unread = unread
}

// rankOf puts DaemonSets first: the removal of a label deletes their Pods.
func rankOf(kind string) int {
	if kind == "DaemonSet" {
		return -1
	}
	return slices.Index(selection.Kinds(), kind)
}

// CountIn returns how many Nodes, or records of Nodes that do not exist, are in a state.
func (m *Migration) CountIn(state policy.MigrationState) (count int) {
	for _, group := range m.Groups {
		if group.State == state {
			count += group.Nodes
		}
	}
	return count
}

// Blockers returns why the old key must not be removed yet.
func (m *Migration) Blockers() []string {
	blocks := m.Uses()
	for _, kind := range m.Unread {
		blocks = append(blocks, fmt.Sprintf("you may not list every %s, so nobody knows whether one selects on %s", kind, m.From))
	}
	return blocks
}

// Uses returns what selects on the old key.
func (m *Migration) Uses() (uses []string) {
	for _, use := range m.Selecting {
		block := fmt.Sprintf("%s on %s by %s: %s", selectOn(use), m.From, use.Field, use.First)
		if use.Kind == "DaemonSet" {
			block += " (removing the label deletes their Pods)"
		}
		uses = append(uses, block)
	}
	for _, reference := range m.Named {
		if reference.Selects {
			uses = append(uses, fmt.Sprintf("%s of the policy selects on %s", reference.Field, m.From))
		}
	}
	return uses
}

func selectOn(use MigrationUse) string {
	if use.Count == 1 {
		return "1 " + use.Kind + " selects"
	}
	return fmt.Sprintf("%d %ss select", use.Count, use.Kind)
}

// left returns how many Nodes and records are still to be renamed.
func (m *Migration) left() int {
	return m.CountIn(policy.MigrationWaits) + m.CountIn(policy.MigrationCopied) + m.CountIn(policy.MigrationAway)
}

// Finished reports whether no Node or record has the old key, and nothing selects on it.
func (m *Migration) Finished() bool {
	return m.left()+m.CountIn(policy.MigrationConflict)+m.CountIn(policy.MigrationForeign) == 0 && len(m.Blockers()) == 0
}

// Next returns what an operator does next.
func (m *Migration) Next() string {
	switch left := m.left(); {
	case len(m.Problems) > 0:
		return "choose other keys, or change the policy: it cannot have this migration"
	case m.Phase == "":
		return "add {from: " + m.From + ", to: " + m.To + ", phase: both} to labels.migrations"
	case m.Finished():
		return "remove the entry from labels.migrations: nothing is left to do"
	case m.CountIn(policy.MigrationWaits) > 0 && m.Phase == policy.MigrateBoth:
		return "wait until every Node has the new key; if one stays without, its Event LabelRefused says why"
	case len(m.Blockers()) > 0 && m.Phase == policy.MigrateBoth:
		return "change what selects on " + m.From + " to " + m.To
	case m.Phase == policy.MigrateBoth && left > 0:
		return "nodekeep accept migration " + m.From + "=" + m.To
	case m.CountIn(policy.MigrationConflict) > 0:
		return "remove or change one of the two labels where they differ"
	case m.CountIn(policy.MigrationForeign) > 0 && left == 0:
		return "stop what sets " + m.From + " on the Nodes listed as foreign, such as --node-labels of their kubelets"
	default:
		return "wait until capture has renamed the label; if it holds that: nodekeep accept migration " + m.From + "=" + m.To
	}
}
