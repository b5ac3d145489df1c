package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/cli/nodestate"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/governance"
	"nodekeep.dev/nodekeep/report"
)

// reportKind is the kind of what report prints for programs.
const reportKind = "Report"

// defaultRows is how many rows of a table are shown by default.
const defaultRows = 20

// reportOptions are the flags of `report`.
type reportOptions struct {
	*options
	sections   []string
	groupLabel string
	costWindow time.Duration
	rows       int
	exitCode   bool
}

const reportLong = `Report adds up what the Nodes, the records and the workloads of the cluster show about labels. Without a section it
has all of them but migrations.

  summary     Nodes by label and value, capacity by tier, the number of values of labels, changes of the last 30 days
  compliance  which Nodes break which rule of governance
  drift       labels of Nodes that differ from the record, or from what rules derive
  usage       which labels Pods, workloads, volumes, classes and the policy select on. A label that nothing selects on
              was not seen in use. It may still be used: custom resources and programs are not read
  cost        node-hours and core-hours by the value of a label: Nodes that exist now, since their creation. No prices
  migrations  of each migration in the policy, how many Nodes have the old key, both or the new key, what still selects
              on the old key, and what is to be done next. With OLD=NEW, what renaming that label would involve: values
              that differ, components that set OLD again, and whether the policy can have this migration

-o html is one self-contained page with charts for a browser; -o csv is for spreadsheets. Tables show the first rows; -o
json and -o csv have all. Migrations have neither html nor csv. Nothing is changed.

With --exit-code, compliance ends with 1 if a Node breaks a rule, and with 0 if none does. A missing label is no
violation while the rule that would set it lacks facts. migrations ends with 1 while a Node or a record has an old key,
or something selects on it; with OLD=NEW, if the policy cannot have this migration. Report does not read inventories. It
looks for selectors only in Pods, workloads, PersistentVolumes, StorageClasses and RuntimeClasses.`

const reportExamples = `
	# Everything, as a page for a browser
	nodekeep report -o html > report.html

	# Capacity by a label of your own
	nodekeep report summary --tier hardware.tier

	# Which labels does something select on?
	nodekeep report usage

	# Nodes that break a rule, for a program
	nodekeep report compliance -o jsonpath='{range .compliance.violations[*]}{.node}{"\t"}{.key}{"\n"}{end}'

	# In a pipeline: fail if a Node breaks a rule
	nodekeep report compliance --exit-code

	# What renaming a label would involve, before the policy has the migration
	nodekeep report migrations gpu=example.com/gpu

	# Whether all migrations of the policy are finished, for scripts
	nodekeep report migrations --exit-code

	# Node-hours of the last 30 days
	nodekeep report cost --tier team --last 720h`

func newReportCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &reportOptions{options: newOptions(streams)}
	o.reportFormats = true
	command := o.finishWithMethods(&cobra.Command{
		Use:     "report [" + strings.Join(report.Sections(), " | ") + " | " + migrationsSection + " [OLD=NEW]] [flags]",
		Short:   "Labels of all Nodes: counts, violations, drift, use, node-hours, migrations",
		Long:    reportLong,
		Example: reportExamples,
		GroupID: groupSee,
		Args:    o.validateArgs,
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return reportSections(), cobra.ShellCompDirectiveNoFileComp
		},
	}, hasOutput|hasPolicy, o)
	flags := command.Flags()
	flags.StringVar(&o.groupLabel, "tier", corev1.LabelInstanceTypeStable, "label to group capacity and cost by")
	flags.DurationVar(&o.costWindow, "last", 0, "with cost: only the last part of each Node's life, such as 720h; 0: all of it")
	flags.BoolVar(&o.exitCode, "exit-code", false, "with compliance: exit with 1 if a Node breaks a rule of any mode; with migrations: while one is not finished")
	flags.IntVar(&o.rows, "rows", defaultRows, "rows to show of each table")
	return command
}

// reportSections returns what a report can be about.
func reportSections() []string { return append(report.Sections(), migrationsSection) }

