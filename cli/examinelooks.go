package cli

import (
	"context"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/capture/inventories"
	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/manifests"
	"nodekeep.dev/nodekeep/nodepolicy"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/verify"
)

// groupAdmission is the API group of admission policies and webhook configurations.
const groupAdmission = admissionregistrationv1.GroupName

// object reads one object that is compared with the shipped one.
func (e *examination) object(object *doctor.Object) func(context.Context) {
	namespace, name := object.Shipped.GetNamespace(), object.Shipped.GetName()
	resource, _ := meta.UnsafeGuessKindToResource(object.Shipped.GroupVersionKind())
	a := access{verb: "get", group: resource.Group, resource: resource.Resource, namespace: namespace, name: name}
	return reading(e, &object.Found, a, func(ctx context.Context) (*unstructured.Unstructured, error) {
		return e.dynamic.Resource(resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	})
}

// nodePolicy returns the NodePolicy. It does not exist where the API server knows none, either.
func (e *examination) nodePolicy(ctx context.Context) (*unstructured.Unstructured, error) {
	found, err := e.dynamic.Resource(nodepolicy.Resource()).Get(ctx, doctor.PolicyName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		err = apierrors.NewNotFound(nodepolicy.Resource().GroupResource(), doctor.PolicyName)
	}
	return found, err
}

// firstLooks read what stands by itself.
func (e *examination) firstLooks() []look {
	seen, configMaps := &e.seen, e.client.CoreV1().ConfigMaps(e.namespace)
	slices := e.client.DiscoveryV1().EndpointSlices(e.namespace)
	ofService := metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + doctor.Service}
	ofBoth := metav1.ListOptions{LabelSelector: doctor.PodSelector}
	looks := []look{
		{read: getting(e, &seen.InCluster, e.to("get", "", "namespaces"), e.client.CoreV1().Namespaces(), e.namespace)},
		{read: listing(e, &seen.Endpoints, e.to("list", discoveryv1.GroupName, "endpointslices"), slices, ofService)},
		{read: listing(e, &seen.Pods, e.to("list", "", "pods"), e.client.CoreV1().Pods(e.namespace), ofBoth)},
		{read: reading(e, &seen.GateServed, e.toAll("get", groupAdmission, "mutatingadmissionpolicies"), e.gateServed)},
		{read: reading(e, &seen.Leader, e.toLease(capture.LeaseName), e.leaderOf(capture.LeaseName))},
		{read: reading(e, &seen.Policy, e.toPolicy(), e.nodePolicy)},
		{read: getting(e, &seen.Accepted, e.toRecords("get"), configMaps, store.AcceptedName)},
		{read: getting(e, &seen.Inventory, e.toRecords("get"), configMaps, inventories.InventoryName), checks: []string{"inventory"}},
		{read: reading(e, &seen.Paused, e.toEvents(), e.paused), checks: []string{"paused-items"}},
		{read: getting(e, &seen.EmergencyRole, e.toEmergency("roles"), e.client.RbacV1().Roles(e.namespace), manifests.EmergencyName)},
		{read: getting(e, &seen.EmergencyBinding, e.toEmergency("rolebindings"), e.client.RbacV1().RoleBindings(e.namespace), manifests.EmergencyName)},
		{read: e.lookAtYourRights, checks: []string{"your-rights"}},
	}
	for i := range seen.Objects {
		if seen.Objects[i].Shipped.GetNamespace() != verify.Namespace {
			looks = append(looks, look{read: e.object(&seen.Objects[i])})
		}
	}
	return looks
}

// verificationLooks read what belongs to verification, in the namespaces that its controller uses.
func (e *examination) verificationLooks() (looks []look) {
	seen, core := &e.seen, e.client.CoreV1()
	add := func(read func(context.Context)) {
		looks = append(looks, look{read: read, checks: []string{"verification"}})
	}
	namespace := seen.ChecksNamespace()
	seen.Objects = append(seen.Objects, seen.Lookups()...)
	for i := range seen.Objects {
		object := &seen.Objects[i]
		switch {
		case object.Shipped.GetName() == doctor.LookupRole:
		case object.Shipped.GetNamespace() == verify.Namespace:
			object.Shipped.SetNamespace(namespace)
		default:
			continue // it was read before
		}
		add(e.object(object))
	}
	if seen.Removes() {
		add(reading(e, &seen.Groups, access{verb: "get", resource: "apis"}, e.apiGroups))
		toLedger := access{verb: "get", resource: "configmaps", namespace: namespace, name: verify.LedgerMap}
		add(getting(e, &seen.Ledger, toLedger, core.ConfigMaps(namespace), verify.LedgerMap))
	}
	add(reading(e, &seen.VerifyLeader, e.toLease(doctor.VerifyDeployment), e.leaderOf(doctor.VerifyDeployment)))
	add(getting(e, &seen.ChecksIn, e.toAll("get", "", "namespaces"), core.Namespaces(), namespace))
	return looks
}

// profileLooks read what the profiles of the policy name. What is noted of Nodes depends on it.
func (e *examination) profileLooks() []look {
	return []look{{read: reading(e, &e.seen.Asked, e.to("get", appsv1.GroupName, "deployments"), e.asked), checks: []string{"verification"}}}
}

// laterLooks read what depends on that.
func (e *examination) laterLooks() []look {
	seen := &e.seen
	return append(append(e.ruleLooks(), e.verificationLooks()...), []look{
		{read: reading(e, &seen.Named, e.toNodes("create"), e.named), checks: []string{"webhook-answers", "certificate", "ca-bundle"}},
		{read: reading(e, &seen.Unnamed, e.toNodes("create"), e.unnamed), checks: []string{"gate-in-force"}},
		{read: reading(e, &seen.Records, e.toRecords("list"), e.lookAtRecords), checks: []string{"records", "quarantine"}},
		{read: reading(e, &seen.Strays, e.toRecords("list"), e.strays), checks: []string{"record-labels"}},
		{read: reading(e, &seen.Migrations, e.toNodes("list"), e.migrations), checks: []string{"migrations"}},
		{read: reading(e, &seen.Nodes, e.toNodes("list"), e.lookAtNodes), checks: []string{"gated-nodes", "closed-nodes", "paused-items", "claimed-keys", "not-kept", "verification", "label-rules"}},
	}...)
}

// lastLooks read what the dry runs have not shown: the certificate, from the Secret that it is served from.
func (e *examination) lastLooks() []look {
	if e.seen.Served = e.shown.first(); e.seen.Served != nil {
		return nil
	}
	return []look{{read: reading(e, &e.seen.Certificate, e.to("get", "", "secrets"), e.certificate), checks: []string{"certificate", "ca-bundle"}}}
}

// certificate returns the Secret that the webhook serves from, without its private keys.
func (e *examination) certificate(ctx context.Context) (*corev1.Secret, error) {
	secret, err := e.client.CoreV1().Secrets(e.namespace).Get(ctx, e.seen.ServingSecret(), metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return doctor.Public(secret), nil
}
