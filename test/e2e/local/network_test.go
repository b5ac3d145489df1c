package local

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// A plain pod finds the API server by a relative name, as the verification's worker does, and notices what is broken.
func TestAPodResolvesAndConnectsUntilSomethingIsBroken(t *testing.T) {
	c := forTest(t)
	k := c.add(t, "node-1")
	d := c.startDNS(t)
	mend := func() {
		d.breaks(t)
		k.breaks(t, faults{})
		c.endpointsReady(t, metav1.NamespaceSystem, "kube-dns", true)
	}
	const known = `User "system:anonymous" cannot get resource` // the API server's words, over TLS that was verified
	for _, test := range []struct {
		name         string
		inject       func()
		logs, reason string // a pattern of the log; the reason why no container runs
	}{
		{name: "all is well", logs: known},
		{name: "the DNS servers are mute", inject: func() { d.breaks(t, muteDNS, muteDNS) }, logs: "lookup .*i/o timeout"},
		{name: "the DNS servers fail", inject: func() { d.breaks(t, failingDNS, failingDNS) }, logs: "lookup .*server misbehaving"},
		{
			name: "the DNS Service has no endpoint", logs: "lookup .*(connection refused|i/o timeout)",
			inject: func() { c.endpointsReady(t, metav1.NamespaceSystem, "kube-dns", false) },
		},
		{
			name: "packets to the API server are lost", logs: "deadline exceeded|Timeout exceeded|i/o timeout",
			inject: func() { k.breaks(t, faults{Lost: []string{"10.96.0.1/32"}}) },
		},
		{
			name: "the image is missing", reason: "ErrImageNeverPull",
			inject: func() { k.breaks(t, faults{NoImage: true}) },
		},
		{name: "all is well again", logs: known},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.inject != nil {
				test.inject()
				defer mend()
			}
			pod := c.runPod(t, k.name)
			status := pod.Status.ContainerStatuses[0]
			if test.reason != "" {
				require.NotNil(t, status.State.Waiting)
				assert.Equal(t, test.reason, status.State.Waiting.Reason)
				return
			}
			log, err := c.Admin.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(t.Context())
			require.NoError(t, err)
			assert.Regexp(t, test.logs, string(log))
		})
	}
}

// runPod runs a pod that asks the API server for something once, by its name and without a user. It returns the pod when it has ended, or
// when its image is missing.
func (c *cluster) runPod(t *testing.T, node string) *corev1.Pod {
	t.Helper()
	options := []corev1.PodDNSConfigOption{{Name: "timeout", Value: ptr.To("1")}, {Name: "attempts", Value: ptr.To("1")}}
	pod := c.createPod(t, corev1.PodSpec{NodeName: node, DNSConfig: &corev1.PodDNSConfig{Options: options}}, "list", "--request-timeout=8s",
		"--server=https://kubernetes.default.svc", "--certificate-authority=/var/run/secrets/kubernetes.io/serviceaccount/ca.crt")
	return c.untilPod(t, pod.Name, func(status corev1.PodStatus) bool {
		if status.Phase == corev1.PodSucceeded || status.Phase == corev1.PodFailed {
			return true
		}
		waiting := len(status.ContainerStatuses) > 0 && status.ContainerStatuses[0].State.Waiting != nil
		return waiting && status.ContainerStatuses[0].State.Waiting.Reason == "ErrImageNeverPull"
	})
}

// endpointsReady makes all endpoints of a Service ready or not, and waits until they count so.
func (c *cluster) endpointsReady(t *testing.T, namespace, name string, ready bool) {
	t.Helper()
	endpoints := c.Admin.DiscoveryV1().EndpointSlices(namespace)
	slice, err := endpoints.Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	for i := range slice.Endpoints {
		slice.Endpoints[i].Conditions = discoveryv1.EndpointConditions{Ready: &ready}
	}
	_, err = endpoints.Update(t.Context(), slice, metav1.UpdateOptions{})
	require.NoError(t, err)
	service, err := c.Admin.CoreV1().Services(namespace).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	for _, port := range service.Spec.Ports {
		front := frontendOf(service, port)
		require.Eventually(t, func() bool { return c.services.serves(front) == ready }, settles, 20*time.Millisecond, "%v of Service %s/%s", front, namespace, name)
	}
}
