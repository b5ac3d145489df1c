package guard

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/kubernetes"

	"nodekeep.dev/nodekeep/manifests"
)

// Governance knows whether the API server goes by the section governance of the NodePolicy.
type Governance struct {
	Client    kubernetes.Interface
	Namespace string   // that nodekeep is installed in, which the policies name
	Names     []string // of the policies, and of their bindings
}

// ErrUnread says that the API server did not show its policies.
var ErrUnread = errors.New("read admission policies")

// Problem returns the first reason why a policy or binding is not as nodekeep ships it; nil: all are. An error of the API server wraps [ErrUnread].
func (g Governance) Problem(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, guardsTimeout)
	defer cancel()
	var names []string
	found, admission := Policies{}, g.Client.AdmissionregistrationV1()
	for _, name := range g.Names {
		policy, binding := "validatingadmissionpolicy/"+name, "validatingadmissionpolicybinding/"+name
		names = append(names, policy, binding)
		if err := errors.Join(add(ctx, found, policy, admission.ValidatingAdmissionPolicies()), add(ctx, found, binding, admission.ValidatingAdmissionPolicyBindings())); err != nil {
			return fmt.Errorf("%w: %w", ErrUnread, err)
		}
	}
	shipped, err := shippedAs(g.Namespace, names)
	if err != nil {
		return err
	}
	if problems := found.differences(shipped, names, manifests.Comparison{}); len(problems) > 0 {
		return errors.New(problems[0])
	}
	return nil
}
