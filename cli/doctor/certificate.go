package doctor

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// Keys of the Secret, as in those of cert-manager.
const (
	certificateKey = corev1.TLSCertKey
	authoritiesKey = "ca.crt"
)

// Annotations of cert-manager: on Secrets of its own, and on webhook configurations that it gives a caBundle.
const (
	issuedBy     = "cert-manager.io/certificate-name"
	injectedFrom = "cert-manager.io/inject-ca-from"
)

// judgeCertificate judges whether the serving certificate of the webhook is valid, and for long enough.
func judgeCertificate(seen Installation) answer {
	var a answer
	object := seen.certificateObject()
	find := func(severity Severity, message string, args ...any) {
		a.add(severity, object, seen.renewalRemedy(), message, args...)
	}
	const untrusted = ": the API server does not believe the webhook"
	if seen.Certificate.Absent {
		a.add(Error, object, seen.reinstallRemedy(), "it does not exist: the webhook has no certificate to serve, and the API server does not call it")
		return a
	}
	serving, known, err := seen.servedChain()
	if !known {
		seen.addCertificateUnknown(&a)
		return a
	}
	if err != nil {
		find(Error, "%s %s"+untrusted, certificateKey, err)
		return a
	}
	leaf := serving[0]
	left := leaf.NotAfter.Sub(seen.Now)
	a.okText = fmt.Sprintf("the webhook's certificate is valid for another %s", duration.HumanDuration(left))
	switch {
	case left <= 0:
		find(Error, "the certificate expired %s ago"+untrusted, duration.HumanDuration(-left))
	case seen.Now.Before(leaf.NotBefore):
		find(Error, "the certificate is not valid before %s"+untrusted, leaf.NotBefore.UTC().Format(time.RFC3339))
	case left < renewalMargin(leaf):
		find(Warning, "the certificate expires in %s, and nobody has renewed it", duration.HumanDuration(left))
	}
	for _, host := range seen.certificateNames() {
		if leaf.VerifyHostname(host) != nil {
			find(Error, "the certificate is for %s and not for %s"+untrusted, strings.Join(leaf.DNSNames, ", "), host)
		}
	}
	return a
}

// servedChain returns the certificate that the webhook serves, with its chain; known is false if nothing shows it.
func (s Installation) servedChain() (chain []*x509.Certificate, known bool, err error) {
	if s.ServedChain != nil {
		return s.ServedChain, true, nil
	}
	if !s.Certificate.isKnown() {
		return nil, false, nil
	}
	var data []byte
	if s.Certificate.Found {
		data = s.Certificate.Value.Data[certificateKey]
	}
	chain, err = certificates(data)
	return chain, true, err
}

// addCertificateUnknown adds why the certificate is not known. Nobody has to read the Secret for it, which holds the private key.
func (s Installation) addCertificateUnknown(a *answer) {
	if !s.NamedDryRuns.isKnown() {
		addUnknown(a, "", s.NamedDryRuns)
		return
	}
	a.add(SeverityUnknown, s.certificateObject(), fixFirst("webhook-answers"),
		"no answer to a dry run shows the certificate that the webhook serves: the API server does not call the webhook, or it is of an older version")
}

// WithoutPrivateKey returns what is looked at of the Secret; private keys are not.
func WithoutPrivateKey(secret *corev1.Secret) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: secret.Name, Namespace: secret.Namespace, Annotations: secret.Annotations},
		Data:       map[string][]byte{certificateKey: secret.Data[certificateKey], authoritiesKey: secret.Data[authoritiesKey]},
	}
}

// renewalMargin returns how long before its end a certificate should have been renewed. That is when a quarter of its life is left, but no earlier than a
// month before its end. Components that renew their own certificates do so with a third left.
func renewalMargin(leaf *x509.Certificate) time.Duration {
	return min(leaf.NotAfter.Sub(leaf.NotBefore)/4, 30*24*time.Hour)
}

// judgeCABundle judges whether the API server would trust the serving certificate of the webhook. Another check reports that it has expired.
func judgeCABundle(seen Installation) answer {
	a := answer{okText: "the webhook configurations vouch for the certificate"}
	addUnknown(&a, mutatingObject, seen.object(mutatingObject).Live)
	addUnknown(&a, validatingObject, seen.object(validatingObject).Live)
	hooks := seen.hooks()
	if len(hooks) == 0 && len(a.findings) == 0 {
		a.add(SeverityUnknown, "", fixFirst(checkRestore), "there is no webhook configuration that could hold one")
	}
	serving, known, err := seen.servedChain()
	switch {
	case !known:
		seen.addCertificateUnknown(&a)
		return a
	case err != nil:
		a.add(SeverityUnknown, seen.certificateObject(), fixFirst("certificate"), "there is no certificate to compare it with")
		return a
	}
	for _, hook := range hooks {
		if err := verifyBundle(hook.client.CABundle, serving, seen.Now); err != nil {
			a.add(Error, hook.object, seen.bundleRemedy(hook),
				"%s: its caBundle %s: the API server does not believe the webhook, and goes on without it", hook.name, err)
		}
	}
	return a
}

