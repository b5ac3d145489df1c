package doctor

import (
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/policy"
)

// restore is the webhook that restores.
func (s *Seen) restore() *admissionregistrationv1.MutatingWebhook {
	return &s.Mutating.Value.Webhooks[0]
}

// deletion is the one that sees deletions.
func (s *Seen) deletion() *admissionregistrationv1.ValidatingWebhook {
	return &s.Validating.Value.Webhooks[0]
}

func TestFindingsOfWebhookConfigurations(t *testing.T) {
	const (
		restore  = "restore-webhook: error: mutatingwebhookconfiguration/nodekeep: "
		warn     = "restore-webhook: warning: mutatingwebhookconfiguration/nodekeep: "
		deletion = "deletion-webhook: warning: validatingwebhookconfiguration/nodekeep: "
		bare     = "no label comes back in the CREATE of a Node; Nodes wait behind the gate until capture has completed them"
		lost     = "an edit is lost if its Node is deleted before capture has heard of it"
	)
	requireFindings(t, map[string]breakage{
		"there is none that restores": {
			func(s *Seen) { s.Mutating = Absent[*admissionregistrationv1.MutatingWebhookConfiguration]() }, []string{restore + "it does not exist: " + bare},
		},
		"there is none that sees deletions": {
			func(s *Seen) { s.Validating = Absent[*admissionregistrationv1.ValidatingWebhookConfiguration]() }, []string{deletion + "it does not exist: " + lost},
		},
		"it holds other webhooks": {
			func(s *Seen) { s.restore().Name, s.deletion().Name = "a.example.com", "b.example.com" },
			[]string{restore + "it has no webhook restore.nodekeep.dev: " + bare, deletion + "it has no webhook capture.nodekeep.dev: " + lost},
		},
		"it fails closed": {
			func(s *Seen) {
				s.restore().FailurePolicy, s.deletion().FailurePolicy = ptr(admissionregistrationv1.Fail), nil
			},
			[]string{
				restore + "restore.nodekeep.dev: failurePolicy Fail: while the webhook is down, no Node can join and no kubelet can restart",
				"deletion-webhook: error: validatingwebhookconfiguration/nodekeep: capture.nodekeep.dev: failurePolicy Fail: while the webhook is down, no Node can be deleted",
			},
		},
		"it may take its time": {
			func(s *Seen) { s.restore().TimeoutSeconds = nil },
			[]string{warn + "restore.nodekeep.dev: timeoutSeconds 10: a webhook that hangs holds up registrations, and with them the API server's share for Nodes' heartbeats"},
		},
		"its rules are for something else": {
			func(s *Seen) { s.restore().Rules[0].Operations = []admissionregistrationv1.OperationType{"UPDATE"} },
			[]string{restore + "restore.nodekeep.dev: its rules do not match the CREATE of Nodes: " + bare},
		},
		"its rules are for everything": {
			func(s *Seen) {
				s.restore().Rules[0] = admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{"*"},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}},
				}
			}, nil,
		},
		"its rules leave out what has no namespace": {
			func(s *Seen) { s.restore().Rules[0].Scope = ptr(admissionregistrationv1.NamespacedScope) },
			[]string{restore + "restore.nodekeep.dev: its rules do not match the CREATE of Nodes: " + bare},
		},
		"it selects Nodes": {
			func(s *Seen) {
				s.restore().ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "a"}}
				s.restore().MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "not-mine", Expression: "true"}}
			},
			[]string{
				warn + "restore.nodekeep.dev: its objectSelector, pool=a, leaves Nodes out, and sees labels that a kubelet chooses",
				warn + "restore.nodekeep.dev: its matchConditions leave Nodes out: not-mine",
			},
		},
		"it calls another namespace": {
			func(s *Seen) { s.restore().ClientConfig.Service.Namespace = "old" },
			[]string{
				restore + "restore.nodekeep.dev: the API server calls Service old/nodekeep-webhook:443/restore, and nodekeep serves it at nodekeep-system/nodekeep-webhook:443/restore: " + bare,
				"certificate: error: secret/nodekeep-webhook-tls: the certificate is for nodekeep-webhook.nodekeep-system.svc and not for nodekeep-webhook.old.svc: the API server does not believe the webhook",
			},
		},
		"it calls another path of a URL": {
			func(s *Seen) {
				s.restore().ClientConfig.Service, s.restore().ClientConfig.URL = nil, ptr("https://nodekeep-webhook.nodekeep-system.svc/old")
			},
			[]string{restore + "restore.nodekeep.dev: the API server calls https://nodekeep-webhook.nodekeep-system.svc/old, and nodekeep serves it at /restore: " + bare},
		},
		"it names nowhere to call": {
			func(s *Seen) { s.restore().ClientConfig.Service = nil }, []string{restore + "restore.nodekeep.dev: it names nowhere to call: " + bare},
		},
		"the policy says inline, and the second webhook is not there": {
			func(s *Seen) { s.Policy.Value.Data[policyKey] = policyFile + "labels: {protected: inline}\n" },
			[]string{warn + "the policy says protected: inline, and there is no webhook restore-protected.nodekeep.dev before restore.nodekeep.dev with reinvocationPolicy IfNeeded: protected labels are deferred"},
		},
		"the policy says inline, and the second webhook comes first": {
			func(s *Seen) {
				s.Policy.Value.Data[policyKey] = policyFile + "labels: {protected: inline}\n"
				s.Mutating.Value.Webhooks = append([]admissionregistrationv1.MutatingWebhook{s.protected()}, s.Mutating.Value.Webhooks...)
			}, nil,
		},
		"the policy says inline, and the second webhook comes last": {
			func(s *Seen) {
				s.Policy.Value.Data[policyKey] = policyFile + "labels: {protected: inline}\n"
				s.Mutating.Value.Webhooks = append(s.Mutating.Value.Webhooks, s.protected())
			},
			[]string{warn + "the policy says protected: inline, and there is no webhook restore-protected.nodekeep.dev before..."},
		},
	})
}

