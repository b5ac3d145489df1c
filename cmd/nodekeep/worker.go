package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	worker "nodekeep.dev/nodekeep/check"
	"nodekeep.dev/nodekeep/verify"
)

// terminationLog is where a container leaves its termination message, unless its Pod says otherwise.
const terminationLog = "/dev/termination-log"

// workerMemory is what the garbage collector of a worker keeps to, in bytes. Its Pod has 16 MiB, some 4 MiB of which are no heap.
const workerMemory = 10 << 20

// workerOptions are the flags of nodekeep worker.
type workerOptions struct {
	report     string
	policyFile string
	profile    string
}

func (o *workerOptions) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&o.report, "report", "", "file for the report, as JSON; a worker Pod's is "+terminationLog+", a dry run has none without this flag")
	flags.StringVar(&o.policyFile, "policy", "", "file with the NodePolicy, for a dry run on this machine")
	flags.StringVar(&o.profile, "profile", "", "profile of the policy's section verify, for a dry run; not needed if there is one only")
}

func newWorkerCommand() *cobra.Command {
	o := &workerOptions{}
	command := &cobra.Command{
		Use:     "worker",
		GroupID: processes,
		Short:   "Run the checks of a profile: in a worker Pod, or as a dry run on any machine",
		Long: "In a worker Pod, it reads its task from the environment variable " + verify.TaskVariable + ". It runs all checks in\n" +
			"parallel, and repeats them until they pass or their time is up. It leaves a report in its termination message.\n\n" +
			"With --policy, it runs the same checks on this machine and prints a table. A dry run skips container checks and checks\n" +
			"of Services. Its DNS checks use this machine's servers only. It changes nothing.\n\n" +
			"Exit codes: 0 all required checks passed, 1 one failed, 2 nothing was decided.",
		Example: "  # Which checks of the profile gpu would pass here?\n" +
			"  nodekeep worker --policy policy.yaml --profile gpu",
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			if o.policyFile != "" || o.profile != "" {
				return runDryChecks(command.Context(), o, command.OutOrStdout())
			}
			return runWorker(command.Context(), o, command.OutOrStdout())
		},
	}
	o.addTo(command.Flags())
	return command
}

// runWorker asks what the environment says. Its error is a [runError] if a required check failed; any other one means that nothing was
// decided.
func runWorker(ctx context.Context, o *workerOptions, log io.Writer) error {
	debug.SetMemoryLimit(workerMemory)
	file := o.report
	if file == "" {
		file = terminationLog
	}
	task, err := verify.ParseTask(os.Getenv(verify.TaskVariable))
	if err != nil {
		err = fmt.Errorf("%s: %w", verify.TaskVariable, err)
		return errors.Join(err, writeReport(file, verify.Clean(err.Error()))) // for readers: it is no report
	}
	return reported(ctx, worker.Run(ctx, task), task.Checks, file, log)
}

// reported hands over what came of the checks: to the file, if there is one, and as a table.
func reported(ctx context.Context, report verify.Report, checks []verify.Check, file string, out io.Writer) error {
	text, interrupted := report.Encode(verify.ReportLimit(checks)), error(nil)
	if ctx.Err() != nil {
		interrupted = errors.New("the checks were interrupted: nothing was decided")
		text = interrupted.Error() // for readers: it is no report
	}
	if file != "" {
		if err := writeReport(file, text); err != nil {
			return errors.Join(interrupted, err)
		}
	}
	if interrupted != nil {
		return interrupted
	}
	if err := printReport(out, report); err != nil {
		return err
	}
	if failed := failedChecks(report); len(failed) > 0 {
		return runError{fmt.Errorf("required checks failed: %s", strings.Join(failed, ", "))}
	}
	return nil
}

func failedChecks(report verify.Report) (names []string) {
	for _, result := range report.Results {
		if result.Required && result.Outcome == verify.Failed {
			names = append(names, result.Check)
		}
	}
	return names
}

// writeReport writes to a file that exists: the kubelet makes a container's termination log.
func writeReport(file, text string) error {
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// printReport prints a table with a line for each check.
func printReport(out io.Writer, report verify.Report) error {
	var printed bytes.Buffer
	table := tabwriter.NewWriter(&printed, 0, 8, 3, ' ', 0)
	_, _ = fmt.Fprintln(table, "CHECK\tOUTCOME\tREQUIRED\tTIME\tTRIES\tREASON\tMESSAGE") // memory takes all that is written
	for _, result := range report.Results {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%t\t%s\t%d\t%s\t%s\n", verify.Clean(result.Check), result.Outcome, result.Required,
			time.Duration(result.Millis)*time.Millisecond, result.Tries, result.Reason, verify.Clean(result.Message))
	}
	_ = table.Flush()
	if _, err := printed.WriteTo(out); err != nil {
		return fmt.Errorf("print results: %w", err)
	}
	return nil
}
