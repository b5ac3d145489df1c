package cli

import (
	"context"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"nodekeep.dev/nodekeep/capture"
	"nodekeep.dev/nodekeep/capture/inventories"
	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/governance"
	"nodekeep.dev/nodekeep/guard"
	"nodekeep.dev/nodekeep/manifests"
)

// admissionGroup is the API group of admission policies and webhook configurations.
const admissionGroup = admissionregistrationv1.GroupName

// managedObject is an object that a command deletes, creates or looks for.
type managedObject struct {
	kind, name string
	right      doctor.Right
	delete     func(context.Context, string, metav1.DeleteOptions) error
	get        func(context.Context) error
}

// objectClient is a typed client of one resource.
type objectClient[T any] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
}

// managedObjectOf returns the deletion of one object; the right has its group and namespace.
func managedObjectOf[T any](right doctor.Right, kind, name string, client objectClient[T]) managedObject {
	resource, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: kind})
	right.Verb, right.Resource, right.Name = "delete", resource.Resource, name
	return managedObject{kind: kind, name: name, right: right, delete: client.Delete, get: func(ctx context.Context) error {
		_, err := client.Get(ctx, name, metav1.GetOptions{})
		return err
	}}
}

// rightTo returns the right to do something else with the object than to delete it. RBAC cannot limit the right to create to a name.
func (o managedObject) rightTo(verb string) doctor.Right {
	right := o.right
	if right.Verb = verb; verb == "create" {
		right.Name = ""
	}
	return right
}

// gatingObjects returns the objects that add the gate to new Nodes.
func (o *nodeOpener) gatingObjects() []managedObject {
	admission := o.Client.AdmissionregistrationV1()
	return []managedObject{
		managedObjectOf(doctor.Right{Group: admissionGroup}, "MutatingAdmissionPolicyBinding", gateObjectName, admission.MutatingAdmissionPolicyBindings()),
		managedObjectOf(doctor.Right{Group: rbacv1.GroupName, Namespace: o.Namespace}, "RoleBinding", gateObjectName, o.Client.RbacV1().RoleBindings(o.Namespace)),
		managedObjectOf(doctor.Right{Group: admissionGroup}, "MutatingWebhookConfiguration", webhookConfigurationName, admission.MutatingWebhookConfigurations()),
	}
}

// declarationObjects returns the objects that declare an emergency.
func (o *nodeOpener) declarationObjects() []managedObject {
	rbac, right := o.Client.RbacV1(), doctor.Right{Group: rbacv1.GroupName, Namespace: o.Namespace}
	return []managedObject{
		managedObjectOf(right, "RoleBinding", manifests.EmergencyName, rbac.RoleBindings(o.Namespace)),
		managedObjectOf(right, "Role", manifests.EmergencyName, rbac.Roles(o.Namespace)),
	}
}

// objectsDeletedLast returns the objects that are deleted last: the guard policies, which capture needs while Nodes have the gate, and the governance
// policies and the ConfigMap of inventories, which no manifest has.
func (u *uninstallRun) objectsDeletedLast() []managedObject {
	admission := u.Client.AdmissionregistrationV1()
	var objects []managedObject
	for _, name := range governance.PolicyNames() {
		objects = append(objects,
			managedObjectOf(doctor.Right{Group: admissionGroup}, "ValidatingAdmissionPolicyBinding", name, admission.ValidatingAdmissionPolicyBindings()),
			managedObjectOf(doctor.Right{Group: admissionGroup}, "ValidatingAdmissionPolicy", name, admission.ValidatingAdmissionPolicies()))
	}
	return append(objects,
		managedObjectOf(doctor.Right{Group: admissionGroup}, "MutatingAdmissionPolicyBinding", guard.StripName, admission.MutatingAdmissionPolicyBindings()),
		managedObjectOf(doctor.Right{Group: admissionGroup}, "MutatingAdmissionPolicy", guard.StripName, admission.MutatingAdmissionPolicies()),
		managedObjectOf(doctor.Right{Group: admissionGroup}, "ValidatingAdmissionPolicyBinding", guard.GuardName, admission.ValidatingAdmissionPolicyBindings()),
		managedObjectOf(doctor.Right{Group: admissionGroup}, "ValidatingAdmissionPolicy", guard.GuardName, admission.ValidatingAdmissionPolicies()),
		managedObjectOf(doctor.Right{Namespace: u.Namespace}, "ConfigMap", inventories.InventoryName, u.Client.CoreV1().ConfigMaps(u.Namespace)),
	)
}

