package doctor

import (
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/policy"
)

func TestFindingsOfCertificates(t *testing.T) {
	const (
		host        = "nodekeep-webhook.nodekeep-system.svc"
		secret      = "certificate: error: secret/nodekeep-webhook-tls: "
		bundle      = "ca-bundle: error: mutatingwebhookconfiguration/nodekeep: restore.nodekeep.dev: its caBundle "
		consequence = ": the API server does not believe the webhook, and goes on without it"
		blank       = "ca-bundle: unknown: secret/nodekeep-webhook-tls: there is no certificate to compare it with"
		disbelief   = ": the API server does not believe the webhook"
	)
	serves := func(from, to time.Duration, name string) func(*Installation) {
		return func(s *Installation) {
			ca := newAuthority(t)
			s.Certificate.Value.Data = map[string][]byte{certificateKey: ca.serving(t, now.Add(from), now.Add(to), name), authoritiesKey: ca.pem}
			s.bundle(ca.pem)
		}
	}
	const day = 24 * time.Hour
	requireFindings(t, map[string]breakage{
		"the Secret is not there": {
			func(s *Installation) { s.Certificate = Absent[*corev1.Secret]() },
			[]string{secret + "it does not exist: the webhook has no certificate to serve, and the API server does not call it", blank},
		},
		"the Secret is empty":       {func(s *Installation) { s.Certificate.Value.Data = nil }, []string{secret + "tls.crt holds no certificate" + disbelief, blank}},
		"the Secret holds nonsense": {func(s *Installation) { s.Certificate.Value.Data[certificateKey] = encoded([]byte("no")) }, []string{secret + "tls.crt cannot be read" + disbelief, blank}},
		"the certificate has expired, and would be believed otherwise": {
			serves(-90*day, -3*time.Hour, host), []string{secret + "the certificate expired 3h ago" + disbelief},
		},
		"the certificate is of a time to come": {
			serves(day, 10*day, host), []string{secret + "the certificate is not valid before 2026-07-02T12:00:00Z" + disbelief},
		},
		"nobody has renewed the certificate": {
			serves(-70*day, 20*day, host), []string{"certificate: warning: secret/nodekeep-webhook-tls: the certificate expires in 20d, and nobody has renewed it"},
		},
		"a short life with more than a quarter of it left": {serves(-4*day, 3*day, host), nil},
		"a short life that is nearly over": {
			serves(-6*day, day, host), []string{"certificate: warning: secret/nodekeep-webhook-tls: the certificate expires in 24h, and nobody has renewed it"},
		},
		"a long life with more than a month left": {serves(-700*day, 31*day, host), nil},
		"the certificate is for another name": {
			serves(-day, 89*day, "other.svc"), []string{secret + "the certificate is for other.svc and not for " + host + disbelief},
		},
		"the bundle is empty":        {func(s *Installation) { s.bundle(nil, mutatingObject) }, []string{bundle + "holds no certificate" + consequence}},
		"the bundle is nonsense":     {func(s *Installation) { s.bundle(encoded([]byte("no")), mutatingObject) }, []string{bundle + "cannot be read" + consequence}},
		"the bundle is another CA's": {func(s *Installation) { s.bundle(newAuthority(t).pem, mutatingObject) }, []string{bundle + "does not vouch for the certificate (x509: ..."}},
		"the bundles of policies and deletions are another CA's": {
			func(s *Installation) { s.bundle(newAuthority(t).pem, validatingObject) },
			[]string{
				"ca-bundle: error: validatingwebhookconfiguration/nodekeep: policy.nodekeep.dev: its caBundle does not vouch for the certificate (x509: ...",
				"ca-bundle: error: validatingwebhookconfiguration/nodekeep: deletion.nodekeep.dev: its caBundle does not vouch for the certificate (x509: ...",
			},
		},
		"the bundle holds another CA as well": {
			func(s *Installation) {
				s.client(mutatingObject, func(c *admissionregistrationv1.WebhookClientConfig) {
					c.CABundle = append(newAuthority(t).pem, c.CABundle...)
				})
			}, nil,
		},
		"there is no configuration that could hold a bundle": {
			func(s *Installation) {
				s.remove(mutatingObject, validatingObject)
			},
			[]string{
				"restore-webhook: error: mutatingwebhookconfiguration/nodekeep: it does not exist...",
				"deletion-webhook: warning: validatingwebhookconfiguration/nodekeep: it does not exist...",
				"ca-bundle: unknown: : there is no webhook configuration that could hold one",
				"policy: warning: validatingwebhookconfiguration/nodekeep: it does not exist...",
			},
		},
	})
}

