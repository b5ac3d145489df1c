package cli

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
)

// completionTimeout is how long somebody who presses Tab waits.
const completionTimeout = 3 * time.Second

// completeNodes completes the first argument by the names of Nodes and of records. Whatever goes wrong completes nothing:
// a shell has no place for it.
func completeNodes(connection *connection) cobra.CompletionFunc {
	return func(command *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		c, err := connection.open()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(contextOf(command), completionTimeout)
		defer cancel()
		return c.namesWith(ctx, begun), cobra.ShellCompDirectiveNoFileComp
	}
}

// contextOf is that of a command that may not have begun to run.
func contextOf(command *cobra.Command) context.Context {
	if ctx := command.Context(); ctx != nil {
		return ctx
	}
	return context.Background()
}

// namesWith lists the names that begin like that, as far as the caller may read them and there is time. The API server cannot
// select by the beginning of a name, but sorts by it.
func (c *cluster) namesWith(ctx context.Context, begun string) []string {
	names := map[string]bool{}
	for node, err := range c.nodeNames(ctx) {
		if err != nil || node > begun && !strings.HasPrefix(node, begun) {
			break
		}
		names[node] = strings.HasPrefix(node, begun)
	}
	for record, err := range c.allRecords(ctx) {
		if err != nil || record.Node > begun && !strings.HasPrefix(record.Node, begun) {
			break
		}
		names[record.Node] = strings.HasPrefix(record.Node, begun)
	}
	maps.DeleteFunc(names, func(_ string, fits bool) bool { return !fits })
	return slices.Sorted(maps.Keys(names))
}

// nodeNames goes through the names of the Nodes in their order, without reading the Nodes.
func (c *cluster) nodeNames(ctx context.Context) iter.Seq2[string, error] {
	return all(ctx, func(ctx context.Context, options metav1.ListOptions) ([]string, metav1.ListMeta, error) {
		client, err := metadata.NewForConfig(c.config)
		if err != nil {
			return nil, metav1.ListMeta{}, err
		}
		list, err := client.Resource(corev1.SchemeGroupVersion.WithResource("nodes")).List(ctx, options)
		if err != nil {
			return nil, metav1.ListMeta{}, err
		}
		names := make([]string, len(list.Items))
		for i := range list.Items {
			names[i] = list.Items[i].Name
		}
		return names, list.ListMeta, nil
	})
}
