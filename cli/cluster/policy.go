package cluster

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"nodekeep.dev/nodekeep/cli/doctor"
	"nodekeep.dev/nodekeep/cli/view"
	"nodekeep.dev/nodekeep/nodepolicy"
	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/store"
)

// GetGateConfigMap returns the ConfigMap that holds the gate's key; nil: nodekeep is not installed in the namespace.
func (c *Cluster) GetGateConfigMap(ctx context.Context) (*corev1.ConfigMap, error) {
	return c.GetConfigMap(ctx, c.Namespace, doctor.GateObjectName)
}

// ErrNoPolicyCRD reports that the API server knows no NodePolicies.
var ErrNoPolicyCRD = errors.New("this cluster has no CustomResourceDefinition " + doctor.PolicyCRD)

// GetPolicyInForce returns the policy of the NodePolicy, or what is in force where it does not count. A NodePolicy that cannot be used is no error: the
// commands must work in just that incident.
func (c *Cluster) GetPolicyInForce(ctx context.Context, gate policy.Gate) (inForce nodepolicy.InForce, err error) {
	found, err := c.Dynamic.Resource(nodepolicy.Resource()).Get(ctx, doctor.PolicyName, metav1.GetOptions{})
	undecodable := apierrors.IsInternalError(err) || apierrors.IsStoreReadError(err) // the API server answers so if it cannot decode the stored object
	if err != nil && !apierrors.IsNotFound(err) && !undecodable {
		return inForce, c.ExplainError(c.PolicyRight(), err)
	}
	var object []byte
	if err == nil {
		if object, err = found.MarshalJSON(); err != nil {
			return inForce, fmt.Errorf("read NodePolicy %s: %w", doctor.PolicyName, err)
		}
		if inForce = nodepolicy.InForceOf(object, nil, gate); inForce.Problem == nil {
			return inForce, nil
		}
	}
	state, stateErr := c.GetAcceptedConfigMap(ctx)
	if stateErr != nil {
		return inForce, stateErr
	}
	inForce = nodepolicy.InForceOf(object, ptr.Deref(state, corev1.ConfigMap{}).Data, gate)
	switch {
	case object != nil:
		inForce.Problem = errors.New("NodePolicy " + doctor.PolicyName + " cannot be used: " + view.ShortError(inForce.Problem))
	case undecodable && inForce.AcceptedKey == "": // it may be any policy
		return inForce, c.ExplainError(c.PolicyRight(), err)
	case undecodable:
		inForce.Problem = errors.New("NodePolicy " + doctor.PolicyName + " cannot be read: " + view.ShortError(err))
	case !store.IsGone(err):
		inForce.Problem = ErrNoPolicyCRD
	}
	return inForce, nil
}
