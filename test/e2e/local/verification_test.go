package local

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"nodekeep.dev/nodekeep/verify"
)

// verification is policy.verify of these tests: a check of each kind whose target a test can break. The pace is faster than by default.
const verification = `{"profiles": [{
	"name": "all",
	"checks": [
		{"name": "dns", "dns": {"names": ["kubernetes.default.svc"], "servers": "each"}},
		{"name": "api", "api": {}},
		{"name": "app", "service": {"name": "default/app", "port": 443}},
		{"name": "other-nodes", "service": {"name": "nodekeep-system/nodekeep-webhook", "port": 443, "endpoints": 1}},
		{"name": "tcp", "tcp": {"address": "10.96.0.1:443"}},
		{"name": "http", "http": {"url": "http://probes.nodekeep-system.svc:8081/healthz"}},
		{"name": "container", "container": {"image": "nodekeep:test", "args": ["version"]}},
		{"name": "kubelet", "kubelet": {}}],
	"timeout": "8s", "startTimeout": "30s", "attempts": {"max": 3, "backoff": "1s", "maxBackoff": "3s"}}]}`

// verifying installs the chart with the controller of verification. The Node that it runs on is verified when it returns, so that later ones
// are not the first of a cold cluster.
func (c *Cluster) verifying(t *testing.T, policy string) {
	t.Helper()
	only := c.AddForTest(t, "node-1")
	c.publishApp(t)
	c.installed(t, "--set", "verify.enabled=true,verify.replicas=1", "--set-json", "policy.verify="+policy)
	c.publishProbes(t)
	c.taint(t, only.Name)
	c.opens(t, only.Name)
}

// publishApp makes Service default/app, whose endpoint is the API server's.
func (c *Cluster) publishApp(t *testing.T) {
	t.Helper()
	_, err := c.Admin.CoreV1().Services(metav1.NamespaceDefault).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "app"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "https", Port: 443, Protocol: corev1.ProtocolTCP}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = c.Admin.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "app", Labels: map[string]string{discoveryv1.LabelServiceName: "app"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{apiEndpoint}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}},
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("https"), Port: ptr.To[int32](apiPort), Protocol: ptr.To(corev1.ProtocolTCP)}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// publishProbes makes Service nodekeep-system/probes: HTTP without TLS, answered by the webhook's Pods.
func (c *Cluster) publishProbes(t *testing.T) {
	t.Helper()
	_, err := c.Admin.CoreV1().Services(namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "probes"},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app.kubernetes.io/name": "nodekeep", "app.kubernetes.io/component": "webhook"},
			Ports:    []corev1.ServicePort{{Port: 8081, Protocol: corev1.ProtocolTCP}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// taint adds the taint of verification to a Node, as `kubectl taint` does.
func (c *Cluster) taint(t *testing.T, name string) {
	t.Helper()
	require.Eventually(t, func() bool {
		node, err := c.Admin.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
		if unverified(node) { // a test before this one has failed
			return true
		}
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: verify.Taint, Effect: corev1.TaintEffectNoSchedule})
		_, err = c.Admin.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{FieldManager: "kubectl-taint"})
		if apierrors.IsConflict(err) {
			return false
		}
		require.NoError(t, err)
		return true
	}, settles, 10*time.Millisecond)
}

// unverified says whether a Node has the taint of verification.
func unverified(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == verify.Taint })
}

// opens waits until a Node is verified: ready, with the label and without the taint.
func (c *Cluster) opens(t *testing.T, name string) *corev1.Node {
	t.Helper()
	var node *corev1.Node
	var last string
	if !assert.Eventually(t, func() bool {
		var err error
		if node, err = c.Admin.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			last = err.Error()
			return false
		}
		last = fmt.Sprintf("taints %v, label %q, annotation %s", node.Spec.Taints, node.Labels[verify.Label], node.Annotations[verify.Annotation])
		return ready(node) && !unverified(node) && node.Labels[verify.Label] == "true"
	}, settles, 20*time.Millisecond) {
		t.Fatalf("node %s must be verified; last seen: %s", name, last)
	}
	assert.Equal(t, verify.VerdictPassed, lastOf(node).Result)
	return node
}

