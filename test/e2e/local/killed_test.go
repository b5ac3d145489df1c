package local

import (
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/test/harness/proxy"
)

// killedAtEachWrite has a Node register and be verified by a controller on the host. The controller is killed before and after each write that
// decides something, and starts again.
func (c *cluster) killedAtEachWrite(t *testing.T, k *kubelet) {
	t.Helper()
	c.runsVerifiers(t, 0)
	defer c.runsVerifiers(t, 1)
	p, start := c.controllerOnTheHost(t)
	kills := 0
	for _, moment := range []proxy.Moment{proxy.BeforeRequest, proxy.AfterResponse} {
		for number, held := int64(1), true; held; number++ {
			require.Less(t, number, int64(30), "the controller goes on writing for ever")
			t.Run(fmt.Sprintf("moment %d of write %d", moment, number), func(t *testing.T) {
				held = false
				reached := make(chan string, 1)
				p.Break(proxy.Hold(proxy.Decides, number, moment, func(r *http.Request) { reached <- r.Method + " " + r.URL.Path }))
				defer p.Break(nil)
				c.DeleteNode(t, k.name)
				states := c.watchesNode(t, k.name)
				uid := k.registersAgain(t).stored(t).UID
				controller := start(t)
				held = reachedOrOpen(t, reached, func() bool { node := c.Node(t, k.name); return node.UID == uid && !unverified(node) })
				require.NoError(t, controller.Kill())
				p.Break(nil)
				controller = start(t)
				openedOnce(t, states, c.opens(t, k.name))
				require.NoError(t, controller.Kill())
			})
			if held {
				kills++
			}
		}
	}
	assert.GreaterOrEqual(t, kills, 6, "the worker Pod, what its Node shows, and the taint, before and after each")
	t.Logf("killed at %d moments", kills)
}

// controllerOnTheHost returns a controller that a test starts as a process, with the rights of the chart's, behind a proxy.
func (c *cluster) controllerOnTheHost(t *testing.T) (p *proxy.Proxy, start func(*testing.T) *harness.Process) {
	t.Helper()
	config, err := c.Cluster.ServiceAccount(t.Context(), namespace, "nodekeep-verify")
	require.NoError(t, err)
	p, err = proxy.Start(config)
	require.NoError(t, err)
	t.Cleanup(p.Stop)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, harness.WriteKubeconfig(kubeconfig, p.Config(config)))
	return p, func(t *testing.T) *harness.Process {
		t.Helper()
		controller, err := c.Cluster.Go("verify", binary(t), []string{
			"verify", "--leader-elect=false", "--image", image, "--image-pull-policy", string(corev1.PullNever), "--kubeconfig", kubeconfig,
			"--namespace", namespace, "--health-probe-bind-address", "0", "--metrics-bind-address", "0",
		})
		require.NoError(t, err)
		t.Cleanup(func() { _ = controller.Kill() }) // also where the test fails
		return controller
	}
}

// reachedOrOpen waits until the controller is held at a write, or until the Node is open without that.
func reachedOrOpen(t *testing.T, reached <-chan string, open func() bool) (held bool) {
	t.Helper()
	var start time.Time
	require.Eventually(t, func() bool {
		select {
		case stamp := <-reached:
			t.Logf("killed at %s", stamp)
			held = true
		default:
		}
		if !open() {
			start = time.Time{}
		} else if start.IsZero() {
			start = time.Now()
		}
		return held || !start.IsZero() && time.Since(start) > 2*time.Second // it may write after the Node is open
	}, settles, 50*time.Millisecond, "the controller neither reaches the write nor opens the Node")
	return held
}