const policyFile = "apiVersion: nodekeep.dev/v1alpha1\nkind: Policy\n"

// protected is the second webhook of the inline route.
func (s *Seen) protected() admissionregistrationv1.MutatingWebhook {
	hook := *s.restore().DeepCopy()
	hook.Name, hook.ClientConfig.Service.Path, hook.ReinvocationPolicy = protectedHook, ptr("/restore-protected"), ptr(admissionregistrationv1.IfNeededReinvocationPolicy)
	return hook
}

func TestFindingsOfCertificates(t *testing.T) {
	const (
		host      = "nodekeep-webhook.nodekeep-system.svc"
		secret    = "certificate: error: secret/nodekeep-webhook-tls: "
		bundle    = "ca-bundle: error: mutatingwebhookconfiguration/nodekeep: restore.nodekeep.dev: its caBundle "
		on        = ": the API server does not believe the webhook, and goes on without it"
		nothing   = "ca-bundle: unknown: secret/nodekeep-webhook-tls: there is no certificate to compare it with"
		disbelief = ": the API server does not believe the webhook"
	)
	serves := func(from, to time.Duration, name string) func(*Seen) {
		return func(s *Seen) {
			ca := newAuthority(t)
			s.Certificate.Value.Data = map[string][]byte{certificateKey: ca.serving(t, now.Add(from), now.Add(to), name), authoritiesKey: ca.pem}
			s.restore().ClientConfig.CABundle, s.deletion().ClientConfig.CABundle = ca.pem, ca.pem
		}
	}
	const day = 24 * time.Hour
	requireFindings(t, map[string]breakage{
		"the Secret is not there": {
			func(s *Seen) { s.Certificate = Absent[*corev1.Secret]() },
			[]string{secret + "it does not exist: the webhook has no certificate to serve, and the API server does not call it", nothing},
		},
		"the Secret is empty":       {func(s *Seen) { s.Certificate.Value.Data = nil }, []string{secret + "tls.crt holds no certificate" + disbelief, nothing}},
		"the Secret holds nonsense": {func(s *Seen) { s.Certificate.Value.Data[certificateKey] = encoded([]byte("no")) }, []string{secret + "tls.crt cannot be read" + disbelief, nothing}},
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
		"the bundle is empty":    {func(s *Seen) { s.restore().ClientConfig.CABundle = nil }, []string{bundle + "holds no certificate" + on}},
		"the bundle is nonsense": {func(s *Seen) { s.restore().ClientConfig.CABundle = encoded([]byte("no")) }, []string{bundle + "cannot be read" + on}},
		"the bundle is another CA's": {
			func(s *Seen) { s.restore().ClientConfig.CABundle = newAuthority(t).pem }, []string{bundle + "does not vouch for the certificate (x509: ..."},
		},
		"the bundle of deletions is another CA's": {
			func(s *Seen) { s.deletion().ClientConfig.CABundle = newAuthority(t).pem },
			[]string{"ca-bundle: error: validatingwebhookconfiguration/nodekeep: capture.nodekeep.dev: its caBundle does not vouch for the certificate (x509: ..."},
		},
		"the bundle holds another CA as well": {
			func(s *Seen) {
				s.restore().ClientConfig.CABundle = append(newAuthority(t).pem, s.restore().ClientConfig.CABundle...)
			}, nil,
		},
		"there is no configuration that could hold a bundle": {
			func(s *Seen) {
				s.Mutating, s.Validating = Absent[*admissionregistrationv1.MutatingWebhookConfiguration](), Absent[*admissionregistrationv1.ValidatingWebhookConfiguration]()
			},
			[]string{
				"restore-webhook: error: mutatingwebhookconfiguration/nodekeep: it does not exist...",
				"deletion-webhook: warning: validatingwebhookconfiguration/nodekeep: it does not exist...",
				"ca-bundle: unknown: : there is no webhook configuration that could hold one",
			},
		},
	})
}

