package doctor

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The webhooks that nodekeep serves.
const (
	restoreHook   = "restore.nodekeep.dev"
	protectedHook = "restore-protected.nodekeep.dev"
	deletionHook  = "capture.nodekeep.dev"
)

// What the API server takes where a configuration says nothing (admissionregistration.k8s.io/v1).
const (
	defaultTimeout = 10
	defaultFailure = admissionregistrationv1.Fail
	defaultPort    = 443
)

// hook is an entry of a webhook configuration of either kind.
type hook struct {
	object string // the configuration
	index  int

	name       string
	client     admissionregistrationv1.WebhookClientConfig
	rules      []admissionregistrationv1.RuleWithOperations
	failure    *admissionregistrationv1.FailurePolicyType
	timeout    *int32
	selector   *metav1.LabelSelector
	conditions []admissionregistrationv1.MatchCondition
	again      bool // it is called again when another one has changed the object
}

// wanted is what a hook must be for nodekeep to work.
type wanted struct {
	name      string
	path      string
	operation admissionregistrationv1.OperationType
	without   string // what comes of it if the API server does not call it
}

func wantedRestore() wanted {
	return wanted{restoreHook, "/restore", admissionregistrationv1.Create, "no label comes back in the CREATE of a Node; Nodes wait behind the gate until capture has completed them"}
}

func wantedProtected() wanted {
	return wanted{protectedHook, "/restore-protected", admissionregistrationv1.Create, "protected labels are not restored in the CREATE although the policy says inline"}
}

func wantedDeletion() wanted {
	return wanted{deletionHook, "/capture", admissionregistrationv1.Delete, "an edit is lost if its Node is deleted before capture has heard of it"}
}

const (
	mutatingObject   = "mutatingwebhookconfiguration/" + Configuration
	validatingObject = "validatingwebhookconfiguration/" + Configuration
)

func (s Seen) mutatingHooks() (hooks []hook) {
	if !s.Mutating.Found {
		return nil
	}
	for i, entry := range s.Mutating.Value.Webhooks {
		hooks = append(hooks, hook{
			object: mutatingObject, index: i, name: entry.Name, client: entry.ClientConfig, rules: entry.Rules, failure: entry.FailurePolicy,
			timeout: entry.TimeoutSeconds, selector: entry.ObjectSelector, conditions: entry.MatchConditions,
			again: entry.ReinvocationPolicy != nil && *entry.ReinvocationPolicy == admissionregistrationv1.IfNeededReinvocationPolicy,
		})
	}
	return hooks
}

func (s Seen) validatingHooks() (hooks []hook) {
	if !s.Validating.Found {
		return nil
	}
	for i, entry := range s.Validating.Value.Webhooks {
		hooks = append(hooks, hook{
			object: validatingObject, index: i, name: entry.Name, client: entry.ClientConfig, rules: entry.Rules, failure: entry.FailurePolicy,
			timeout: entry.TimeoutSeconds, selector: entry.ObjectSelector, conditions: entry.MatchConditions,
		})
	}
	return hooks
}

func (s Seen) hooks() []hook { return slices.Concat(s.mutatingHooks(), s.validatingHooks()) }

// named finds a hook.
func named(hooks []hook, name string) (found hook, position int) {
	position = slices.IndexFunc(hooks, func(h hook) bool { return h.name == name })
	if position >= 0 {
		found = hooks[position]
	}
	return found, position
}

// field is the path of one of its fields in the configuration.
func (h hook) field(name string) string { return fmt.Sprintf("/webhooks/%d/%s", h.index, name) }

// set is the command that gives a field another value, JSON.
func (h hook) set(field, value string) []string {
	return []string{patch(h.object, h.field(field), value)}
}

