package integration

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/test/harness"
)

// The taints that the policy of these tests adds once: the first on Nodes with the label verify, the second on Nodes with roleGPU.
const (
	unverified = "node-ready/unverified=true:NoSchedule"
	gpuNotYet  = "node-ready/gpu:NoExecute"

	roleGPU = "node-role.kubernetes.io/gpu"
)

// registerToVerify registers a Node whose kubelet says that it wants to be verified.
func registerToVerify(t testing.TB, name string) (*corev1.Node, error) {
	t.Helper()
	return nodekeep.Kubelet(t, name).CoreV1().Nodes().Create(t.Context(), harness.RegistrationWith(name, map[string]string{verify: "yes"}), metav1.CreateOptions{})
}

func aRegistrationTaintIsThereFromTheFirstStateAndPutOnOnce(t *testing.T) {
	const name = "registered-1"
	seen := nodekeep.WatchNodes(t)
	node, err := registerToVerify(t, name)
	require.NoError(t, err)
	assert.True(t, harness.Carries(node, unverified))
	nodekeep.Label(t, name, map[string]any{"other": "1"})
	record := nodekeep.WaitRecorded(t, node, map[string]string{"other": "1"})
	assert.NotContains(t, record.Items(), "node-ready/unverified:NoSchedule", "it is not remembered")
	seen.Stop()
	require.NotEmpty(t, seen.States(name))
	for _, state := range seen.States(name) {
		assert.True(t, harness.Carries(state.Node, unverified), "version %s", state.ResourceVersion)
	}

	removed := nodekeep.Untaint(t, name, unverified)
	for range 3 {
		_, err := registerToVerify(t, name)
		require.True(t, apierrors.IsAlreadyExists(err), "%v", err)
	}
	staysAs(t, removed)
	nodekeep.Label(t, name, map[string]any{"other": "2", "more": "1"})
	nodekeep.WaitRecorded(t, node, map[string]string{"other": "2", "more": "1"})
	nodekeep.Label(t, name, map[string]any{"dedicated": "ci"}) // capture writes the Node
	comesToCarry(t, name, "dedicated=ci:NoSchedule")
	nodekeep.Label(t, name, map[string]any{"dedicated": nil})
	comesToCarry(t, name)
	staysAs(t, nodekeep.Node(t, name))

	nodekeep.DeleteNode(t, name)
	node, err = registerToVerify(t, name)
	require.NoError(t, err)
	assert.Equal(t, []string{unverified}, harness.TaintsOf(node), "a new Node object is verified anew")
	nodekeep.WaitRecorded(t, node, map[string]string{"other": "2", "more": "1"})
}

func withTheWebhookDownCaptureRegistersBeforeTheGateGoes(t *testing.T) {
	const count = 20
	wanted := map[string][]string{} // what each Node must have registered
	var names, known []string
	for n := range count {
		name := fmt.Sprintf("registered-down-%02d", n)
		names, wanted[name] = append(names, name), []string{unverified}
		if n%2 == 0 { // that the second is to be added is known from the record only
			known, wanted[name] = append(known, name), []string{gpuNotYet, unverified}
		}
	}
	eachNode(known, func(name string) {
		nodekeep.RegisterRecorded(t, name, map[string]string{"a": "1", roleGPU: ""})
		nodekeep.DeleteNode(t, name)
	})
	contains := func(node *corev1.Node) bool {
		for _, text := range wanted[node.Name] {
			if !harness.Carries(node, text) {
				return false
			}
		}
		return true
	}
	seen := nodekeep.WatchNodes(t)
	nodekeep.WithoutWebhook(t, func() {
		eachNode(names, func(name string) {
			node, err := registerToVerify(t, name)
			if assert.NoError(t, err) {
				assert.False(t, harness.Carries(node, unverified), "the webhook was down")
			}
		})
		for _, name := range names {
			nodekeep.WaitRestored(t, name, nil)
			comesToCarry(t, name, wanted[name]...)
		}
	})
	seen.Stop()
	for _, name := range names {
		count := 0
		prev := false
		for _, state := range seen.States(name) {
			now := contains(state.Node)
			_, stamped := state.Annotations[policy.StampAnnotation]
			assert.True(t, now || policy.DefaultGate.Holds(state.Spec.Taints), "%s was seen without the gate and without %v", name, wanted[name])
			assert.Equal(t, stamped, now, "%s: stamped and added in one PATCH", name)
			if now && !prev {
				count++
			}
			prev = now
		}
		assert.Equal(t, 1, count, "%s: added once", name)
	}
	removed := map[string]*corev1.Node{}
	for _, name := range names {
		nodekeep.Untaint(t, name, unverified)
		removed[name] = nodekeep.Untaint(t, name, gpuNotYet)
	}
	captureHasSeenAll(t)
	for _, name := range names {
		unwritten(t, removed[name])
	}
}

