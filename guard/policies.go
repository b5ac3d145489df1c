package guard

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"nodekeep.dev/nodekeep/manifests"
)

// Names of the policies that keep kubelets from nodekeep's annotations. A binding has the name of its policy.
const (
	GuardName = "nodekeep-guard" // denies a kubelet's UPDATE that changes such an annotation
	StripName = "nodekeep-strip" // removes such annotations from every CREATE
)

// SelfTestName is the name of the policy that confines the kubelet of the webhook's self-test, and that of its Node. It is none of [Policies]
// either.
const SelfTestName = "nodekeep-self-test"

// verifyName is the name of the policy that confines what the account of the verification controller may change of Nodes. Nothing that
// nodekeep believes depends on it, so it is none of [Policies].
const verifyName = "nodekeep-verify"

// These policies and their bindings, as kubectl takes them.
const (
	GuardObject        = "validatingadmissionpolicy/" + GuardName
	GuardBindingObject = "validatingadmissionpolicybinding/" + GuardName
	StripObject        = "mutatingadmissionpolicy/" + StripName
	StripBindingObject = "mutatingadmissionpolicybinding/" + StripName
	VerifyObject       = "validatingadmissionpolicy/" + verifyName
)

// Policies are the policies that keep kubelets from nodekeep's annotations, and their bindings, by their names as kubectl takes them.
type Policies map[string]map[string]any

// objects returns the names of [Policies].
func objects() []string {
	return []string{GuardObject, GuardBindingObject, StripObject, StripBindingObject}
}

// Shipped returns those of the manifests.
func Shipped() (Policies, error) { return shippedAs(manifests.Namespace, objects()) }

// shippedAs returns the objects of these names, as the manifests have them for a namespace.
func shippedAs(namespace string, names []string) (Policies, error) {
	all, err := manifests.Objects(namespace, func(name string) bool { return slices.Contains(names, name) })
	if err != nil {
		return nil, err
	}
	shipped := Policies{}
	for _, object := range all {
		shipped[manifests.Name(object)] = object.Object
	}
	if len(shipped) != len(names) {
		return nil, fmt.Errorf("the manifests lack some of %s", strings.Join(names, ", "))
	}
	return shipped, nil
}

// Problems returns why these policies do not keep kubelets from nodekeep's annotations as the shipped ones do; none: they do. The failure
// policy makes no kubelet's annotation pass.
func (p Policies) Problems(shipped Policies) (problems []string) {
	return p.differences(shipped, objects(), manifests.Comparison{Ignored: sets.New("failurePolicy")})
}

// differences returns why the objects of these names are not as the shipped ones; none: they are.
func (p Policies) differences(shipped Policies, names []string, by manifests.Comparison) (problems []string) {
	for _, name := range names {
		found, exists := p[name]
		if !exists {
			problems = append(problems, name+" does not exist")
			continue
		}
		for _, difference := range by.Differences(shipped[name], found) {
			problems = append(problems, name+" has another spec: "+difference.String())
		}
	}
	return problems
}
