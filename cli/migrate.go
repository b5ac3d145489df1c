package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/cli/impact"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/policy"
)

func newMigrateCommand(streams genericiooptions.IOStreams) *cobra.Command {
	return newGroupCommand(&cobra.Command{
		Use:     "migrate",
		Short:   "Rename a label key without a scheduling gap",
		GroupID: groupAct,
	}, newMigratePlanCommand(streams), newMigrateStatusCommand(streams), newMigrateFinishCommand(streams))
}

func newMigratePlanCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := newOptions(streams)
	o.rights = rightsForAll
	return o.command(&cobra.Command{
		Use:   "plan OLD=NEW [flags]",
		Short: "What renaming a label key is about: Nodes, records, conflicts, and what selects on it",
		Long: `Plan looks at every Node, every record, the policy, and every object that selects Nodes. These are Pods,
workloads, PersistentVolumes, StorageClasses and RuntimeClasses. It says how many Nodes have the key OLD, and where OLD
and NEW have different values. It says where another component sets OLD again, and what selects on OLD. It also says
whether the policy can have this migration. Nothing is changed.

Plan does not see others that select on OLD: a custom resource, or a program that reads Nodes.`,
		Example: `
			nodekeep migrate plan gpu=example.com/gpu`,
		Args: oneArg("one OLD=NEW", checkRenaming),
	}, prints|decides, func(ctx context.Context, c *session, args []string) error {
		renaming := renamingOf(args[0])
		m := impact.NewMigration(renaming, c.in.Policy)
		if m.Phase == "" {
			for _, err := range c.in.Policy.CheckMigration(renaming) {
				m.Problems = append(m.Problems, err.Field+": "+err.ErrorBody())
			}
		}
		if err := c.CountMigrations(ctx, c.in, m); err != nil {
			return err
		}
		if err := o.write(c, "Migration", view.Migration{Migration: m}); err != nil {
			return err
		}
		if len(m.Problems) > 0 {
			return findings(fmt.Errorf("the policy cannot have a migration of %s to %s", m.From, m.To))
		}
		return nil
	})
}

func newMigrateStatusCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := newOptions(streams)
	o.rights = rightsForAll
	return o.command(&cobra.Command{
		Use:   "status [flags]",
		Short: "How far the migrations of the policy are, and what is to be done next",
		Long: `Status says of each migration in the policy how many Nodes have the old key, both or the new key. It also says
what still selects on the old key. The exit code is 1 while a Node or a record has the old key, or something selects on
it.`,
		Example: `
			nodekeep migrate status

			# For scripts
			nodekeep migrate status -o jsonpath='{.migrations[*].selecting}'`,
	}, prints|decides, func(ctx context.Context, c *session, _ []string) error {
		all := view.Migrations{Migrations: []*impact.Migration{}}
		for _, m := range c.in.Policy.Migrations() {
			all.Migrations = append(all.Migrations, impact.NewMigration(m, c.in.Policy))
		}
		if err := c.CountMigrations(ctx, c.in, all.Migrations...); err != nil {
			return err
		}
		if err := o.write(c, "Migrations", all); err != nil {
			return err
		}
		for _, m := range all.Migrations {
			if !strings.HasPrefix(m.Next(), "remove the entry") {
				return findings(fmt.Errorf("the migration of %s to %s is open", m.From, m.To))
			}
		}
		return nil
	})
}

func newMigrateFinishCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := newOptions(streams)
	o.rights = func(c *session, _ []string) []doctor.Right { return c.acceptRulesRights("get", "patch", "create") }
	force := false
	command := o.command(&cobra.Command{
		Use:   "new OLD=NEW [flags]",
		Short: "Remove the old key of a migration, once nothing selects on it",
		Long: `New checks that nothing selects on the key OLD. It refuses while a workload, a volume or a rule of the policy
does. It also refuses while you may not list one of these kinds. --force goes on all the same: the DaemonSet controller
then deletes Pods whose Nodes lose the label.

While the policy says phase: both, New prints the edit that is to be made where you keep the policy. Once the policy
says phase: new, capture holds the migration, and New releases it, as "nodekeep policy accept" does. capture then
writes NEW into each record before it removes OLD from the Node. It removes OLD only from Nodes that have both.`,
		Example: `
			nodekeep migrate new gpu=example.com/gpu`,
		Args: oneArg("one OLD=NEW", checkRenaming),
	}, asks, func(ctx context.Context, c *session, args []string) error {
		renaming := renamingOf(args[0])
		p, err := (&policySource{}).read(ctx, c)
		if err != nil {
			return err
		}
		known, ok := p.MigrationOf(renaming.From)
		if !ok || known.To != renaming.To {
			return fmt.Errorf("the policy in the cluster has no migration of %s to %s; begin with: nodekeep migrate plan %s", renaming.From, renaming.To, args[0])
		}
		c.decideUnder(ctx, p)
		if err := c.checkFinish(ctx, force, known); err != nil {
			return err
		}
		if known.Phase == policy.MigrateBoth {
			return c.printResult("Change the policy where you keep it (values of the chart, or kubectl edit nodepolicy %s), then run this command again:\n  labels.migrations: {from: %s, to: %s, phase: both} becomes {from: %s, to: %s, phase: new}",
				doctor.PolicyName, known.From, known.To, known.From, known.To)
		}
		return o.change(ctx, c, func(ctx context.Context) (*proposal, error) { return c.acceptRules(ctx, p.RulesHash(), false, true) })
	})
	command.Flags().BoolVar(&force, "force", false, "go on although something selects on the old key")
	return command
}

// checkFinish refuses while something selects on the old key of a migration. It checks every migration that the policy would finish at once.
func (c *session) checkFinish(ctx context.Context, force bool, migration policy.Migration) error {
	migrations := []*impact.Migration{impact.NewMigration(migration, c.in.Policy)}
	for _, m := range c.in.Policy.Migrations() {
		if m != migration && migration.Phase == policy.MigrateNew && m.Phase == policy.MigrateNew { // one release is for all rules of the policy
			migrations = append(migrations, impact.NewMigration(m, c.in.Policy))
		}
	}
	if err := c.CountMigrations(ctx, c.in, migrations...); err != nil {
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
		return findings(fmt.Errorf("nothing was changed: the old key is in use\n%s\nChange these first, or say --force", listed))
	}
	c.say("The old key is in use:\n%s", listed)
	return nil
}

// checkRenaming returns an error for what is not OLD=NEW.
func checkRenaming(argument string) error {
	from, to, ok := strings.Cut(argument, "=")
	if !ok {
		return fmt.Errorf("%q must be OLD=NEW, such as gpu=example.com/gpu", argument)
	}
	return cmp.Or(checkLabelKey(from), checkLabelKey(to))
}

// renamingOf returns the migration that an argument names; checkRenaming has checked it.
func renamingOf(argument string) policy.Migration {
	from, to, _ := strings.Cut(argument, "=")
	return policy.Migration{From: from, To: to, Phase: policy.MigrateBoth}
}

// migrationToFinish returns a migration whose release would remove a label from Nodes; ok is false where none would.
func migrationToFinish(p policy.Policy, renamed int) (m policy.Migration, ok bool) {
	for _, m := range p.Migrations() {
		if m.Phase == policy.MigrateNew && renamed > 0 {
			return m, true
		}
	}
	return policy.Migration{}, false
}
