package guard

import (
	"context"
	"errors"
	"fmt"
	"strings"

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

// Problem is the first reason why a policy or binding is not as nodekeep ships it; nil: all are. An error of the API server wraps [ErrUnread].
func (g Governance) Problem(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, guardsTimeout)
	defer cancel()
	wanted := map[string]bool{}
	found, admission := Policies{}, g.Client.AdmissionregistrationV1()
	for _, name := range g.Names {
		policy, binding := "validatingadmissionpolicy/"+name, "validatingadmissionpolicybinding/"+name
		wanted[policy], wanted[binding] = true, true
		if err := errors.Join(add(ctx, found, policy, admission.ValidatingAdmissionPolicies()), add(ctx, found, binding, admission.ValidatingAdmissionPolicyBindings())); err != nil {
			return fmt.Errorf("%w: %w", ErrUnread, err)
		}
	}
	shipped, err := manifests.Objects(g.Namespace, func(name string) bool { return wanted[name] })
	if err != nil {
		return err
	}
	if len(shipped) != len(wanted) {
		return errors.New("the manifests lack policies of governance")
	}
	for _, object := range shipped {
		name := manifests.Name(object)
		is, exists := found[name]
		if !exists {
			return fmt.Errorf("%s does not exist", name)
		}
		if differences := (manifests.Comparison{}).Differences(object.Object, is); len(differences) > 0 {
			return fmt.Errorf("%s has another spec: %s", name, strings.TrimSpace(differences[0].String()))
		}
	}
	return nil
}
