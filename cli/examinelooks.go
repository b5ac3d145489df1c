package cli

import (
	"context"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/guard"
)

// API groups that are looked into.
const (
	groupAdmission    = admissionregistrationv1.GroupName
	groupRBAC         = rbacv1.GroupName
	groupApps         = "apps"
	groupCoordination = "coordination.k8s.io"
	groupDiscovery    = discoveryv1.GroupName
)

// getter is a client for one kind of object.
type getter[T any] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
}

// object is a look at one object by its name.
func object[T any](e *examination, into *doctor.Read[T], a access, client getter[T], name string) look {
	a.verb = "get"
	return look{read: reading(e, into, a, func(ctx context.Context) (T, error) { return client.Get(ctx, name, metav1.GetOptions{}) })}
}

// firstLooks read what stands by itself.
func (e *examination) firstLooks() []look {
	admission, seen := e.client.AdmissionregistrationV1(), &e.seen
	deployments := e.client.AppsV1().Deployments(e.namespace)
	configMaps := e.client.CoreV1().ConfigMaps(e.namespace)
	return []look{
		object(e, &seen.InCluster, e.toAll("", "", "namespaces"), e.client.CoreV1().Namespaces(), e.namespace),
		object(e, &seen.Mutating, e.toAll("", groupAdmission, "mutatingwebhookconfigurations"), admission.MutatingWebhookConfigurations(), doctor.Configuration),
		object(e, &seen.Validating, e.toAll("", groupAdmission, "validatingwebhookconfigurations"), admission.ValidatingWebhookConfigurations(), doctor.Configuration),
		object(e, &seen.Service, e.to("", "", "services"), e.client.CoreV1().Services(e.namespace), doctor.Service),
		object(e, &seen.Webhook, e.to("", groupApps, "deployments"), deployments, doctor.WebhookDeployment),
		object(e, &seen.Capture, e.to("", groupApps, "deployments"), deployments, doctor.CaptureDeployment),
		object(e, &seen.GatePolicy, e.toAll("", groupAdmission, "mutatingadmissionpolicies"), admission.MutatingAdmissionPolicies(), doctor.Gate),
		object(e, &seen.GateBinding, e.toAll("", groupAdmission, "mutatingadmissionpolicybindings"), admission.MutatingAdmissionPolicyBindings(), doctor.Gate),
		object(e, &seen.Guard, e.toAll("", groupAdmission, "validatingadmissionpolicies"), admission.ValidatingAdmissionPolicies(), guard.GuardName),
		object(e, &seen.GuardBinding, e.toAll("", groupAdmission, "validatingadmissionpolicybindings"), admission.ValidatingAdmissionPolicyBindings(), guard.GuardName),
		object(e, &seen.Strip, e.toAll("", groupAdmission, "mutatingadmissionpolicies"), admission.MutatingAdmissionPolicies(), guard.StripName),
		object(e, &seen.StripBinding, e.toAll("", groupAdmission, "mutatingadmissionpolicybindings"), admission.MutatingAdmissionPolicyBindings(), guard.StripName),
		object(e, &seen.GateRole, e.to("", groupRBAC, "roles"), e.client.RbacV1().Roles(e.namespace), doctor.Gate),
		object(e, &seen.GateSwitch, e.to("", groupRBAC, "rolebindings"), e.client.RbacV1().RoleBindings(e.namespace), doctor.Gate),
		object(e, &seen.Policy, e.to("", "", "configmaps"), configMaps, policyConfigMap),
		{read: reading(e, &seen.Endpoints, e.to("list", groupDiscovery, "endpointslices"), e.endpoints)},
		{read: reading(e, &seen.Pods, e.to("list", "", "pods"), e.pods)},
		{read: reading(e, &seen.GateServed, e.toAll("get", groupAdmission, "mutatingadmissionpolicies"), e.gateServed)},
		{read: reading(e, &seen.Leader, e.to("get", groupCoordination, "leases"), e.leader)},
		{read: e.lookAtYourRights, checks: []string{"your-rights"}},
	}
}

// laterLooks read what depends on that.
func (e *examination) laterLooks() []look {
	seen := &e.seen
	return append(e.ruleLooks(), []look{
		{read: reading(e, &seen.Certificate, e.to("get", "", "secrets"), e.certificate)},
		{read: e.lookAtNamed, checks: []string{"webhook-answers"}},
		{read: e.lookAtUnnamed, checks: []string{"gate-in-force"}},
		{read: reading(e, &seen.Accounts, e.toAll("create", groupAuthorization, "subjectaccessreviews"), e.accountRights), checks: []string{"account-rights"}},
		{read: reading(e, &seen.Records, e.toRecords("list"), e.lookAtRecords), checks: []string{"records", "quarantine"}},
		{read: reading(e, &seen.Strays, e.toRecords("list"), e.strays), checks: []string{"record-labels"}},
		{read: reading(e, &seen.Gated, e.toNodes("list"), e.gatedNodes), checks: []string{"gated-nodes"}},
	}...)
}

func (e *examination) endpoints(ctx context.Context) ([]discoveryv1.EndpointSlice, error) {
	list, err := e.client.DiscoveryV1().EndpointSlices(e.namespace).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + doctor.Service})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

func (e *examination) pods(ctx context.Context) ([]corev1.Pod, error) {
	list, err := e.client.CoreV1().Pods(e.namespace).List(ctx, metav1.ListOptions{LabelSelector: doctor.PodSelector})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// certificate is the Secret that the webhook serves from, without its private keys.
func (e *examination) certificate(ctx context.Context) (*corev1.Secret, error) {
	secret, err := e.client.CoreV1().Secrets(e.namespace).Get(ctx, doctor.ServingSecret(e.seen.Webhook), metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return doctor.Public(secret), nil
}
