package view

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/selection"
)

// Migrations is how far the migrations of labels are.
type Migrations struct {
	Migrations []*Migration `json:"migrations"`
}

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

	of     policy.Migration
	groups tally[MigrationGroup, MigrationGroup]
	uses   tally[MigrationUse, MigrationUse]
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
	Kind  string        `json:"kind"`
	How   selection.How `json:"how"`
	Count int           `json:"count"`
	First string        `json:"first"` // the first of these objects
}

// NewMigration returns a migration of which nothing is counted yet.
func NewMigration(of policy.Migration, p policy.Policy) *Migration {
	m := &Migration{From: of.From, To: of.To, Named: []policy.Reference{}, of: of}
	if known, is := p.MigrationOf(of.From); is && known.To == of.To {
		m.of, m.Phase = known, known.Phase
	}
	for _, reference := range p.References() {
		if reference.Key == of.From {
			m.Named = append(m.Named, reference)
		}
	}
	m.Notes = notesOn(of)
	return m
}

// notesOn returns what changes with the key, whatever Nodes show.
func notesOn(of policy.Migration) (notes []string) {
	from, to := policy.AllowedForKubelet(of.From), policy.AllowedForKubelet(of.To)
	switch {
	case from && !to:
		notes = append(notes, fmt.Sprintf("%s is protected: kubelets may not set it. capture adds it behind the gate when a Node registers, and kubelets that set %s by --node-labels can no longer do so under the new key.", of.To, of.From))
	case !from && to:
		notes = append(notes, fmt.Sprintf("%s is an ordinary key: a kubelet can change it on its own Node, which it cannot with %s.", of.To, of.From))
	}
	return notes
}

