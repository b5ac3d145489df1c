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

// judgeCertificate judges whether what the webhook serves from is valid, and for long enough.
func judgeCertificate(seen Seen) answer {
	var a answer
	object := seen.certificateObject()
	find := func(severity Severity, what string) {
		a.add(Finding{Severity: severity, Object: object, What: what, Remedy: seen.renewal()})
	}
	if seen.Certificate.Absent {
		a.add(Finding{Severity: Error, Object: object, What: "it does not exist: the webhook has no certificate to serve, and the API server does not call it", Remedy: reinstall()})
		return a
	}
	serving, known, err := seen.serving()
	if !known {
		a.add(seen.uncertified())
		return a
	}
	if err != nil {
		find(Error, certificateKey+" "+err.Error()+": the API server does not believe the webhook")
		return a
	}
	leaf := serving[0]
	left := leaf.NotAfter.Sub(seen.Now)
	a.ok = fmt.Sprintf("valid for %s", duration.HumanDuration(left))
	switch {
	case left <= 0:
		find(Error, fmt.Sprintf("the certificate expired %s ago: the API server does not believe the webhook", duration.HumanDuration(-left)))
	case seen.Now.Before(leaf.NotBefore):
		find(Error, fmt.Sprintf("the certificate is not valid before %s: the API server does not believe the webhook", leaf.NotBefore.UTC().Format(time.RFC3339)))
	case left < dueBefore(leaf):
		find(Warning, fmt.Sprintf("the certificate expires in %s, and nobody has renewed it", duration.HumanDuration(left)))
	}
	for _, host := range seen.hosts() {
		if leaf.VerifyHostname(host) != nil {
			find(Error, fmt.Sprintf("the certificate is for %s and not for %s: the API server does not believe the webhook", strings.Join(leaf.DNSNames, ", "), host))
		}
	}
	return a
}

// serving is the certificate that the webhook serves, with its chain; known is false if nothing shows it.
func (s Seen) serving() (chain []*x509.Certificate, known bool, err error) {
	if s.Served != nil {
		return s.Served, true, nil
	}
	if !s.Certificate.asked() {
		return nil, false, nil
	}
	var data []byte
	if s.Certificate.Found {
		data = s.Certificate.Value.Data[certificateKey]
	}
	chain, err = certificates(data)
	return chain, true, err
}

// uncertified reports why the certificate is not known. Nobody has to read the Secret for it, which holds the private key.
func (s Seen) uncertified() Finding {
	if !s.Named.Found {
		var a answer
		if lacks(&a, "", s.Named); len(a.findings) > 0 {
			return a.findings[0]
		}
	}
	return Finding{
		Severity: Lacking, Object: s.certificateObject(),
		What:   "no answer to a dry run shows the certificate that the webhook serves: the API server does not call the webhook, or it is of an older version",
		Remedy: first("webhook-answers"),
	}
}

// Public is what is looked at of the Secret; private keys are not.
func Public(secret *corev1.Secret) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: secret.Name, Namespace: secret.Namespace, Annotations: secret.Annotations},
		Data:       map[string][]byte{certificateKey: secret.Data[certificateKey], authoritiesKey: secret.Data[authoritiesKey]},
	}
}

// dueBefore is how long before its end a certificate should have been renewed. That is when a quarter of its life is left, but no earlier than a
// month before its end. Components that renew their own certificates do so with a third left.
func dueBefore(leaf *x509.Certificate) time.Duration {
	return min(leaf.NotAfter.Sub(leaf.NotBefore)/4, 30*24*time.Hour)
}

// judgeCABundle judges whether the API server would believe what the webhook serves from. Another check reports that it has expired.
func judgeCABundle(seen Seen) answer {
	a := answer{ok: "vouches for the certificate"}
	lacks(&a, mutatingObject, seen.object(mutatingObject).Found)
	lacks(&a, validatingObject, seen.object(validatingObject).Found)
	hooks := seen.hooks()
	if len(hooks) == 0 && len(a.findings) == 0 {
		a.add(Finding{Severity: Lacking, What: "there is no webhook configuration that could hold one", Remedy: first("restore-webhook")})
	}
	serving, known, err := seen.serving()
	switch {
	case !known:
		a.add(seen.uncertified())
		return a
	case err != nil:
		a.add(Finding{Severity: Lacking, Object: seen.certificateObject(), What: "there is no certificate to compare it with", Remedy: first("certificate")})
		return a
	}
	for _, hook := range hooks {
		if err := vouches(hook.client.CABundle, serving, seen.Now); err != nil {
			a.add(Finding{
				Severity: Error, Object: hook.object,
				What:   fmt.Sprintf("%s: its caBundle %s: the API server does not believe the webhook, and goes on without it", hook.name, err),
				Remedy: seen.injection(hook),
			})
		}
	}
	return a
}

