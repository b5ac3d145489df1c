package remove

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"nodekeep.dev/nodekeep/verify"
)

// Names of Karpenter and of Cluster API.
const (
	karpenterGroup = "karpenter.sh"
	nodeClaimKind  = "NodeClaim"

	clusterGroup        = "cluster.x-k8s.io"
	machineAnnotation   = "cluster.x-k8s.io/machine"           // of a Node: the name of its Machine
	namespaceAnnotation = "cluster.x-k8s.io/cluster-namespace" // of a Node: the namespace of its Machine
	remediateAnnotation = "cluster.x-k8s.io/remediate-machine" // of a Machine: a MachineHealthCheck remediates it
)

// Remover removes Nodes.
type Remover struct {
	client  kubernetes.Interface
	objects dynamic.Interface
}

// New makes a Remover. objects reads and removes what belongs to Karpenter and to Cluster API.
func New(client kubernetes.Interface, objects dynamic.Interface) *Remover {
	return &Remover{client: client, objects: objects}
}

// Target is the object that was confirmed to stand for a Node.
type Target struct {
	Kind            verify.RemovalKind
	Node            string
	Namespace, Name string // of the object
	Removed         bool   // it is being deleted or remediated already, or does not exist

	uid, version string
	resource     schema.GroupVersionResource
}

// String names the object in messages.
func (t Target) String() string {
	return fmt.Sprintf("%s %s", t.Kind, cache.NewObjectName(t.Namespace, t.Name))
}

// RefusedError reports that no object was confirmed to stand for a Node. Another try gives the same until the Node or the object changes.
type RefusedError struct {
	Node   string
	Reason string // for readers: what is wrong, and what to do
}

// Error has the Node and the reason.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("node %q is not removed: %s", e.Node, e.Reason)
}

// Confirm finds the object whose removal removes the Node. If there is no such object, or its status names another Node, it returns a [RefusedError].
// With an error, the Target shows only whether the object that the Node names is removed. An object that does not exist either never did, or an
// earlier removal is complete. The caller must have read node live.
func (r *Remover) Confirm(ctx context.Context, node *corev1.Node, kind verify.RemovalKind) (Target, error) {
	switch kind {
	case verify.RemoveNodeClaim:
		return r.confirmNodeClaim(ctx, node)
	case verify.RemoveMachine:
		return r.confirmMachine(ctx, node)
	case verify.RemoveNode:
		return Target{
			Kind: kind, Node: node.Name, Name: node.Name, Removed: node.DeletionTimestamp != nil, uid: string(node.UID), version: node.ResourceVersion,
		}, nil
	}
	return Target{}, fmt.Errorf("remove node %q: kind %q removes nothing", node.Name, kind)
}

func (r *Remover) confirmNodeClaim(ctx context.Context, node *corev1.Node) (Target, error) {
	var owners []metav1.OwnerReference
	for _, owner := range node.OwnerReferences {
		if gv, err := schema.ParseGroupVersion(owner.APIVersion); err == nil && gv.Group == karpenterGroup && owner.Kind == nodeClaimKind {
			owners = append(owners, owner)
		}
	}
	if len(owners) != 1 {
		return Target{}, refused(node.Name, "onFailure is nodeClaim, and the Node has %d ownerReferences to a NodeClaim of Karpenter, not one; "+
			"only Nodes that Karpenter created can be removed this way: select them by the profile's nodeSelector", len(owners))
	}
	name := owners[0].Name
	target := Target{Kind: verify.RemoveNodeClaim, Node: node.Name, Name: name}
	claim, err := r.read(ctx, &target, karpenterGroup, "nodeclaims")
	if err != nil {
		return target, err
	}
	switch owned, _, _ := unstructured.NestedString(claim.Object, "status", "nodeName"); {
	case claim.GetUID() != owners[0].UID:
		return Target{}, refused(node.Name, "its ownerReference names NodeClaim %q with the uid %q, and that NodeClaim has the uid %q; "+
			"if nobody edited the reference, its kubelet forged it", name, owners[0].UID, claim.GetUID())
	case owned != node.Name:
		return Target{}, refused(node.Name, "its ownerReference names NodeClaim %q, and status.nodeName of that NodeClaim is %q; "+
			"if nobody edited the reference, its kubelet forged it", name, owned)
	}
	if provider, _, _ := unstructured.NestedString(claim.Object, "status", "providerID"); differ(provider, node.Spec.ProviderID) {
		return Target{}, refused(node.Name, "its spec.providerID is %q, and status.providerID of NodeClaim %q is %q", node.Spec.ProviderID, name, provider)
	}
	return target, nil
}

