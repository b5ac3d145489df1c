package remove

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

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
	switch {
	case t.Namespace != "":
		return fmt.Sprintf("%s %s/%s", t.Kind, t.Namespace, t.Name)
	default:
		return fmt.Sprintf("%s %s", t.Kind, t.Name)
	}
}

// RefusedError says that no object was confirmed to stand for a Node. Another try gives the same until the Node or the object changes.
type RefusedError struct {
	Node string
	Why  string // for readers: what is wrong, and what to do
	Gone bool   // the object that the Node names does not exist: it never did, or it was removed
}

// Error has the Node and the reason.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("node %q is not removed: %s", e.Node, e.Why)
}

// Confirm finds the object whose removal removes the Node. It returns a [RefusedError] where there is none, or where it says that it belongs to another Node.
// With the error for an object that does not exist comes a Target: a removal that had begun is over. node must have been read live.
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
		return Target{}, refused(node, "onFailure is nodeClaim, and the Node has %d ownerReferences to a NodeClaim of Karpenter, not one; "+
			"only Nodes that Karpenter created can be removed this way: select them by the profile's nodeSelector", len(owners))
	}
	name := owners[0].Name
	claim, resource, err := r.read(ctx, node, karpenterGroup, "nodeclaims", "", name)
	if err != nil {
		return Target{Kind: verify.RemoveNodeClaim, Node: node.Name, Name: name, Removed: isGone(err)}, err
	}
	switch owned, _, _ := unstructured.NestedString(claim.Object, "status", "nodeName"); {
	case claim.GetUID() != owners[0].UID:
		return Target{}, refused(node, "its ownerReference names NodeClaim %q with the uid %q, and that NodeClaim has the uid %q; "+
			"if nobody edited the reference, its kubelet forged it", name, owners[0].UID, claim.GetUID())
	case owned != node.Name:
		return Target{}, refused(node, "its ownerReference names NodeClaim %q, and status.nodeName of that NodeClaim is %q; "+
			"if nobody edited the reference, its kubelet forged it", name, owned)
	}
	if provider, _, _ := unstructured.NestedString(claim.Object, "status", "providerID"); differ(provider, node.Spec.ProviderID) {
		return Target{}, refused(node, "its spec.providerID is %q, and status.providerID of NodeClaim %q is %q", node.Spec.ProviderID, name, provider)
	}
	return targetOf(verify.RemoveNodeClaim, node, claim, resource, claim.GetDeletionTimestamp() != nil), nil
}

func (r *Remover) confirmMachine(ctx context.Context, node *corev1.Node) (Target, error) {
	name, namespace := node.Annotations[machineAnnotation], node.Annotations[namespaceAnnotation]
	if name == "" || namespace == "" {
		return Target{}, refused(node, "onFailure is machine, and the Node lacks the annotation %s or %s; "+
			"only Nodes of Cluster API can be removed this way: select them by the profile's nodeSelector", machineAnnotation, namespaceAnnotation)
	}
	machine, resource, err := r.read(ctx, node, clusterGroup, "machines", namespace, name)
	if err != nil {
		return Target{Kind: verify.RemoveMachine, Node: node.Name, Namespace: namespace, Name: name, Removed: isGone(err)}, err
	}
	ref := func(field string) string {
		value, _, _ := unstructured.NestedString(machine.Object, "status", "nodeRef", field)
		return value
	}
	switch {
	case ref("name") != node.Name:
		return Target{}, refused(node, "its annotations name Machine %s/%s, and status.nodeRef of that Machine names Node %q; "+
			"if nobody edited the annotations, its kubelet forged them", namespace, name, ref("name"))
	case differ(ref("uid"), string(node.UID)):
		return Target{}, refused(node, "its uid is %q, and status.nodeRef of Machine %s/%s has the uid %q: another Node had the name before; "+
			"Cluster API corrects this by itself", node.UID, namespace, name, ref("uid"))
	}
	if provider, _, _ := unstructured.NestedString(machine.Object, "spec", "providerID"); differ(provider, node.Spec.ProviderID) {
		return Target{}, refused(node, "its spec.providerID is %q, and spec.providerID of Machine %s/%s is %q", node.Spec.ProviderID, namespace, name, provider)
	}
	_, marked := machine.GetAnnotations()[remediateAnnotation]
	return targetOf(verify.RemoveMachine, node, machine, resource, marked || machine.GetDeletionTimestamp() != nil), nil
}

// read reads an object in the version that the API server prefers for its group. One that cannot exist is refused.
func (r *Remover) read(ctx context.Context, node *corev1.Node, group, plural, namespace, name string) (*unstructured.Unstructured, schema.GroupVersionResource, error) {
	resource := schema.GroupVersionResource{Group: group, Resource: plural}
	groups, err := r.client.Discovery().ServerGroups()
	if err != nil {
		return nil, resource, fmt.Errorf("remove node %q: find the API group %s: %w", node.Name, group, err)
	}
	for _, one := range groups.Groups {
		if one.Name == group {
			resource.Version = one.PreferredVersion.Version
		}
	}
	if resource.Version == "" {
		return nil, resource, refused(node, "the API server does not serve the API group %s; install its CustomResourceDefinitions, or change onFailure", group)
	}
	if len(validation.IsDNS1123Subdomain(name)) > 0 || namespace != "" && len(validation.IsDNS1123Label(namespace)) > 0 {
		return nil, resource, refused(node, "%s %q, which the Node names, cannot exist", resource.GroupResource(), joined(namespace, name))
	}
	object, err := r.objects.Resource(resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		why := fmt.Sprintf("%s %q, which the Node names, does not exist", resource.GroupResource(), joined(namespace, name))
		return nil, resource, &RefusedError{Node: node.Name, Why: why, Gone: true}
	case err != nil:
		return nil, resource, fmt.Errorf("remove node %q: read %s %q: %w", node.Name, resource.GroupResource(), joined(namespace, name), err)
	}
	return object, resource, nil
}

func targetOf(kind verify.RemovalKind, node *corev1.Node, object *unstructured.Unstructured, resource schema.GroupVersionResource, removed bool) Target {
	return Target{
		Kind: kind, Node: node.Name, Namespace: object.GetNamespace(), Name: object.GetName(), Removed: removed,
		uid: string(object.GetUID()), version: object.GetResourceVersion(), resource: resource,
	}
}

func isGone(err error) bool {
	var refused *RefusedError
	return errors.As(err, &refused) && refused.Gone
}

func refused(node *corev1.Node, format string, values ...any) error {
	return &RefusedError{Node: node.Name, Why: fmt.Sprintf(format, values...)}
}

// differ reports whether both are known and not equal.
func differ(a, b string) bool { return a != "" && b != "" && a != b }

func joined(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}
