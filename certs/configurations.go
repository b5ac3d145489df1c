package certs

import (
	"context"
	"errors"
	"fmt"

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
	var found []configuration
	var errs []error
	for _, read := range []func(context.Context) (configuration, error){s.mutating, s.validating} {
		c, err := read(ctx)
		switch {
		case apierrors.IsNotFound(err):
			s.log.DebugContext(ctx, "webhook configuration is absent, nothing to inject", "kind", c.kind, "name", s.opts.Configurations)
		case err != nil:
			errs = append(errs, fmt.Errorf("get %s %q: %w", c.kind, s.opts.Configurations, err))
		default:
			found = append(found, c)
		}
	}
	return found, errors.Join(errs...)
}

func (s *SelfSigned) mutating(ctx context.Context) (configuration, error) {
	api, name := s.client.AdmissionregistrationV1().MutatingWebhookConfigurations(), s.opts.Configurations
	c := configuration{kind: "MutatingWebhookConfiguration"}
	read, err := api.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return c, err
	}
	c.resourceVersion = read.ResourceVersion
	for _, entry := range read.Webhooks {
		c.bundles = append(c.bundles, entry.ClientConfig.CABundle)
	}
	c.patch = patchWith(api, name)
	return c, nil
}

func (s *SelfSigned) validating(ctx context.Context) (configuration, error) {
	api, name := s.client.AdmissionregistrationV1().ValidatingWebhookConfigurations(), s.opts.Configurations
	c := configuration{kind: "ValidatingWebhookConfiguration"}
	read, err := api.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return c, err
	}
	c.resourceVersion = read.ResourceVersion
	for _, entry := range read.Webhooks {
		c.bundles = append(c.bundles, entry.ClientConfig.CABundle)
	}
	c.patch = patchWith(api, name)
	return c, nil
}

// patcher is what the clients of both kinds have in common.
type patcher[T any] interface {
	Patch(ctx context.Context, name string, kind types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (T, error)
}

func patchWith[T any](api patcher[T], name string) func(context.Context, []byte) error {
	return func(ctx context.Context, patch []byte) error {
		_, err := api.Patch(ctx, name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
		return err
	}
}

// inject puts the bundle of st into every entry of the configurations. held says that they all had it before. A state without a CA is
// about to be replaced and is not published.
func (s *SelfSigned) inject(ctx context.Context, all []configuration, st state) (held bool, err error) {
	if st.ca.cert == nil {
		return false, nil
	}
	bundle, err := cert.EncodeCertificates(st.authorities()...)
	if err != nil {
		return false, fmt.Errorf("encode bundle: %w", err)
	}
	held = true
	var errs []error
	for _, c := range all {
		patch, err := bundlePatch(c.resourceVersion, c.bundles, bundle)
		if err == nil && patch != nil {
			held = false
			err = c.patch(ctx, patch)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("patch %s %q: %w", c.kind, s.opts.Configurations, err))
		} else if patch != nil {
			s.log.InfoContext(ctx, "bundle injected", "kind", c.kind, "name", s.opts.Configurations, "authorities", len(st.authorities()))
		}
	}
	return held, errors.Join(errs...)
}