func (r *Remover) confirmMachine(ctx context.Context, node *corev1.Node) (Target, error) {
	name, namespace := node.Annotations[machineAnnotation], node.Annotations[namespaceAnnotation]
	if name == "" || namespace == "" {
		return Target{}, refused(node.Name, "onFailure is machine, and the Node lacks the annotation %s or %s; "+
			"only Nodes of Cluster API can be removed this way: select them by the profile's nodeSelector", machineAnnotation, namespaceAnnotation)
	}
	target := Target{Kind: verify.RemoveMachine, Node: node.Name, Namespace: namespace, Name: name}
	machine, err := r.read(ctx, &target, clusterGroup, "machines")
	if err != nil {
		return target, err
	}
	ref := func(field string) string {
		value, _, _ := unstructured.NestedString(machine.Object, "status", "nodeRef", field)
		return value
	}
	switch {
	case ref("name") != node.Name:
		return Target{}, refused(node.Name, "its annotations name Machine %s/%s, and status.nodeRef of that Machine names Node %q; "+
			"if nobody edited the annotations, its kubelet forged them", namespace, name, ref("name"))
	case differ(ref("uid"), string(node.UID)):
		return Target{}, refused(node.Name, "its uid is %q, and status.nodeRef of Machine %s/%s has the uid %q: another Node had the name before; "+
			"Cluster API corrects this by itself", node.UID, namespace, name, ref("uid"))
	}
	if provider, _, _ := unstructured.NestedString(machine.Object, "spec", "providerID"); differ(provider, node.Spec.ProviderID) {
		return Target{}, refused(node.Name, "its spec.providerID is %q, and spec.providerID of Machine %s/%s is %q", node.Spec.ProviderID, namespace, name, provider)
	}
	_, marked := machine.GetAnnotations()[remediateAnnotation]
	target.Removed = target.Removed || marked
	return target, nil
}

// read reads the object of a target, and completes the target. It does so in the version that the API server prefers for the group. An object that does not
// exist, or cannot, is refused.
func (r *Remover) read(ctx context.Context, target *Target, group, plural string) (*unstructured.Unstructured, error) {
	target.resource = schema.GroupVersionResource{Group: group, Resource: plural}
	groups, err := r.client.Discovery().ServerGroups()
	if err != nil {
		return nil, fmt.Errorf("remove node %q: find the API group %s: %w", target.Node, group, err)
	}
	for _, candidate := range groups.Groups {
		if candidate.Name == group {
			target.resource.Version = candidate.PreferredVersion.Version
		}
	}
	if target.resource.Version == "" {
		return nil, refused(target.Node, "the API server does not serve the API group %s; install its CustomResourceDefinitions, or change onFailure", group)
	}
	if len(validation.IsDNS1123Subdomain(target.Name)) > 0 || target.Namespace != "" && len(validation.IsDNS1123Label(target.Namespace)) > 0 {
		return nil, refused(target.Node, "%q, which the Node names, cannot exist", target)
	}
	object, err := r.objects.Resource(target.resource).Namespace(target.Namespace).Get(ctx, target.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		target.Removed = true
		return nil, refused(target.Node, "%q, which the Node names, does not exist", target)
	case err != nil:
		return nil, fmt.Errorf("remove node %q: read %s: %w", target.Node, target, err)
	}
	target.uid, target.version, target.Removed = string(object.GetUID()), object.GetResourceVersion(), object.GetDeletionTimestamp() != nil
	return object, nil
}

func refused(node, format string, values ...any) error {
	return &RefusedError{Node: node, Reason: fmt.Sprintf(format, values...)}
}

// differ reports whether both are known and not equal.
func differ(a, b string) bool { return a != "" && b != "" && a != b }