// See counts a Node or a record.
func (m *Migration) See(s NodeState, in plan.Circumstances) {
	state, items := policy.MigrationNone, itemsOf(s.Record)
	if s.Node != nil {
		metadata := s.Judge(in).metadata
		state, items = m.of.StateOn(in.Policy, metadata), metadata.Items
	} else if s.Record != nil {
		state = m.of.StateAway(*s.Record)
	}
	key := MigrationGroup{State: state}
	switch state {
	case policy.MigrationNone:
		return
	case policy.MigrationDone, policy.MigrationCopied: // whatever the value is
	default:
		key.Old, key.New = shown(valueIn(items, m.From)), shown(valueIn(items, m.To))
	}
	group := m.groups.at(key, mostChanges, key)
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

// Selects counts an object that selects on labels.
func (m *Migration) Selects(uses []selection.Use) {
	for _, use := range uses {
		if use.Key != m.From {
			continue
		}
		key := MigrationUse{Kind: use.Kind, How: use.How}
		counted := m.uses.at(key, math.MaxInt, key) // there are few kinds
		if counted.Count++; counted.Count <= firstNodes {
			counted.First = joinedBy(counted.First, path.Join(use.Namespace, use.Name))
		}
	}
}

// Done completes the migration once all was counted.
func (m *Migration) Done(unread []string) {
	order := func(s policy.MigrationState) int { return slices.Index(policy.MigrationStates(), s) }
	m.Groups = m.groups.sorted(func(a, b MigrationGroup) int {
		return cmp.Or(cmp.Compare(order(a.State), order(b.State)), cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Old, b.Old), cmp.Compare(a.New, b.New))
	})
	m.Selecting = m.uses.sorted(func(a, b MigrationUse) int {
		return cmp.Or(cmp.Compare(rankOf(a.Kind), rankOf(b.Kind)), cmp.Compare(a.How, b.How))
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

// In returns how many Nodes, or records of Nodes that do not exist, are in a state.
func (m *Migration) In(state policy.MigrationState) (count int) {
	for _, group := range m.Groups {
		if group.State == state {
			count += group.Nodes
		}
	}
	return count
}

// Counts reports how many Nodes and records there are of each state.
func (m *Migration) Counts() string {
	var counts []string
	for _, state := range policy.MigrationStates() {
		if count := m.In(state); count > 0 {
			name, _, _ := strings.Cut(meaning(state), ":")
			counts = append(counts, fmt.Sprintf("%s %d", name, count))
		}
	}
	if len(counts) == 0 {
		return "no Node or record has one of the keys"
	}
	return strings.Join(counts, ", ")
}

// Blocks returns why the old key must not be removed yet.
func (m *Migration) Blocks() []string {
	blocks := m.Uses()
	for _, kind := range m.Unread {
		blocks = append(blocks, fmt.Sprintf("you may not list every %s, so nobody knows whether one selects on %s", kind, m.From))
	}
	return blocks
}

// Uses returns what selects on the old key.
func (m *Migration) Uses() (uses []string) {
	for _, use := range m.Selecting {
		block := fmt.Sprintf("%s on %s by %s: %s", selectOn(use), m.From, use.How, use.First)
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

// Next returns what an operator does next.
func (m *Migration) Next() string {
	left := m.In(policy.MigrationWaits) + m.In(policy.MigrationCopied) + m.In(policy.MigrationAway)
	switch {
	case len(m.Problems) > 0:
		return "choose other keys, or change the policy: it cannot have this migration"
	case m.Phase == "":
		return "add {from: " + m.From + ", to: " + m.To + ", phase: both} to labels.migrations"
	case left+m.In(policy.MigrationConflict)+m.In(policy.MigrationForeign) == 0 && len(m.Blocks()) == 0:
		return "remove the entry from labels.migrations: nothing is left to do"
	case m.In(policy.MigrationWaits) > 0 && m.Phase == policy.MigrateBoth:
		return "wait until every Node has the new key; if one stays without, its Event LabelRefused says why"
	case len(m.Blocks()) > 0 && m.Phase == policy.MigrateBoth:
		return "change what selects on " + m.From + " to " + m.To
	case m.Phase == policy.MigrateBoth && left > 0:
		return "nodekeep migrate new " + m.From + "=" + m.To
	case m.In(policy.MigrationConflict) > 0:
		return "remove or change one of the two labels where they differ"
	case m.In(policy.MigrationForeign) > 0 && left == 0:
		return "stop what sets " + m.From + " on the Nodes listed as foreign, such as --node-labels of their kubelets"
	default:
		return "wait until capture has renamed the label; if it holds that: nodekeep migrate new " + m.From + "=" + m.To
	}
}

// Document returns the answer as text.
func (m Migrations) Document(now time.Time) Document {
	var d Document
	if len(m.Migrations) == 0 {
		d.with("Migrations", "none in the policy")
	}
	for _, one := range m.Migrations {
		each := one.Document(now)
		d.Facts, d.Tables = append(d.Facts, each.Facts...), append(d.Tables, each.Tables...)
	}
	return d
}

// Document returns one of them as text.
func (m *Migration) Document(time.Time) Document {
	var d Document
	d.with("Migration", m.From+" to "+m.To)
	d.with("Phase", cmp.Or(string(m.Phase), "not in the policy"))
	for _, problem := range m.Problems {
		d.with("Problem", problem)
	}
	for _, note := range m.Notes {
		d.with("Note", note)
	}
	if m.In(policy.MigrationForeign) > 0 {
		d.with("Note", "another component sets "+m.From+" on some Nodes again when they register, such as the kubelet with --node-labels. It stays there.")
	}
	for _, reference := range m.Named {
		if !reference.Selects {
			d.with("Named by policy", reference.Field)
		}
	}
	d.with("Next", m.Next())
	nodes, uses := tableOf("State", "Old", "New", "Nodes", "Such as"), tableOf("Selects on "+m.From, "By", "Objects", "Such as")
	for _, group := range m.Groups {
		add(nodes, meaning(group.State), cmp.Or(group.Old, "any"), cmp.Or(group.New, "any"), group.Nodes, group.First)
	}
	for _, use := range m.Selecting {
		add(uses, use.Kind, string(use.How), use.Count, use.First)
	}
	for _, reference := range m.Named {
		if reference.Selects {
			add(uses, "policy", reference.Field, 1, "")
		}
	}
	for _, kind := range m.Unread {
		add(uses, kind, "not known: you may not list it", none, "")
	}
	d.Tables = append(d.Tables, nodes, uses)
	return d
}

func meaning(state policy.MigrationState) string {
	switch state {
	case policy.MigrationWaits:
		return "old key only"
	case policy.MigrationCopied:
		return "both keys"
	case policy.MigrationConflict:
		return "conflict: two values"
	case policy.MigrationForeign:
		return "foreign: another component sets the old key"
	case policy.MigrationAway:
		return "away: the record has the old key"
	default:
		return "new key only"
	}
}
