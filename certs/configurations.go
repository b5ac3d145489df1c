package certs

import (
	"context"
	"errors"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/cert"
)

// fieldManager owns caBundle in managedFields.
const fieldManager = "nodekeep"

// configuration is a webhook configuration of either kind, reduced to what caBundle needs.
type configuration struct {
	kind            string
	resourceVersion string
	bundles         [][]byte // the caBundle of each webhook entry
	patch           func(ctx context.Context, patch []byte) error
}

// configurations reads the webhook configurations there are. Those that can be read are returned also with an error.
func (s *SelfSigned) configurations(ctx context.Context) ([]configuration, error) {
	api := s.client.AdmissionregistrationV1()
	mutating, errMutating := readConfiguration(ctx, s, "MutatingWebhookConfiguration", api.MutatingWebhookConfigurations(),
		func(read *admissionregistrationv1.MutatingWebhookConfiguration) (bundles [][]byte) {
			for _, entry := range read.Webhooks {
				bundles = append(bundles, entry.ClientConfig.CABundle)
			}
			return bundles
		})
	validating, errValidating := readConfiguration(ctx, s, "ValidatingWebhookConfiguration", api.ValidatingWebhookConfigurations(),
		func(read *admissionregistrationv1.ValidatingWebhookConfiguration) (bundles [][]byte) {
			for _, entry := range read.Webhooks {
				bundles = append(bundles, entry.ClientConfig.CABundle)
			}
			return bundles
		})
	return append(mutating, validating...), errors.Join(errMutating, errValidating)
}

// configurationClient is what the clients of both kinds have in common.
type configurationClient[T any] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
	Patch(ctx context.Context, name string, kind types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (T, error)
}

// readConfiguration returns one configuration, or none where it does not exist.
func readConfiguration[T metav1.Object](
	ctx context.Context, s *SelfSigned, kind string, client configurationClient[T], bundles func(T) [][]byte,
) ([]configuration, error) {
	read, err := client.Get(ctx, configurationsName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		s.log.DebugContext(ctx, "webhook configuration is absent, nothing to inject", "kind", kind, "name", configurationsName)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get %s %q: %w", kind, configurationsName, err)
	}
	patch := func(ctx context.Context, patch []byte) error {
		_, err := client.Patch(ctx, configurationsName, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
		return err
	}
	return []configuration{{kind: kind, resourceVersion: read.GetResourceVersion(), bundles: bundles(read), patch: patch}}, nil
}

// inject puts the bundle of st into every entry of the configurations. held says that they all had it before. A state without a CA is
// about to be replaced and is not published.
func (s *SelfSigned) inject(ctx context.Context, all []configuration, st state) (current bool, err error) {
	if st.ca.cert == nil {
		return false, nil
	}
	bundle, err := cert.EncodeCertificates(st.authorities()...)
	if err != nil {
		return false, fmt.Errorf("encode bundle: %w", err)
	}
	current = true
	var errs []error
	for _, c := range all {
		patch, err := bundlePatch(c.resourceVersion, c.bundles, bundle)
		if err == nil && patch != nil {
			current = false
			err = c.patch(ctx, patch)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("patch %s %q: %w", c.kind, configurationsName, err))
		} else if patch != nil {
			s.log.InfoContext(ctx, "bundle injected", "kind", c.kind, "name", configurationsName, "authorities", len(st.authorities()))
		}
	}
	return current, errors.Join(errs...)
}
