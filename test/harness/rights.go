package harness

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WaitRight waits until the API server allows a user something, or no longer does. It follows roles and bindings a moment later.
func (i *Installation) WaitRight(t testing.TB, user string, groups []string, right authorizationv1.ResourceAttributes, allowed bool) {
	t.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, Groups: groups, ResourceAttributes: &right}}
	ctx := context.WithoutCancel(t.Context()) // also where a test ends
	require.Eventually(t, func() bool {
		answer, err := i.Admin.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		return err == nil && answer.Status.Allowed == allowed
	}, Settles, 20*time.Millisecond, "%s may %s %s: it must come to be %t", user, right.Verb, right.Resource, allowed)
}