// lastOf is how the last attempt ended, by the Node's annotation.
func lastOf(node *corev1.Node) verify.Last {
	return ptr.Deref(verify.ParseProgress(node.Annotations[verify.Annotation]).Last, verify.Last{})
}

// A Node registers with a real kubelet, and a real worker Pod on it finds what is broken.
func TestARealKubeletsNodeTakesWorkloadsOnceItsChecksPass(t *testing.T) {
	log, args := auditing(t)
	c := ForTest(t, args...)
	d := c.startDNS(t, 2, nil)
	c.verifying(t, verification)
	k := c.AddForTest(t, "node-2")
	c.opens(t, k.Name)
	stored := log.next(t, k.Name, 0).stored(t)
	assert.True(t, unverified(stored), "the taint is in the object that the kubelet's CREATE stored: %v", stored.Spec.Taints)
	c.publishedOpen(t, k, log)

	mend := func() {
		require.NoError(t, k.Break(Faults{}))
		for replica := range d.Servers() {
			require.NoError(t, d.Break(replica, NoDNSFault))
		}
		c.endpointsReady(t, metav1.NamespaceDefault, "app", true)
	}
	for _, test := range []struct {
		name   string
		inject func() error
		result verify.Verdict // shared: of a fault that the verified Node has, too
		check  string
		reason []string // of the check
	}{
		{
			name: "all DNS servers are mute", inject: func() error { return anyError(d.Break(0, MuteDNS), d.Break(1, MuteDNS)) },
			result: verify.VerdictShared, check: "dns", reason: []string{string(verify.ReasonTimeout)},
		},
		{
			name: "one of two DNS servers is mute", inject: func() error { return d.Break(1, MuteDNS) },
			result: verify.VerdictShared, check: "dns", reason: []string{string(verify.ReasonTimeout)},
		},
		{
			name: "the DNS servers fail", inject: func() error { return anyError(d.Break(0, FailingDNS), d.Break(1, FailingDNS)) },
			result: verify.VerdictShared, check: "dns", reason: []string{string(verify.ReasonServerFailure)},
		},
		{
			name: "pods cannot reach the DNS servers", inject: func() error { return k.Break(Faults{Lost: append([]string{clusterDNS}, d.Servers()...)}) },
			result: verify.VerdictFailed, check: "dns", reason: []string{string(verify.ReasonTimeout)},
		},
		{
			name: "pods cannot reach the API server", inject: func() error { return k.Break(Faults{Lost: []string{"10.96.0.1"}}) },
			result: verify.VerdictFailed, check: "api", reason: []string{string(verify.ReasonTimeout)},
		},
		{
			name: "there is no route to other Nodes", inject: func() error { return k.Break(Faults{Lost: []string{"10.244.0.0/24"}}) },
			result: verify.VerdictFailed, check: "other-nodes", reason: []string{string(verify.ReasonTimeout)},
		},
		{
			name: "the pods' bridge is down", inject: func() error { return k.Break(Faults{Lost: []string{"0.0.0.0/1", "128.0.0.0/1"}}) },
			result: verify.VerdictFailed, check: "*", reason: []string{string(verify.ReasonTimeout)},
		},
		{
			name: "a Service has no endpoint", inject: func() error { c.endpointsReady(t, metav1.NamespaceDefault, "app", false); return nil },
			result: verify.VerdictShared, check: "app", reason: []string{string(verify.ReasonRefused), string(verify.ReasonTimeout)},
		},
		{
			name: "the image is missing", inject: func() error { return k.Break(Faults{NoImage: true}) },
			result: verify.VerdictInconclusive, reason: []string{"ErrImageNeverPull", "ErrImagePull", "ImagePullBackOff"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			defer mend() // whatever else fails
			require.NoError(t, test.inject())
			c.taint(t, k.Name)
			began := time.Now()
			recorded := test.reason
			if test.result == verify.VerdictShared {
				recorded = []string{verify.ReasonShared}
			}
			node := c.staysTainted(t, k.Name, test.result, test.check, recorded)
			t.Logf("after %s: %s", time.Since(began).Round(time.Millisecond), node.Annotations[verify.Annotation])
			c.showsReport(t, k.Name, test.check, test.reason)
			mend()
			began = time.Now()
			c.opens(t, k.Name)
			t.Logf("open %s after the fault has ended", time.Since(began).Round(time.Millisecond))
		})
	}
	t.Run("the kubelet is killed during a check", func(t *testing.T) {
		defer mend()
		require.NoError(t, anyError(d.Break(0, MuteDNS), d.Break(1, MuteDNS)))
		c.taint(t, k.Name)
		c.checking(t, k.Name)
		require.NoError(t, c.Control.Process(k.Process()).Kill())
		mend()
		c.notReady(t, k.Name)
		node, err := c.Admin.CoreV1().Nodes().Get(t.Context(), k.Name, metav1.GetOptions{})
		require.NoError(t, err)
		assert.True(t, unverified(node), "nobody said that the checks passed")
		require.NoError(t, k.Start())
		c.opens(t, k.Name)
	})
	t.Run("two controllers are killed during a check", func(t *testing.T) {
		defer mend()
		c.runsVerifiers(t, 2)
		for _, atOnce := range []bool{false, true} {
			states, before := c.watchesNode(t, k.Name), roundOf(c.nodeOf(t, k.Name))
			if atOnce {
				c.taint(t, k.Name)
			} else {
				require.NoError(t, anyError(d.Break(0, MuteDNS), d.Break(1, MuteDNS)))
				c.taint(t, k.Name)
				c.checking(t, k.Name)
			}
			killVerifiers(t)
			mend()
			node := c.opens(t, k.Name)
			assert.Equal(t, before+1, roundOf(node), "it was verified once")
			c.runsVerifiers(t, 2)
			require.Eventually(t, func() bool {
				return slices.ContainsFunc(nodesOf(states), func(one *corev1.Node) bool { return one.ResourceVersion == node.ResourceVersion })
			}, settles, 20*time.Millisecond)
			tainted := false
			for _, one := range nodesOf(states) {
				if tainted = tainted || unverified(one); tainted && !unverified(one) {
					assert.Equal(t, before+1, roundOf(one), "version %s is open: annotation %s", one.ResourceVersion, one.Annotations[verify.Annotation])
				}
			}
		}
		c.runsVerifiers(t, 1)
	})
	t.Run("the controller is killed at each of its writes", func(t *testing.T) { c.killedAtEachWrite(t, k, log) })
	t.Run("the API server restarts during a check", func(t *testing.T) {
		defer mend()
		require.NoError(t, anyError(d.Break(0, MuteDNS), d.Break(1, MuteDNS)))
		before := roundOf(c.nodeOf(t, k.Name))
		c.taint(t, k.Name)
		c.checking(t, k.Name)
		require.NoError(t, c.Control.RestartAPIServer(t.Context()))
		assert.True(t, unverified(c.nodeOf(t, k.Name)), "nobody said that the checks passed")
		mend()
		assert.Equal(t, before+1, roundOf(c.opens(t, k.Name)), "it was verified once")
	})
	t.Run("the Node is deleted midway", func(t *testing.T) {
		defer mend()
		require.NoError(t, anyError(d.Break(0, MuteDNS), d.Break(1, MuteDNS)))
		c.taint(t, k.Name)
		before := c.checking(t, k.Name)
		require.NoError(t, c.Admin.CoreV1().Nodes().Delete(t.Context(), k.Name, metav1.DeleteOptions{}))
		r := k.registersAgain(t, log)
		assert.True(t, unverified(r.stored(t)), "a Node that registers again is verified again")
		mend()
		c.opens(t, k.Name)
		require.Eventually(t, func() bool {
			_, err := c.Admin.CoreV1().Pods(verify.Namespace).Get(t.Context(), before.Name, metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		}, settles, 100*time.Millisecond, "the worker Pod of the deleted Node must go")
	})
}

// runsVerifiers scales the controller, and waits until so many replicas are ready.
func (c *Cluster) runsVerifiers(t *testing.T, replicas int) {
	t.Helper()
	deployments := c.Admin.AppsV1().Deployments(namespace)
	_, err := deployments.Patch(t.Context(), "nodekeep-verify", types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas), metav1.PatchOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		now, err := deployments.Get(t.Context(), "nodekeep-verify", metav1.GetOptions{})
		require.NoError(t, err)
		return now.Status.ObservedGeneration == now.Generation && int(now.Status.ReadyReplicas) == replicas && int(now.Status.Replicas) == replicas
	}, settles, 50*time.Millisecond)
}