func registrationSelectsByTheLabelsThatTheNodeWillHave(t *testing.T) {
	const name = "registered-selected-1"
	nodekeep.RegisterRecorded(t, name, map[string]string{roleGPU: ""})
	assert.False(t, harness.Carries(nodekeep.Node(t, name), gpuNotYet), "a label that comes later changes nothing")
	nodekeep.DeleteNode(t, name)
	seen := nodekeep.WatchNodes(t)
	returned := nodekeep.Register(t, name)
	assert.NotContains(t, returned.Labels, roleGPU, "no kubelet may carry it")
	assert.True(t, harness.Carries(returned, gpuNotYet), "but it will have the label: %v", harness.TaintsOf(returned))
	node := nodekeep.WaitRestored(t, name, map[string]string{roleGPU: ""})
	seen.Stop()
	for _, state := range seen.States(name) {
		assert.True(t, harness.Carries(state.Node, gpuNotYet))
	}
	nodekeep.WaitRecorded(t, node, map[string]string{roleGPU: ""})

	// It may be removed at once, also behind the gate.
	nodekeep.WithoutCapture(t, func() {
		nodekeep.DeleteNode(t, name)
		require.True(t, harness.Carries(nodekeep.Register(t, name), gpuNotYet))
		require.True(t, policy.DefaultGate.Holds(nodekeep.Untaint(t, name, gpuNotYet).Spec.Taints))
	})
	node = nodekeep.WaitRestored(t, name, map[string]string{roleGPU: ""})
	assert.Empty(t, harness.TaintsOf(node))
	staysAs(t, node)
}

func aNodeThatWasThereBeforeGetsNoRegistrationTaint(t *testing.T) {
	names := []string{"registered-before-1", "registered-before-2"}
	nodekeep.RegisterRecorded(t, names[1], map[string]string{"b": "2"}) // and is given that again
	nodekeep.DeleteNode(t, names[1])
	nodekeep.WithoutBoth(t, func() {
		for _, name := range names {
			_, err := registerToVerify(t, name)
			require.NoError(t, err)
			node := nodekeep.ChangeTaints(t, name, policy.DefaultGate.RemoveFrom) // as if nodekeep had not been there
			require.Empty(t, harness.TaintsOf(node))
			require.NotContains(t, node.Annotations, policy.StampAnnotation)
		}
	})
	for _, name := range names {
		nodekeep.Label(t, name, map[string]any{"a": "1", roleGPU: ""})
	}
	nodekeep.WaitRecorded(t, nodekeep.Node(t, names[0]), map[string]string{"a": "1", roleGPU: ""})
	nodekeep.WaitRecorded(t, nodekeep.Node(t, names[1]), map[string]string{"a": "1", roleGPU: "", "b": "2"})
	nodekeep.WaitRestored(t, names[1], map[string]string{"b": "2"})
	prev := nodekeep.Node(t, names[0])
	staysAs(t, handedOver(t, names[1]))
	unwritten(t, prev)
	for _, name := range names {
		assert.Empty(t, harness.TaintsOf(nodekeep.Node(t, name)), name)
	}
}
