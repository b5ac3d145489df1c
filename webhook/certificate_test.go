package webhook

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

func TestOnlyDryRunsOfDoctorAreShownTheCertificate(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	certificateOf := func(names ...string) []byte {
		template := &x509.Certificate{SerialNumber: big.NewInt(7), DNSNames: names}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		require.NoError(t, err)
		return der
	}
	leaf, issuer := certificateOf("nodekeep-webhook.nodekeep-system.svc"), certificateOf("issuer")
	var long []string
	for range 200 {
		long = append(long, "a-name-that-needs-much-room.example.com")
	}
	for name, c := range map[string]struct {
		node     string
		wet      bool
		chain    [][]byte
		shows    int
		serveErr error
	}{
		"doctor's dry run":                    {node: ProbeNode + "x", chain: [][]byte{leaf, issuer}, shows: 2},
		"a chain for which there is no room":  {node: ProbeNode + "x", chain: [][]byte{leaf, certificateOf(long...)}, shows: 1},
		"a creation in earnest":               {node: ProbeNode + "x", wet: true, chain: [][]byte{leaf}},
		"another Node":                        {node: "worker-1", chain: [][]byte{leaf}},
		"a webhook that has no certificate":   {node: ProbeNode + "x", serveErr: errors.New("none yet")},
		"a webhook with an empty certificate": {node: ProbeNode + "x"},
	} {
		inner := admission.HandlerFunc(func(context.Context, admission.Request) admission.Response { return admission.Allowed("") })
		handler := ShowsCertificate(inner, func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return &tls.Certificate{Certificate: c.chain}, c.serveErr
		})
		dry := !c.wet
		response := handler.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Name: c.node, DryRun: &dry}})
		assert.True(t, response.Allowed, name)
		if c.shows == 0 {
			assert.Empty(t, response.Warnings, name)
			continue
		}
		require.Len(t, response.Warnings, 1, name)
		assert.Less(t, len(response.Warnings[0]), 4096, name)
		chain, ok := CertificatesIn(response.Warnings[0])
		require.True(t, ok, name)
		require.Len(t, chain, c.shows, name)
		assert.Equal(t, leaf, chain[0].Raw, name)
	}
	for _, warning := range []string{"", "unknown field", certificateWarning, certificateWarning + "%", certificateWarning + "AAAA"} {
		_, ok := CertificatesIn(warning)
		assert.False(t, ok, warning)
	}
}