// killVerifiers kills the processes of all controllers. The Lease stays until it expires, and their kubelet starts the containers again.
func killVerifiers(t *testing.T) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	killed := 0
	for _, file := range files {
		line, err := os.ReadFile(file)
		if args := strings.Split(string(line), "\x00"); err != nil || len(args) < 3 || filepath.Base(args[0]) != "nodekeep" || args[1] != "verify" {
			continue // it may have ended since
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		require.NoError(t, err)
		process, err := os.FindProcess(pid)
		require.NoError(t, err)
		require.NoError(t, process.Kill())
		killed++
	}
	require.Equal(t, 2, killed, "the controllers that ran")
}

func anyError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// publishedOpen holds every version of a Node that registers again to the invariant: no version is without the taint before the checks have
// passed.
func (c *Cluster) publishedOpen(t *testing.T, k *Kubelet, log auditLog) {
	t.Helper()
	require.NoError(t, k.Stop())
	require.NoError(t, c.Admin.CoreV1().Nodes().Delete(t.Context(), k.Name, metav1.DeleteOptions{}))
	states := c.watchesNode(t, k.Name)
	k.registersAgain(t, log)
	node := c.opens(t, k.Name)
	openedOnce(t, states, node)
}

// openedOnce holds every version of a Node, up to the one that is open, to the invariant.
func openedOnce(t *testing.T, states *versions, node *corev1.Node) {
	t.Helper()
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(states.all(), func(e watch.Event) bool { return e.Object.(*corev1.Node).ResourceVersion == node.ResourceVersion })
	}, settles, 20*time.Millisecond)
	for _, event := range states.all() {
		if version := event.Object.(*corev1.Node); event.Type != watch.Deleted && version.UID == node.UID {
			assert.Equal(t, lastOf(version).Result != verify.VerdictPassed, unverified(version), "version %s: taints %v, annotation %s", version.ResourceVersion,
				version.Spec.Taints, version.Annotations[verify.Annotation])
		}
	}
}

