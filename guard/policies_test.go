package guard

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// served are the shipped policies as an API server completes them.
func served(t *testing.T) Policies {
	t.Helper()
	policies, err := Shipped()
	require.NoError(t, err)
	equivalent := admissionregistrationv1.Equivalent
	for _, constraints := range []*admissionregistrationv1.MatchResources{policies.Guard.Spec.MatchConstraints, policies.Strip.Spec.MatchConstraints} {
		constraints.MatchPolicy, constraints.NamespaceSelector, constraints.ObjectSelector = &equivalent, &metav1.LabelSelector{}, &metav1.LabelSelector{}
	}
	return policies
}

func TestGuardPoliciesThatDoNotDoTheirWorkCountAsMissing(t *testing.T) {
	shipped, err := Shipped()
	require.NoError(t, err)
	assert.Empty(t, shipped.Problems(shipped))
	assert.Empty(t, served(t).Problems(shipped))
	some := &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	exact, fail := admissionregistrationv1.Exact, admissionregistrationv1.Fail
	never := admissionregistrationv1.MatchCondition{Name: "never", Expression: "false"}
	for name, c := range map[string]struct {
		change func(*Policies)
		object string
	}{
		"no guard":                       {func(p *Policies) { p.Guard = nil }, GuardObject},
		"no binding of the guard":        {func(p *Policies) { p.GuardBinding = nil }, GuardBindingObject},
		"no strip":                       {func(p *Policies) { p.Strip = nil }, StripObject},
		"no binding of the strip":        {func(p *Policies) { p.StripBinding = nil }, StripBindingObject},
		"the guard allows all":           {func(p *Policies) { p.Guard.Spec.Validations[0].Expression = "true" }, GuardObject},
		"the guard validates nothing":    {func(p *Policies) { p.Guard.Spec.Validations = nil }, GuardObject},
		"the guard forgets nodes/status": {func(p *Policies) { p.Guard.Spec.MatchConstraints.ResourceRules[0].Resources = []string{"nodes"} }, GuardObject},
		"the guard is for some Nodes":    {func(p *Policies) { p.Guard.Spec.MatchConstraints.ObjectSelector = some }, GuardObject},
		"the guard is for some names":    {func(p *Policies) { p.Guard.Spec.MatchConstraints.ResourceRules[0].ResourceNames = []string{"a"} }, GuardObject},
		"the guard leaves some out": {func(p *Policies) {
			p.Guard.Spec.MatchConstraints.ExcludeResourceRules = p.Guard.Spec.MatchConstraints.ResourceRules
		}, GuardObject},
		"the guard is for this version only": {func(p *Policies) { p.Guard.Spec.MatchConstraints.MatchPolicy = &exact }, GuardObject},
		"the guard has no constraints":       {func(p *Policies) { p.Guard.Spec.MatchConstraints = nil }, GuardObject},
		"the guard has one condition more":   {func(p *Policies) { p.Guard.Spec.MatchConditions = append(p.Guard.Spec.MatchConditions, never) }, GuardObject},
		"the guard has another condition":    {func(p *Policies) { p.Guard.Spec.MatchConditions[0].Expression = "false" }, GuardObject},
		"the guard waits for a parameter":    {func(p *Policies) { p.Guard.Spec.ParamKind = &admissionregistrationv1.ParamKind{} }, GuardObject},
		"the guard only warns": {func(p *Policies) {
			p.GuardBinding.Spec.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Warn}
		}, GuardBindingObject},
		"the binding is for something else": {func(p *Policies) { p.GuardBinding.Spec.PolicyName = "other" }, GuardBindingObject},
		"the binding is for some Nodes": {func(p *Policies) {
			p.GuardBinding.Spec.MatchResources = &admissionregistrationv1.MatchResources{ObjectSelector: some}
		}, GuardBindingObject},
		"the binding has a parameter":     {func(p *Policies) { p.GuardBinding.Spec.ParamRef = &admissionregistrationv1.ParamRef{} }, GuardBindingObject},
		"the strip mutates nothing":       {func(p *Policies) { p.Strip.Spec.Mutations = nil }, StripObject},
		"the strip has other mutations":   {func(p *Policies) { p.Strip.Spec.Mutations = p.Strip.Spec.Mutations[1:] }, StripObject},
		"the strip has another condition": {func(p *Policies) { p.Strip.Spec.MatchConditions[0].Expression = "false" }, StripObject},
		"the strip is for something else": {func(p *Policies) { p.Strip.Spec.MatchConstraints.ResourceRules[0].Resources = []string{"pods"} }, StripObject},
		"the strip runs after the webhook": {func(p *Policies) {
			p.Strip.Spec.ReinvocationPolicy = admissionregistrationv1.IfNeededReinvocationPolicy
		}, StripObject},
		"the strip waits for a parameter":    {func(p *Policies) { p.Strip.Spec.ParamKind = &admissionregistrationv1.ParamKind{} }, StripObject},
		"the strip's binding is for another": {func(p *Policies) { p.StripBinding.Spec.PolicyName = "other" }, StripBindingObject},
		"the strip's binding is for some": {func(p *Policies) {
			p.StripBinding.Spec.MatchResources = &admissionregistrationv1.MatchResources{ObjectSelector: some}
		}, StripBindingObject},
		"the strip's binding has parameters": {func(p *Policies) { p.StripBinding.Spec.ParamRef = &admissionregistrationv1.ParamRef{} }, StripBindingObject},
		"it fails closed":                    {func(p *Policies) { p.Guard.Spec.FailurePolicy = &fail }, ""},
		"another message":                    {func(p *Policies) { p.Guard.Spec.Validations[0].Message = "no" }, ""},
		"it also audits": {func(p *Policies) {
			p.GuardBinding.Spec.ValidationActions = append(p.GuardBinding.Spec.ValidationActions, admissionregistrationv1.Audit)
		}, ""},
		"other labels": {func(p *Policies) { p.Strip.Labels = nil }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			found := served(t)
			c.change(&found)
			problems := found.Problems(shipped)
			if c.object == "" {
				assert.Empty(t, problems)
				return
			}
			require.Len(t, problems, 1)
			assert.Equal(t, c.object, problems[0].Object)
		})
	}
}
