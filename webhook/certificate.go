package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// ProbeNode begins the names of Nodes that `nodekeep doctor` creates in dry runs. They never exist.
const ProbeNode = "nodekeep-doctor-"

const (
	certificateWarning = "nodekeep serves this certificate: "
	// maxWarning is how long a warning may be. The API server cuts the warnings if all of an answer have more than 4096 characters.
	maxWarning = 3500
)

// ShowsCertificate shows doctor which certificate the webhook serves, in a warning of the answer to its dry runs. So doctor needs no right
// to read the Secret, which has the private key. A certificate is not secret: every client that connects receives it.
func ShowsCertificate(handler admission.Handler, serving func(*tls.ClientHelloInfo) (*tls.Certificate, error)) admission.Handler {
	return admission.HandlerFunc(func(ctx context.Context, request admission.Request) admission.Response {
		response := handler.Handle(ctx, request)
		if request.DryRun == nil || !*request.DryRun || !strings.HasPrefix(request.Name, ProbeNode) {
			return response
		}
		if certificate, err := serving(nil); err == nil && len(certificate.Certificate) > 0 {
			response.Warnings = append(response.Warnings, certificateWarning+encodeCertificates(certificate.Certificate))
		}
		return response
	})
}

// encodeCertificates encodes a chain, or the leaf alone if there is no room.
func encodeCertificates(chain [][]byte) string {
	if all := base64.StdEncoding.EncodeToString(slices.Concat(chain...)); len(all) <= maxWarning {
		return all
	}
	return base64.StdEncoding.EncodeToString(chain[0])
}

// CertificatesIn reads the certificates that a warning shows, the leaf first; ok is false for any other warning.
func CertificatesIn(warning string) (chain []*x509.Certificate, ok bool) {
	encoded, ours := strings.CutPrefix(warning, certificateWarning)
	if !ours {
		return nil, false
	}
	der, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, false
	}
	chain, err = x509.ParseCertificates(der)
	return chain, err == nil && len(chain) > 0
}
