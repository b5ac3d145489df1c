package cli

import (
	"context"
	"fmt"

	"nodekeep.dev/nodekeep/cli/impact"
	"nodekeep.dev/nodekeep/cli/view"
)

// migrationsSection is the section of a report that is about renamed keys. It is shown where it is asked for, and is no table.
const migrationsSection = "migrations"

// reportMigrations shows how far each migration of the policy is. With a renaming, it shows what that one is about, whether the policy has it or not.
func (o *reportOptions) reportMigrations(ctx context.Context, c *session, renamings []string) error {
	if len(renamings) > 0 {
		return o.reportRenaming(ctx, c, renamings[0])
	}
	all := view.Migrations{Migrations: []*impact.Migration{}}
	for _, m := range c.inputs.Policy.Migrations() {
		all.Migrations = append(all.Migrations, impact.NewMigration(m, c.inputs.Policy))
	}
	if err := c.CountMigrations(ctx, c.inputs, all.Migrations...); err != nil {
		return err
	}
	if err := o.write(c, "Migrations", all); err != nil {
		return err
	}
	for _, m := range all.Migrations {
		if o.exitCode && !m.Finished() {
			return asFindings(fmt.Errorf("the migration of %s to %s is not finished", m.From, m.To))
		}
	}
	return nil
}

// reportRenaming shows what renaming one key is about.
func (o *reportOptions) reportRenaming(ctx context.Context, c *session, argument string) error {
	renaming := parseMigration(argument)
	m := impact.NewMigration(renaming, c.inputs.Policy)
	if m.Phase == "" {
		for _, err := range c.inputs.Policy.CheckMigration(renaming) {
			m.Problems = append(m.Problems, err.Field+": "+err.ErrorBody())
		}
	}
	if err := c.CountMigrations(ctx, c.inputs, m); err != nil {
		return err
	}
	if err := o.write(c, "Migration", view.Migration{Migration: m}); err != nil {
		return err
	}
	if o.exitCode && len(m.Problems) > 0 {
		return asFindings(fmt.Errorf("the policy cannot have a migration of %s to %s", m.From, m.To))
	}
	return nil
}