// What the webhook serves is enough: its Secret, with the private key, need not be read.
func TestFindingsOfTheCertificateThatIsServed(t *testing.T) {
	const day = 24 * time.Hour
	serves := func(s *Installation, to time.Duration, name string) {
		ca := newAuthority(t)
		chain, err := certificates(ca.serving(t, now.Add(-70*day), now.Add(to), name))
		require.NoError(t, err)
		s.ServedChain, s.Certificate = chain, Reading[*corev1.Secret]{}
		s.bundle(ca.pem)
	}
	const host = "nodekeep-webhook.nodekeep-system.svc"
	denied := NotKnown[[]corev1.Node](Unknown{Reason: "you may not create nodes", Remedy: Remedy{Text: "An administrator can grant it:"}})
	requireFindings(t, map[string]breakage{
		"it is valid for long": {func(s *Installation) { serves(s, 80*day, host) }, nil},
		"nobody has renewed it": {
			func(s *Installation) { serves(s, 20*day, host) },
			[]string{"certificate: warning: secret/nodekeep-webhook-tls: the certificate expires in 20d, and nobody has renewed it"},
		},
		"the caller may try no dry run, and not read the Secret": {
			func(s *Installation) {
				s.Certificate, s.NamedDryRuns = NotKnown[*corev1.Secret](Unknown{Reason: "you may not get secrets"}), denied
			},
			[]string{
				"certificate: unknown: : you may not create nodes", "ca-bundle: unknown: : you may not create nodes", "webhook-answers: unknown: : you may not create nodes",
			},
		},
		"the caller may not read the Secret, and the webhook shows nothing": {
			func(s *Installation) {
				s.Certificate = NotKnown[*corev1.Secret](Unknown{Reason: "you may not get secrets"})
			},
			[]string{
				"certificate: unknown: secret/nodekeep-webhook-tls: no answer to a dry run shows the certificate...",
				"ca-bundle: unknown: secret/nodekeep-webhook-tls: no answer to a dry run shows the certificate...",
			},
		},
	})
}

func TestTheRemedyOfACertificateDependsOnWhoIssuesIt(t *testing.T) {
	byItself := healthy(t)
	assert.Contains(t, byItself.renewalRemedy().Text, "The webhook renews it")
	assert.Contains(t, byItself.renewalRemedy().Commands[1], `kubectl -n nodekeep-system patch secret/nodekeep-webhook-tls --type=merge -p '{"data":null}'`)

	injected := healthy(t)
	injected.Certificate = Reading[*corev1.Secret]{}
	edit(&injected, mutatingObject, func(c *admissionregistrationv1.MutatingWebhookConfiguration) {
		c.Annotations = map[string]string{injectedFrom: "nodekeep-system/of-cert-manager"}
	})
	assert.Equal(t, []string{"kubectl -n nodekeep-system describe certificate of-cert-manager"}, injected.renewalRemedy().Commands)

	byCertManager := healthy(t)
	byCertManager.Certificate.Value.Annotations = map[string]string{issuedBy: "nodekeep-webhook"}
	assert.Equal(t, []string{"kubectl -n nodekeep-system describe certificate nodekeep-webhook"}, byCertManager.renewalRemedy().Commands)
	assert.Contains(t, byCertManager.bundleRemedy(byCertManager.hooks()[0]).Commands[0], "cert-manager-cainjector")

	byPeople := healthy(t)
	byFiles(&byPeople)
	assert.Equal(t, "mine", byPeople.ServingSecret())
	assert.Equal(t, "secret/mine", byPeople.certificateObject())
	assert.Contains(t, byPeople.renewalRemedy().Text, "Put another certificate for nodekeep-webhook.nodekeep-system.svc into the Secret")
	delete(byPeople.Certificate.Value.Data, authoritiesKey)
	assert.Empty(t, byPeople.bundleRemedy(byPeople.hooks()[0]).Commands)
}

