package examine

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
	right := doctor.Right{Verb: "get", Group: resource.Group, Resource: resource.Resource, Namespace: namespace, Name: name}
	return reading(e, &object.Found, right, func(ctx context.Context) (*unstructured.Unstructured, error) {
		return e.Dynamic.Resource(resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	})
}

// nodePolicy returns the NodePolicy. If the API server has no such kind, that counts as a missing NodePolicy.
func (e *examination) nodePolicy(ctx context.Context) (*unstructured.Unstructured, error) {
	found, err := e.Dynamic.Resource(nodepolicy.Resource()).Get(ctx, doctor.PolicyName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		err = apierrors.NewNotFound(nodepolicy.Resource().GroupResource(), doctor.PolicyName)
	}
	return found, err
}

// firstLooks read what stands by itself.
func (e *examination) firstLooks() []look {
	seen, configMaps := &e.seen, e.Client.CoreV1().ConfigMaps(e.Namespace)
	slices := e.Client.DiscoveryV1().EndpointSlices(e.Namespace)
	ofService := metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + doctor.Service}
	ofPods := metav1.ListOptions{LabelSelector: doctor.PodSelector}
	looks := []look{
		{read: getting(e, &seen.InCluster, e.right("get", "", "namespaces"), e.Client.CoreV1().Namespaces(), e.Namespace)},
		{read: listing(e, &seen.Endpoints, e.right("list", discoveryv1.GroupName, "endpointslices"), slices, ofService)},
		{read: listing(e, &seen.Pods, e.right("list", "", "pods"), e.Client.CoreV1().Pods(e.Namespace), ofPods)},
		{read: reading(e, &seen.GateServed, wideRight("get", groupAdmission, "mutatingadmissionpolicies"), e.gateServed)},
		{read: reading(e, &seen.Leader, e.LeaseRight(capture.LeaseName), e.leaderOf(capture.LeaseName))},
		{read: reading(e, &seen.Policy, e.PolicyRight(), e.nodePolicy)},
		{read: getting(e, &seen.Accepted, e.RecordsRight("get"), configMaps, store.AcceptedName)},
		{read: getting(e, &seen.Inventory, e.RecordsRight("get"), configMaps, inventories.InventoryName), checks: []string{"inventory"}},
		{read: reading(e, &seen.Paused, e.EventsRight(), e.paused), checks: []string{"paused-items"}},
		{read: getting(e, &seen.EmergencyRole, e.EmergencyRight("roles"), e.Client.RbacV1().Roles(e.Namespace), manifests.EmergencyName)},
		{read: getting(e, &seen.EmergencyBinding, e.EmergencyRight("rolebindings"), e.Client.RbacV1().RoleBindings(e.Namespace), manifests.EmergencyName)},
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
	seen, core := &e.seen, e.Client.CoreV1()
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
		add(reading(e, &seen.Groups, doctor.Right{Verb: "get", Resource: "apis"}, e.apiGroups))
		toLedger := doctor.Right{Verb: "get", Resource: "configmaps", Namespace: namespace, Name: verify.LedgerMap}
		add(getting(e, &seen.Ledger, toLedger, core.ConfigMaps(namespace), verify.LedgerMap))
	}
	add(reading(e, &seen.VerifyLeader, e.LeaseRight(doctor.VerifyDeployment), e.leaderOf(doctor.VerifyDeployment)))
	add(getting(e, &seen.ChecksIn, wideRight("get", "", "namespaces"), core.Namespaces(), namespace))
	return looks
}

// profileLooks read what the profiles of the policy name. What is noted of Nodes depends on it.
func (e *examination) profileLooks() []look {
	return []look{{read: reading(e, &e.seen.Asked, e.right("get", appsv1.GroupName, "deployments"), e.profileFacts), checks: []string{"verification"}}}
}

// laterLooks read what depends on the policy and on what profileLooks read.
func (e *examination) laterLooks() []look {
	seen := &e.seen
	return append(append(e.ruleLooks(), e.verificationLooks()...), []look{
		{read: reading(e, &seen.Named, e.NodesRight("create"), e.dryRunNamed), checks: []string{"webhook-answers", "certificate", "ca-bundle"}},
		{read: reading(e, &seen.Unnamed, e.NodesRight("create"), e.dryRunUnnamed), checks: []string{"gate-in-force"}},
		{read: reading(e, &seen.Records, e.RecordsRight("list"), e.lookAtRecords), checks: []string{"records", "quarantine"}},
		{read: reading(e, &seen.Strays, e.RecordsRight("list"), e.unlabelledRecords), checks: []string{"record-labels"}},
		{read: reading(e, &seen.Migrations, e.NodesRight("list"), e.migrations), checks: []string{"migrations"}},
		{read: reading(e, &seen.Nodes, e.NodesRight("list"), e.lookAtNodes), checks: []string{"gated-nodes", "closed-nodes", "paused-items", "claimed-keys", "not-kept", "verification", "label-rules"}},
	}...)
}

// lastLooks read what the dry runs have not shown: the certificate, from the Secret that it is served from.
func (e *examination) lastLooks() []look {
	if e.seen.Served = e.certificates.first(); e.seen.Served != nil {
		return nil
	}
	return []look{{read: reading(e, &e.seen.Certificate, e.right("get", "", "secrets"), e.certificate), checks: []string{"certificate", "ca-bundle"}}}
}

// certificate returns the Secret that the webhook serves from, without its private keys.
func (e *examination) certificate(ctx context.Context) (*corev1.Secret, error) {
	secret, err := e.Client.CoreV1().Secrets(e.Namespace).Get(ctx, e.seen.ServingSecret(), metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return doctor.Public(secret), nil
}
