package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"nodekeep.dev/nodekeep/nodepolicy"
)

// followedBy has the NodePolicy be of a generation, with these followers.
func followedBy(t *testing.T, client *dynamicfake.FakeDynamicClient, generation int64, uid string, followers map[string]any) {
	t.Helper()
	policies := client.Resource(nodepolicy.Resource())
	object, err := policies.Get(t.Context(), "default", metav1.GetOptions{})
	require.NoError(t, err)
	object.SetGeneration(generation)
	object.Object["metadata"].(map[string]any)["uid"] = uid
	object.Object["status"] = map[string]any{"readBy": followers}
	_, err = policies.Update(t.Context(), object, metav1.UpdateOptions{})
	require.NoError(t, err)
}

func hasPod(t *testing.T, c *session, name, component string) {
	t.Helper()
	_, err := c.Client.CoreV1().Pods(DefaultNamespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app.kubernetes.io/name": "nodekeep", "app.kubernetes.io/component": component}},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// behindCluster has a verification controller and a capture, and a NodePolicy of generation 4 that they follow so far.
func behindCluster(t *testing.T, verify, capture int64) (c *session, client *dynamicfake.FakeDynamicClient, got func() string) {
	t.Helper()
	c, client, out := clusterWith(t, retaining("1h"), map[string]map[string]string{gateObjectName: {}})
	c.Now = time.Now
	hasPod(t, c, "verify-7f9", "verify")
	hasPod(t, c, "capture-1", "capture")
	followedBy(t, client, 4, "U1", map[string]any{"verify-7f9": verify, "capture-1": capture, "deleted": int64(2)})
	return c, client, out.String
}

func TestACommandSaysWhichProcessesHaveNotReadItsPolicy(t *testing.T) {
	read := func(c *session) {
		_, err := (&policySource{}).read(t.Context(), c)
		require.NoError(t, err)
	}
	c, _, out := behindCluster(t, 4, 4)
	read(c)
	assert.Empty(t, out())

	c, _, out = behindCluster(t, 3, 4)
	read(c)
	assert.Equal(t, "Not read yet by verify-7f9: the policy's generation 4.\n", out())

	denies := func(c *session) {
		c.Client.(*fake.Clientset).PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(corev1.Resource("pods"), "", errDenied{})
		})
	}
	c, _, out = behindCluster(t, 4, 4)
	denies(c)
	read(c)
	assert.Equal(t, "Whether every process has read the policy's generation 4 is not known: you may not list pods in namespace nodekeep-system.\n", out())
	c, client, out := behindCluster(t, 4, 4)
	followedBy(t, client, 4, "U1", map[string]any{"verify-7f9": int64(4)})
	denies(c)
	read(c)
	assert.Empty(t, out(), "nothing raises a doubt")
}

type errDenied struct{}

func (errDenied) Error() string {
	return `User "jane" cannot list resource "pods" in API group "" in the namespace "nodekeep-system"`
}

func TestARequestForACheckWaitsUntilControllersHaveReadThePolicy(t *testing.T) {
	for name, test := range map[string]struct {
		verify  int64
		capture int64
		later   func(t *testing.T, client *dynamicfake.FakeDynamicClient)
		says    []string
		silent  bool
		err     error
	}{
		"they have":               {verify: 4, capture: 4, silent: true},
		"another process has not": {verify: 4, capture: 3, says: []string{"Not read yet by capture-1: the policy's generation 4.\n"}},
		"they read it meanwhile": {verify: 3, capture: 4, says: []string{"Not read yet by verify-7f9: the policy's generation 4.\n", "Waiting up to 2s until it is read.\n"}, later: func(t *testing.T, client *dynamicfake.FakeDynamicClient) {
			followedBy(t, client, 4, "U1", map[string]any{"verify-7f9": int64(4), "capture-1": int64(4)})
		}},
		"they do not read it": {verify: 3, capture: 4, says: []string{"Waiting up to 2s until it is read.\n", "Until then, the Node is checked by the policy of before.\n"}},
		"the policy changes meanwhile": {verify: 3, capture: 4, err: errPolicyChanged, later: func(t *testing.T, client *dynamicfake.FakeDynamicClient) {
			followedBy(t, client, 5, "U1", map[string]any{"verify-7f9": int64(5)})
		}},
		"the policy is created anew meanwhile, with the same generation": {verify: 3, capture: 4, err: errPolicyChanged, later: func(t *testing.T, client *dynamicfake.FakeDynamicClient) {
			followedBy(t, client, 4, "U2", map[string]any{"verify-7f9": int64(4)})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c, client, out := behindCluster(t, test.verify, test.capture)
			_, err := (&policySource{}).read(t.Context(), c)
			require.NoError(t, err)
			if test.later != nil {
				test.later(t, client)
			}
			err = c.awaitPolicyRead(t.Context(), 2*time.Second)
			require.ErrorIs(t, err, test.err)
			for _, sentence := range test.says {
				assert.Contains(t, out(), sentence)
			}
			if test.silent {
				assert.Empty(t, out(), "one is Ready, so it may work without a Lease")
			}
			waits := test.verify != 4
			assert.Equal(t, waits, strings.Contains(out(), "Waiting up to"))
			warns := waits && test.later == nil
			assert.Equal(t, warns, strings.Contains(out(), "Until then"))
		})
	}
}

func TestACommandThatMayNotListPodsSaysWhatItDoesNotKnow(t *testing.T) {
	c, _, out := behindCluster(t, 4, 4)
	_, err := (&policySource{}).read(t.Context(), c)
	require.NoError(t, err)
	c.Client.(*fake.Clientset).PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(corev1.Resource("pods"), "", errDenied{})
	})
	require.NoError(t, c.awaitPolicyRead(t.Context(), time.Second))
	assert.Equal(t, "No verification controller has ever led here, so nothing is checked until one does.\n"+
		"Whether verification controllers have read the policy's generation 4 is not known. If not, the Node is checked by the policy of before: you may not list pods in namespace nodekeep-system\n", out())
}

func TestNobodyRunsWhereNoPodIsReadyAndThereIsNoLease(t *testing.T) {
	c, _, out := clusterWith(t, "", nil)
	c.Now = time.Now
	c.warnNoVerificationController(t.Context())
	assert.Equal(t, "No verification controller has ever led here, so nothing is checked until one does.\n", out.String())
	assert.True(t, c.captureLeader(t.Context()).NeverLed)
	hasPod(t, c, "capture-1", "capture")
	assert.False(t, c.captureLeader(t.Context()).NeverLed, "with --leader-elect=false there is no Lease")
	out.Reset()
	c.warnNoVerificationController(t.Context())
	assert.NotEmpty(t, out.String(), "a Pod of another process")
}
