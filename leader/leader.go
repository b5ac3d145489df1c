package leader

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Times of the election. A standby replaces a dead leader at its first retry after leaseDuration without a renewal: some 20 s at most. A
// leader that stops in order releases the Lease, and a standby replaces it at its next retry.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// errLeadershipLost ends the process: another one leads now, and this one starts again as a standby.
var errLeadershipLost = errors.New("lost leadership")

// Elect waits until this process leads by the Lease of this namespace and name, then calls lead once. It renews the Lease until ctx is
// done. It calls sameHost for each new leader: true if that is another process with this host name.
func Elect(ctx context.Context, client kubernetes.Interface, namespace, lease string, lead func(), sameHost func(bool)) error {
	hostname, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("name this process for the election: %w", err)
	}
	identity := hostname + "_" + string(uuid.NewUUID())
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name: lease,
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: lease},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		LeaseDuration:   leaseDuration,
		RenewDeadline:   renewDeadline,
		RetryPeriod:     retryPeriod,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { lead() },
			OnStoppedLeading: func() {},
			OnNewLeader:      func(leader string) { sameHost(leader != identity && strings.HasPrefix(leader, hostname+"_")) },
		},
	})
	if err != nil {
		return fmt.Errorf("set up the election: %w", err)
	}
	elector.Run(ctx)
	if ctx.Err() == nil {
		return errLeadershipLost
	}
	return nil
}
