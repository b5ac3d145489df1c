package cli

import (
	"fmt"
	"log/slog"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"

	"nodekeep.dev/nodekeep/cli/cluster"
)

// DefaultNamespace is where the commands expect nodekeep. It is not the namespace of the kubeconfig's context: an operator works in that namespace,
// and it holds no records.
const DefaultNamespace = "nodekeep-system"

// commonFlag is the annotation of flags that all commands have in common.
const commonFlag = "nodekeep.dev/common"

// connection defines which cluster is meant and who the caller is: kubectl's flags.
type connection struct {
	genericiooptions.IOStreams
	flags *genericclioptions.ConfigFlags
}

func newConnection(streams genericiooptions.IOStreams) *connection {
	flags := genericclioptions.NewConfigFlags(true)
	flags.CacheDir = nil // nothing is discovered
	namespace := DefaultNamespace
	flags.Namespace = &namespace
	return &connection{IOStreams: streams, flags: flags}
}

func (c *connection) addFlags(flags *pflag.FlagSet) {
	common := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.flags.AddFlags(common)
	common.Lookup("namespace").Usage = "The namespace that nodekeep is installed in, where the records live"
	common.VisitAll(func(flag *pflag.Flag) {
		flag.Annotations = map[string][]string{commonFlag: {"true"}}
		flags.AddFlag(flag)
	})
}

// open reads the kubeconfig; it makes no call yet. An error is one in how the command was called.
func (c *connection) open() (*session, error) {
	if err := checkNamespace("--namespace", *c.flags.Namespace); err != nil {
		return nil, asUsage(err)
	}
	config, err := c.flags.ToRESTConfig()
	if err != nil {
		return nil, asUsage(fmt.Errorf("read kubeconfig: %w", err))
	}
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // the command reports every error once
	opened, err := cluster.Open(config, *c.flags.Namespace)
	if err != nil {
		return nil, asUsage(fmt.Errorf("read kubeconfig: %w", err))
	}
	return &session{Cluster: opened, IOStreams: c.IOStreams}, nil
}

// checkNamespace returns an error if a flag's value cannot be the name of a namespace.
func checkNamespace(flag, name string) error {
	if wrong := validation.IsDNS1123Label(name); len(wrong) > 0 {
		return fmt.Errorf("%s %q: %s", flag, name, wrong[0])
	}
	return nil
}
