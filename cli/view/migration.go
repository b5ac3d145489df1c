package view

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"nodekeep.dev/nodekeep/cli/impact"
	"nodekeep.dev/nodekeep/policy"
)

// Migrations is how far the migrations of labels are.
type Migrations struct {
	Migrations []*impact.Migration `json:"migrations"`
}

// Migration is how far one of them is.
type Migration struct{ *impact.Migration }

// Document returns the answer as text.
func (m Migrations) Document(now time.Time) Document {
	var d Document
	if len(m.Migrations) == 0 {
		d.addFact("Migrations", "none in the policy")
	}
	for _, item := range m.Migrations {
		doc := Migration{item}.Document(now)
		d.Facts, d.Tables = append(d.Facts, doc.Facts...), append(d.Tables, doc.Tables...)
	}
	return d
}

// Document returns one of them as text.
func (m Migration) Document(time.Time) Document {
	var d Document
	d.addFact("Migration", m.From+" to "+m.To)
	d.addFact("Phase", cmp.Or(string(m.Phase), "not in the policy"))
	for _, problem := range m.Problems {
		d.addFact("Problem", problem)
	}
	for _, note := range m.Notes {
		d.addFact("Note", note)
	}
	if m.CountIn(policy.MigrationForeign) > 0 {
		d.addFact("Note", "another component sets "+m.From+" on some Nodes again when they register, such as the kubelet with --node-labels. It stays there.")
	}
	for _, reference := range m.Named {
		if !reference.Selects {
			d.addFact("Named by policy", reference.Field)
		}
	}
	d.addFact("Next", m.Next())
	nodes, uses := tableOf("State", "Old", "New", "Nodes", "Such as"), tableOf("Selects on "+m.From, "By", "Objects", "Such as")
	for _, group := range m.Groups {
		addRow(nodes, migrationStateText(group.State), cmp.Or(group.Old, "any"), cmp.Or(group.New, "any"), group.Nodes, group.First)
	}
	for _, use := range m.Selecting {
		addRow(uses, use.Kind, string(use.Field), use.Count, use.First)
	}
	for _, reference := range m.Named {
		if reference.Selects {
			addRow(uses, "policy", reference.Field, 1, "")
		}
	}
	for _, kind := range m.Unread {
		addRow(uses, kind, "not known: you may not list it", noValue, "")
	}
	d.Tables = append(d.Tables, nodes, uses)
	return d
}

func migrationStateText(state policy.MigrationState) string {
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

// MigrationCounts reports how many Nodes and records there are of each state.
func MigrationCounts(m *impact.Migration) string {
	var counts []string
	for _, state := range policy.MigrationStates() {
		if count := m.CountIn(state); count > 0 {
			name, _, _ := strings.Cut(migrationStateText(state), ":")
			counts = append(counts, fmt.Sprintf("%s %d", name, count))
		}
	}
	if len(counts) == 0 {
		return "no Node or record has one of the keys"
	}
	return strings.Join(counts, ", ")
}
