package local

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// startDNS is StartDNS for tests.
func (c *Cluster) startDNS(t *testing.T, replicas int, further map[string][]string) *DNS {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	d, err := c.StartDNS(ctx, replicas, further)
	require.NoError(t, err)
	return d
}

// A plain pod finds the API server by a relative name, as the verification's worker does, and notices what is broken.
func TestAPodResolvesAndConnectsUntilSomethingIsBroken(t *testing.T) {
	c := ForTest(t)
	k := c.AddForTest(t, "node-1")
	d := c.startDNS(t, 2, nil)
	breakDNS := func(fault DNSFault) {
		for replica := range d.Servers() {
			require.NoError(t, d.Break(replica, fault))
		}
	}
	const known = `User "system:anonymous" cannot get resource` // the API server's words, over TLS that was verified
	for _, test := range []struct {
		name      string
		inject    func()
		mend      func()
		logs, why string // a pattern of the log; the reason why no container runs
	}{
		{name: "all is well", logs: known},
		{name: "the DNS servers are mute", inject: func() { breakDNS(MuteDNS) }, mend: func() { breakDNS(NoDNSFault) }, logs: "lookup .*i/o timeout"},
		{name: "the DNS servers fail", inject: func() { breakDNS(FailingDNS) }, mend: func() { breakDNS(NoDNSFault) }, logs: "lookup .*server misbehaving"},
		{
			name: "the DNS Service has no endpoint", logs: "lookup .*(connection refused|i/o timeout)",
			inject: func() { c.endpointsReady(t, metav1.NamespaceSystem, "kube-dns", false) }, mend: func() { c.endpointsReady(t, metav1.NamespaceSystem, "kube-dns", true) },
		},
		{
			name: "packets to the API server are lost", logs: "deadline exceeded|Timeout exceeded|i/o timeout",
			inject: func() { require.NoError(t, k.Break(Faults{Lost: []string{"10.96.0.1"}})) }, mend: func() { require.NoError(t, k.Break(Faults{})) },
		},
		{
			name: "the image is missing", why: "ErrImageNeverPull",
			inject: func() { require.NoError(t, k.Break(Faults{NoImage: true})) }, mend: func() { require.NoError(t, k.Break(Faults{})) },
		},
		{name: "all is well again", logs: known},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.inject != nil {
				test.inject()
				defer test.mend()
			}
			pod := c.runPod(t, k.Name)
			status := pod.Status.ContainerStatuses[0]
			if test.why != "" {
				require.NotNil(t, status.State.Waiting)
				assert.Equal(t, test.why, status.State.Waiting.Reason)
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
func (c *Cluster) runPod(t *testing.T, node string) *corev1.Pod {
	t.Helper()
	pods := c.Admin.CoreV1().Pods(metav1.NamespaceDefault)
	pod, err := pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "asks-"},
		Spec: corev1.PodSpec{
			NodeName: node, RestartPolicy: corev1.RestartPolicyNever,
			DNSConfig: &corev1.PodDNSConfig{Options: []corev1.PodDNSConfigOption{{Name: "timeout", Value: ptr.To("1")}, {Name: "attempts", Value: ptr.To("1")}}},
			Containers: []corev1.Container{{
				Name: "asks", Image: Image, ImagePullPolicy: corev1.PullNever, Args: []string{
					"list", "--request-timeout=8s", "--server=https://kubernetes.default.svc", "--certificate-authority=/var/run/secrets/kubernetes.io/serviceaccount/ca.crt",
				},
			}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		pod, err = pods.Get(t.Context(), pod.Name, metav1.GetOptions{})
		require.NoError(t, err)
		if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			return true
		}
		return len(pod.Status.ContainerStatuses) > 0 && pod.Status.ContainerStatuses[0].State.Waiting != nil &&
			pod.Status.ContainerStatuses[0].State.Waiting.Reason == "ErrImageNeverPull"
	}, settles, 50*time.Millisecond, "the pod must end")
	return pod
}

// endpointsReady makes all endpoints of a Service ready or not, and waits until they count so.
func (c *Cluster) endpointsReady(t *testing.T, namespace, name string, ready bool) {
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
		at := frontendOf(service, port)
		require.Eventually(t, func() bool { return c.services.serves(at) == ready }, settles, 20*time.Millisecond, "%v of Service %s/%s", at, namespace, name)
	}
}
