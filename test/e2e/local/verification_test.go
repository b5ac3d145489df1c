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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"nodekeep.dev/nodekeep/test/harness"
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
		{"name": "tcp", "tcp": "10.96.0.1:443"},
		{"name": "http", "http": {"url": "http://probes.nodekeep-system.svc:8081/healthz"}},
		{"name": "container", "container": {"image": "nodekeep:test", "args": ["version"]}},
		{"name": "kubelet", "kubelet": {}}],
	"timeout": "8s", "startTimeout": "30s", "attempts": {"max": 3, "backoff": "1s", "maxBackoff": "3s"}}]}`

// verifying installs the chart with the controller of verification. The Node that it runs on is verified when it returns, so that later ones
// are not the first of a cold cluster.
func (c *cluster) verifying(t *testing.T, policy string) {
	t.Helper()
	kubelet := c.add(t, "node-1")
	// Service default/app has the API server as its endpoint.
	https := []corev1.ServicePort{{Name: "https", Port: 443, Protocol: corev1.ProtocolTCP}}
	c.addService(t, metav1.NamespaceDefault, "app", corev1.ServiceSpec{Ports: https})
	c.publish(t, metav1.NamespaceDefault, "app", httpsOfAPIServer, apiEndpoint)
	c.installed(t, "--set", "verify.enabled=true,verify.replicas=1", "--set-json", "policy.verify="+policy)
	// Service nodekeep-system/probes is HTTP without TLS, answered by the webhook's Pods.
	c.addService(t, namespace, "probes", corev1.ServiceSpec{
		Selector: map[string]string{"app.kubernetes.io/name": "nodekeep", "app.kubernetes.io/component": "webhook"},
		Ports:    []corev1.ServicePort{{Port: 8081, Protocol: corev1.ProtocolTCP}},
	})
	c.taint(t, kubelet.name)
	c.opens(t, kubelet.name)
}

// taint adds the taint of verification to a Node, as `kubectl taint` does.
func (c *cluster) taint(t *testing.T, name string) {
	t.Helper()
	c.Taint(t, name, verify.Taint+":NoSchedule")
}

// unverified says whether a Node has the taint of verification.
func unverified(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == verify.Taint })
}

// opens waits until a Node is verified: ready, with the label and without the taint.
func (c *cluster) opens(t *testing.T, name string) *corev1.Node {
	t.Helper()
	node := c.await(t, name, "verified", func(node *corev1.Node) bool {
		return ready(node) && !unverified(node) && node.Labels[verify.Label] == "true"
	})
	assert.Equal(t, verify.VerdictPassed, lastOf(node).Result)
	return node
}

// lastOf returns how the last attempt ended, by the Node's annotation.
func lastOf(node *corev1.Node) verify.Last {
	return ptr.Deref(verify.ParseProgress(node.Annotations[verify.Annotation]).Last, verify.Last{})
}

// A Node registers with a real kubelet, and a real worker Pod on it finds what is broken.
func TestARealKubeletsNodeTakesWorkloadsOnceItsChecksPass(t *testing.T) {
	c := forTest(t)
	d := c.startDNS(t)
	c.verifying(t, verification)
	k := c.add(t, "node-2")
	c.opens(t, k.name)
	stored := c.audit.next(t, k.name, 0).stored(t)
	assert.True(t, unverified(stored), "the taint is in the object that the kubelet's CREATE stored: %v", stored.Spec.Taints)
	c.publishedOpen(t, k)

	mend := func() {
		k.breaks(t, faults{})
		d.breaks(t)
		c.endpointsReady(t, metav1.NamespaceDefault, "app", true)
	}
	for _, test := range []struct {
		name   string
		inject func()
		result verify.Verdict // shared: of a fault that the verified Node has, too
		check  string
		reason []string // of the check
	}{
		{
			name: "all DNS servers are mute", inject: func() { d.breaks(t, muteDNS, muteDNS) },
			result: verify.VerdictShared, check: "dns", reason: []string{string(verify.ReasonTimeout)},
		},
		{
			name: "one of two DNS servers is mute", inject: func() { d.breaks(t, noDNSFault, muteDNS) },
			result: verify.VerdictShared, check: "dns", reason: []string{string(verify.ReasonTimeout)},
		},
		{
			name: "the DNS servers fail", inject: func() { d.breaks(t, failingDNS, failingDNS) },
			result: verify.VerdictShared, check: "dns", reason: []string{string(verify.ReasonServerFailure)},
		},
		{
			name: "pods cannot reach the DNS servers", inject: func() { k.breaks(t, faults{Lost: []string{clusterDNS + "/32", dnsRange}}) },
			result: verify.VerdictFailed, check: "dns", reason: []string{string(verify.ReasonTimeout)},
		},
		{
			name: "pods cannot reach the API server", inject: func() { k.breaks(t, faults{Lost: []string{"10.96.0.1/32"}}) },
			result: verify.VerdictFailed, check: "api", reason: []string{string(verify.ReasonTimeout)},
		},
		{
			name: "there is no route to other Nodes", inject: func() { k.breaks(t, faults{Lost: []string{"10.244.0.0/24"}}) },
			result: verify.VerdictFailed, check: "other-nodes", reason: []string{string(verify.ReasonTimeout)},
		},
		{
			name: "the pods' bridge is down", inject: func() { k.breaks(t, faults{Lost: []string{"0.0.0.0/1", "128.0.0.0/1"}}) },
			result: verify.VerdictFailed, check: "*", reason: []string{string(verify.ReasonTimeout)},
		},
		{
			name: "a Service has no endpoint", inject: func() { c.endpointsReady(t, metav1.NamespaceDefault, "app", false) },
			result: verify.VerdictShared, check: "app", reason: []string{string(verify.ReasonRefused), string(verify.ReasonTimeout)},
		},
		{
			name: "the image is missing", inject: func() { k.breaks(t, faults{NoImage: true}) },
			result: verify.VerdictInconclusive, reason: []string{string(verify.CauseImage)},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			defer mend() // whatever else fails
			test.inject()
			c.taint(t, k.name)
			recorded := test.reason
			if test.result == verify.VerdictShared {
				recorded = []string{verify.ReasonShared}
			}
			node := c.staysTainted(t, k.name, test.result, test.check, recorded)
			t.Log(node.Annotations[verify.Annotation])
			c.showsReport(t, k.name, test.check, test.reason)
			mend()
			c.opens(t, k.name)
		})
	}
	duringACheck := func() (worker *corev1.Pod) {
		d.breaks(t, muteDNS, muteDNS)
		c.taint(t, k.name)
		return c.checking(t, k.name)
	}
	t.Run("the kubelet is killed during a check", func(t *testing.T) {
		defer mend()
		duringACheck()
		require.NoError(t, c.Cluster.Process(k.process()).Kill())
		mend()
		node := c.await(t, k.name, "not ready", func(node *corev1.Node) bool { return !ready(node) })
		assert.True(t, unverified(node), "nobody said that the checks passed")
		k.start(t)
		c.opens(t, k.name)
	})
	t.Run("two controllers are killed during a check", func(t *testing.T) {
		defer mend()
		c.runsVerifiers(t, 2)
		for _, atOnce := range []bool{false, true} {
			states, index := c.watchesNode(t, k.name), roundOf(c.Node(t, k.name))
			if atOnce {
				c.taint(t, k.name)
			} else {
				duringACheck()
			}
			killVerifiers(t)
			mend()
			node := c.opens(t, k.name)
			assert.Equal(t, index+1, roundOf(node), "it was verified once")
			c.runsVerifiers(t, 2)
			tainted := false
			for _, item := range states.upTo(t, node) {
				if tainted = tainted || unverified(item); tainted && !unverified(item) {
					assert.Equal(t, index+1, roundOf(item), "version %s is open: annotation %s", item.ResourceVersion, item.Annotations[verify.Annotation])
				}
			}
		}
		c.runsVerifiers(t, 1)
	})
	t.Run("the controller is killed at each of its writes", func(t *testing.T) { c.killedAtEachWrite(t, k) })
	t.Run("the API server restarts during a check", func(t *testing.T) {
		defer mend()
		index := roundOf(c.Node(t, k.name))
		duringACheck()
		require.NoError(t, c.Cluster.RestartAPIServer(t.Context()))
		assert.True(t, unverified(c.Node(t, k.name)), "nobody said that the checks passed")
		mend()
		assert.Equal(t, index+1, roundOf(c.opens(t, k.name)), "it was verified once")
	})
	t.Run("the Node is deleted midway", func(t *testing.T) {
		defer mend()
		worker := duringACheck()
		c.DeleteNode(t, k.name)
		r := k.registersAgain(t)
		assert.True(t, unverified(r.stored(t)), "a Node that registers again is verified again")
		mend()
		c.opens(t, k.name)
		require.Eventually(t, func() bool {
			_, err := c.Admin.CoreV1().Pods(verify.Namespace).Get(t.Context(), worker.Name, metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		}, settles, 100*time.Millisecond, "the worker Pod of the deleted Node must go")
	})
}

// runsVerifiers scales the controller, and waits until so many replicas are ready.
func (c *cluster) runsVerifiers(t *testing.T, replicas int) {
	t.Helper()
	deployments := c.Admin.AppsV1().Deployments(namespace)
	_, err := deployments.Patch(t.Context(), "nodekeep-verify", types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas), metav1.PatchOptions{})
	require.NoError(t, err)
	harness.Eventually(t, func() bool {
		now, err := deployments.Get(t.Context(), "nodekeep-verify", metav1.GetOptions{})
		require.NoError(t, err)
		return now.Status.ObservedGeneration == now.Generation && int(now.Status.ReadyReplicas) == replicas && int(now.Status.Replicas) == replicas
	}, settles, 50*time.Millisecond)
}

// killVerifiers kills the processes of all controllers. The Lease stays until it expires, and their kubelet starts the containers again.
func killVerifiers(t *testing.T) {
	t.Helper()
	killed := 0
	for process, args := range programs(t) {
		if args[1] != "verify" {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(process))
		require.NoError(t, err)
		program, err := os.FindProcess(pid)
		require.NoError(t, err)
		require.NoError(t, program.Kill())
		killed++
	}
	require.Equal(t, 2, killed, "the controllers that ran")
}

// publishedOpen holds every version of a Node that registers again to the invariant: no version is without the taint before the checks have
// passed.
func (c *cluster) publishedOpen(t *testing.T, k *kubelet) {
	t.Helper()
	k.losesNode(t)
	states := c.watchesNode(t, k.name)
	k.registersAgain(t)
	openedOnce(t, states, c.opens(t, k.name))
}

// openedOnce holds every version of a Node, up to the one that is open, to the invariant.
func openedOnce(t *testing.T, states *versions, node *corev1.Node) {
	t.Helper()
	for _, version := range states.upTo(t, node) {
		if version.UID == node.UID {
			assert.Equal(t, lastOf(version).Result != verify.VerdictPassed, unverified(version), "version %s: taints %v, annotation %s", version.ResourceVersion,
				version.Spec.Taints, version.Annotations[verify.Annotation])
		}
	}
}

// staysTainted waits until an attempt did not pass, and returns the Node as it is then: the annotation names the check and the reason, and the
// taint is there. Check * is any.
func (c *cluster) staysTainted(t *testing.T, name string, result verify.Verdict, check string, reasons []string) *corev1.Node {
	t.Helper()
	return c.await(t, name, fmt.Sprintf("%s by check %q for one of %v", result, check, reasons), func(node *corev1.Node) bool {
		require.True(t, unverified(node), "node %s must keep its taint; annotation: %s", name, node.Annotations[verify.Annotation])
		last := lastOf(node)
		return last.Result == result && (check == "*" || last.Check == check) && slices.Contains(reasons, last.Reason)
	})
}

// showsReport: the operator's command names the check and the reason.
func (c *cluster) showsReport(t *testing.T, name, check string, reasons []string) {
	t.Helper()
	out := c.nodekeep(t, "show", name, "--verification")
	if check != "*" {
		assert.Contains(t, out, check)
	}
	assert.True(t, slices.ContainsFunc(reasons, func(reason string) bool { return strings.Contains(out, reason) }), "one of %v in\n%s", reasons, out)
}

// checking waits until a worker Pod runs on a Node.
func (c *cluster) checking(t *testing.T, node string) (found *corev1.Pod) {
	t.Helper()
	harness.Eventually(t, func() bool {
		pods, err := c.Admin.CoreV1().Pods(verify.Namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + node + ",status.phase=Running"})
		require.NoError(t, err)
		if len(pods.Items) > 0 {
			found = &pods.Items[0]
		}
		return found != nil
	}, settles, 20*time.Millisecond, "a worker Pod must run on node %s", node)
	return found
}