// verifyBundle checks that a bundle makes the certificate trusted, were it valid today.
func verifyBundle(bundle []byte, serving []*x509.Certificate, now time.Time) error {
	authorities, err := certificates(bundle)
	if err != nil {
		return err
	}
	roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
	for _, authority := range authorities {
		roots.AddCert(authority)
	}
	for _, certificate := range serving[1:] {
		intermediates.AddCert(certificate)
	}
	leaf := serving[0]
	if now.After(leaf.NotAfter) {
		now = leaf.NotAfter
	} else if now.Before(leaf.NotBefore) {
		now = leaf.NotBefore
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: intermediates, CurrentTime: now}); err != nil {
		return fmt.Errorf("does not vouch for the certificate (%w)", err)
	}
	return nil
}

// certificates reads PEM; there is one at least.
func certificates(data []byte) (all []*x509.Certificate, err error) {
	for len(data) > 0 {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, errors.New("cannot be read")
		}
		all = append(all, certificate)
	}
	if len(all) == 0 {
		return nil, errors.New("holds no certificate")
	}
	return all, nil
}

// certificateNames returns the names that the API server expects in the certificate.
func (s Installation) certificateNames() (hosts []string) {
	for _, hook := range s.hooks() {
		if host := hook.host(); host != "" && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

func (s Installation) certificateObject() string { return "secret/" + s.ServingSecret() }

// certManagerCertificate returns the cert-manager Certificate that the serving certificate comes from; empty where none does.
func (s Installation) certManagerCertificate() string {
	if mutating := s.object(mutatingObject).Live; mutating.Found {
		if _, name, ok := strings.Cut(mutating.Value.GetAnnotations()[injectedFrom], "/"); ok {
			return name
		}
	}
	if s.Certificate.Found {
		return s.Certificate.Value.Annotations[issuedBy]
	}
	return ""
}

// selfSigned reports whether the webhook issues it itself.
func (s Installation) selfSigned() bool { return s.ServingSecret() == selfSignedSecret }

// renewalRemedy returns how another certificate comes about.
func (s Installation) renewalRemedy() Remedy {
	switch {
	case s.certManagerCertificate() != "":
		return newRemedy("See why cert-manager does not renew it:", s.kubectl("describe certificate %s", s.certManagerCertificate()))
	case s.selfSigned():
		return newRemedy("The webhook renews it within a minute, while it runs: see why it does not. An empty Secret asks it for a new one at once.",
			s.logsCommand(WebhookDeployment), s.kubectl(`patch %s --type=merge -p '{"data":null}'`, s.certificateObject()))
	default:
		return newRemedy(fmt.Sprintf("Put another certificate for %s into the Secret; the webhook loads it without a restart.", strings.Join(s.certificateNames(), ", ")))
	}
}

// bundleRemedy returns how the bundle comes into the configuration.
func (s Installation) bundleRemedy(h hook) Remedy {
	ours := s.certManagerCertificate() != "" || s.selfSigned()
	if !ours && (!s.Certificate.Found || len(s.Certificate.Value.Data[authoritiesKey]) == 0) {
		return newRemedy("Put the PEM of the authority that has signed the certificate, in base64, into the webhook's clientConfig.caBundle.")
	}
	authority := s.kubectl(`get %s -o jsonpath='{.data.ca\.crt}'`, s.certificateObject())
	patch := fmt.Sprintf(`kubectl patch %s --type=json -p="[{\"op\":\"add\",\"path\":\"/webhooks/%d/clientConfig/caBundle\",\"value\":\"$(%s)\"}]"`,
		h.object, h.index, authority)
	switch {
	case s.certManagerCertificate() != "":
		return newRemedy("cert-manager's CA injector puts it there: see why it does not. Manually:",
			"kubectl -n cert-manager logs deployment/cert-manager-cainjector --tail=50", patch)
	case s.selfSigned():
		return newRemedy("The webhook puts it there within a minute, while it runs and may. Manually:", patch)
	}
	return newRemedy("Put the authority there:", patch)
}