// staysTainted waits until an attempt did not pass, and returns the Node as it is then: the annotation names the check and the reason, and the
// taint is there. Check * is any.
func (c *Cluster) staysTainted(t *testing.T, name string, result verify.Verdict, check string, reasons []string) *corev1.Node {
	t.Helper()
	var node *corev1.Node
	var seen string
	if !assert.Eventually(t, func() bool {
		var err error
		node, err = c.Admin.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
		seen = node.Annotations[verify.Annotation]
		last := lastOf(node)
		return !unverified(node) || last.Result == result && (check == "*" || last.Check == check) && slices.Contains(reasons, last.Reason)
	}, settles, 50*time.Millisecond) {
		t.Fatalf("an attempt on node %s must be %s by check %q for one of %v; annotation: %s", name, result, check, reasons, seen)
	}
	require.True(t, unverified(node), "node %s must keep its taint; annotation: %s", name, seen)
	return node
}

// showsReport: the operator's command names the check and the reason.
func (c *Cluster) showsReport(t *testing.T, name, check string, reasons []string) {
	t.Helper()
	out := c.nodekeep(t, "verify", "show", name)
	if check != "*" {
		assert.Contains(t, out, check)
	}
	assert.True(t, slices.ContainsFunc(reasons, func(reason string) bool { return strings.Contains(out, reason) }), "one of %v in\n%s", reasons, out)
}

// checking waits until a worker Pod runs on a Node.
func (c *Cluster) checking(t *testing.T, node string) (found *corev1.Pod) {
	t.Helper()
	require.Eventually(t, func() bool {
		pods, err := c.Admin.CoreV1().Pods(verify.Namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + node + ",status.phase=Running"})
		require.NoError(t, err)
		if len(pods.Items) > 0 {
			found = &pods.Items[0]
		}
		return found != nil
	}, settles, 20*time.Millisecond, "a worker Pod must run on node %s", node)
	return found
}

// notReady waits until the control plane has noticed that a kubelet is silent.
func (c *Cluster) notReady(t *testing.T, name string) {
	t.Helper()
	require.Eventually(t, func() bool {
		node, err := c.Admin.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
		require.True(t, unverified(node), "node %s must keep its taint", name)
		return !ready(node)
	}, settles, 200*time.Millisecond, "node %s must stop being ready", name)
}
