package cluster

import (
	"context"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"nodekeep.dev/nodekeep/capture/inventories"
	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/guard"
	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/plan"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// Cluster is a cluster as the caller may see it.
type Cluster struct {
	Config    *rest.Config
	Client    kubernetes.Interface
	Dynamic   dynamic.Interface
	Namespace string // that nodekeep is installed in
	Records   *store.ConfigMaps
	Now       func() time.Time
}

// Open makes the clients; it makes no call yet. It changes the configuration.
func Open(config *rest.Config, namespace string) (*Cluster, error) {
	config.QPS = -1 // no limit of our own: API Priority and Fairness limits all clients
	config.UserAgent = "nodekeep-tool"
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = config.ContentType + ",application/json"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	dynamicClient, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	records, err := store.NewConfigMaps(client, namespace, discardLogger())
	if err != nil {
		return nil, err
	}
	return &Cluster{Config: config, Client: client, Dynamic: dynamicClient, Namespace: namespace, Records: records, Now: time.Now}, nil
}

// discardLogger logs nothing: errors are returned.
func discardLogger() *slog.Logger { return slog.New(slog.DiscardHandler) }

// PlanInputs returns the inputs that decisions under a policy depend on. As capture, it reads the guard policies,
// the identity of the cluster, and the devices and features that rules use.
//
// A caller may lack the right to read them. Then the guard policies count as not in force, and the identity of the cluster, devices and features as not
// known.
func (c *Cluster) PlanInputs(ctx context.Context, p policy.Policy) plan.Inputs {
	guards, cluster := guard.New(c.Client, discardLogger()), store.NewCluster(c.Client, discardLogger())
	guards.Check(ctx)
	_ = cluster.Read(ctx)
	return plan.Inputs{
		Policy: p, GuardInForce: guards.InForce(), ClusterUID: cluster.UID(), Now: c.Now(),
		Devices: c.Devices(ctx, p.LabelRules().Drivers()), Features: c.Features(ctx, p.LabelRules().NodeFeatures()),
	}
}

// Devices returns the devices of each Node that rules use. It is nil if rules use none, or the ResourceSlices cannot be read.
func (c *Cluster) Devices(ctx context.Context, drivers classify.UsedDrivers) func(node string) observe.Devices {
	if len(drivers) == 0 {
		return nil
	}
	byNode := map[string][]*observe.Slice{}
	right := doctor.Right{Verb: "list", Group: resourcev1.GroupName, Resource: "resourceslices"}
	for slice, err := range List[*resourcev1.ResourceSlice](ctx, c, right, c.Client.ResourceV1().ResourceSlices(), metav1.ListOptions{}) {
		if err != nil {
			return nil
		}
		if ofNode := observe.SliceOf(slice, drivers); ofNode.Node() != "" {
			byNode[ofNode.Node()] = append(byNode[ofNode.Node()], ofNode)
		}
	}
	return func(node string) observe.Devices { return observe.DevicesOf(byNode[node]) }
}

// Features returns the features of each Node that rules use. It is nil if rules use none, or the NodeFeature objects cannot be read.
func (c *Cluster) Features(ctx context.Context, used classify.UsedFeatures) func(node string) observe.Features {
	if used.Empty() {
		return nil
	}
	byNode := map[string][]*observe.NodeFeature{}
	resource := observe.NodeFeatureResource()
	right := doctor.Right{Verb: "list", Group: resource.Group, Resource: resource.Resource}
	client := smallPages{c.Dynamic.Resource(resource)}
	for object, err := range List[*unstructured.Unstructured](ctx, c, right, client, metav1.ListOptions{LabelSelector: observe.NodeFeatureLabel}) {
		if err != nil {
			return nil
		}
		feature := observe.NodeFeatureOf(object, used)
		byNode[feature.Node()] = append(byNode[feature.Node()], feature)
	}
	return func(node string) observe.Features { return observe.FeaturesOf(byNode[node]) }
}

// smallPages lists objects that can be large.
type smallPages struct{ dynamic.ResourceInterface }

func (s smallPages) List(ctx context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	options.Limit = 10
	return s.ResourceInterface.List(ctx, options)
}

// GetConfigMap reads a ConfigMap of a namespace; nil: there is none.
func (c *Cluster) GetConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	found, err := c.Client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return found, c.ExplainError(doctor.Right{Verb: "get", Resource: "configmaps", Namespace: namespace}, err)
}

// GetInventoryState returns what capture shows of the sources of the inventory; nil: nothing yet.
func (c *Cluster) GetInventoryState(ctx context.Context) (*corev1.ConfigMap, error) {
	return c.GetConfigMap(ctx, c.Namespace, inventories.InventoryName)
}

// GetAcceptedConfigMap returns the ConfigMap that says which rules are in force, and what was accepted; nil: nothing was written yet.
func (c *Cluster) GetAcceptedConfigMap(ctx context.Context) (*corev1.ConfigMap, error) {
	return c.GetConfigMap(ctx, c.Namespace, store.AcceptedConfigMap)
}

// HoldsRules reports whether rules of the cluster's policy must not remove or change labels until an operator has accepted them.
func (c *Cluster) HoldsRules(ctx context.Context, p policy.Policy) (bool, error) {
	state, err := c.GetAcceptedConfigMap(ctx)
	if err != nil {
		return false, err
	}
	return p.RulesHash() != RulesInForce(state), nil
}

// RulesInForce returns the rules that may remove and change labels.
func RulesInForce(state *corev1.ConfigMap) string {
	if state != nil {
		if rules, ok := state.Data[store.RulesInForce]; ok {
			return rules
		}
	}
	return policy.NoRules
}
