package cli

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/store"
)

// A command names in [options.rights] the rights that it needs beyond those of its flags; see [options.needs]. They are checked before it starts: it
// names all missing rights at once, and none of them stops it halfway. Optional rights are not among them.

// needs returns the rights without which a command cannot do what its flags and arguments say.
func (o *options) needs(c *cluster, has ability, args []string) (needed []access) {
	switch {
	case has&decides != 0 && o.policy.file == "":
		needed = append(needed, c.toPolicyInForce()...)
	case has&(decides|knowsGate) != 0 && o.policy.key == "":
		needed = append(needed, c.toConfigMap("get", gateName))
	}
	if o.rights != nil {
		needed = append(needed, o.rights(c, args)...)
	}
	return needed
}

func (c *cluster) toNode(verb, node string) access {
	return access{verb: verb, resource: "nodes", name: node}
}

func (c *cluster) toRecord(verb, node string) access { return c.toConfigMap(verb, store.Name(node)) }

func (c *cluster) toConfigMap(verb, name string) access {
	return access{verb: verb, resource: "configmaps", namespace: c.namespace, name: name}
}

// toEvery returns the rights to go through all Nodes and all records.
func (c *cluster) toEvery(verb string) []access { return []access{c.toNodes(verb), c.toRecords(verb)} }

// toState returns the rights to read a Node and its record.
func (c *cluster) toState(node string) []access {
	return []access{c.toNode("get", node), c.toRecord("get", node)}
}

// ofState returns the rights of a command that reads a Node and its record.
func ofState(c *cluster, args []string) []access { return c.toState(args[0]) }

// ofEvery returns those of a command that goes through all Nodes and all records.
func ofEvery(c *cluster, _ []string) []access { return c.toEvery("list") }

// require asks whether the caller has these rights, and returns an error that names all that are missing. Where the API server does not say,
// the calls themselves will.
func (c *cluster) require(ctx context.Context, needed []access) error {
	lacking, errs := make([]bool, len(needed)), make([]error, len(needed))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, a := range needed {
		group.Go(func() error {
			allowed, err := c.may(ctx, a)
			lacking[i], errs[i] = err == nil && !allowed, err
			return nil
		})
	}
	_ = group.Wait() // what went wrong is in errs
	var status apierrors.APIStatus
	var missing []access
	for i, a := range needed {
		if err := errs[i]; err != nil && (!errors.As(err, &status) || apierrors.IsUnauthorized(err)) {
			return c.failed(a, err)
		}
		same := func(b access) bool { return b.denied() == a.denied() }
		if lacking[i] && !slices.ContainsFunc(missing, same) {
			missing = append(missing, a)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	user, _ := c.you(ctx)
	return deniedError{missing: missing, user: cmp.Or(user, unknownUser), release: c.namespace}
}

// may asks whether the caller has a right.
func (c *cluster) may(ctx context.Context, a access) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
		Namespace: a.namespace, Verb: a.verb, Group: a.group, Resource: a.resource, Name: a.name,
	}}}
	answer, err := c.client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return answer.Status.Allowed, nil
}

// you returns the caller's name, as the API server says it.
func (c *cluster) you(ctx context.Context) (string, error) {
	review, err := c.client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return review.Status.UserInfo.Username, nil
}
