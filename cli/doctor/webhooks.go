package doctor

import (
	"net/url"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// The webhooks whose order matters.
const (
	restoreHook   = "restore.nodekeep.dev"
	protectedHook = "restore-protected.nodekeep.dev"
)

// The webhooks of the ValidatingWebhookConfiguration.
const (
	deletionHook = "deletion.nodekeep.dev"
	policyHook   = "policy.nodekeep.dev"
)

// judgeRestoreWebhook judges whether the API server is configured to call the webhook for Nodes that register.
func judgeRestoreWebhook(seen Installation) answer {
	a := answer{okText: "configured for the CREATE of Nodes, fails open"}
	seen.compare(&a, checkRestore)
	position := func(name string) int {
		return slices.IndexFunc(seen.hooks(), func(h hook) bool { return h.name == name })
	}
	first, second := position(protectedHook), position(restoreHook)
	if seen.restoresInline() && seen.object(mutatingObject).Live.Found && (first < 0 || first > second) {
		a.add(Warning, mutatingObject, newRemedy("Install nodekeep with labels.protected inline, or say deferred in the policy."),
			"the policy says protected: inline, and there is no webhook %s before %s: protected labels are deferred", protectedHook, restoreHook)
	}
	return a
}

// callsDeletionHook reports whether the API server calls the webhook when a Node is deleted.
func (s Installation) callsDeletionHook() bool {
	return slices.ContainsFunc(s.hooks(), func(h hook) bool { return h.name == deletionHook })
}

// hook is where the API server calls a webhook of either kind, and whom it believes.
type hook struct {
	object string // the configuration
	index  int
	name   string
	client admissionregistrationv1.WebhookClientConfig
}

func (s Installation) hooks() (hooks []hook) {
	for _, object := range []string{mutatingObject, validatingObject} {
		configuration := decode[admissionregistrationv1.ValidatingWebhookConfiguration](s, object) // both kinds have what is needed here
		if !configuration.Found {
			continue
		}
		for i, entry := range configuration.Value.Webhooks {
			hooks = append(hooks, hook{object, i, entry.Name, entry.ClientConfig})
		}
	}
	return hooks
}

// host returns the name that the API server expects in the certificate.
func (h hook) host() string {
	if h.client.URL != nil {
		if address, err := url.Parse(*h.client.URL); err == nil {
			return address.Hostname()
		}
	}
	if h.client.Service != nil {
		return h.client.Service.Name + "." + h.client.Service.Namespace + ".svc"
	}
	return ""
}
