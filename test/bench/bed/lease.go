package bed

import (
	"context"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"nodekeep.dev/nodekeep/test/harness"
)

// LeaseHolder returns who holds capture's Lease, empty where nobody does. A process that was killed holds it until it has run out.
func (b *Bed) LeaseHolder(ctx context.Context) string {
	lease, err := b.Admin.CoordinationV1().Leases(harness.Namespace).Get(ctx, captureProcess, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ""
	}
	require.NoError(b, err)
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}
