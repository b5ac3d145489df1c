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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
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