func TestFindingsOfEndpointsAndDryRuns(t *testing.T) {
	const consequence = ": the API server calls no webhook, and Nodes wait behind the gate until capture has completed them"
	requireFindings(t, map[string]breakage{
		"there is no Service": {
			func(s *Installation) { s.remove(serviceObject) }, []string{"webhook-endpoints: error: service/nodekeep-webhook: it does not exist" + consequence},
		},
		"there is nobody behind the Service": {
			func(s *Installation) { s.Endpoints.Value = nil }, []string{"webhook-endpoints: error: service/nodekeep-webhook: no Pod is behind it" + consequence},
		},
		"nobody behind the Service is ready": {
			func(s *Installation) {
				s.Endpoints.Value[0].Endpoints = s.Endpoints.Value[0].Endpoints[:1]
				s.Endpoints.Value[0].Endpoints[0].Conditions.Ready = ptr.To(false)
			},
			[]string{"webhook-endpoints: error: service/nodekeep-webhook: none of 1 endpoints is ready" + consequence},
		},
		"some behind the Service are not ready": {
			func(s *Installation) {
				s.Endpoints.Value = append(s.Endpoints.Value, discoveryv1.EndpointSlice{Endpoints: []discoveryv1.Endpoint{{Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(false)}}}})
			},
			[]string{"webhook-endpoints: warning: service/nodekeep-webhook: 2 of 3 endpoints are ready"},
		},
		"no Service is called": {
			func(s *Installation) {
				s.byURL()
				s.remove(serviceObject)
				s.Endpoints = Found[[]discoveryv1.EndpointSlice](nil)
			}, nil,
		},
		"no dry run returns with the stamp": {
			func(s *Installation) { s.NamedDryRuns.Value = []corev1.Node{{}, {}, {}} },
			[]string{"webhook-answers: error: : a dry-run creation of a Node returns without the webhook's stamp..."},
		},
		"one dry run in three returns without the stamp": {
			func(s *Installation) { s.NamedDryRuns.Value[1] = corev1.Node{} },
			[]string{"webhook-answers: error: : only 2 of 3 dry-run creations of a Node returned with the webhook's stamp: calls of some replica fail"},
		},
		"the webhook leaves the gate on": {
			func(s *Installation) {
				s.NamedDryRuns.Value[1].Spec.Taints = []corev1.Taint{policy.DefaultGate.Taint()}
			},
			[]string{"webhook-answers: warning: : the webhook leaves the gate on a Node that lacks nothing (1 of 3): it does not receive the records, or has another --gate-key"},
		},
		"the gate is not added": {
			func(s *Installation) {
				s.UnnamedDryRun.Value.Spec.Taints[0].Effect = corev1.TaintEffectPreferNoSchedule
			},
			[]string{"gate-in-force: error: mutatingadmissionpolicy/nodekeep-gate: a dry-run creation of a Node returns without the gate, nodekeep.dev/restoring..."},
		},
	})
}

// byFiles lets the webhook serve from a Secret of the operator's.
func byFiles(s *Installation) {
	edit(s, webhookObject, func(d *appsv1.Deployment) {
		pod := &d.Spec.Template.Spec
		pod.Containers[0].Args = append(pod.Containers[0].Args, "--cert-dir=/certs/")
		pod.Containers[0].VolumeMounts = append(pod.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "certs", MountPath: "/certs"})
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "certs", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "mine"}}})
	})
}
