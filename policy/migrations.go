package policy

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/record"
)

// maxMigrations bounds labels.migrations: each is looked at for every Node.
const maxMigrations = 20

// Migration is an entry of labels.migrations: it renames a label key.
type Migration struct {
	// The key so far.
	// +required
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$`
	From string `json:"from"`
	// The new key.
	// +required
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$`
	To string `json:"to"`
	// How far it is: both (the new key follows the old one) or new (it replaces the old one).
	// +required
	Phase MigrationPhase `json:"phase"`
	// Allows a key that no kubelet may set to follow one that a kubelet may set: kubelet.
	Trust classify.Trust `json:"trust,omitempty"`
}

// MigrationPhase is the phase of a migration.
// +kubebuilder:validation:Enum=both;new
type MigrationPhase string

// The values of phase.
const (
	MigrateBoth MigrationPhase = "both" // the new key follows the old one
	MigrateNew  MigrationPhase = "new"  // the new key takes the old one's place, on each Node that shows both, and in each record
)

// Migrations returns labels.migrations.
func (p Policy) Migrations() []Migration { return p.migrations }

// MigrationOf returns the migration that renames a key.
func (p Policy) MigrationOf(from string) (m Migration, ok bool) {
	i := slices.IndexFunc(p.migrations, func(m Migration) bool { return m.From == from })
	if i < 0 {
		return Migration{}, false
	}
	return p.migrations[i], true
}

// RenamedTo returns the key that has replaced the key of an item on a Node. The record has the value under the new key only.
func (p Policy) RenamedTo(node Metadata, item string) (to string, ok bool) {
	m, migrates := p.MigrationOf(item)
	if !migrates || m.Phase != MigrateNew {
		return "", false
	}
	old, known := node.Record.Entry(item)
	e, recorded := node.Record.Entry(m.To)
	value, shown := node.Items[item]
	return m.To, shown && recorded && !e.Removed && e.Value == value && (!known || old.Removed)
}

// copies returns the labels that follow others, by key.
func copies(migrations []Migration) map[string]string {
	sources := make(map[string]string, len(migrations))
	for _, m := range migrations {
		sources[m.To] = m.From
	}
	return sources
}

// CheckMigration says why the policy could not have one more migration.
func (p Policy) CheckMigration(m Migration) field.ErrorList {
	all := append(slices.Clone(p.migrations), m)
	path := field.NewPath("labels", "migrations")
	prefix := path.Index(len(all) - 1).String()
	return slices.DeleteFunc(p.readMigrations(all, path), func(err *field.Error) bool { return !strings.HasPrefix(err.Field, prefix) })
}

// readMigrations checks labels.migrations. All other sections must have been read.
func (p Policy) readMigrations(migrations []Migration, path *field.Path) (errs field.ErrorList) {
	if len(migrations) > maxMigrations {
		return field.ErrorList{field.TooMany(path, len(migrations), maxMigrations)}
	}
	names := func(key string, side func(Migration) string) int {
		return slices.IndexFunc(migrations, func(m Migration) bool { return side(m) == key })
	}
	from, to := func(m Migration) string { return m.From }, func(m Migration) string { return m.To }
	for i, m := range migrations {
		fieldPath := path.Index(i)
		errs = append(errs, oneOf(fieldPath.Child("phase"), m.Phase, MigrateBoth, MigrateNew)...)
		if m.Trust != "" {
			errs = append(errs, oneOf(fieldPath.Child("trust"), m.Trust, classify.TrustKubelet)...)
		}
		for _, row := range []struct {
			name, key      string
			side, opposite func(Migration) string
		}{{"from", m.From, from, to}, {"to", m.To, to, from}} {
			in := fieldPath.Child(row.name)
			wrong := validation.IsQualifiedName(row.key)
			for _, problem := range wrong {
				errs = append(errs, field.Invalid(in, row.key, problem))
			}
			if len(wrong) > 0 {
				continue
			}
			if names(row.key, row.side) < i {
				errs = append(errs, field.Duplicate(in, row.key))
			}
			if opposite := names(row.key, row.opposite); opposite >= 0 {
				errs = append(errs, field.Forbidden(in, fmt.Sprintf("labels.migrations[%d] has this key as its other side: finish one migration, remove its entry, then start the next", opposite)))
			}
			if rules := slices.DeleteFunc(p.labelRules.SetBy(row.key), func(rule string) bool { return rule == classify.CopyRule }); len(rules) > 0 {
				errs = append(errs, field.Forbidden(in, fmt.Sprintf("rule %s decides this label: let the rules set both keys, and later only the new one", strings.Join(rules, ", "))))
			}
			if keeps, reason := p.Keeps(row.key); !keeps {
				errs = append(errs, field.Forbidden(in, "nodekeep does not record this label: "+reason))
			}
		}
		if len(validation.IsQualifiedName(m.From)) > 0 {
			continue
		}
		if m.Phase == MigrateNew { // it removes the old key from all Nodes
			errs = append(errs, removesRequired(p.governance, m.From, fieldPath.Child("from"))...)
		}
		if problem := p.forbids(m.To, origin{kubelet: AllowedForKubelet(m.From), trust: m.Trust}); problem != "" {
			errs = append(errs, field.Forbidden(fieldPath.Child("to"), problem))
		}
	}
	return errs
}

