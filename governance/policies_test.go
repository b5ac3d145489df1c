package governance

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/ext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"nodekeep.dev/nodekeep/manifests"
)

// The most that one expression may cost in an API server, and all of a policy together.
const (
	perCall   = 1_000_000
	perPolicy = 10_000_000
)

// shipped returns the policy of the manifests with this name.
func shipped(t testing.TB, name string) (spec map[string]any) {
	t.Helper()
	objects, err := manifests.Objects(manifests.Namespace, func(object string) bool { return object == "validatingadmissionpolicy/"+name })
	require.NoError(t, err)
	require.Len(t, objects, 1)
	return objects[0].Object["spec"].(map[string]any)
}

// A policy of mode deny that matched a CREATE, or failed closed, could keep Nodes out of the cluster.
func TestNoPolicyOfModeDenyMatchesACreate(t *testing.T) {
	for _, name := range PolicyNames() {
		spec := shipped(t, name)
		assert.Equal(t, "Ignore", spec["failurePolicy"])
		assert.Equal(t, map[string]any{"apiVersion": "nodekeep.dev/v1alpha1", "kind": "NodePolicy"}, spec["paramKind"])
		rule := spec["matchConstraints"].(map[string]any)["resourceRules"].([]any)[0].(map[string]any)
		if name == DenyPolicy {
			assert.Equal(t, []any{"UPDATE"}, rule["operations"])
			assert.Equal(t, []any{"nodes", "nodes/status"}, rule["resources"])
		} else {
			assert.Equal(t, []any{"nodes"}, rule["resources"], "a heartbeat is nodes/status")
		}
	}
}

// evaluator does with a policy what the API server does, by the same library.
type evaluator struct {
	spec     map[string]any
	env      *cel.Env
	programs map[string]cel.Program
	cost     *uint64 // of all that ran
}

func newEvaluator(t testing.TB, policy string) evaluator {
	t.Helper()
	sum := func(list ref.Val) ref.Val {
		total := types.Int(0)
		for i := list.(traits.Lister).Iterator(); i.HasNext() == types.True; {
			total += i.Next().(types.Int)
		}
		return total
	}
	minimum := func(list ref.Val) ref.Val {
		first := list.(traits.Lister).Get(types.Int(0)).(types.Int)
		return min(first, list.(traits.Lister).Get(types.Int(1)).(types.Int))
	}
	integers := []*cel.Type{cel.ListType(cel.IntType)}
	env, err := cel.NewEnv(ext.Strings(ext.StringsVersion(2)), cel.OptionalTypes(),
		cel.Function("sum", cel.MemberOverload("sum_of", integers, cel.IntType, cel.UnaryBinding(sum))),
		cel.Function("min", cel.MemberOverload("min_of", integers, cel.IntType, cel.UnaryBinding(minimum))),
		cel.Variable("object", cel.DynType), cel.Variable("oldObject", cel.DynType), cel.Variable("params", cel.DynType),
		cel.Variable("request", cel.DynType), cel.Variable("variables", cel.MapType(cel.StringType, cel.DynType)))
	require.NoError(t, err)
	return evaluator{spec: shipped(t, policy), env: env, programs: map[string]cel.Program{}, cost: new(uint64)}
}

// run returns the value of an expression.
func (e evaluator) run(t testing.TB, expression string, activation map[string]any) (ref.Val, error) {
	t.Helper()
	if e.programs[expression] == nil {
		ast, issues := e.env.Compile(expression)
		require.NoError(t, issues.Err(), expression)
		program, err := e.env.Program(ast, cel.CostLimit(perCall), cel.EvalOptions(cel.OptTrackCost))
		require.NoError(t, err)
		e.programs[expression] = program
	}
	value, details, err := e.programs[expression].Eval(activation)
	*e.cost += *details.ActualCost()
	return value, err
}

