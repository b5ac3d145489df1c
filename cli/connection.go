package cli

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/guard"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// DefaultNamespace is where nodekeep is taken to be installed. It is not the namespace of the kubeconfig's context: that one
// says where somebody works, and records live in none of these.
const DefaultNamespace = "nodekeep-system"

// commonFlag is the annotation of flags that all commands have in common.
const commonFlag = "nodekeep.dev/common"

func isCommon(flag *pflag.Flag) bool {
	_, common := flag.Annotations[commonFlag]
	return common
}

// connection says which cluster is meant and who the caller is: kubectl's flags.
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

func (c *connection) addTo(flags *pflag.FlagSet) {
	common := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.flags.AddFlags(common)
	common.Lookup("namespace").Usage = "The namespace that nodekeep is installed in, where the records live"
	common.VisitAll(func(flag *pflag.Flag) {
		flag.Annotations = map[string][]string{commonFlag: {"true"}}
		flags.AddFlag(flag)
	})
}

// cluster is the cluster that is meant, as the caller may see it.
type cluster struct {
	genericiooptions.IOStreams
	config    *rest.Config
	client    kubernetes.Interface
	namespace string // that nodekeep is installed in
	records   *store.ConfigMaps
	now       func() time.Time

	in   capture.Circumstances // of a command that decides
	gate policy.Gate           // of a command that only knows the gate
}

// open reads the kubeconfig; it makes no call yet. An error is one in how the command was called.
func (c *connection) open() (*cluster, error) {
	if wrong := validation.IsDNS1123Label(*c.flags.Namespace); len(wrong) > 0 {
		return nil, usage(fmt.Errorf("--namespace %q: %s", *c.flags.Namespace, wrong[0]))
	}
	config, err := c.flags.ToRESTConfig()
	if err != nil {
		return nil, usage(fmt.Errorf("read kubeconfig: %w", err))
	}
	config.QPS = -1 // the API server shares itself out fairly
	config.UserAgent = "nodekeep-tool"
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = config.ContentType + ",application/json"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, usage(fmt.Errorf("read kubeconfig: %w", err))
	}
	klog.SetSlogLogger(quiet()) // the command reports every error once
	records, err := store.NewConfigMaps(client, *c.flags.Namespace, quiet())
	if err != nil {
		return nil, err
	}
	return &cluster{IOStreams: c.IOStreams, config: config, client: client, namespace: *c.flags.Namespace, records: records, now: time.Now}, nil
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// say writes to stderr what was not asked for.
func (c *cluster) say(format string, args ...any) {
	_, _ = fmt.Fprintf(c.ErrOut, format+"\n", args...)
}

// done writes a line to stdout: what a command did.
func (c *cluster) done(format string, args ...any) error {
	_, err := fmt.Fprintf(c.Out, format+"\n", args...)
	return err
}

// circumstances is what decisions depend on besides a Node and its record.
func (c *cluster) circumstances(ctx context.Context, source *policySource) (capture.Circumstances, error) {
	p, err := source.read(ctx, c)
	if err != nil {
		return capture.Circumstances{}, err
	}
	return c.under(ctx, p), nil
}

// under is what decisions depend on under a policy. Whether the guard policies are in force, and which cluster this is, is read as
// capture does it: for a caller who may not read them the policies are not in force, and no record is of another cluster.
func (c *cluster) under(ctx context.Context, p policy.Policy) capture.Circumstances {
	guards, of := guard.New(c.client, quiet()), store.NewCluster(c.client, quiet())
	guards.Check(ctx)
	_ = of.Read(ctx)
	return capture.Circumstances{Policy: p, Guarded: guards.InForce(), Cluster: of.UID(), Now: c.now()}
}
