package leader_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	"nodekeep.dev/nodekeep/leader"
)

func TestAProcessLearnsWhetherTheLeaderRunsOnItsHost(t *testing.T) {
	host, err := os.Hostname()
	require.NoError(t, err)
	for name, c := range map[string]struct {
		holder string
		want   bool
	}{
		"another process of this host":           {host + "_b5b5c9b5-0000-4000-8000-000000000000", true},
		"a process of another host":              {"elsewhere_b5b5c9b5-0000-4000-8000-000000000000", false},
		"nobody, and so this process leads":      {"", false},
		"a host whose name begins with this one": {host + "-2_b5b5c9b5-0000-4000-8000-000000000000", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := fake.NewClientset(&coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"},
				Spec: coordinationv1.LeaseSpec{
					HolderIdentity: &c.holder, LeaseDurationSeconds: ptr.To(int32(15)), RenewTime: ptr.To(metav1.NowMicro()), AcquireTime: ptr.To(metav1.NowMicro()),
				},
			})
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			sameHost := make(chan bool, 10)
			ended := make(chan error)
			go func() {
				ended <- leader.Elect(ctx, client, "a", "b", func() {}, func(equal bool) { sameHost <- equal })
			}()
			require.Equal(t, c.want, <-sameHost)
			stop()
			require.NoError(t, <-ended)
		})
	}
}
