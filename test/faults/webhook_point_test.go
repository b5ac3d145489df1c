package faults

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/test/harness"
)

// clientConfigs are where the API server calls the webhook: at CREATE and at DELETE.
func clientConfigs(t testing.TB) (creation, deletion admissionregistrationv1.WebhookClientConfig) {
	t.Helper()
	client := nodekeep.Admin.AdmissionregistrationV1()
	mutating, err := client.MutatingWebhookConfigurations().Get(t.Context(), "nodekeep", metav1.GetOptions{})
	require.NoError(t, err)
	require.Len(t, mutating.Webhooks, 1)
	validating, err := client.ValidatingWebhookConfigurations().Get(t.Context(), "nodekeep", metav1.GetOptions{})
	require.NoError(t, err)
	require.Len(t, validating.Webhooks, 1)
	return mutating.Webhooks[0].ClientConfig, validating.Webhooks[0].ClientConfig
}

func setClientConfigs(t testing.TB, creation, deletion admissionregistrationv1.WebhookClientConfig) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // also at the end of a test
	client := nodekeep.Admin.AdmissionregistrationV1()
	patch := func(config admissionregistrationv1.WebhookClientConfig) []byte {
		return harness.MustJSON(t, []map[string]any{{"op": "replace", "path": "/webhooks/0/clientConfig", "value": config}})
	}
	_, err := client.MutatingWebhookConfigurations().Patch(ctx, "nodekeep", types.JSONPatchType, patch(creation), metav1.PatchOptions{})
	require.NoError(t, err)
	_, err = client.ValidatingWebhookConfigurations().Patch(ctx, "nodekeep", types.JSONPatchType, patch(deletion), metav1.PatchOptions{})
	require.NoError(t, err)
}

// at is the same config for another address; a nil bundle leaves the one that is there.
func at(t testing.TB, config admissionregistrationv1.WebhookClientConfig, address string, bundle []byte) admissionregistrationv1.WebhookClientConfig {
	t.Helper()
	require.NotNil(t, config.URL)
	u, err := url.Parse(*config.URL)
	require.NoError(t, err)
	u.Host = address
	moved := u.String()
	config.URL = &moved
	if bundle != nil {
		config.CABundle = bundle
	}
	return config
}

// pointAt has the API server call another address with another caBundle (nil: the same one). The function that it returns
// puts back what was there.
func pointAt(t testing.TB, address string, bundle []byte) (back func()) {
	t.Helper()
	creation, deletion := clientConfigs(t)
	setClientConfigs(t, at(t, creation, address, bundle), at(t, deletion, address, bundle))
	return func() { t.Helper(); setClientConfigs(t, creation, deletion) }
}

// webhookAddress is where the installed webhook listens.
func webhookAddress(t testing.TB) string {
	t.Helper()
	creation, _ := clientConfigs(t)
	u, err := url.Parse(*creation.URL)
	require.NoError(t, err)
	return u.Host
}

// called reports whether the API server reaches a webhook that works: a dry-run CREATE then shows its stamp.
func called(t testing.TB) bool {
	t.Helper()
	probe := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "faults-probe"}}
	node, err := nodekeep.Admin.CoreV1().Nodes().Create(t.Context(), probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	require.NoError(t, err)
	_, stamped := node.Annotations[policy.StampAnnotation]
	return stamped
}

// untilCalled waits until the API server reaches a working webhook, or does not any more, and returns how long that took.
func untilCalled(t testing.TB, reaches bool) time.Duration {
	t.Helper()
	began := time.Now()
	require.Eventually(t, func() bool { return called(t) == reaches }, harness.Settles, 10*time.Millisecond, "that the webhook is reached must become %t", reaches)
	return round(time.Since(began))
}

// webhookBundle is the caBundle by which the API server believes the webhook.
func webhookBundle(t testing.TB) []byte {
	t.Helper()
	creation, _ := clientConfigs(t)
	return creation.CABundle
}

// webhookSecret is what the installed webhook keeps its certificates in.
func webhookSecret(t testing.TB) *corev1.Secret {
	t.Helper()
	secret, err := nodekeep.Admin.CoreV1().Secrets(harness.Namespace).Get(t.Context(), "nodekeep-webhook-tls", metav1.GetOptions{})
	require.NoError(t, err)
	return secret
}