// MigrationState is how far a migration is on one Node, or in the record of one that does not exist.
type MigrationState string

// The states.
const (
	// MigrationNone: neither key is there.
	MigrationNone MigrationState = "none"
	// MigrationWaits: the Node has the old key only. If the API server allows it, capture sets the new key within seconds.
	MigrationWaits MigrationState = "waits"
	// MigrationCopied: the new key follows the old one.
	MigrationCopied MigrationState = "both"
	// MigrationConflict: both keys have a value of their own. They are left alone.
	MigrationConflict MigrationState = "conflict"
	// MigrationForeign: another component, such as the kubelet, sets the old key again by itself.
	MigrationForeign MigrationState = "foreign"
	// MigrationAway: there is no such Node, and its record has the old key.
	MigrationAway MigrationState = "away"
	// MigrationDone: only the new key is left.
	MigrationDone MigrationState = "new"
)

// MigrationStates returns all states but [MigrationNone].
func MigrationStates() []MigrationState {
	return []MigrationState{MigrationWaits, MigrationCopied, MigrationConflict, MigrationForeign, MigrationAway, MigrationDone}
}

// StateOn returns how far the migration is on a Node that exists.
func (m Migration) StateOn(p Policy, node Metadata) MigrationState {
	value, old := node.Items[m.From]
	current, renamed := node.Items[m.To]
	recorded, known := node.Record.Entry(m.From)
	switch {
	case !old && known && !recorded.Removed: // it waits to be restored
		return MigrationWaits
	case !old && renamed:
		return MigrationDone
	case !old:
		return MigrationNone
	case renamed && value != current:
		return MigrationConflict
	case p.setByOthers(node, m.From):
		return MigrationForeign
	case renamed:
		return MigrationCopied
	default:
		return MigrationWaits
	}
}

// StateInRecord returns how far the migration is in the record of a Node that does not exist.
func (m Migration) StateInRecord(r record.Record) MigrationState {
	old, hasOld := r.Entry(m.From)
	current, hasNew := r.Entry(m.To)
	hasOld, hasNew = hasOld && !old.Removed, hasNew && !current.Removed
	switch {
	case hasOld && hasNew && old.Value != current.Value:
		return MigrationConflict
	case hasOld:
		return MigrationAway
	case hasNew:
		return MigrationDone
	default:
		return MigrationNone
	}
}

// Renames reports whether the new key can replace the old one in the record of a Node. The Node shows the new key, with the value that the
// record has for the old one. If it still shows the old key, that has the same value, and no other component sets it again.
func (m Migration) Renames(p Policy, node Metadata) bool {
	old, known := node.Record.Entry(m.From)
	e, recorded := node.Record.Entry(m.To)
	value, shown := node.Items[m.To]
	oldValue, stays := node.Items[m.From]
	return m.Phase == MigrateNew && known && !old.Removed && shown && value == old.Value &&
		(!recorded || e.Removed || e.Value == old.Value) && (!stays || oldValue == old.Value && !p.setByOthers(node, m.From))
}

// Removes reports whether the old key can be removed from a Node. The Node shows both keys with one value, and the record has that value
// under the new key only.
func (m Migration) Removes(p Policy, node Metadata) bool {
	to, renamed := p.RenamedTo(node, m.From)
	value, shown := node.Items[to]
	return renamed && shown && value == node.Items[m.From] && !p.setByOthers(node, m.From)
}

// setByOthers reports whether the Node shows that another component sets a label again by itself.
func (p Policy) setByOthers(node Metadata, key string) bool {
	return p.ownedByOthers(node.Owners[key]) || slices.Contains(node.Claimed, key)
}
