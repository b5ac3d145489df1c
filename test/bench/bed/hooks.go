package bed

import (
	"context"
	"slices"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// hookName is that of the webhook configurations that the benchmarks make.
const hookName = "nodekeep-bench"

// takeShipped takes the shipped webhook configurations away. The benchmarks add them again under other names.
func (b *Bed) takeShipped(ctx context.Context) {
	hooks := b.Admin.AdmissionregistrationV1()
	mutating, validating := hooks.MutatingWebhookConfigurations(), hooks.ValidatingWebhookConfigurations()
	restore, err := mutating.Get(ctx, "nodekeep", metav1.GetOptions{})
	require.NoError(b, err)
	capture, err := validating.Get(ctx, "nodekeep", metav1.GetOptions{})
	require.NoError(b, err)
	i := slices.IndexFunc(capture.Webhooks, func(hook admissionregistrationv1.ValidatingWebhook) bool { return hook.Name == "deletion.nodekeep.dev" })
	require.GreaterOrEqual(b, i, 0)
	b.restoreHook, b.captureHook = restore.Webhooks[0], capture.Webhooks[i]
	b.restoreHook.Name, b.captureHook.Name = "restore.bench.nodekeep.dev", "capture.bench.nodekeep.dev"
	require.NoError(b, mutating.Delete(ctx, "nodekeep", metav1.DeleteOptions{}))
	require.NoError(b, validating.Delete(ctx, "nodekeep", metav1.DeleteOptions{}))
}

// reviewCreates has the API server call at every CREATE of a Node, as the chart does.
func (b *Bed) reviewCreates(ctx context.Context, v Variant) {
	hook := b.restoreHook
	hook.ClientConfig = b.clientConfig(ctx, v)
	_, err := b.Admin.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(ctx, &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: hookName}, Webhooks: []admissionregistrationv1.MutatingWebhook{hook},
	}, metav1.CreateOptions{})
	require.NoError(b, err)
}

// reviewDeletes has the API server call nodekeep at every DELETE of a Node, as the chart does too.
func (b *Bed) reviewDeletes(ctx context.Context) {
	hook := b.captureHook
	hook.ClientConfig = b.clientConfig(ctx, Variant{Answerer: deletions})
	_, err := b.Admin.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: hookName}, Webhooks: []admissionregistrationv1.ValidatingWebhook{hook},
	}, metav1.CreateOptions{})
	require.NoError(b, err)
}

// clientConfig returns where the API server finds who answers.
func (b *Bed) clientConfig(ctx context.Context, v Variant) admissionregistrationv1.WebhookClientConfig {
	var address string
	switch v.Answerer {
	case Nodekeep, deletions:
		address = b.webhook.reviews
		if v.Program != nil {
			address = v.Program.reviews
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
