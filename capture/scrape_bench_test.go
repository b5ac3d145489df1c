package capture

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"

	"nodekeep.dev/nodekeep/observe"
	"nodekeep.dev/nodekeep/policy"
)

// BenchmarkScrape is what a scrape costs with 100,000 Nodes, some or all of them behind the gate. The lock that it takes is
// the one that every Node event needs.
func BenchmarkScrape(b *testing.B) {
	for _, gated := range []int{0, 1_000, 100_000} {
		b.Run(fmt.Sprintf("gated=%d", gated), func(b *testing.B) {
			registry := prometheus.NewRegistry()
			p := policy.Default()
			c := newController(Options{Policy: func() policy.Policy { return p }, Metrics: NewMetrics(registry), Now: time.Now},
				workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()))
			c.Metrics.registerController(c)
			for i := range 100_000 {
				node := &observe.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("worker-%d", i), UID: "1"}}
				if i < gated {
					node.Taints = []corev1.Taint{p.Gate().Taint()}
				}
				c.observations.observeLive(observe.CompactNodeOf(node))
			}
			b.ReportAllocs()
			for b.Loop() {
				_, err := registry.Gather()
				require.NoError(b, err)
			}
		})
	}
}
