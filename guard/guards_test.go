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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	k8stesting "k8s.io/client-go/testing"
)

func TestGuardsAreInForceWhileAllPoliciesAreAsShipped(t *testing.T) {
	client := installed(t)
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
	client := installed(t)
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
	reread := New(client, slog.New(slog.DiscardHandler))
	reread.Run(ctx) // returns
	assert.False(t, reread.InForce())
}

func TestAGuardThatIsKnownReadsNothing(t *testing.T) {
	for _, inForce := range []bool{true, false} {
		known := Known(inForce)
		known.Check(t.Context())
		assert.Equal(t, inForce, known.InForce())
	}
}

// installed returns a cluster with the policies.
func installed(t *testing.T) *fake.Clientset {
	t.Helper()
	var typed []runtime.Object
	for _, content := range served(t) {
		policy := unstructured.Unstructured{Object: content}
		object, err := scheme.Scheme.New(policy.GroupVersionKind())
		require.NoError(t, err)
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(content, object))
		typed = append(typed, object)
	}
	return fake.NewClientset(typed...)
}
