package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/cli/impact"
	"nodekeep.dev/nodekeep/policy"
)

// acceptMigration removes the old key of a migration, once nothing selects on it.
func (o *acceptOptions) acceptMigration(ctx context.Context, c *session, argument string) error {
	renaming := parseMigration(argument)
	p, err := (&policySource{}).read(ctx, c)
	if err != nil {
		return err
	}
	known, ok := p.MigrationOf(renaming.From)
	if !ok || known.To != renaming.To {
		return fmt.Errorf("the policy in the cluster has no migration of %s to %s; begin with: nodekeep report migrations %s", renaming.From, renaming.To, argument)
	}
	c.usePolicy(ctx, p)
	if err := c.requireOldKeyUnused(ctx, o.force, known); err != nil {
		return err
	}
	if known.Phase == policy.MigrateBoth {
		if o.dryRun {
			defer c.say(nothingChanged)
		}
		return c.printResult("Change the policy where you keep it (values of the chart, or kubectl edit nodepolicy %s), then run this command again:\n  labels.migrations: {from: %s, to: %s, phase: both} becomes {from: %s, to: %s, phase: new}",
			doctor.PolicyName, known.From, known.To, known.From, known.To)
	}
	return o.change(ctx, c, func(ctx context.Context) (*proposal, error) { return c.planAcceptRules(ctx, p.RulesHash(), true, nil) })
}

// requireOldKeyUnused refuses while something selects on the old key of a migration. It checks every migration that the policy would finish at once.
func (c *session) requireOldKeyUnused(ctx context.Context, force bool, migration policy.Migration) error {
	migrations := []*impact.Migration{impact.NewMigration(migration, c.inputs.Policy)}
	for _, m := range c.inputs.Policy.Migrations() {
		if m != migration && migration.Phase == policy.MigrateNew && m.Phase == policy.MigrateNew { // to accept the rules finishes all of these at once
			migrations = append(migrations, impact.NewMigration(m, c.inputs.Policy))
		}
	}
	if err := c.CountMigrations(ctx, c.inputs, migrations...); err != nil {
		return err
	}
	var blocks []string
	for _, m := range migrations {
		blocks = append(blocks, m.Blockers()...)
	}
	if len(blocks) == 0 {
		return nil
	}
	listed := "  " + strings.Join(blocks, "\n  ")
	if !force {
		return asFindings(fmt.Errorf("nothing was changed: the old key is in use\n%s\nChange these first, or say --force", listed))
	}
	c.say("The old key is in use:\n%s", listed)
	return nil
}

// checkMigrationArgument returns an error for what is not OLD=NEW.
func checkMigrationArgument(argument string) error {
	from, to, ok := strings.Cut(argument, "=")
	if !ok {
		return fmt.Errorf("%q must be OLD=NEW, such as gpu=example.com/gpu", argument)
	}
	return cmp.Or(checkLabelKey(from), checkLabelKey(to))
}

// parseMigration returns the migration that an argument names; checkMigrationArgument has checked it.
func parseMigration(argument string) policy.Migration {
	from, to, _ := strings.Cut(argument, "=")
	return policy.Migration{From: from, To: to, Phase: policy.MigrateBoth}
}

// migrationToFinish returns a migration whose old key would be removed from Nodes once the rules are accepted; ok is false where there is none.
func migrationToFinish(p policy.Policy, renamed int) (m policy.Migration, ok bool) {
	for _, m := range p.Migrations() {
		if m.Phase == policy.MigrateNew && renamed > 0 {
			return m, true
		}
	}
	return policy.Migration{}, false
}
