package bed

import (
	"context"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// hookName is that of the webhook configurations that the benchmarks make.
const hookName = "nodekeep-bench"

// restoreHook has the API server call at every CREATE of a Node, as the chart does.
func restoreHook(config admissionregistrationv1.WebhookClientConfig) *admissionregistrationv1.MutatingWebhookConfiguration {
	return &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: hookName},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name:                    "restore.bench.nodekeep.dev",
			AdmissionReviewVersions: []string{"v1"},
			ClientConfig:            config,
			Rules:                   nodes(admissionregistrationv1.Create),
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
			FailurePolicy:           ptr.To(admissionregistrationv1.Ignore),
			TimeoutSeconds:          ptr.To[int32](1),
		}},
	}
}

// captureHook has the API server call at every DELETE of a Node, as the chart does too.
func captureHook(config admissionregistrationv1.WebhookClientConfig) *admissionregistrationv1.ValidatingWebhookConfiguration {
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: hookName},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:                    "capture.bench.nodekeep.dev",
			AdmissionReviewVersions: []string{"v1"},
			ClientConfig:            config,
			Rules:                   nodes(admissionregistrationv1.Delete),
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNoneOnDryRun),
			FailurePolicy:           ptr.To(admissionregistrationv1.Ignore),
			TimeoutSeconds:          ptr.To[int32](1),
		}},
	}
}

func nodes(operation admissionregistrationv1.OperationType) []admissionregistrationv1.RuleWithOperations {
	return []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{operation},
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"nodes"}, Scope: ptr.To(admissionregistrationv1.ClusterScope),
		},
	}}
}

// clientConfig is where the API server finds who answers.
func (b *Bed) clientConfig(ctx context.Context, v Variant) admissionregistrationv1.WebhookClientConfig {
	var address string
	switch v.Answerer {
	case Nodekeep, deletions:
		address = b.webhook.reviews
		if v.At != nil {
			address = v.At.reviews
		}
	default:
		b.startReference(ctx)
		address = b.reference.address
	}
	return admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://" + address + string(v.Answerer)), CABundle: b.certificate}
}

// dropHooks takes the benchmarks' webhook configurations away, if they are there.
func (b *Bed) dropHooks(ctx context.Context) {
	hooks := b.Admin.AdmissionregistrationV1()
	require.NoError(b, ignoreNotFound(hooks.MutatingWebhookConfigurations().Delete(ctx, hookName, metav1.DeleteOptions{})))
	require.NoError(b, ignoreNotFound(hooks.ValidatingWebhookConfigurations().Delete(ctx, hookName, metav1.DeleteOptions{})))
}
