package cluster

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/manifests"
	"nodekeep.dev/nodekeep/nodepolicy"
	"nodekeep.dev/nodekeep/store"
)

// NodesRight returns a right on all Nodes.
func (c *Cluster) NodesRight(verb string) doctor.Right {
	return doctor.Right{Verb: verb, Resource: "nodes"}
}

// RecordsRight returns a right on all records.
func (c *Cluster) RecordsRight(verb string) doctor.Right {
	return doctor.Right{Verb: verb, Resource: "configmaps", Namespace: c.Namespace}
}

// NodeRight returns a right on one Node.
func (c *Cluster) NodeRight(verb, node string) doctor.Right {
	return doctor.Right{Verb: verb, Resource: "nodes", Name: node}
}

// RecordRight returns a right on the record of one Node.
func (c *Cluster) RecordRight(verb, node string) doctor.Right {
	return c.ConfigMapRight(verb, store.Name(node))
}

// ConfigMapRight returns a right on one ConfigMap in the namespace of nodekeep.
func (c *Cluster) ConfigMapRight(verb, name string) doctor.Right {
	return doctor.Right{Verb: verb, Resource: "configmaps", Namespace: c.Namespace, Name: name}
}

// PolicyRight returns the right to read the NodePolicy.
func (c *Cluster) PolicyRight() doctor.Right {
	resource := nodepolicy.Resource()
	return doctor.Right{Verb: "get", Group: resource.Group, Resource: resource.Resource, Name: doctor.PolicyName}
}

// PolicyInForceRights returns the rights to find out which policy is in force.
func (c *Cluster) PolicyInForceRights() []doctor.Right {
	return []doctor.Right{c.ConfigMapRight("get", doctor.GateObjectName), c.PolicyRight(), c.ConfigMapRight("get", store.AcceptedConfigMap)}
}

// EventsRight returns the right to read Events about Nodes.
func (c *Cluster) EventsRight() doctor.Right {
	return doctor.Right{Verb: "list", Resource: "events", Namespace: doctor.EventsNamespace}
}

// LeaseRight returns the right to read a Lease in the namespace of nodekeep.
func (c *Cluster) LeaseRight(name string) doctor.Right {
	return doctor.Right{Verb: "get", Group: coordinationv1.GroupName, Resource: "leases", Namespace: c.Namespace, Name: name}
}

// EmergencyRight returns the right to read one of the two objects that declare an emergency.
func (c *Cluster) EmergencyRight(resource string) doctor.Right {
	return doctor.Right{Verb: "get", Group: rbacv1.GroupName, Resource: resource, Namespace: c.Namespace, Name: manifests.EmergencyName}
}

// maxParallelReviews is how many rights are asked for at once.
const maxParallelReviews = 8

// RequireRights asks whether the caller has these rights, and returns an error that names all that are missing. Where the API server does not say,
// the calls themselves will.
func (c *Cluster) RequireRights(ctx context.Context, needed []doctor.Right) error {
	lacking, errs := make([]bool, len(needed)), make([]error, len(needed))
	var group errgroup.Group
	group.SetLimit(maxParallelReviews)
	for i, right := range needed {
		group.Go(func() error {
			allowed, err := c.CanI(ctx, right)
			lacking[i], errs[i] = err == nil && !allowed, err
			return nil
		})
	}
	_ = group.Wait() // what went wrong is in errs
	var status apierrors.APIStatus
	var missing []doctor.Right
	for i, right := range needed {
		if err := errs[i]; err != nil && (!errors.As(err, &status) || apierrors.IsUnauthorized(err)) {
			return c.ExplainError(right, err)
		}
		matches := func(o doctor.Right) bool { return o.Denied() == right.Denied() }
		if lacking[i] && !slices.ContainsFunc(missing, matches) {
			missing = append(missing, right)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	user, _ := c.Username(ctx)
	return DeniedError{Missing: missing, User: cmp.Or(user, unknownUser), namespace: c.Namespace}
}

// CanI asks whether the caller has a right.
func (c *Cluster) CanI(ctx context.Context, right doctor.Right) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
		Namespace: right.Namespace, Verb: right.Verb, Group: right.Group, Resource: right.Resource, Name: right.Name,
	}}}
	answer, err := c.Client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return answer.Status.Allowed, nil
}

// Username returns the caller's name, as the API server says it.
func (c *Cluster) Username(ctx context.Context) (string, error) {
	review, err := c.Client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return review.Status.UserInfo.Username, nil
}