// vouches checks that a bundle makes the certificate trusted, were it valid today.
func vouches(bundle []byte, serving []*x509.Certificate, now time.Time) error {
	authorities, err := certificates(bundle)
	if err != nil {
		return err
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	for _, authority := range authorities {
		roots.AddCert(authority)
	}
	for _, certificate := range serving[1:] {
		between.AddCert(certificate)
	}
	leaf := serving[0]
	if now.After(leaf.NotAfter) {
		now = leaf.NotAfter
	} else if now.Before(leaf.NotBefore) {
		now = leaf.NotBefore
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: now}); err != nil {
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

// hosts are the names that the API server expects in the certificate.
func (s Seen) hosts() (hosts []string) {
	for _, hook := range s.hooks() {
		if host := hook.host(); host != "" && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

func (s Seen) certificateObject() string { return "secret/" + s.ServingSecret() }

// certManager is the cert-manager Certificate that the serving certificate comes from; empty where none does.
func (s Seen) certManager() string {
	if mutating := s.mutating(); mutating.Found {
		if _, name, ok := strings.Cut(mutating.Value.Annotations[injectedFrom], "/"); ok {
			return name
		}
	}
	if s.Certificate.Found {
		return s.Certificate.Value.Annotations[issuedBy]
	}
	return ""
}

// selfSigned reports whether the webhook issues it itself.
func (s Seen) selfSigned() bool { return s.ServingSecret() == selfSignedSecret }

// renewal is how another certificate comes about.
func (s Seen) renewal() Remedy {
	switch {
	case s.certManager() != "":
		return Remedy{Text: "See why cert-manager does not renew it:", Commands: []string{
			fmt.Sprintf("kubectl -n %s describe certificate %s", s.Namespace, s.certManager()),
		}}
	case s.selfSigned():
		return Remedy{Text: "The webhook renews it within a minute, while it runs: see why it does not. An empty Secret asks it for a new one at once.", Commands: []string{
			logs(s.Namespace, WebhookDeployment),
			fmt.Sprintf(`kubectl -n %s patch %s --type=merge -p '{"data":null}'`, s.Namespace, s.certificateObject()),
		}}
	default:
		return Remedy{Text: fmt.Sprintf("Put another certificate for %s into the Secret; the webhook loads it without a restart.", strings.Join(s.hosts(), ", "))}
	}
}

// injection is how the bundle comes into the configuration.
func (s Seen) injection(h hook) Remedy {
	ours := s.certManager() != "" || s.selfSigned()
	if !ours && (!s.Certificate.Found || len(s.Certificate.Value.Data[authoritiesKey]) == 0) {
		return Remedy{Text: "Put the PEM of the authority that has signed the certificate, in base64, into the webhook's clientConfig.caBundle."}
	}
	remedy := Remedy{
		Text: "Put the authority there:",
		Commands: []string{fmt.Sprintf(`kubectl patch %s --type=json -p="[{\"op\":\"add\",\"path\":\"%s\",\"value\":\"$(kubectl -n %s get %s -o jsonpath='{.data.ca\.crt}')\"}]"`,
			h.object, fmt.Sprintf("/webhooks/%d/clientConfig/caBundle", h.index), s.Namespace, s.certificateObject())},
	}
	switch {
	case s.certManager() != "":
		remedy.Text = "cert-manager's CA injector puts it there: see why it does not. Manually:"
		remedy.Commands = append([]string{"kubectl -n cert-manager logs deployment/cert-manager-cainjector --tail=50"}, remedy.Commands...)
	case s.selfSigned():
		remedy.Text = "The webhook puts it there within a minute, while it runs and may. Manually:"
	}
	return remedy
}