// messages returns those of the rules that a request breaks.
func (e evaluator) messages(t testing.TB, activation map[string]any) (all []string) {
	t.Helper()
	evaluated := func(expression any) ref.Val {
		value, err := e.run(t, expression.(string), activation)
		require.NoError(t, err, expression)
		return value
	}
	if evaluated(e.spec["matchConditions"].([]any)[0].(map[string]any)["expression"]) != types.True {
		return nil
	}
	variables := map[string]any{}
	activation["variables"] = variables
	*e.cost = 0
	for _, item := range e.spec["variables"].([]any) {
		variable := item.(map[string]any)
		variables[variable["name"].(string)] = evaluated(variable["expression"])
	}
	*e.cost *= 2 // once for the rules, and once for their messages
	for _, item := range e.spec["validations"].([]any) {
		validation := item.(map[string]any)
		if evaluated(validation["expression"]) != types.True {
			all = append(all, fmt.Sprint(evaluated(validation["messageExpression"]).Value()))
		}
	}
	assert.Less(t, *e.cost, uint64(perPolicy))
	return all
}

// request returns an UPDATE of labels under a policy.
func request(t testing.TB, settings Settings, old, labels map[string]string, by requester) map[string]any {
	t.Helper()
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
	encoded, err := json.Marshal(map[string]any{"spec": map[string]any{"governance": settings}}) // with null for what is empty
	require.NoError(t, err)
	var params map[string]any
	require.NoError(t, json.Unmarshal([]byte(strings.ReplaceAll(string(encoded), `,"mode":""`, "")), &params)) // the schema allows no empty mode
	return map[string]any{
		"object": object(labels), "oldObject": object(old), "params": params,
		"request": map[string]any{"operation": "UPDATE", "userInfo": map[string]any{"username": by.user, "groups": groups}},
	}
}

// The rules in Go and those of the API server say the same of any change and any policy, hostile texts included.
func FuzzThePoliciesSayWhatTheRulesSay(f *testing.F) {
	f.Add("tier", "gold", "r[0-9]{1,3}", "user:ann", "*.example.com/*", "tier", "iron", "gold", "ann", "accelerator")
	f.Add("a.b/c", "x", `\d+"'`+"`", `user:"]+['x`, "a*b", "a.b/c", "1", "2", `"]+['x`, "o")
	f.Add("k", "", `\Q"\E`, "group:\u2028<>&\\", "*/*", "z/y", "", "v", "\U0001F600", "k")
	f.Add("k", "v", `(?i)^A|B$`, "user:\\u0041*", "k*", "kk", "b", "ab", "A", "r")
	f.Add("k", "v", `a|b`, "group:a*", "x", "k", "v", "", "ab", "r")
	f.Add("k", "v", `a`, "serviceaccount:ns/a*", "x", "k", "v", "", "system:serviceaccount:ns:ab", "r")
	f.Add("k", "v", `a`, "serviceaccount:ns/a", "x", "k", "v", "", "system:serviceaccount:ns:a", "r")
	evaluator := newEvaluator(f, DenyPolicy)
	f.Fuzz(func(t *testing.T, key, value, pattern, owner, glob, label, prev, current, user, requires string) {
		settings := Settings{
			Keys: []Key{
				{Key: key, Values: []string{value}, Requires: []string{requires}, Owners: []string{owner}, Immutable: true, Mode: Deny},
				{Key: "pattern." + key, Pattern: pattern, Owners: []string{owner}, Required: true, Mode: Deny},
				{Key: "audited." + key, Values: []string{value}, Required: true},
			},
			Reserved: []string{glob},
		}
		rules, errs := Compile(settings, field.NewPath("governance"))
		if len(errs) > 0 {
			t.Skip("these settings are refused, so no API server reads them")
		}
		by := requester{user: user, groups: []string{user}}
		for _, change := range []struct{ old, labels map[string]string }{
			{nil, map[string]string{label: current}},
			{map[string]string{key: prev}, map[string]string{key: current, "pattern." + key: current}},
			{map[string]string{key: prev, requires: ""}, map[string]string{"pattern." + key: prev}},
			{map[string]string{key: value, "pattern." + key: prev}, map[string]string{key: value, "audited." + key: prev}},
			{map[string]string{label: prev, "pattern." + key: current, key: value, requires: ""}, map[string]string{label: current, "pattern." + key: current, key: value}},
		} {
			out := slices.DeleteFunc(rules.violationsOf(change.old, change.labels, by), func(v Violation) bool { return v.Mode != Deny })
			want := len(out) > 0 && !strings.HasPrefix(user, "system:node:") && user != "system:nodes"
			got := evaluator.messages(t, request(t, settings, change.old, change.labels, by))
			assert.Equal(t, want, len(got) > 0, "%v: %v, %v", change, out, got)
		}
	})
}

