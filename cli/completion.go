package cli

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"

	"nodekeep.dev/nodekeep/cli/cluster"
)

// completionTimeout is how long a user who presses Tab waits.
const completionTimeout = 3 * time.Second

// completer lists the values that an argument can have and that begin with begun.
type completer func(ctx context.Context, c *session, args []string, begun string) []string

// complete completes each argument by its completer; the last one completes all that follow. An error completes nothing: a shell has
// no place for it.
func (c *connection) complete(completers ...completer) cobra.CompletionFunc {
	return func(command *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		const noFiles = cobra.ShellCompDirectiveNoFileComp
		if len(args) > 0 && len(completers) == 1 {
			return nil, noFiles
		}
		opened, err := c.open()
		if err != nil {
			return nil, noFiles
		}
		parent := command.Context()
		if parent == nil { // of a command that has not started to run
			parent = context.Background()
		}
		ctx, cancel := context.WithTimeout(parent, completionTimeout)
		defer cancel()
		return completers[min(len(args), len(completers)-1)](ctx, opened, args, begun), noFiles
	}
}

// completeNodes lists Nodes and records, as far as the caller may read them and there is time. The API server cannot select by the
// beginning of a name, but sorts by it.
func completeNodes(ctx context.Context, c *session, _ []string, begun string) []string {
	names := map[string]bool{}
	add := func(name string) (proceed bool) {
		if strings.HasPrefix(name, begun) {
			names[name] = true
			return true
		}
		return name < begun
	}
	if client, err := metadata.NewForConfig(c.Config); err == nil {
		nodes := client.Resource(corev1.SchemeGroupVersion.WithResource("nodes"))
		for node, err := range cluster.List[*metav1.PartialObjectMetadata](ctx, c.Cluster, c.NodesRight("list"), nodes, metav1.ListOptions{}) {
			if err != nil || !add(node.Name) {
				break
			}
		}
	}
	for record, err := range c.ListRecords(ctx) {
		if err != nil || !add(record.Node) {
			break
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// completeItems lists the labels and taints in the record of the Node in args[0]. It omits those that the command line already names.
func completeItems(ctx context.Context, c *session, args []string, _ string) (items []string) {
	name, err := nodeName(args[0])
	if err != nil {
		return nil
	}
	entry, err := c.Records.GetFromAPI(ctx, name)
	if err != nil {
		return nil
	}
	for item := range entry.Record.Items() {
		if !slices.Contains(args[1:], item) {
			items = append(items, item)
		}
	}
	slices.Sort(items)
	return items
}