// validateArgs takes one section at most, and of migrations one renaming.
func (o *reportOptions) validateArgs(command *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	migrations := args[0] == migrationsSection
	switch {
	case !slices.Contains(reportSections(), args[0]), len(args) > 1 && !migrations:
		return fmt.Errorf("%s takes one section at most, of %s, and was given %q", command.CommandPath(), strings.Join(reportSections(), ", "), args)
	case o.exitCode && !migrations && args[0] != report.ComplianceSection:
		return fmt.Errorf("--exit-code is about the sections %s and %s, and not about %q", report.ComplianceSection, migrationsSection, args[0])
	case migrations && (o.format == formatCSV || o.format == formatHTML):
		return fmt.Errorf("%s has no --output %s", migrationsSection, o.format)
	case migrations && (command.Flags().Changed("rows") || command.Flags().Changed("tier") || command.Flags().Changed("last")):
		return fmt.Errorf("--rows, --tier and --last do not go with %s", migrationsSection)
	case len(args) > 2:
		return fmt.Errorf("%s %s takes one OLD=NEW at most, and was given %d arguments", command.CommandPath(), migrationsSection, len(args)-1)
	case len(args) == 2:
		return checkMigrationArgument(args[1])
	}
	return nil
}

func (o *reportOptions) validate() error {
	if err := checkLabelKey(o.groupLabel); err != nil {
		return fmt.Errorf("--tier %w", err)
	}
	if o.costWindow < 0 {
		return fmt.Errorf("--last %s: must not be negative", o.costWindow)
	}
	if o.rows < 1 {
		return fmt.Errorf("--rows %d: must be 1 or more", o.rows)
	}
	return nil
}

func (o *reportOptions) rights(c *session, args []string) []doctor.Right {
	if len(args) > 0 && slices.Contains([]string{report.ComplianceSection, report.UsageSection, report.CostSection}, args[0]) {
		return []doctor.Right{c.NodesRight("list")}
	}
	return c.allNodesRights("list")
}

func (o *reportOptions) run(ctx context.Context, c *session, args []string) error {
	if len(args) > 0 && args[0] == migrationsSection {
		return o.reportMigrations(ctx, c, args[1:])
	}
	o.sections = args
	if len(args) == 0 {
		o.sections = report.Sections()
	}
	found, err := o.collect(ctx, c)
	if err != nil {
		return err
	}
	if err := o.writeReport(c, found); err != nil {
		return err
	}
	return asFindings(o.problems(found))
}

func (o *reportOptions) includes(sections ...string) bool {
	return slices.ContainsFunc(sections, func(section string) bool { return slices.Contains(o.sections, section) })
}

// problems returns what a report must not pass over in silence; nil: nothing.
func (o *reportOptions) problems(found report.Report) error {
	var all []string
	if found.Usage != nil && len(found.Usage.NotRead) > 0 {
		all = append(all, "not everything that selects Nodes could be read: "+strings.Join(report.UnreadKinds(found.Usage.NotRead), ", "))
	}
	if o.exitCode && found.Compliance.Violating > 0 {
		all = append(all, "rules of governance are broken on "+view.Counted(found.Compliance.Violating, "Node"))
	}
	if len(all) == 0 {
		return nil
	}
	return errors.New(strings.Join(all, "; "))
}

// collect reads the cluster once, page by page, and counts for all sections.
func (o *reportOptions) collect(ctx context.Context, c *session) (report.Report, error) {
	now := c.Now().UTC()
	rules := c.inputs.Policy.Governance()
	nodes, histories, ages := report.NewNodes(o.groupLabel), report.NewHistories(now), report.NewAges(o.groupLabel, o.costWindow, now)
	judged, drifted := report.NewJudged(!rules.Empty()), report.NewDrifted()
	see := func(state nodestate.State) {
		if state.Record != nil {
			histories.See(*state.Record)
		}
		if state.Node == nil {
			return
		}
		nodes.See(state.Node.Labels, state.Node.Status.Capacity)
		ages.See(state.Node.Labels, state.Node.Status.Capacity, state.Node.CreationTimestamp.Time)
		if o.includes(report.ComplianceSection) {
			judged.See(state.Name, violations(state.Violations(c.inputs)))
		}
		if !o.includes(report.DriftSection) {
			return
		}
		if labels, compared := state.Drift(c.inputs); compared {
			drifted.See(state.Name, labels)
		} else {
			drifted.NotCompared()
		}
	}
	states := c.ListStatesWithoutRecords(ctx)
	if o.includes(report.SummarySection, report.DriftSection) { // else no right to read records is needed
		states = c.ListStates(ctx)
	}
	for state, err := range states {
		if err != nil {
			return report.Report{}, err
		}
		see(state)
	}
	found := report.Report{GeneratedAt: now.Truncate(time.Second), Cluster: c.Config.Host, Nodes: nodes.Count()}
	if o.includes(report.SummarySection) {
		found.Summary = nodes.Summary(histories.Changes())
	}
	if o.includes(report.ComplianceSection) {
		found.Compliance = judged.Compliance()
	}
	if o.includes(report.DriftSection) {
		found.Drift = drifted.Drift()
	}
	if o.includes(report.CostSection) {
		found.Cost = ages.Cost()
	}
	if o.includes(report.UsageSection) {
		usage, err := c.labelUsage(ctx, nodes.Keys())
		if err != nil {
			return report.Report{}, err
		}
		found.Usage = usage
	}
	return found, nil
}

