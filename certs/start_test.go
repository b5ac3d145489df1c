package certs

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	clienttesting "k8s.io/client-go/testing"
	testingclock "k8s.io/utils/clock/testing"
)

func TestFirstStartFillsEverything(t *testing.T) {
	c := installed(t)
	s := c.replica(testingclock.NewFakeClock(birth), nil)
	require.ErrorContains(t, s.Loaded(), "has not been read yet")
	require.ErrorContains(t, s.Loaded(), "; to serve your own, give --cert-dir")
	_, err := s.GetCertificate(nil)
	require.Error(t, err)
	assert.True(t, s.NotAfter().IsZero())
	assert.True(t, s.NotBefore().IsZero())

	require.NoError(t, s.sync(t.Context()))

	require.Len(t, c.bundles(), 3)
	c.requireAllVerify(birth, s)
	assert.Equal(t, birth.Add(90*day), s.NotAfter())
	assert.Equal(t, birth.Add(-backdate), s.NotBefore())
	assert.Equal(t, birth.Add(2*365*day), c.state().ca.cert.NotAfter)
	assert.Equal(t, 3, c.writes, "the secret and each configuration, once")
}

func TestNothingIsWrittenWhenNothingChanges(t *testing.T) {
	c, clock, first := started(t, nil)
	second, index := c.replica(clock, nil), c.writes
	for range 50 {
		clock.Step(day)
		require.NoError(t, first.sync(t.Context()))
		require.NoError(t, second.sync(t.Context()))
	}
	assert.Equal(t, index, c.writes)
}

func TestConcurrentStartEndsWithOneAuthority(t *testing.T) {
	c := installed(t)
	clock := testingclock.NewFakeClock(birth)
	// All read the empty Secret before any of them writes.
	var group sync.WaitGroup
	group.Add(5)
	var replicas []*SelfSigned
	var done sync.WaitGroup
	for range 5 {
		var first sync.Once
		s := c.replica(clock, func(a clienttesting.Action) error {
			if a.GetVerb() == "update" {
				first.Do(func() { group.Done(); group.Wait() })
			}
			return nil
		})
		replicas = append(replicas, s)
		done.Go(func() { assert.NoError(t, s.sync(t.Context())) })
	}
	done.Wait()
	assert.Len(t, c.state().authorities(), 1)
	c.requireAllVerify(birth, replicas...)
	for _, s := range replicas {
		assert.Equal(t, replicas[0].serving.Load().Leaf.Raw, s.serving.Load().Leaf.Raw)
	}
	assert.Equal(t, 3, c.writes, "one won, the others used what it made")
}

func TestConfigurationsThatAreAbsentAreSkipped(t *testing.T) {
	tests := map[string]struct {
		cluster func(testing.TB) *cluster
		bundles int
	}{
		"no configuration at all":           {func(t testing.TB) *cluster { return newCluster(t, emptySecret()) }, 0},
		"only the mutating configuration":   {func(t testing.TB) *cluster { return newCluster(t, emptySecret(), mutatingConfiguration()) }, 2},
		"only the validating configuration": {func(t testing.TB) *cluster { return newCluster(t, emptySecret(), validatingConfiguration()) }, 1},
		"a configuration without entries": {func(t testing.TB) *cluster {
			empty := mutatingConfiguration()
			empty.Webhooks = nil
			return newCluster(t, emptySecret(), empty)
		}, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := tt.cluster(t)
			s := c.replica(testingclock.NewFakeClock(birth), nil)
			require.NoError(t, s.sync(t.Context()))
			require.NoError(t, s.Loaded())
			require.Len(t, c.bundles(), tt.bundles)
			c.requireAllVerify(birth, s)
		})
	}
}

func TestAConfigurationThatAppearsOrLosesItsBundleIsCorrected(t *testing.T) {
	c := newCluster(t, emptySecret())
	s := c.replica(testingclock.NewFakeClock(birth), nil)
	require.NoError(t, s.sync(t.Context()))
	for range 2 { // new, and then applied again from the manifests
		c.add(mutatingConfiguration())
		require.NoError(t, s.sync(t.Context()))
		require.Len(t, c.bundles(), 2)
		c.requireAllVerify(birth, s)
	}
	o, err := c.tracker.Get(mutatings, "", "nodekeep")
	require.NoError(t, err)
	got := o.(*admissionregistrationv1.MutatingWebhookConfiguration).DeepCopy()
	got.ResourceVersion = ""
	for i := range got.Webhooks {
		got.Webhooks[i].ClientConfig.CABundle = nil
	}
	assert.Equal(t, mutatingConfiguration(), got, "nothing but caBundle was touched")
}