func TestThePoliciesSayWhatTheRulesSayOfTheExample(t *testing.T) {
	rules := compiled(t, example())
	states := []map[string]string{
		nil, {"rack": "r1"}, {"rack": "7"}, {"team.owner": "a"}, {"hardware.tier": "x"}, {"hardware.tier": "standard"}, {"gpu.count": "1"},
		{"gpu.count": "1", "accelerator": ""}, {"b.example.com/x": "1"}, {"a.example.com/known": "1", "accelerator": "y"}, {"zone.owner": "a"},
	}
	requesters := []requester{
		{user: "bob"}, {user: "ann"}, {user: "bob", groups: []string{"platform-admins"}}, {user: "system:serviceaccount:ops:labeler"},
		{user: "system:serviceaccount:ops:label-1"}, {user: "bob", groups: []string{"x", "team-a"}},
	}
	compared := map[bool]int{}
	for mode, name := range map[Mode]string{Deny: DenyPolicy, Warn: WarnPolicy, Audit: AuditPolicy} {
		evaluator := newEvaluator(t, name)
		for _, old := range states {
			for _, labels := range states {
				for _, by := range requesters {
					want := slices.ContainsFunc(rules.violationsOf(old, labels, by), func(v Violation) bool { return v.Mode == mode })
					got := evaluator.messages(t, request(t, example(), old, labels, by))
					assert.Equal(t, want, len(got) > 0, "%s: %v to %v by %v: %v", mode, old, labels, by, got)
					compared[want]++
				}
			}
		}
	}
	assert.Greater(t, compared[true], 50)
	assert.Greater(t, compared[false], 50)
	deny := newEvaluator(t, DenyPolicy)
	for _, exempt := range []requester{{user: "system:node:a"}, {user: "x", groups: []string{"system:nodes"}}, {user: "system:serviceaccount:nodekeep-system:nodekeep-capture"}} {
		assert.Empty(t, deny.messages(t, request(t, example(), nil, map[string]string{"rack": "x"}, exempt)), "%v", exempt)
	}
}

// Each message names what is wrong, and the key.
func TestTheMessagesNameTheKey(t *testing.T) {
	deny := newEvaluator(t, DenyPolicy)
	for message, change := range map[string][2]labels{
		`label tier has the value "iron", which is not one of gold, silver`: {nil, {"tier": "iron"}},
		`label rack has the value "x", which does not match r[0-9]+`:        {nil, {"rack": "x"}},
		"label rack cannot be changed or removed once it is set":            {{"rack": "r1"}, {"rack": "r2"}},
		"label gpu requires accelerator":                                    {nil, {"gpu": "1"}},
		"label site is required, and cannot be removed":                     {{"site": "a"}, nil},
		"label team can be changed only by user:ann, group:x*":              {nil, {"team": "a"}},
		"label a.corp/b is reserved, and not listed in governance.keys":     {nil, {"a.corp/b": ""}},
	} {
		assert.Equal(t, []string{message}, deny.messages(t, request(t, Settings{
			Keys: []Key{
				{Key: "tier", Values: []string{"gold", "silver"}, Mode: Deny}, {Key: "rack", Pattern: "r[0-9]+", Immutable: true, Mode: Deny},
				{Key: "gpu", Requires: []string{"accelerator"}, Mode: Deny}, {Key: "site", Required: true, Mode: Deny},
				{Key: "team", Owners: []string{"user:ann", "group:x*"}, Mode: Deny},
			},
			Reserved: []string{"*.corp/*"},
		}, change[0], change[1], requester{user: "bob"})))
	}
}
