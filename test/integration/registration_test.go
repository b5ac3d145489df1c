package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy"
)

// What the policy of these tests puts on once: the first on Nodes with the label verify, the second on Nodes with roleGPU.
const (
	unverified = "node-ready/unverified=true:NoSchedule"
	gpuNotYet  = "node-ready/gpu:NoExecute"

	roleGPU = "node-role.kubernetes.io/gpu"
)

// twoResyncs is long enough for two of them, where one comes every second.
const twoResyncs = 2200 * time.Millisecond

// registerToVerify registers a Node whose kubelet says that it wants to be verified.
func registerToVerify(t testing.TB, name string) (*corev1.Node, error) {
	t.Helper()
	return kubelet(t, name).CoreV1().Nodes().Create(t.Context(), registration(name, map[string]string{verify: "yes"}), metav1.CreateOptions{})
}

func aRegistrationTaintIsThereFromTheFirstStateAndPutOnOnce(t *testing.T) {
	const name = "registered-1"
	seen := watchSights(t)
	node, err := registerToVerify(t, name)
	require.NoError(t, err)
	assert.True(t, carries(node, unverified))
	label(t, name, map[string]any{"other": "1"})
	record := remembers(t, node, map[string]string{"other": "1"})
	assert.NotContains(t, record.Items(), "node-ready/unverified:NoSchedule", "it is not remembered")
	seen.stop()
	require.NotEmpty(t, seen.of(name))
	for _, state := range seen.of(name) {
		assert.True(t, carries(state.node, unverified), "version %s", state.node.ResourceVersion)
	}

	off := untaint(t, name, unverified)
	for range 3 {
		_, err := registerToVerify(t, name)
		require.True(t, apierrors.IsAlreadyExists(err), "%v", err)
	}
	staysAs(t, off, twoResyncs)
	label(t, name, map[string]any{"other": "2", "more": "1"})
	remembers(t, node, map[string]string{"other": "2", "more": "1"})
	label(t, name, map[string]any{"dedicated": "ci"}) // capture writes the Node
	comesToCarry(t, name, "dedicated=ci:NoSchedule")
	label(t, name, map[string]any{"dedicated": nil})
	comesToCarry(t, name)
	staysAs(t, getNode(t, name), twoResyncs/2)

	deleteNode(t, name)
	node, err = registerToVerify(t, name)
	require.NoError(t, err)
	assert.Equal(t, []string{unverified}, taintsOf(node), "a new Node object is verified anew")
	remembers(t, node, map[string]string{"other": "2", "more": "1"})
}

func withTheWebhookDownCaptureRegistersBeforeTheGateGoes(t *testing.T) {
	const count = 20
	wanted := map[string][]string{} // what each Node must have registered
	var names, known []string
	for n := range count {
		name := fmt.Sprintf("registered-down-%02d", n)
		names, wanted[name] = append(names, name), []string{unverified}
		if n%2 == 0 { // that the second is to be put on is known from the record only
			known, wanted[name] = append(known, name), []string{gpuNotYet, unverified}
		}
	}
	eachNode(known, func(name string) {
		rememberedNode(t, name, map[string]string{"a": "1", roleGPU: ""})
		deleteNode(t, name)
	})
	has := func(node *corev1.Node) bool {
		for _, text := range wanted[node.Name] {
			if !carries(node, text) {
				return false
			}
		}
		return true
	}
	seen := watchSights(t)
	withoutWebhook(t, func() {
		eachNode(names, func(name string) {
			node, err := registerToVerify(t, name)
			if assert.NoError(t, err) {
				assert.False(t, carries(node, unverified), "the webhook was down")
			}
		})
		for _, name := range names {
			complete(t, name, nil)
			comesToCarry(t, name, wanted[name]...)
		}
	})
	seen.stop()
	for _, name := range names {
		on := 0
		before := false
		for _, state := range seen.of(name) {
			now := has(state.node)
			_, stamped := state.node.Annotations[policy.StampAnnotation]
			assert.True(t, now || policy.DefaultGate.Holds(state.node.Spec.Taints), "%s was seen without the gate and without %v", name, wanted[name])
			assert.Equal(t, stamped, now, "%s: stamped and put on in one PATCH", name)
			if now && !before {
				on++
			}
			before = now
		}
		assert.Equal(t, 1, on, "%s: put on once", name)
	}
	off := map[string]*corev1.Node{}
	for _, name := range names {
		untaint(t, name, unverified)
		off[name] = untaint(t, name, gpuNotYet)
	}
	time.Sleep(twoResyncs)
	for _, name := range names {
		staysAs(t, off[name], 0)
	}
}

func registrationSelectsByTheLabelsThatTheNodeWillHave(t *testing.T) {
	const name = "registered-selected-1"
	rememberedNode(t, name, map[string]string{roleGPU: ""})
	assert.False(t, carries(getNode(t, name), gpuNotYet), "a label that comes later changes nothing")
	deleteNode(t, name)
	seen := watchSights(t)
	back := register(t, name)
	assert.NotContains(t, back.Labels, roleGPU, "no kubelet may carry it")
	assert.True(t, carries(back, gpuNotYet), "but it will have the label: %v", taintsOf(back))
	node := complete(t, name, map[string]string{roleGPU: ""})
	seen.stop()
	for _, state := range seen.of(name) {
		assert.True(t, carries(state.node, gpuNotYet))
	}
	remembers(t, node, map[string]string{roleGPU: ""})

	// It may be taken off at once, also behind the gate.
	withoutCapture(t, func() {
		deleteNode(t, name)
		require.True(t, carries(register(t, name), gpuNotYet))
		require.True(t, policy.DefaultGate.Holds(untaint(t, name, gpuNotYet).Spec.Taints))
	})
	node = complete(t, name, map[string]string{roleGPU: ""})
	assert.Empty(t, taintsOf(node))
	staysAs(t, node, twoResyncs)
}

func aNodeThatWasThereBeforeGetsNoRegistrationTaint(t *testing.T) {
	names := []string{"registered-before-1", "registered-before-2"}
	rememberedNode(t, names[1], map[string]string{"b": "2"}) // and is given that again
	deleteNode(t, names[1])
	withoutCapture(t, func() {
		withoutWebhook(t, func() {
			for _, name := range names {
				_, err := registerToVerify(t, name)
				require.NoError(t, err)
				node := changeTaints(t, name, policy.DefaultGate.Without) // as if nodekeep had not been there
				require.Empty(t, taintsOf(node))
				require.NotContains(t, node.Annotations, policy.StampAnnotation)
			}
		})
	})
	for _, name := range names {
		label(t, name, map[string]any{"a": "1", roleGPU: ""})
	}
	remembers(t, getNode(t, names[0]), map[string]string{"a": "1", roleGPU: ""})
	remembers(t, getNode(t, names[1]), map[string]string{"a": "1", roleGPU: "", "b": "2"})
	complete(t, names[1], map[string]string{"b": "2"})
	before := getNode(t, names[0])
	staysAs(t, getNode(t, names[1]), twoResyncs)
	staysAs(t, before, 0)
	for _, name := range names {
		assert.Empty(t, taintsOf(getNode(t, name)), name)
	}
}
