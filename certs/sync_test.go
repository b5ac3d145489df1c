package certs

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clienttesting "k8s.io/client-go/testing"
	testingclock "k8s.io/utils/clock/testing"
)

func TestAStaleReplicaCannotPutAnOldBundleBack(t *testing.T) {
	for nth := 1; nth <= 5; nth++ {
		t.Run(fmt.Sprintf("the others rotate just before its request %d", nth), func(t *testing.T) {
			c, clock, fast := started(t, nil)
			clock.SetTime(birth.Add(2 * 365 * day * 2 / 3)) // a successor is due
			c.add(mutatingConfiguration())                  // and a configuration lost its bundle

			requests := 0
			slow := c.replica(clock, func(clienttesting.Action) error {
				if requests++; requests == nth {
					assert.NoError(t, fast.sync(t.Context()))
				}
				return nil
			})
			_, err := slow.pass(t.Context()) // one only, the next would mend what this one broke
			require.NoError(t, err)

			st := c.state()
			require.NotNil(t, st.next.cert, "fast added the successor")
			want, err := encode(st)
			require.NoError(t, err)
			for _, bundle := range c.bundles() {
				assert.Equal(t, string(want["ca.crt"]), string(bundle))
			}
		})
	}
}

func TestNoSuccessorSignsWhileAConfigurationLacksIt(t *testing.T) {
	denied := false
	c, clock, s := started(t, func(a clienttesting.Action) error {
		if denied && a.Matches("patch", validatings.Resource) {
			return apierrors.NewForbidden(validatings.GroupResource(), "nodekeep", nil)
		}
		return nil
	})
	old := c.state().ca.cert

	denied = true
	clock.SetTime(birth.Add(500 * day))
	for range 30 {
		clock.Step(day)
		require.ErrorContains(t, s.sync(t.Context()), "patch ValidatingWebhookConfiguration")
		require.NoError(t, s.Loaded(), "what is loaded is served on, and renewed by the old CA")
	}
	assert.True(t, c.state().ca.cert.Equal(old))
	require.NotNil(t, c.state().next.cert)

	denied = false
	require.NoError(t, s.sync(t.Context())) // injects; it counts from the next look
	assert.True(t, c.state().published.IsZero())
	require.NoError(t, s.sync(t.Context()))
	assert.True(t, c.state().published.Equal(clock.Now()))
	clock.Step(9 * time.Minute)
	require.NoError(t, s.sync(t.Context()))
	assert.True(t, c.state().ca.cert.Equal(old), "the grace period is not over")
	clock.Step(time.Minute)
	require.NoError(t, s.sync(t.Context()))
	assert.False(t, c.state().ca.cert.Equal(old))
}

func TestAFailingAPIServerDoesNotStopServing(t *testing.T) {
	stopped := false
	c, clock, s := started(t, failing(&stopped, errors.New("connection refused"), "get", "update", "patch"))
	stopped = true
	clock.Step(89 * day)
	require.ErrorContains(t, s.sync(t.Context()), "connection refused")
	requireVerifies(t, s, c.bundles()[0], clock.Now())

	clock.Step(day)
	require.ErrorContains(t, s.Loaded(), "expired on 2026-04-01T00:00:00Z and could not be replaced in secret")
	_, err := s.GetCertificate(nil)
	require.NoError(t, err, "an expired certificate is still the best there is")

	stopped = false
	require.NoError(t, s.sync(t.Context()))
	requireVerifies(t, s, c.bundles()[0], clock.Now())
}

func TestAServingCertificateIsUsedThoughTheSecretCannotBeWritten(t *testing.T) {
	c, clock, _ := started(t, nil)
	clock.Step(80 * day) // due, not expired
	readOnly := c.replica(clock, failing(new(true), errors.New("read only"), "update", "patch"))
	require.ErrorContains(t, readOnly.sync(t.Context()), `update secret "nodekeep-system/nodekeep-webhook-tls"`)
	requireVerifies(t, readOnly, c.bundles()[0], clock.Now())
}

func TestChangesThatNeverEndAreGivenUp(t *testing.T) {
	c := installed(t)
	conflict := apierrors.NewConflict(secrets.GroupResource(), "nodekeep-webhook-tls", nil)
	s := c.replica(testingclock.NewFakeClock(birth), failing(new(true), conflict, "update"))
	require.ErrorContains(t, s.sync(t.Context()), "still changing after 20 tries")
}