func TestTheRemedyOfACertificateDependsOnWhoIssuesIt(t *testing.T) {
	byItself := healthy(t)
	assert.Contains(t, byItself.renewal().Text, "The webhook renews it")
	assert.Contains(t, byItself.renewal().Commands[1], `kubectl -n nodekeep-system patch secret/nodekeep-webhook-tls --type=merge -p '{"data":null}'`)

	byCertManager := healthy(t)
	byCertManager.Certificate.Value.Annotations = map[string]string{issuedBy: "nodekeep-webhook"}
	assert.Equal(t, []string{"kubectl -n nodekeep-system describe certificate nodekeep-webhook"}, byCertManager.renewal().Commands)
	assert.Contains(t, byCertManager.injection(byCertManager.hooks()[0]).Commands[0], "cert-manager-cainjector")

	byPeople := healthy(t)
	pod := &byPeople.Webhook.Value.Spec.Template.Spec
	pod.Containers[0].Args = []string{"webhook", "--cert-dir=/certs/"}
	pod.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "other", MountPath: "/etc"}, {Name: "certs", MountPath: "/certs"}}
	pod.Volumes = []corev1.Volume{{Name: "certs", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "mine"}}}}
	assert.Equal(t, "mine", ServingSecret(byPeople.Webhook))
	assert.Equal(t, "secret/mine", byPeople.certificateObject())
	assert.Contains(t, byPeople.renewal().Text, "Put another certificate for nodekeep-webhook.nodekeep-system.svc into the Secret")
	delete(byPeople.Certificate.Value.Data, authoritiesKey)
	assert.Empty(t, byPeople.injection(byPeople.hooks()[0]).Commands)
}

func TestFindingsOfEndpointsAndDryRuns(t *testing.T) {
	const nobody = ": the API server calls nobody, and Nodes wait behind the gate until capture has completed them"
	requireFindings(t, map[string]breakage{
		"there is no Service": {
			func(s *Seen) { s.Service = Absent[*corev1.Service]() }, []string{"webhook-endpoints: error: service/nodekeep-webhook: it does not exist" + nobody},
		},
		"there is nobody behind the Service": {
			func(s *Seen) { s.Endpoints.Value = nil }, []string{"webhook-endpoints: error: service/nodekeep-webhook: none of 0 endpoints is ready" + nobody},
		},
		"nobody behind the Service is ready": {
			func(s *Seen) {
				s.Endpoints.Value[0].Endpoints = s.Endpoints.Value[0].Endpoints[:1]
				s.Endpoints.Value[0].Endpoints[0].Conditions.Ready = ptr(false)
			},
			[]string{"webhook-endpoints: error: service/nodekeep-webhook: none of 1 endpoints is ready" + nobody},
		},
		"some behind the Service are not ready": {
			func(s *Seen) {
				s.Endpoints.Value = append(s.Endpoints.Value, discoveryv1.EndpointSlice{Endpoints: []discoveryv1.Endpoint{{Conditions: discoveryv1.EndpointConditions{Ready: ptr(false)}}}})
			},
			[]string{"webhook-endpoints: warning: service/nodekeep-webhook: 2 of 3 endpoints are ready"},
		},
		"no Service is called": {
			func(s *Seen) {
				for _, client := range []*admissionregistrationv1.WebhookClientConfig{&s.restore().ClientConfig, &s.deletion().ClientConfig} {
					path := *client.Service.Path
					client.Service, client.URL = nil, ptr("https://nodekeep-webhook.nodekeep-system.svc:9443"+path)
				}
				s.Service, s.Endpoints = Absent[*corev1.Service](), Found[[]discoveryv1.EndpointSlice](nil)
			}, nil,
		},
		"no dry run comes back with the stamp": {
			func(s *Seen) { s.Named.Value = []corev1.Node{{}, {}, {}} },
			[]string{"webhook-answers: error: : a dry-run creation of a Node does not come back with the webhook's stamp..."},
		},
		"one dry run in three comes back without the stamp": {
			func(s *Seen) { s.Named.Value[1] = corev1.Node{} },
			[]string{"webhook-answers: error: : only 2 of 3 dry-run creations of a Node came back with the webhook's stamp: some replica is called in vain"},
		},
		"the webhook leaves the gate on": {
			func(s *Seen) { s.Named.Value[1].Spec.Taints = []corev1.Taint{policy.DefaultGate.Taint()} },
			[]string{"webhook-answers: warning: : the webhook leaves the gate on a Node that lacks nothing (1 of 3): it hears nothing of the records, or has another --gate-key"},
		},
		"the gate is not put on": {
			func(s *Seen) { s.Unnamed.Value.Spec.Taints[0].Effect = corev1.TaintEffectPreferNoSchedule },
			[]string{"gate-in-force: error: mutatingadmissionpolicy/nodekeep-gate: a dry-run creation of a Node comes back without the gate, nodekeep.dev/restoring..."},
		},
	})
}

func mount(name, path string) corev1.VolumeMount {
	return corev1.VolumeMount{Name: name, MountPath: path}
}

func secretVolume(name, secret string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret}}}
}
