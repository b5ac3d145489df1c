package doctor

import (
	"fmt"
	"strings"

	"nodekeep.dev/nodekeep/cli/impact"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/policy"
)

// judgeMigrations reports for each migration in the policy what is left to do, and what stands in its way.
func judgeMigrations(seen Installation) answer {
	a := answer{okText: "the policy has none"}
	if addUnknown(&a, policyObject, seen.Migrations); !seen.Migrations.isKnown() {
		return a
	}
	inForce, ok := seen.requirePolicy(&a, policyObject)
	if !ok || len(seen.Migrations.Value) == 0 {
		return a
	}
	a.okText = fmt.Sprintf("open: %d; see below", len(seen.Migrations.Value))
	for _, m := range seen.Migrations.Value {
		judgeMigration(&a, m, seen.AcceptedConfigMap.isKnown() && seen.rulesState(inForce) == rulesHeld)
	}
	return a
}

// judgeMigration judges one migration. If held is true, capture removes no old keys until an operator releases the migration.
func judgeMigration(a *answer, m *impact.Migration, held bool) {
	find := func(severity Severity, remedy Remedy, format string, args ...any) {
		a.add(severity, policyObject, remedy, "the migration of %s to %s "+format, append([]any{m.From, m.To}, args...)...)
	}
	status := func(text string) Remedy { return newRemedy(text, "nodekeep report migrations") }
	change, finish := status("Change these to "+m.To+":"), finishMigration(m.From, m.To)
	finishing := m.Phase == policy.MigrateNew
	switch uses := m.Uses(); {
	case finishing && held && len(uses) > 0:
		change.Commands = append(change.Commands, finish)
		find(Warning, change, "is held, and blocked: %s", firstOf(uses))
	case finishing && held:
		find(Warning, newRemedy("Let capture remove the old key:", finish), "is held: capture does not remove %s before an operator releases it", m.From)
	case finishing && len(uses) > 0:
		find(Warning, change, "removes %s from Nodes while it is in use: %s", m.From, firstOf(uses))
	}
	if conflicts := m.CountIn(policy.MigrationConflict); conflicts > 0 {
		find(Warning, status("Remove or change one of the two labels where they differ:"),
			"leaves %d Nodes or records alone: both keys have a value of their own there", conflicts)
	}
	if len(m.Unread) > 0 {
		find(SeverityUnknown, status("Ask an operator who may list them in all namespaces:"),
			"may be blocked: you may not list every %s", strings.Join(m.Unread, ", "))
	}
	find(Note, status("Next: "+m.Next()+"."), "is open, in phase %s: %s", m.Phase, view.MigrationCounts(m))
}

// firstOf names the first of many.
func firstOf(all []string) string {
	if len(all) == 1 {
		return all[0]
	}
	return fmt.Sprintf("%s; and %d more", all[0], len(all)-1)
}

// finishMigration returns the command by which capture removes the old key of a migration.
func finishMigration(from, to string) string { return "nodekeep accept migration " + from + "=" + to }
