package cluster

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"nodekeep.dev/nodekeep/cli/doctor"
)

// How often, and for how long, a Lease that may be stale is read again. A leader renews it every two seconds.
const (
	leasePollInterval = 500 * time.Millisecond
	leasePollTimeout  = 6 * time.Second
)

// GetLeadership reads the Lease of the leading replica. If the Lease may be stale or its clock wrong, it reads the Lease again until it is renewed.
func (c *Cluster) GetLeadership(ctx context.Context, name string, now func() time.Time) (doctor.Leadership, error) {
	get := func(ctx context.Context) (*coordinationv1.Lease, error) {
		return c.Client.CoordinationV1().Leases(c.Namespace).Get(ctx, name, metav1.GetOptions{})
	}
	lease, err := get(ctx)
	if err != nil {
		return doctor.Leadership{}, err
	}
	leader := doctor.Leadership{Lease: lease, Observed: now()}
	if !leader.MayBeStale() {
		return leader, nil
	}
	_ = wait.PollUntilContextTimeout(ctx, leasePollInterval, leasePollTimeout, false, func(ctx context.Context) (bool, error) {
		reread, err := get(ctx)
		if err == nil {
			leader = leader.Update(reread, now())
		}
		return leader.Renewed, nil // the first read counts where there is no other
	})
	return leader, nil
}
