package governance

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestOnePolicyIsRenderedForEachModeThatIsUsed(t *testing.T) {
	names := func(settings Settings) (names []string) {
		objects, err := Objects(compiled(t, settings), "nodekeep-system")
		require.NoError(t, err)
		for _, object := range objects {
			names = append(names, object["kind"].(string)+" "+object["metadata"].(map[string]any)["name"].(string))
		}
		return names
	}
	assert.Len(t, names(example()), 6)
	assert.Empty(t, names(Settings{}))
	assert.Empty(t, names(Settings{Keys: []Key{{Key: "a", Required: true, Mode: Deny}}}), "no request can be denied for what a Node lacks")
	assert.Equal(t, []string{"ValidatingAdmissionPolicy " + DenyPolicy, "ValidatingAdmissionPolicyBinding " + DenyPolicy}, names(Settings{Reserved: []string{"x.com/*"}}))
	assert.Equal(t, []string{"ValidatingAdmissionPolicy " + AuditPolicy, "ValidatingAdmissionPolicyBinding " + AuditPolicy}, names(Settings{Keys: []Key{{Key: "a", Immutable: true}}}))
}

// A policy of mode deny that matched a CREATE, or failed closed, could keep Nodes out of the cluster.
func TestNoPolicyOfModeDenyMatchesACreate(t *testing.T) {
	objects, err := Objects(compiled(t, example()), "nodekeep-system")
	require.NoError(t, err)
	for _, object := range objects {
		spec := object["spec"].(map[string]any)
		if object["kind"] != "ValidatingAdmissionPolicy" {
			continue
		}
		assert.Equal(t, "Ignore", spec["failurePolicy"])
		assert.NotContains(t, spec, "paramKind")
		rule := spec["matchConstraints"].(map[string]any)["resourceRules"].([]any)[0].(map[string]any)
		if object["metadata"].(map[string]any)["name"] == DenyPolicy {
			assert.Equal(t, []any{"UPDATE"}, rule["operations"])
			assert.Equal(t, []any{"nodes", "nodes/status"}, rule["resources"])
		}
	}
}

// evaluate does with a rendered policy what the API server does, by the same library: true where the request breaks a rule.
func evaluate(t testing.TB, policy map[string]any, activation map[string]any) (broken bool) {
	t.Helper()
	env, err := cel.NewEnv(ext.Strings(), cel.OptionalTypes(),
		cel.Variable("object", cel.DynType), cel.Variable("oldObject", cel.DynType), cel.Variable("request", cel.DynType), cel.Variable("variables", cel.MapType(cel.StringType, cel.DynType)))
	require.NoError(t, err)
	run := func(expression string) any {
		ast, issues := env.Compile(expression)
		require.NoError(t, issues.Err(), expression)
		program, err := env.Program(ast)
		require.NoError(t, err)
		value, _, err := program.Eval(activation)
		require.NoError(t, err, expression)
		return value
	}
	spec := policy["spec"].(map[string]any)
	condition := spec["matchConditions"].([]any)[0].(map[string]any)["expression"].(string)
	if fmt.Sprint(run(condition)) != "true" {
		return false
	}
	variables := map[string]any{}
	activation["variables"] = variables
	for _, one := range spec["variables"].([]any) {
		variable := one.(map[string]any)
		variables[variable["name"].(string)] = run(variable["expression"].(string))
	}
	for _, one := range spec["validations"].([]any) {
		validation := one.(map[string]any)
		if fmt.Sprint(run(validation["expression"].(string))) != "true" {
			run(validation["messageExpression"].(string))
			broken = true
		}
	}
	return broken
}

// request is an UPDATE of labels.
func request(old, labels map[string]string, by requester) map[string]any {
	object := func(labels map[string]string) map[string]any {
		values := map[string]any{}
		for key, value := range labels {
			values[key] = value
		}
		return map[string]any{"metadata": map[string]any{"labels": values}}
	}
	groups := make([]any, len(by.groups))
	for i := range by.groups {
		groups[i] = by.groups[i]
	}
	return map[string]any{
		"object": object(labels), "oldObject": object(old),
		"request": map[string]any{"operation": "UPDATE", "userInfo": map[string]any{"username": by.user, "groups": groups}},
	}
}