// plan shows what a run would delete and change now. An object that the caller may not read is listed too.
func (u *uninstallRun) plan(ctx context.Context) (plan view.Uninstall, err error) {
	keys, err := u.verificationKeys(ctx)
	if err != nil {
		return plan, err
	}
	plan.Cluster, plan.Namespace = u.Config.Host, u.Namespace
	if plan.Gated, err = u.nodesToFree(ctx, u.gateRemoval(time.Time{})); err != nil {
		return plan, err
	}
	if plan.Unverified, err = u.nodesToFree(ctx, verificationTaints(keys)); err != nil {
		return plan, err
	}
	if plan.Objects, err = u.plannedSteps(ctx, append(u.gatingObjects(), u.objectsDeletedLast()...)); err != nil {
		return plan, err
	}
	if plan.Leases, err = u.leases(ctx); err != nil {
		return plan, err
	}
	plan.Emergency, err = u.emergencyRemainder(ctx)
	return plan, err
}

// emergencyRemainder returns how to end the emergency, which no step ends: verify would close Nodes again before it is deleted. Empty: no object
// of an emergency exists.
func (u *uninstallRun) emergencyRemainder(ctx context.Context) (stays string, err error) {
	end := "; once nodekeep is deleted, end it: kubectl -n " + u.Namespace + " delete rolebinding,role " + manifests.EmergencyName
	for _, object := range u.declarationObjects() {
		switch err := object.get(ctx); {
		case apierrors.IsNotFound(err):
		case apierrors.IsForbidden(err):
			stays = "an emergency, if one is declared (you may not read it)" + end
		case err != nil:
			return "", fmt.Errorf("get %s %q: %w", object.kind, object.name, u.ExplainError(object.rightTo("get"), err))
		default:
			return "the emergency" + end, nil
		}
	}
	return stays, nil
}

// plannedSteps returns what deletes of these objects would do now.
func (o *nodeOpener) plannedSteps(ctx context.Context, objects []managedObject) (all []view.ObjectStep, err error) {
	for _, object := range objects {
		state := "to be deleted"
		switch err := object.get(ctx); {
		case apierrors.IsNotFound(err):
			state = "not there"
		case apierrors.IsForbidden(err):
			state = "to be deleted, if it is there: you may not read it"
		case err != nil:
			return nil, fmt.Errorf("get %s %q: %w", object.kind, object.name, o.ExplainError(object.rightTo("get"), err))
		}
		all = append(all, view.ObjectStep{Kind: object.kind, Name: object.name, Step: state})
	}
	return all, nil
}

// leases returns the names of the Leases of processes, which no step deletes. One that the caller may not read is named, too.
func (u *uninstallRun) leases(ctx context.Context) (names []string, err error) {
	for _, name := range []string{capture.LeaseName, doctor.VerifyDeployment} {
		switch _, err := u.Client.CoordinationV1().Leases(u.Namespace).Get(ctx, name, metav1.GetOptions{}); {
		case apierrors.IsNotFound(err):
			continue
		case apierrors.IsForbidden(err):
			name += " (if it is there: you may not read it)"
		case err != nil:
			return nil, fmt.Errorf("get Lease %q: %w", name, u.ExplainError(u.LeaseRight(name), err))
		}
		names = append(names, name)
	}
	return names, nil
}
