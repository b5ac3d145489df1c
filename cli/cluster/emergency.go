package cluster

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/manifests"
	"nodekeep.dev/nodekeep/nodepolicy"
)

// GetEmergencyObjects returns the pair of objects that declare an emergency, as the cluster has them; nil: there is none.
func (c *Cluster) GetEmergencyObjects(ctx context.Context) (role *rbacv1.Role, binding *rbacv1.RoleBinding, err error) {
	rbac := c.Client.RbacV1()
	binding, err = rbac.RoleBindings(c.Namespace).Get(ctx, manifests.EmergencyName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		binding = nil
	case err != nil:
		return nil, nil, c.ExplainError(c.EmergencyRight("rolebindings"), err)
	}
	role, err = rbac.Roles(c.Namespace).Get(ctx, manifests.EmergencyName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		role = nil
	case err != nil:
		return nil, nil, c.ExplainError(c.EmergencyRight("roles"), err)
	}
	return role, binding, nil
}

// GetEmergency returns the state of an emergency, as capture and verify see it: whether one is declared, and since when.
func (c *Cluster) GetEmergency(ctx context.Context) (view.EmergencyState, error) {
	role, binding, err := c.GetEmergencyObjects(ctx)
	if err != nil || !(nodepolicy.Declaration{Bound: nodepolicy.Binds(binding), Granted: nodepolicy.Grants(role)}).Holds() {
		return view.EmergencyState{}, err
	}
	return view.EmergencyState{Active: true, Created: binding.CreationTimestamp}, nil
}
