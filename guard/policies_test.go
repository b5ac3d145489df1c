package guard

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// served returns the shipped policies as an API server completes them.
func served(t *testing.T) Policies {
	t.Helper()
	policies, err := Shipped()
	require.NoError(t, err)
	for _, name := range []string{GuardObject, StripObject} {
		for field, value := range map[string]any{"matchPolicy": "Equivalent", "namespaceSelector": map[string]any{}, "objectSelector": map[string]any{}} {
			require.NoError(t, unstructured.SetNestedField(policies[name], value, "spec", "matchConstraints", field))
		}
	}
	return policies
}

func TestGuardPoliciesThatDoNotDoTheirWorkCountAsMissing(t *testing.T) {
	shipped, err := Shipped()
	require.NoError(t, err)
	assert.Empty(t, shipped.Problems(shipped))
	assert.Empty(t, served(t).Problems(shipped))
	for _, name := range objects() {
		found := served(t)
		delete(found, name)
		assert.Equal(t, []string{name + " does not exist"}, found.Problems(shipped))
	}
	const rule = "/spec/matchConstraints/resourceRules/0"
	const part = `{"matchLabels":{"a":"b"}}`
	for name, c := range map[string]struct{ object, operation string }{
		"the guard allows all":               {GuardObject, `"replace","path":"/spec/validations/0/expression","value":"true"`},
		"the guard validates nothing":        {GuardObject, `"remove","path":"/spec/validations"`},
		"the guard forgets nodes/status":     {GuardObject, `"replace","path":"` + rule + `/resources","value":["nodes"]`},
		"the guard is for some Nodes":        {GuardObject, `"replace","path":"/spec/matchConstraints/objectSelector","value":` + part},
		"the guard is for some names":        {GuardObject, `"add","path":"` + rule + `/resourceNames","value":["a"]`},
		"the guard leaves some out":          {GuardObject, `"copy","from":"/spec/matchConstraints/resourceRules","path":"/spec/matchConstraints/excludeResourceRules"`},
		"the guard is for this version only": {GuardObject, `"replace","path":"/spec/matchConstraints/matchPolicy","value":"Exact"`},
		"the guard has no constraints":       {GuardObject, `"remove","path":"/spec/matchConstraints"`},
		"the guard has one condition more":   {GuardObject, `"add","path":"/spec/matchConditions/-","value":{"name":"never","expression":"false"}`},
		"the guard has another condition":    {GuardObject, `"replace","path":"/spec/matchConditions/0/expression","value":"false"`},
		"the guard waits for a parameter":    {GuardObject, `"add","path":"/spec/paramKind","value":{}`},
		"the guard only warns":               {GuardBindingObject, `"replace","path":"/spec/validationActions","value":["Warn"]`},
		"the binding is for something else":  {GuardBindingObject, `"replace","path":"/spec/policyName","value":"other"`},
		"the binding is for some Nodes":      {GuardBindingObject, `"add","path":"/spec/matchResources","value":{"objectSelector":` + part + `}`},
		"the binding has a parameter":        {GuardBindingObject, `"add","path":"/spec/paramRef","value":{}`},
		"the strip mutates nothing":          {StripObject, `"remove","path":"/spec/mutations"`},
		"the strip has other mutations":      {StripObject, `"remove","path":"/spec/mutations/0"`},
		"the strip has another condition":    {StripObject, `"replace","path":"/spec/matchConditions/0/expression","value":"false"`},
		"the strip is for something else":    {StripObject, `"replace","path":"` + rule + `/resources","value":["pods"]`},
		"the strip runs after the webhook":   {StripObject, `"replace","path":"/spec/reinvocationPolicy","value":"IfNeeded"`},
		"the strip waits for a parameter":    {StripObject, `"add","path":"/spec/paramKind","value":{}`},
		"the strip's binding is for another": {StripBindingObject, `"replace","path":"/spec/policyName","value":"other"`},
		"the strip's binding is for some":    {StripBindingObject, `"add","path":"/spec/matchResources","value":{"objectSelector":` + part + `}`},
		"the strip's binding has parameters": {StripBindingObject, `"add","path":"/spec/paramRef","value":{}`},
	} {
		t.Run(name, func(t *testing.T) {
			problems := changed(t, c.object, c.operation).Problems(shipped)
			require.Len(t, problems, 1)
			assert.True(t, strings.HasPrefix(problems[0], c.object+" has another spec: "), problems)
		})
	}
	for name, c := range map[string]struct{ object, operation string }{
		"it fails closed": {GuardObject, `"replace","path":"/spec/failurePolicy","value":"Fail"`},
		"another message": {GuardObject, `"replace","path":"/spec/validations/0/message","value":"no"`},
		"it also audits":  {GuardBindingObject, `"add","path":"/spec/validationActions/-","value":"Audit"`},
		"other labels":    {StripObject, `"remove","path":"/metadata/labels"`},
	} {
		t.Run(name+" and does its work", func(t *testing.T) { assert.Empty(t, changed(t, c.object, c.operation).Problems(shipped)) })
	}
}

// changed returns the policies after one operation of a JSON patch.
func changed(t *testing.T, object, operation string) Policies {
	t.Helper()
	policies := served(t)
	patch, err := jsonpatch.DecodePatch([]byte(`[{"op":` + operation + `}]`))
	require.NoError(t, err)
	content, err := json.Marshal(policies[object])
	require.NoError(t, err)
	content, err = patch.Apply(content)
	require.NoError(t, err)
	var decoded unstructured.Unstructured
	require.NoError(t, decoded.UnmarshalJSON(content))
	policies[object] = decoded.Object
	return policies
}
