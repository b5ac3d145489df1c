package certs

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
)

const day = 24 * time.Hour

// birth is when the certificates of these tests are made.
var birth = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

var wantedInTests = wanted{
	names:    []string{"nodekeep-webhook.nodekeep-system.svc", "127.0.0.1"},
	caLife:   720 * day,
	leafLife: 90 * day,
	grace:    10 * time.Minute,
}

// born returns the state after a first start, changed by edits.
func born(t testing.TB, edits ...func(*state)) state {
	t.Helper()
	s, err := renew(state{}, issueAll, wantedInTests, birth)
	require.NoError(t, err)
	for _, edit := range edits {
		edit(&s)
	}
	return s
}

func authority(t testing.TB, life time.Duration, now time.Time) pair {
	t.Helper()
	p, err := newAuthority(life, now)
	require.NoError(t, err)
	return p
}

func leafOf(t testing.TB, ca pair, now time.Time, names ...string) pair {
	t.Helper()
	p, err := newLeaf(ca, names, wantedInTests.leafLife, now)
	require.NoError(t, err)
	return p
}

// requireSettles fails when the same moment never stops asking for changes: replicas would write for ever.
func requireSettles(t *testing.T, s state, now time.Time) {
	t.Helper()
	for range 4 {
		d := decide(s, wantedInTests, true, now)
		if d.action == keep {
			return
		}
		var err error
		s, err = renew(s, d.action, wantedInTests, now)
		require.NoError(t, err, d.action)
	}
	require.Fail(t, "it does not settle", "%v", decide(s, wantedInTests, true, now))
}

func emptySecret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "nodekeep-system", Name: "nodekeep-webhook-tls"}}
}

func mutatingConfiguration() *admissionregistrationv1.MutatingWebhookConfiguration {
	url := "https://127.0.0.1:9443/restore-protected"
	return &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "nodekeep"},
		Webhooks: []admissionregistrationv1.MutatingWebhook{
			{Name: "restore.nodekeep.dev", ClientConfig: admissionregistrationv1.WebhookClientConfig{
				Service: &admissionregistrationv1.ServiceReference{Namespace: "nodekeep-system", Name: "nodekeep-webhook"},
			}},
			{Name: "protected.nodekeep.dev", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url}},
		},
	}
}

func validatingConfiguration() *admissionregistrationv1.ValidatingWebhookConfiguration {
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "nodekeep"},
		Webhooks:   []admissionregistrationv1.ValidatingWebhook{{Name: "deletion.nodekeep.dev"}},
	}
}

// requireVerifies fails unless what s serves is accepted by a verifier that trusts bundle, for every name and at this time.
func requireVerifies(t testing.TB, s *SelfSigned, bundle []byte, now time.Time) {
	t.Helper()
	require.NoError(t, s.Loaded())
	served, err := s.GetCertificate(nil)
	require.NoError(t, err)
	roots, err := cert.NewPoolFromBytes(bundle)
	require.NoError(t, err)
	_, err = served.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now})
	require.NoError(t, err, "at %s", now)
	for _, name := range s.wanted.names {
		require.NoError(t, served.Leaf.VerifyHostname(name))
	}
}
