package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/cli/examine"
	"nodekeep.dev/nodekeep/cli/view"
)

// doctorOptions are the flags of `doctor`.
type doctorOptions struct {
	*options
	examine.Options
	name func() string // that the program was called by
}

func newDoctorCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &doctorOptions{options: newOptions(streams)}
	command := o.finishCommand(&cobra.Command{
		Use:   "doctor [flags]",
		Short: "Check the installation, and name a remedy for each problem",
		Long: `Doctor looks at everything that nodekeep consists of in a cluster:

  Installation  webhook configurations, certificate, endpoints, the gate policy, Deployments, the leader, clocks,
                rights, whether an emergency is declared
  Admission     policies and webhooks of others that may deny restored labels, the admission policies of governance
  Policy        the NodePolicy and its kind, the sources of the inventory, migrations of labels
  Nodes         records, Nodes behind the gate, verification, labels and taints that are not kept

The check closed-nodes counts Nodes that are stuck, and those that have been gated or not verified for too long.
paused-items counts Nodes on which another client undoes what capture sets, by Events of the last hour. For both checks,
one Node in ten or more is an error, and fewer are a warning.

The check verification also shows profiles that no Node can pass, for example because a Service or a DaemonSet does not
exist, or because none of their Nodes has a resource or a condition.

Two kinds of dry runs (they store nothing) show that the API server calls the webhook. They also show that it puts
Nodes behind the gate.

STATUS is ok, or the worst of what a check has found:

  error    labels or taints are not restored, or Nodes do not get ready
  warning  it works now, but not after the next failure, or not for long
  unknown  you may not read it, or there was no answer in time

Below, each finding is shown with its object and its remedy. The exit code is 1 if anything was found or is unknown.

Nothing is changed. The ClusterRoles nodekeep-operator, nodekeep-operator-namespaced and nodekeep-operator-events are
enough: the dry runs need the right to create Nodes. The webhook shows its certificate in its answers to the dry runs.
Only if it does not answer, the Secret is read, if you have the right to. Labels and taints that the policy does not
keep, and facts that rules ask for and no Node has, are listed as notes. What nodekeep consists of is compared with the
manifests of this build: run the nodekeep of the installed version.`,
		Example: `
			# Everything
			nodekeep doctor

			# An installation without the webhook that sees deletions
			nodekeep doctor --skip deletion-webhook

			# For scripts: what is not right
			nodekeep doctor -o jsonpath='{range .checks[?(@.status!="ok")]}{.check}{": "}{.what}{"\n"}{end}'`,
		GroupID: groupSee,
	}, hasOutput, o.run)
	o.validate = o.checkFlags
	o.name = func() string { return command.Root().DisplayName() }
	flags := command.Flags()
	flags.DurationVar(&o.GateAfter, "gate-after", 5*time.Minute, "report Nodes that have been behind the gate for longer, or have had a verification taint for longer with no profile selecting them")
	flags.DurationVar(&o.Timeout, "timeout", time.Minute, "how long any one read may take; what takes longer is unknown")
	flags.StringSliceVar(&o.Skip, "skip", nil, "checks to skip, by their names in the column CHECK, separated by commas")
	_ = command.RegisterFlagCompletionFunc("skip", cobra.FixedCompletions(doctor.Names(), cobra.ShellCompDirectiveNoFileComp))
	return command
}

func (o *doctorOptions) checkFlags() error {
	for _, name := range o.Skip {
		if !slices.Contains(doctor.Names(), name) {
			return fmt.Errorf("--skip %q: must be one of %s", name, strings.Join(doctor.Names(), ", "))
		}
	}
	if o.GateAfter < 0 || o.Timeout <= 0 {
		return errors.New("--gate-after must not be negative, and --timeout must be more than 0")
	}
	return nil
}

func (o *doctorOptions) run(ctx context.Context, c *session, _ []string) error {
	seen, err := examine.Installation(ctx, c.Cluster, o.Options)
	if err != nil {
		return err
	}
	report := doctor.RunChecks(seen, o.Skip)
	if err := o.report(c, report); err != nil {
		return err
	}
	if !report.Healthy {
		return asFindings(fmt.Errorf("%s, %d unknown", view.Counted(report.Findings, "finding"), report.Unknown))
	}
	return nil
}

func (o *doctorOptions) report(c *session, report doctor.Report) error {
	if !o.isText() {
		return o.writeObject(c.Out, "DoctorReport", report)
	}
	table := &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{{Name: "Check", Type: "string"}, {Name: "Status", Type: "string"}, {Name: "What", Type: "string"}}}
	for _, result := range report.Checks {
		table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{result.Check, string(result.Status), result.Summary()}})
	}
	if err := o.tablePrinter().PrintObj(table, c.Out); err != nil {
		return err
	}
	return o.tell(c.Out, report)
}

// tell writes each finding with its remedy, the worst first. A text that several checks or findings share is written once.
func (o *doctorOptions) tell(w io.Writer, report doctor.Report) error {
	var text strings.Builder
	all := report.Distinct()
	for i, finding := range all {
		if i == 0 || !finding.SameRemedy(all[i-1]) {
			text.WriteString("\n")
		}
		fmt.Fprintf(&text, "%s (%s): %s\n", finding.Severity, strings.Join(finding.Checks, ", "), finding.Sentence())
		if i+1 < len(all) && finding.SameRemedy(all[i+1]) {
			continue
		}
		if finding.Text != "" {
			fmt.Fprintf(&text, "  %s\n", finding.Text)
		}
		for _, command := range finding.Commands {
			fmt.Fprintf(&text, "    %s\n", o.asCalled(command))
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// asCalled writes the name by which the program was called into a command line.
func (o *doctorOptions) asCalled(command string) string {
	return regexp.MustCompile(`(^|\| )`+program+` `).ReplaceAllString(command, "${1}"+o.name()+" ")
}
