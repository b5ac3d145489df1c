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

// admissionGroup is the API group of admission policies and webhook configurations.
const admissionGroup = admissionregistrationv1.GroupName

// object reads one object that is compared with the shipped one.
func (e *examination) object(object *doctor.Object) func(context.Context) {
	namespace, name := object.Shipped.GetNamespace(), object.Shipped.GetName()
	resource, _ := meta.UnsafeGuessKindToResource(object.Shipped.GroupVersionKind())
	right := doctor.Right{Verb: "get", Group: resource.Group, Resource: resource.Resource, Namespace: namespace, Name: name}
	return readInto(e, &object.Live, right, func(ctx context.Context) (*unstructured.Unstructured, error) {
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
	serviceSelector := metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + doctor.WebhookServiceName}
	podSelector := metav1.ListOptions{LabelSelector: doctor.PodSelector}
	looks := []look{
		{read: getInto(e, &seen.NamespaceObject, e.right("get", "", "namespaces"), e.Client.CoreV1().Namespaces(), e.Namespace)},
		{read: listInto(e, &seen.Endpoints, e.right("list", discoveryv1.GroupName, "endpointslices"), slices, serviceSelector)},
		{read: listInto(e, &seen.Pods, e.right("list", "", "pods"), e.Client.CoreV1().Pods(e.Namespace), podSelector)},
		{read: readInto(e, &seen.MutatingPoliciesServed, clusterRight("get", admissionGroup, "mutatingadmissionpolicies"), e.mutatingPoliciesServed)},
		{read: readInto(e, &seen.CaptureLease, e.LeaseRight(capture.LeaseName), e.leaderOf(capture.LeaseName))},
		{read: readInto(e, &seen.Policy, e.PolicyRight(), e.nodePolicy)},
		{read: getInto(e, &seen.AcceptedConfigMap, e.RecordsRight("get"), configMaps, store.AcceptedConfigMap)},
		{read: getInto(e, &seen.Inventory, e.RecordsRight("get"), configMaps, inventories.InventoryName), checks: []string{"inventory"}},
		{read: readInto(e, &seen.ItemsPaused, e.EventsRight(), e.paused), checks: []string{"paused-items"}},
		{read: getInto(e, &seen.EmergencyRole, e.EmergencyRight("roles"), e.Client.RbacV1().Roles(e.Namespace), manifests.EmergencyName)},
		{read: getInto(e, &seen.EmergencyBinding, e.EmergencyRight("rolebindings"), e.Client.RbacV1().RoleBindings(e.Namespace), manifests.EmergencyName)},
		{read: e.lookAtCallerRights, checks: []string{"your-rights"}},
	}
	for i := range seen.ComparedObjects {
		if seen.ComparedObjects[i].Shipped.GetNamespace() != verify.Namespace {
			looks = append(looks, look{read: e.object(&seen.ComparedObjects[i])})
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
	seen.ComparedObjects = append(seen.ComparedObjects, seen.LookupRoles()...)
	for i := range seen.ComparedObjects {
		object := &seen.ComparedObjects[i]
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
		add(readInto(e, &seen.APIGroups, doctor.Right{Verb: "get", Resource: "apis"}, e.apiGroups))
		toLedger := doctor.Right{Verb: "get", Resource: "configmaps", Namespace: namespace, Name: verify.LedgerMap}
		add(getInto(e, &seen.Ledger, toLedger, core.ConfigMaps(namespace), verify.LedgerMap))
	}
	add(readInto(e, &seen.VerifyLease, e.LeaseRight(doctor.VerifyDeployment), e.leaderOf(doctor.VerifyDeployment)))
	add(getInto(e, &seen.ChecksNamespaceObject, clusterRight("get", "", "namespaces"), core.Namespaces(), namespace))
	return looks
}

// profileLooks read what the profiles of the policy name. What is noted of Nodes depends on it.
func (e *examination) profileLooks() []look {
	return []look{{read: readInto(e, &e.seen.ProfileFacts, e.right("get", appsv1.GroupName, "deployments"), e.profileFacts), checks: []string{"verification"}}}
}

// laterLooks read what depends on the policy and on what profileLooks read.
func (e *examination) laterLooks() []look {
	seen := &e.seen
	return append(append(e.ruleLooks(), e.verificationLooks()...), []look{
		{read: readInto(e, &seen.NamedDryRuns, e.NodesRight("create"), e.dryRunNamed), checks: []string{"webhook-answers", "certificate", "ca-bundle"}},
		{read: readInto(e, &seen.UnnamedDryRun, e.NodesRight("create"), e.dryRunUnnamed), checks: []string{"gate-in-force"}},
		{read: readInto(e, &seen.Records, e.RecordsRight("list"), e.lookAtRecords), checks: []string{"records", "quarantine"}},
		{read: readInto(e, &seen.UnlabelledRecords, e.RecordsRight("list"), e.unlabelledRecords), checks: []string{"record-labels"}},
		{read: readInto(e, &seen.Migrations, e.NodesRight("list"), e.migrations), checks: []string{"migrations"}},
		{read: readInto(e, &seen.Nodes, e.NodesRight("list"), e.lookAtNodes), checks: []string{"gated-nodes", "closed-nodes", "paused-items", "claimed-keys", "not-kept", "verification", "label-rules"}},
	}...)
}

// lastLooks read what the dry runs have not shown: the certificate, from the Secret that it is served from.
func (e *examination) lastLooks() []look {
	if e.seen.ServedChain = e.certificates.earliestExpiring(); e.seen.ServedChain != nil {
		return nil
	}
	return []look{{read: readInto(e, &e.seen.Certificate, e.right("get", "", "secrets"), e.certificate), checks: []string{"certificate", "ca-bundle"}}}
}

// certificate returns the Secret that the webhook serves from, without its private keys.
func (e *examination) certificate(ctx context.Context) (*corev1.Secret, error) {
	secret, err := e.Client.CoreV1().Secrets(e.Namespace).Get(ctx, e.seen.ServingSecret(), metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return doctor.WithoutPrivateKey(secret), nil
}
