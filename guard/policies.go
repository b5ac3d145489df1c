package guard

import (
	"fmt"
	"reflect"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"

	"nodekeep.dev/nodekeep/manifests"
)

// Names of the policies that keep kubelets from nodekeep's annotations. A binding has the name of its policy.
const (
	GuardName = "nodekeep-guard" // denies a kubelet's UPDATE that changes such an annotation
	StripName = "nodekeep-strip" // removes such annotations from a kubelet's CREATE
)

// VerifyName is the name of the policy that confines what the account of the verification controller may change of Nodes. Nothing that
// nodekeep believes depends on it, so it is none of [Policies].
const VerifyName = "nodekeep-verify"

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

	VerifyObject        = "validatingadmissionpolicy/" + VerifyName
	VerifyBindingObject = "validatingadmissionpolicybinding/" + VerifyName
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
	for _, object := range shipped.objects() {
		if reflect.ValueOf(object.policy).IsNil() {
			return Policies{}, fmt.Errorf("the manifests lack %s", object.name)
		}
	}
	return shipped, nil
}

// Problems is why these policies do not keep kubelets from nodekeep's annotations as the shipped ones do; none: they do. The failure
// policy makes no kubelet's annotation pass.
func (p Policies) Problems(shipped Policies) (problems []Problem) {
	comparison := manifests.Comparison{Ignored: sets.New("failurePolicy")}
	want := shipped.objects()
	for i, object := range p.objects() {
		if reflect.ValueOf(object.policy).IsNil() {
			problems = append(problems, Problem{object.name, "does not exist"})
			continue
		}
		for _, difference := range comparison.Differences(fields(want[i].policy), fields(object.policy)) {
			problems = append(problems, Problem{object.name, "has another spec: " + difference.String()})
		}
	}
	return problems
}

// fields are those of an object; it has none, and so differs, if it cannot be encoded.
func fields(object any) map[string]any {
	content, _ := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	return content
}

// named is one of the policies or bindings.
type named struct {
	name   string // as kubectl takes it
	policy any    // a pointer to it
}

func (p Policies) objects() []named {
	return []named{{GuardObject, p.Guard}, {GuardBindingObject, p.GuardBinding}, {StripObject, p.Strip}, {StripBindingObject, p.StripBinding}}
}
