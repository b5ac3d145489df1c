package cli

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"nodekeep.dev/nodekeep/cli/doctor"
)

const (
	groupAuthentication = authenticationv1.GroupName
	groupAuthorization  = authorizationv1.GroupName
)

// lookAtYourRights asks who the caller is and what he may do.
func (e *examination) lookAtYourRights(ctx context.Context) {
	seen := &e.seen
	reading(e, &seen.You, e.toAll("create", groupAuthentication, "selfsubjectreviews"), e.you)(ctx)
	reading(e, &seen.Yours, e.toAll("create", groupAuthorization, "selfsubjectaccessreviews"), e.yourRights)(ctx)
}

func (e *examination) yourRights(ctx context.Context) ([]doctor.HeldRight, error) {
	rights := doctor.YourRights(e.namespace)
	for i, right := range rights {
		a := access{verb: right.Verb, group: right.Group, resource: right.Resource, namespace: right.Namespace}
		var err error
		if rights[i].Held, err = e.may(ctx, a); err != nil {
			return nil, err
		}
		rights[i].Lacking = lacking(a, e.seen.You.Value, e.namespace)
	}
	return rights, nil
}
