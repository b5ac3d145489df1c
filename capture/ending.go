package capture

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
)

// On SIGTERM the process first records what it has observed, above all the last states of deleted Nodes, which no later process sees.
const (
	drainTimeout       = 5 * time.Second        // how long that may take
	drainRetryInterval = 250 * time.Millisecond // how often what has failed is tried again
)

// drain records what waits, until ctx is done. It writes records and changes no Node: another process does the rest.
func (c *Controller) drain(ctx context.Context) {
	waiting := c.observations.waiting()
	if len(waiting) == 0 {
		return
	}
	c.Logger.Info("recording what was observed before the end", "nodes", len(waiting))
	left := waiting
	_ = wait.PollUntilContextCancel(ctx, drainRetryInterval, true, func(ctx context.Context) (done bool, err error) { // an end of ctx is no error
		left = c.recordAll(ctx, left)
		return len(left) == 0, nil
	})
	if len(left) > 0 {
		c.Logger.Error("what was last observed of some nodes is not recorded; only those that are deleted now lose it", "nodes", len(left), "of", len(waiting), "first", left[0])
	}
}

// recordAll works on Nodes by several workers, and returns those that were not recorded.
func (c *Controller) recordAll(ctx context.Context, nodes []string) (left []string) {
	var mu sync.Mutex
	failed := map[string]bool{}
	for _, name := range nodes {
		failed[name] = true
	}
	workqueue.ParallelizeUntil(ctx, max(c.Workers, 1), len(nodes), func(i int) {
		err := c.reconcileOne(ctx, nodes[i])
		mu.Lock()
		defer mu.Unlock()
		if failed[nodes[i]] = err != nil; err != nil {
			c.Logger.Warn("node is not recorded", "node", nodes[i], "error", err)
		}
	})
	for _, name := range nodes {
		if failed[name] {
			left = append(left, name)
		}
	}
	return left
}
