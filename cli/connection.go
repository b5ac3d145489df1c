package cli

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"nodekeep.dev/nodekeep/capture/inventories"
	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/guard"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
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
	dynamic   dynamic.Interface
	namespace string // that nodekeep is installed in
	records   *store.ConfigMaps
	now       func() time.Time

	followed view.PolicyInForce // the policy of the cluster, of a command that goes by it

	in   plan.Circumstances // of a command that decides
	gate policy.Gate        // of a command that decides or knows the gate
}

// open reads the kubeconfig; it makes no call yet. An error is one in how the command was called.
func (c *connection) open() (*cluster, error) {
	if err := checkNamespace("--namespace", *c.flags.Namespace); err != nil {
		return nil, usage(err)
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
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, usage(fmt.Errorf("read kubeconfig: %w", err))
	}
	klog.SetSlogLogger(quiet()) // the command reports every error once
	records, err := store.NewConfigMaps(client, *c.flags.Namespace, quiet())
	if err != nil {
		return nil, err
	}
	return &cluster{IOStreams: c.IOStreams, config: config, client: client, dynamic: objects, namespace: *c.flags.Namespace, records: records, now: time.Now}, nil
}

// checkNamespace returns an error if a flag's value cannot be the name of a namespace.
func checkNamespace(flag, name string) error {
	if wrong := validation.IsDNS1123Label(name); len(wrong) > 0 {
		return fmt.Errorf("%s %q: %s", flag, name, wrong[0])
	}
	return nil
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// say writes to stderr what was not asked for.
func (c *cluster) say(format string, args ...any) {
	_, _ = fmt.Fprintf(c.ErrOut, format+"\n", args...)
}

// sayUnknown writes to stderr what is not known because of an error, if there is one.
func (c *cluster) sayUnknown(what string, err error) {
	if err != nil {
		c.say("%s is not known: %v", what, err)
	}
}

// done writes a line to stdout: what a command did.
func (c *cluster) done(format string, args ...any) error {
	_, err := fmt.Fprintf(c.Out, format+"\n", args...)
	return err
}

// under returns the circumstances that decisions under a policy depend on. As capture, it reads the guard policies,
// the identity of the cluster, and the devices and features that rules use.
//
// A caller may lack the right to read them. Then the guard policies are not in force, and no record is of another cluster. Devices and features are
// not known.
func (c *cluster) under(ctx context.Context, p policy.Policy) plan.Circumstances {
	guards, of := guard.New(c.client, quiet()), store.NewCluster(c.client, quiet())
	guards.Check(ctx)
	_ = of.Read(ctx)
	return plan.Circumstances{
		Policy: p, Guarded: guards.InForce(), Cluster: of.UID(), Now: c.now(),
		Devices: c.devices(ctx, p.LabelRules().Drivers()), Features: c.features(ctx, p.LabelRules().NodeFeatures()),
	}
}

// decideUnder has a command decide by a policy.
func (c *cluster) decideUnder(ctx context.Context, p policy.Policy) {
	c.in, c.gate = c.under(ctx, p), p.Gate()
}

// devices returns the devices of each Node that rules use. It is nil if rules use none, or the ResourceSlices cannot be read.
func (c *cluster) devices(ctx context.Context, drivers classify.Drivers) func(node string) observe.Devices {
	if len(drivers) == 0 {
		return nil
	}
	byNode := map[string][]*observe.Slice{}
	to := access{verb: "list", group: resourcev1.GroupName, resource: "resourceslices"}
	for slice, err := range every[*resourcev1.ResourceSlice](ctx, c, to, c.client.ResourceV1().ResourceSlices(), metav1.ListOptions{}) {
		if err != nil {
			return nil
		}
		if of := observe.SliceOf(slice, drivers); of.Node() != "" {
			byNode[of.Node()] = append(byNode[of.Node()], of)
		}
	}
	return func(node string) observe.Devices { return observe.DevicesOf(byNode[node]) }
}

// features returns the features of each Node that rules use. It is nil if rules use none, or the NodeFeature objects cannot be read.
func (c *cluster) features(ctx context.Context, used classify.Features) func(node string) observe.Features {
	if used.None() {
		return nil
	}
	byNode := map[string][]*observe.NodeFeature{}
	resource := observe.NodeFeatureResource()
	to := access{verb: "list", group: resource.Group, resource: resource.Resource}
	client := smallPages{c.dynamic.Resource(resource)}
	for object, err := range every[*unstructured.Unstructured](ctx, c, to, client, metav1.ListOptions{LabelSelector: observe.NodeFeatureLabel}) {
		if err != nil {
			return nil
		}
		of := observe.NodeFeatureOf(object, used)
		byNode[of.Node()] = append(byNode[of.Node()], of)
	}
	return func(node string) observe.Features { return observe.FeaturesOf(byNode[node]) }
}

// smallPages lists objects that can be large.
type smallPages struct{ dynamic.ResourceInterface }

func (s smallPages) List(ctx context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	options.Limit = 10
	return s.ResourceInterface.List(ctx, options)
}

// configMap reads a ConfigMap of a namespace; nil: there is none.
func (c *cluster) configMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	found, err := c.client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return found, c.failed(access{verb: "get", resource: "configmaps", namespace: namespace}, err)
}

// inventoryState returns what capture shows of the sources of the inventory; nil: nothing yet.
func (c *cluster) inventoryState(ctx context.Context) (*corev1.ConfigMap, error) {
	return c.configMap(ctx, c.namespace, inventories.InventoryName)
}

// rulesState returns which rules are in force, and what was accepted; nil: nothing was written yet.
func (c *cluster) rulesState(ctx context.Context) (*corev1.ConfigMap, error) {
	return c.configMap(ctx, c.namespace, store.AcceptedName)
}

// rulesHeld reports whether rules of the cluster's policy must not remove or change labels until an operator has accepted them.
func (c *cluster) rulesHeld(ctx context.Context, p policy.Policy) (bool, error) {
	state, err := c.rulesState(ctx)
	if err != nil {
		return false, err
	}
	return p.RulesHash() != inForce(state), nil
}
