package tool

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"nodekeep.dev/nodekeep/cmd/tool/view"
)

// importOptions are the flags of `import`.
type importOptions struct {
	*connection
	confirmation
	output
	view.ImportOptions
	policy policySource
	dryRun bool
}

func newImportCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &importOptions{connection: newConnection(streams), output: output{names: true}}
	command := newCommand(&cobra.Command{
		Use:   "import FILE [flags]",
		Short: "Take over the records of a file that export has written",
		Long: `Import puts the records of FILE (- for stdin) into the cluster, this one or another. The whole file is checked first, and nothing
is done while there is a mistake in it. Then it shows what would become of the records, and asks:

  create       there is no record of the Node here, and no such Node: the record is written
  same         what is remembered here is the same, or all of it is on the live Node
  change       there is another record here, of a Node that is not there, and by its history the file's held the very same before
  newer here   there is another record here, of a Node that is not there: it counts as newer, and stays; --overwrite replaces it
               ("change" then)
  live         the Node is there, and it, or its record, lacks something that the file has. Nothing is done without --apply
               ("give" then): the Node gets the labels and taints that it lacks and that the policy gives, with your rights and
               exactly in the state that was looked at; capture records them. What it shows with another value stays, unless
               --overwrite is given too. What the policy withholds is added to its record. Nothing is ever taken off a Node
  undecided    the record here is quarantined, or that of the file is and the Node is there, or the policy quarantines machines
               and the Node's is another: a person has to decide first
  unreadable   there is a record here that cannot be read: it is left as it is

Of a record its labels and taints, what is withheld, the machine, the history and what is quarantined are taken over, with a
decision that was made about that carried out; not which Node object it was of, how new that was and which taints rules had put on
there: all of these mean nothing for another object. How long it is kept counts from the import on. A Node that registers
meanwhile gets what its record says.

An import that was broken off is begun again the same way: what was done is "same" then. With exit code 0 everything in the file
is remembered here; with 1 a part was left alone or could not be done, and stderr says which.`,
		Example: `
			# What it would do, record by record
			nodekeep import records.json --dry-run -o wide

			# A new cluster whose Nodes are not there yet
			nodekeep import records.json --yes

			# One whose Nodes have registered before
			nodekeep import records.json --apply --yes`,
		GroupID: groupAct,
		Args: func(command *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("%s takes one file, and was given %d arguments", command.CommandPath(), len(args))
			}
			return nil
		},
	}, o.connection, o.run)
	flags := command.Flags()
	flags.BoolVar(&o.Overwrite, "overwrite", false, "replace records that are newer here, and with --apply what live Nodes show with another value")
	flags.BoolVar(&o.Apply, "apply", false, "give live Nodes what they lack")
	flags.BoolVar(&o.dryRun, "dry-run", false, "only show what would be done; -o wide shows it for each record")
	o.output.addTo(command)
	o.policy.addTo(command)
	o.confirmation.addTo(flags)
	return command
}

func (o *importOptions) run(ctx context.Context, args []string) error {
	if err := o.check(); err != nil {
		return err
	}
	switch {
	case args[0] == "-" && !o.yes && !o.dryRun:
		return usage(errors.New("with the file on stdin nobody can be asked: --yes says it beforehand, --dry-run shows what would be done"))
	case !o.dryRun && o.format != formatTable:
		return usage(fmt.Errorf("--output %s is for --dry-run", o.format))
	}
	c, err := o.open()
	if err != nil {
		return err
	}
	file, err := openImport(args[0], c.In)
	if err != nil {
		return err
	}
	defer file.close()
	if err := file.check(ctx, args[0], c.ErrOut); err != nil {
		return err
	}
	world, err := c.world(ctx, &o.policy)
	if err != nil {
		return err
	}
	plan, err := c.planImport(ctx, file, world, o.ImportOptions, o.dryRun && o.format != formatTable)
	if err != nil {
		return err
	}
	if o.dryRun {
		return o.show(c, plan)
	}
	if plan.Work() > 0 && !o.yes {
		if err := o.document(c.ErrOut, plan.Document(c.now())); err != nil {
			return err
		}
		if err := o.ask(ctx, c.IOStreams, fmt.Sprintf("\nImport %d of %d records?", plan.Work(), plan.All())); err != nil {
			return err
		}
	}
	return plan.carryOut(ctx)
}

// show is the answer of a dry run.
func (o *importOptions) show(c *cluster, plan *importPlan) error {
	var err error
	switch o.format {
	case formatTable:
		err = o.document(c.Out, plan.Document(c.now()))
	case "name":
		var names []string
		for _, one := range plan.list.Items {
			names = append(names, one.Node)
		}
		err = o.nodeNames(c.Out, names)
	default:
		err = o.write(c, "ImportList", plan.list)
	}
	if err != nil {
		return err
	}
	return findings(plan.LeftAlone())
}
