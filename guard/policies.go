package guard

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"nodekeep.dev/nodekeep/manifests"
)

// Names of the policies that keep kubelets from nodekeep's annotations. A binding has the name of its policy.
const (
	GuardName = "nodekeep-guard" // denies a kubelet's UPDATE that changes such an annotation
	StripName = "nodekeep-strip" // removes such annotations from a kubelet's CREATE
)

// Policies are the policies and their bindings; nil is one that does not exist.
type Policies struct {
	Guard        *admissionregistrationv1.ValidatingAdmissionPolicy
	GuardBinding *admissionregistrationv1.ValidatingAdmissionPolicyBinding
	Strip        *admissionregistrationv1.MutatingAdmissionPolicy
	StripBinding *admissionregistrationv1.MutatingAdmissionPolicyBinding
}

// Problem is why an object of the guard policies does not do its work.
type Problem struct {
	Object string // as kubectl takes it
	What   string
}

func (p Problem) String() string { return p.Object + " " + p.What }

// Objects of the guard policies, as kubectl takes them.
const (
	GuardObject        = "validatingadmissionpolicy/" + GuardName
	GuardBindingObject = "validatingadmissionpolicybinding/" + GuardName
	StripObject        = "mutatingadmissionpolicy/" + StripName
	StripBindingObject = "mutatingadmissionpolicybinding/" + StripName
)

// Shipped are those of the manifests.
func Shipped() (shipped Policies, err error) {
	into := map[string]any{
		"ValidatingAdmissionPolicy " + GuardName: &shipped.Guard, "ValidatingAdmissionPolicyBinding " + GuardName: &shipped.GuardBinding,
		"MutatingAdmissionPolicy " + StripName: &shipped.Strip, "MutatingAdmissionPolicyBinding " + StripName: &shipped.StripBinding,
	}
	for document := range strings.SplitSeq(manifests.Complete, "\n---\n") {
		var object metav1.PartialObjectMetadata
		if !strings.Contains(document, "AdmissionPolicy") || yaml.Unmarshal([]byte(document), &object) != nil {
			continue
		}
		target, is := into[object.Kind+" "+object.Name]
		if !is {
			continue
		}
		if err := yaml.UnmarshalStrict([]byte(document), target); err != nil {
			return Policies{}, fmt.Errorf("decode shipped %s %q: %w", object.Kind, object.Name, err)
		}
	}
	if missing := shipped.missing(); len(missing) > 0 {
		return Policies{}, fmt.Errorf("find shipped guard policies: %s", missing[0])
	}
	return shipped, nil
}

// Problems is why these policies do not keep kubelets from nodekeep's annotations as the shipped ones do; none: they do. It compares
// all that decides what a policy does. Messages, labels and the failure policy make no kubelet's annotation pass.
func (p Policies) Problems(shipped Policies) []Problem {
	problems := p.missing()
	differs := func(object, field string, same bool) {
		if !same {
			problems = append(problems, Problem{object, "does not have the " + field + " that nodekeep ships"})
		}
	}
	if p.Guard != nil {
		is, want := p.Guard.Spec, shipped.Guard.Spec
		differs(GuardObject, "matchConstraints", sameConstraints(is.MatchConstraints, want.MatchConstraints))
		differs(GuardObject, "matchConditions", equality.Semantic.DeepEqual(is.MatchConditions, want.MatchConditions))
		differs(GuardObject, "validations", slices.Equal(expressions(is.Validations), expressions(want.Validations)))
		differs(GuardObject, "parameters", is.ParamKind == nil)
	}
	if p.GuardBinding != nil {
		is := p.GuardBinding.Spec
		differs(GuardBindingObject, "policyName", is.PolicyName == GuardName)
		differs(GuardBindingObject, "validationActions", slices.Contains(is.ValidationActions, admissionregistrationv1.Deny))
		differs(GuardBindingObject, "matchResources", is.MatchResources == nil)
		differs(GuardBindingObject, "parameters", is.ParamRef == nil)
	}
	if p.Strip != nil {
		is, want := p.Strip.Spec, shipped.Strip.Spec
		differs(StripObject, "matchConstraints", sameConstraints(is.MatchConstraints, want.MatchConstraints))
		differs(StripObject, "matchConditions", equality.Semantic.DeepEqual(is.MatchConditions, want.MatchConditions))
		differs(StripObject, "mutations", equality.Semantic.DeepEqual(is.Mutations, want.Mutations))
		differs(StripObject, "reinvocationPolicy", is.ReinvocationPolicy == want.ReinvocationPolicy)
		differs(StripObject, "parameters", is.ParamKind == nil)
	}
	if p.StripBinding != nil {
		is := p.StripBinding.Spec
		differs(StripBindingObject, "policyName", is.PolicyName == StripName)
		differs(StripBindingObject, "matchResources", is.MatchResources == nil)
		differs(StripBindingObject, "parameters", is.ParamRef == nil)
	}
	return problems
}

// missing lists the objects that do not exist.
func (p Policies) missing() (problems []Problem) {
	for _, object := range []struct {
		name   string
		absent bool
	}{
		{GuardObject, p.Guard == nil}, {GuardBindingObject, p.GuardBinding == nil}, {StripObject, p.Strip == nil}, {StripBindingObject, p.StripBinding == nil},
	} {
		if object.absent {
			problems = append(problems, Problem{object.name, "does not exist"})
		}
	}
	return problems
}

func expressions(validations []admissionregistrationv1.Validation) (all []string) {
	for _, validation := range validations {
		all = append(all, validation.Expression)
	}
	return all
}

// sameConstraints compares constraints as the API server completes them.
func sameConstraints(a, b *admissionregistrationv1.MatchResources) bool {
	return a != nil && b != nil && equality.Semantic.DeepEqual(completed(*a), completed(*b))
}

func completed(constraints admissionregistrationv1.MatchResources) admissionregistrationv1.MatchResources {
	equivalent := admissionregistrationv1.Equivalent
	if constraints.MatchPolicy == nil {
		constraints.MatchPolicy = &equivalent
	}
	if constraints.NamespaceSelector == nil {
		constraints.NamespaceSelector = &metav1.LabelSelector{}
	}
	if constraints.ObjectSelector == nil {
		constraints.ObjectSelector = &metav1.LabelSelector{}
	}
	return constraints
}