// violations returns those of a Node as a report counts them.
func violations(found []governance.Violation) (all []report.Violation) {
	for _, v := range found {
		violation := report.Violation{Rule: v.Rule, Kind: string(v.Kind), Mode: string(v.Mode), Key: v.Key}
		if v.Kind != governance.Required {
			violation.Value = &v.Value
		}
		all = append(all, violation)
	}
	return all
}

// labelUsage returns what selects on labels. The parameter onNodes has the labels of Nodes; those that nothing selects on are in the result, too.
func (c *session) labelUsage(ctx context.Context, onNodes map[string]int) (*report.Usage, error) {
	uses := report.NewUses()
	for _, reference := range c.inputs.Policy.References() {
		uses.SeePolicy(reference.Key, reference.Field, reference.Selects)
	}
	missing, err := c.ListUses(ctx, uses.See)
	if err != nil {
		return nil, err
	}
	for _, kind := range missing {
		uses.NotRead(kind.Kind, kind.Reason)
	}
	return uses.Usage(onNodes), nil
}

// writeReport writes a report in whichever format was asked for.
func (o *reportOptions) writeReport(c *session, found report.Report) error {
	var text string
	var err error
	switch o.format {
	case formatCSV:
		text, err = report.CSV(found.Tables())
	case formatHTML:
		text, err = report.HTML(found, o.rows)
	default:
		return o.write(c, reportKind, reportView{found, o.rows})
	}
	if err != nil {
		return err
	}
	_, err = io.WriteString(unescaped(c.Out), text)
	return err
}

// reportView is a report with the number of rows that the text shows of each table.
type reportView struct {
	report.Report
	rows int
}

// Document returns the answer as text.
func (r reportView) Document(time.Time) view.Document {
	d := view.Document{Facts: []view.Fact{{Name: "Nodes", Value: fmt.Sprint(r.Nodes)}}}
	for _, table := range r.Tables() {
		if table.Note != "" {
			d.Facts = append(d.Facts, view.Fact{Name: table.Title, Value: table.Note})
		}
		if table.DataOnly {
			continue
		}
		shown, omitted := table.First(r.rows)
		if omitted > 0 {
			d.Facts = append(d.Facts, view.Fact{Name: table.Title, Value: fmt.Sprintf("the first %d of %d rows (--rows)", r.rows, len(table.Rows))})
		}
		d.Tables, d.Titles = append(d.Tables, printedTable(shown)), append(d.Titles, table.Title)
	}
	return d
}

// printedTable returns a table for a terminal.
func printedTable(table report.Table) *metav1.Table {
	printed := &metav1.Table{}
	for _, column := range table.Columns {
		printed.ColumnDefinitions = append(printed.ColumnDefinitions, metav1.TableColumnDefinition{Name: escapeUnprintable(column.Name, ""), Type: "string"})
	}
	for _, row := range table.Rows {
		cells := make([]any, len(row))
		for i, cell := range row {
			cells[i] = escapeUnprintable(report.Text(cell), "")
		}
		printed.Rows = append(printed.Rows, metav1.TableRow{Cells: cells})
	}
	return printed
}
