package cli

import (
	"context"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"nodekeep.dev/nodekeep/cli/doctor"
)

// API groups that are looked into.
const (
	groupAdmission    = admissionregistrationv1.GroupName
	groupCoordination = "coordination.k8s.io"
	groupDiscovery    = discoveryv1.GroupName
)

// object is a look at one object of the manifests.
func (e *examination) object(object *doctor.Object) look {
	shipped := object.Shipped
	kind := shipped.GroupVersionKind()
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	a := access{verb: "get", group: kind.Group, resource: resource.Resource, namespace: shipped.GetNamespace()}
	return look{read: reading(e, &object.Found, a, func(ctx context.Context) (*unstructured.Unstructured, error) {
		return e.dynamic.Resource(resource).Namespace(shipped.GetNamespace()).Get(ctx, shipped.GetName(), metav1.GetOptions{})
	})}
}

// firstLooks read what stands by itself.
func (e *examination) firstLooks() []look {
	seen := &e.seen
	looks := []look{
		{read: reading(e, &seen.InCluster, e.to("get", "", "namespaces"), func(ctx context.Context) (*corev1.Namespace, error) {
			return e.client.CoreV1().Namespaces().Get(ctx, e.namespace, metav1.GetOptions{})
		})},
		{read: reading(e, &seen.Endpoints, e.to("list", groupDiscovery, "endpointslices"), e.endpoints)},
		{read: reading(e, &seen.Pods, e.to("list", "", "pods"), e.pods)},
		{read: reading(e, &seen.GateServed, e.toAll("get", groupAdmission, "mutatingadmissionpolicies"), e.gateServed)},
		{read: reading(e, &seen.Leader, e.to("get", groupCoordination, "leases"), e.leader)},
		{read: e.lookAtYourRights, checks: []string{"your-rights"}},
	}
	for i := range seen.Objects {
		looks = append(looks, e.object(&seen.Objects[i]))
	}
	return looks
}

// laterLooks read what depends on that.
func (e *examination) laterLooks() []look {
	seen := &e.seen
	return append(e.ruleLooks(), []look{
		{read: reading(e, &seen.Certificate, e.to("get", "", "secrets"), e.certificate)},
		{read: e.lookAtNamed, checks: []string{"webhook-answers"}},
		{read: e.lookAtUnnamed, checks: []string{"gate-in-force"}},
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
	secret, err := e.client.CoreV1().Secrets(e.namespace).Get(ctx, e.seen.ServingSecret(), metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return doctor.Public(secret), nil
}