// judge compares it with what it must be.
func (h hook) judge(want wanted, namespace string) (found []Finding) {
	find := func(severity Severity, what string, remedy Remedy) {
		found = append(found, Finding{Severity: severity, Object: h.object, What: h.name + ": " + what, Remedy: remedy})
	}
	if failure := valueOr(h.failure, defaultFailure); failure != admissionregistrationv1.Ignore {
		what := "failurePolicy " + string(failure) + ": while the webhook is down, no Node can join and no kubelet can restart"
		if want.operation == admissionregistrationv1.Delete {
			what = "failurePolicy " + string(failure) + ": while the webhook is down, no Node can be deleted"
		}
		find(Error, what, Remedy{Text: "Let the API server go on without it:", Commands: h.set("failurePolicy", `"Ignore"`)})
	}
	if timeout := valueOr(h.timeout, defaultTimeout); timeout > 1 {
		find(Warning, fmt.Sprintf("timeoutSeconds %d: a webhook that hangs holds up registrations, and with them the API server's share for Nodes' heartbeats", timeout),
			Remedy{Text: "One second is enough:", Commands: h.set("timeoutSeconds", "1")})
	}
	if !slices.ContainsFunc(h.rules, func(rule admissionregistrationv1.RuleWithOperations) bool { return matches(rule, want.operation) }) {
		find(Error, fmt.Sprintf("its rules do not match the %s of Nodes: %s", want.operation, want.without), reinstall())
	}
	if h.selector != nil && len(h.selector.MatchLabels)+len(h.selector.MatchExpressions) > 0 {
		find(Warning, "its objectSelector, "+metav1.FormatLabelSelector(h.selector)+", leaves Nodes out, and sees labels that a kubelet chooses",
			Remedy{Text: "Take it away:", Commands: h.set("objectSelector", "{}")})
	}
	if len(h.conditions) > 0 {
		find(Warning, "its matchConditions leave Nodes out: "+conditionNames(h.conditions), Remedy{Text: "Take them away:", Commands: h.set("matchConditions", "[]")})
	}
	if what := h.misdirected(want, namespace); what != "" {
		find(Error, what+": "+want.without, reinstall())
	}
	return found
}

// misdirected says where the API server calls, if that is not where nodekeep serves.
func (h hook) misdirected(want wanted, namespace string) string {
	if h.client.URL != nil {
		if at, err := url.Parse(*h.client.URL); err != nil || at.Path != want.path {
			return fmt.Sprintf("the API server calls %s, and nodekeep serves it at %s", *h.client.URL, want.path)
		}
		return ""
	}
	service := h.client.Service
	if service == nil {
		return "it names nowhere to call"
	}
	called := fmt.Sprintf("%s/%s:%d%s", service.Namespace, service.Name, valueOr(service.Port, defaultPort), valueOr(service.Path, ""))
	if right := fmt.Sprintf("%s/%s:%d%s", namespace, Service, defaultPort, want.path); called != right {
		return fmt.Sprintf("the API server calls Service %s, and nodekeep serves it at %s", called, right)
	}
	return ""
}

// host is the name that the API server expects in the certificate.
func (h hook) host() string {
	if h.client.URL != nil {
		if at, err := url.Parse(*h.client.URL); err == nil {
			return at.Hostname()
		}
	}
	if h.client.Service != nil {
		return h.client.Service.Name + "." + h.client.Service.Namespace + ".svc"
	}
	return ""
}

// matches reports whether a rule covers the operation on Nodes.
func matches(rule admissionregistrationv1.RuleWithOperations, operation admissionregistrationv1.OperationType) bool {
	covers := func(values []string, value string) bool {
		return slices.Contains(values, value) || slices.Contains(values, "*")
	}
	return (slices.Contains(rule.Operations, operation) || slices.Contains(rule.Operations, admissionregistrationv1.OperationAll)) &&
		covers(rule.APIGroups, "") && covers(rule.APIVersions, "v1") && slices.ContainsFunc(rule.Resources, coversNodes) &&
		valueOr(rule.Scope, admissionregistrationv1.AllScopes) != admissionregistrationv1.NamespacedScope
}

// coversNodes reports whether a resource of a rule stands for Nodes themselves: "nodes", "*", "nodes/*" or "*/*" does, "nodes/status" and
// "*/scale" do not (rules.Matcher in apiserver/pkg/admission/plugin/webhook/predicates of k8s.io/kubernetes).
func coversNodes(resource string) bool {
	name, part, _ := strings.Cut(resource, "/")
	return (name == "nodes" || name == "*") && (part == "" || part == "*")
}

func conditionNames(conditions []admissionregistrationv1.MatchCondition) string {
	var names []string
	for _, condition := range conditions {
		names = append(names, condition.Name)
	}
	return strings.Join(names, ", ")
}

func valueOr[T any](value *T, byDefault T) T {
	if value == nil {
		return byDefault
	}
	return *value
}
