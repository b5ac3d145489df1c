package guard

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"nodekeep.dev/nodekeep/policy"
)

func TestGuardsAreInForceWhileAllPoliciesAreAsShipped(t *testing.T) {
	policies := served(t)
	client := fake.NewClientset(policies.Guard, policies.GuardBinding, policies.Strip, policies.StripBinding)
	var log bytes.Buffer
	guards := New(client, slog.New(slog.NewTextHandler(&log, nil)))
	assert.False(t, guards.InForce(), "nothing is believed before the first check")
	for range 3 {
		guards.Check(t.Context())
		assert.True(t, guards.InForce())
	}
	require.NoError(t, client.AdmissionregistrationV1().MutatingAdmissionPolicies().Delete(t.Context(), StripName, metav1.DeleteOptions{}))
	for range 3 {
		guards.Check(t.Context())
		assert.False(t, guards.InForce())
	}
	assert.Equal(t, 2, strings.Count(log.String(), "\n"), "each change is logged once:\n%s", &log)
	assert.Contains(t, log.String(), "mutatingadmissionpolicy/nodekeep-strip does not exist")
}

func TestGuardPoliciesThatCannotBeReadCountAsMissing(t *testing.T) {
	policies := served(t)
	client := fake.NewClientset(policies.Guard, policies.GuardBinding, policies.Strip, policies.StripBinding)
	guards := New(client, slog.New(slog.DiscardHandler))
	guards.Check(t.Context())
	require.True(t, guards.InForce())
	client.PrependReactor("get", "validatingadmissionpolicybindings", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("unreachable")
	})
	for range mostUnread {
		guards.Check(t.Context())
		assert.True(t, guards.InForce(), "an API server that restarts changes no policy")
	}
	guards.Check(t.Context())
	assert.False(t, guards.InForce())

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	again := New(client, slog.New(slog.DiscardHandler))
	again.Run(ctx) // returns
	assert.False(t, again.InForce())
}

func TestWithGuardPoliciesAStampIsEvidenceWhateverManagedFieldsSay(t *testing.T) {
	written := func(manager string) []metav1.ManagedFieldsEntry {
		return []metav1.ManagedFieldsEntry{{Manager: manager, FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:` + policy.StampAnnotation + `":{}}}}`)}}
	}
	for name, fields := range map[string][]metav1.ManagedFieldsEntry{"none": nil, "nodekeep": written(fieldManager), "kubelet": written("kubelet"), "empty": {{}}} {
		t.Run(name, func(t *testing.T) {
			object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
				Name: "n1", Annotations: labels{policy.StampAnnotation: `{"restored":["` + worker + `"],"pending":[]}`}, ManagedFields: fields,
			}}
			for how, n := range map[string]*Node{"read": nodeOf(object), "from memory": slimOf(nodeOf(object)).node()} {
				assert.False(t, proved(n, worker), "%s: a claim", how)
				guarded := n.withGuards(true)
				assert.True(t, guarded.Stamped && guarded.Registered && proved(guarded, worker), "%s: evidence", how)
				assert.Same(t, n, n.withGuards(false))
				assert.False(t, proved(n, worker), "%s: the Node itself is not changed", how)
			}
		})
	}
	bare := nodeOf(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}).withGuards(true)
	assert.False(t, bare.Stamped || bare.Registered || proved(bare, worker))
}

// With the guard policies a stamp says that the registration taints were added, so no write of one may leave them out.
func TestAStampThatIsWrittenKeyByKeyComesWithTheRegistrationTaints(t *testing.T) {
	step := Plan{Step: Complete, Give: labels{"a": "1", "b": "2"}, Register: taints("example.com/unverified=true:NoSchedule")}
	first := step.first(&Node{})
	assert.True(t, first.Stamp.Lists("a"))
	assert.Equal(t, step.Register, first.Register)
}