// The rules in Go and those that the API server gets say the same of any change and any policy, hostile texts included.
func FuzzRenderedPoliciesSayWhatTheRulesSay(f *testing.F) {
	f.Add("tier", "gold", "r[0-9]{1,3}", "user:ann", "*.example.com/*", "tier", "iron", "gold", "ann", "accelerator")
	f.Add("a.b/c", "x", `\d+"'`+"`", `user:"]+['x`, "a*b", "a.b/c", "1", "2", `"]+['x`, "o")
	f.Add("k", "", `\Q"\E`, "group:\u2028<>&\\", "*/*", "z/y", "", "v", "\U0001F600", "k")
	f.Add("k", "v", `(?i)^A|B$`, "user:\\u0041", "k*", "kk", "b", "ab", "A", "r")
	f.Add("k", "v", `"+request.userInfo.username+"`, `user:${x}{{ .Values }}`, "x", "k", "v", "", "{{", "r")
	f.Fuzz(func(t *testing.T, key, value, pattern, owner, glob, label, was, is, user, requires string) {
		settings := Settings{
			Keys: []Key{
				{Key: key, Values: []string{value}, Requires: []string{requires}, Owners: []string{owner}, Immutable: true, Mode: Deny},
				{Key: "pattern." + key, Pattern: pattern, Owners: []string{owner}, Mode: Deny},
			},
			Reserved: []string{glob},
		}
		rules, errs := Compile(settings, field.NewPath("governance"))
		if len(errs) > 0 {
			t.Skip("these settings are refused, so there is nothing to render")
		}
		objects, err := Objects(rules, "nodekeep-system")
		require.NoError(t, err)
		by := requester{user: user, groups: []string{user}}
		for _, change := range []struct{ old, labels map[string]string }{
			{nil, map[string]string{label: is}},
			{map[string]string{key: was}, map[string]string{key: is, "pattern." + key: is}},
			{map[string]string{key: was, requires: ""}, map[string]string{"pattern." + key: was}},
			{map[string]string{label: was, "pattern." + key: is, key: value, requires: ""}, map[string]string{label: is, "pattern." + key: is, key: value}},
		} {
			said := rules.violationsOf(change.old, change.labels, by)
			want := len(said) > 0 && !strings.HasPrefix(user, "system:node") && user != "system:nodes"
			assert.Equal(t, want, evaluate(t, objects[0], request(change.old, change.labels, by)), "%v: %v", change, said)
		}
	})
}

func TestRenderedPoliciesSayWhatTheRulesSayOfTheExample(t *testing.T) {
	rules := compiled(t, example())
	objects, err := Objects(rules, "nodekeep-system")
	require.NoError(t, err)
	states := []map[string]string{
		nil, {"rack": "r1"}, {"rack": "7"}, {"team.owner": "a"}, {"hardware.tier": "x"}, {"hardware.tier": "standard"}, {"gpu.count": "1"},
		{"gpu.count": "1", "accelerator": ""}, {"b.example.com/x": "1"}, {"a.example.com/known": "1", "accelerator": "y"},
	}
	requesters := []requester{{user: "bob"}, {user: "ann"}, {user: "bob", groups: []string{"platform-admins"}}, {user: "system:serviceaccount:ops:labeler"}}
	compared := map[bool]int{}
	for _, old := range states {
		for _, labels := range states {
			for _, by := range requesters {
				for i, mode := range []Mode{Deny, Warn, Audit} {
					want := slices.ContainsFunc(rules.violationsOf(old, labels, by), func(v Violation) bool { return v.Mode == mode })
					assert.Equal(t, want, evaluate(t, objects[2*i], request(old, labels, by)), "%s: %v to %v by %v", mode, old, labels, by)
					compared[want]++
				}
			}
		}
	}
	assert.Greater(t, compared[true], 50)
	assert.Greater(t, compared[false], 50)
	for _, exempt := range []requester{{user: "system:node:a"}, {user: "x", groups: []string{"system:nodes"}}, {user: "system:serviceaccount:nodekeep-system:nodekeep-capture"}} {
		assert.False(t, evaluate(t, objects[0], request(nil, map[string]string{"rack": "x"}, exempt)), "%v", exempt)
	}
}

// What JSON cannot carry is refused before it is rendered.
func TestTextsReachTheTablesUnchanged(t *testing.T) {
	owner := "user:\"'\\`\u2028<&>\U0001F600é{{.}}"
	objects, err := Objects(compiled(t, Settings{Keys: []Key{{Key: "k", Owners: []string{owner}, Mode: Deny}}}), "ns")
	require.NoError(t, err)
	for _, one := range objects[0]["spec"].(map[string]any)["variables"].([]any) {
		if variable := one.(map[string]any); variable["name"] == "owners" {
			var table map[string][]string
			require.NoError(t, json.Unmarshal([]byte(variable["expression"].(string)), &table))
			assert.Equal(t, [][]string{{owner}}, slices.Collect(maps.Values(table)))
			return
		}
	}
	t.Fatal("there is no table of owners")
}
