package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The values of --dry-run, which are kubectl's.
const (
	dryRunNone   = "none"
	dryRunClient = "client"
	dryRunServer = "server"
)

// dryRun says whether something is really done.
type dryRun struct{ mode string }

func (d *dryRun) addTo(command *cobra.Command) {
	modes := []string{dryRunNone, dryRunServer, dryRunClient}
	command.Flags().StringVar(&d.mode, "dry-run", dryRunNone, `"client": only show what would be done; "server": have the API server check it too, and store nothing`)
	command.Flags().Lookup("dry-run").NoOptDefVal = dryRunClient
	_ = command.RegisterFlagCompletionFunc("dry-run", cobra.FixedCompletions(modes, cobra.ShellCompDirectiveNoFileComp))
}

func (d *dryRun) checkMode() error {
	if modes := []string{dryRunNone, dryRunServer, dryRunClient}; !slices.Contains(modes, d.mode) {
		return usage(fmt.Errorf("--dry-run %q: must be one of %s", d.mode, strings.Join(modes, ", ")))
	}
	return nil
}

// client reports whether the API server is not asked to do anything.
func (d *dryRun) client() bool { return d.mode == dryRunClient }

// any reports whether nothing is really done.
func (d *dryRun) any() bool { return d.mode != dryRunNone }

// option is for calls that change something.
func (d *dryRun) option() []string {
	if d.mode == dryRunServer {
		return []string{metav1.DryRunAll}
	}
	return nil
}
