package nodepolicy

import (
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	lua "github.com/yuin/gopher-lua"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"nodekeep.dev/nodekeep/api/v1alpha1"
)

// snippets returns those of docs/labels-in-git.md for Argo CD and Flux.
func snippets(t *testing.T) (argoCD, fluxFailed, fluxCurrent string) {
	t.Helper()
	page, err := os.ReadFile("../docs/labels-in-git.md")
	require.NoError(t, err)
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		var content struct {
			Data map[string]string `json:"data"`
			Spec struct {
				HealthCheckExprs []struct{ Failed, Current string } `json:"healthCheckExprs"`
			} `json:"spec"`
		}
		require.NoError(t, yaml.Unmarshal([]byte(block[1]), &content))
		if script, ok := content.Data["resource.customizations.health.nodekeep.dev_NodePolicy"]; ok {
			argoCD = script
		}
		for _, expressions := range content.Spec.HealthCheckExprs {
			fluxFailed, fluxCurrent = expressions.Failed, expressions.Current
		}
	}
	require.NotEmpty(t, argoCD)
	require.NotEmpty(t, fluxCurrent)
	return argoCD, fluxFailed, fluxCurrent
}

// luaOf returns a decoded JSON value in Lua.
func luaOf(l *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case map[string]any:
		table := l.NewTable()
		for key, inner := range value {
			table.RawSetString(key, luaOf(l, inner))
		}
		return table
	case []any:
		table := l.NewTable()
		for _, inner := range value {
			table.Append(luaOf(l, inner))
		}
		return table
	case string:
		return lua.LString(value)
	case float64:
		return lua.LNumber(value)
	case bool:
		return lua.LBool(value)
	}
	return lua.LNil
}

// inArgoCD returns the health that Argo CD shows of an object.
func inArgoCD(t *testing.T, script string, object map[string]any) string {
	t.Helper()
	l := lua.NewState()
	defer l.Close()
	l.SetGlobal("obj", luaOf(l, object))
	require.NoError(t, l.DoString(script))
	health, ok := l.Get(-1).(*lua.LTable)
	require.True(t, ok)
	return health.RawGetString("status").String()
}

// inFlux returns what Flux makes of an object. An expression about a field that does not exist leaves it in progress.
func inFlux(t *testing.T, failed, current string, object map[string]any) string {
	t.Helper()
	env, err := cel.NewEnv(cel.Variable("metadata", cel.DynType), cel.Variable("status", cel.DynType))
	require.NoError(t, err)
	for _, row := range []struct{ expression, result string }{{failed, "failed"}, {current, "current"}} {
		ast, issues := env.Compile(row.expression)
		require.NoError(t, issues.Err())
		program, err := env.Program(ast)
		require.NoError(t, err)
		if out, _, err := program.Eval(object); err == nil && out.Value() == true {
			return row.result
		}
	}
	return "in progress"
}

func TestTheSnippetsForArgoCDAndFluxUnderstandTheConditions(t *testing.T) {
	argoCD, failed, current := snippets(t)
	good := situation{generation: 3, counted: true, nodes: 10, running: []string{"a"}}
	for name, c := range map[string]struct {
		change       func(s *situation)
		readBy       map[string]int64
		argoCD, flux string
	}{
		"in force":                             {nil, map[string]int64{"a": 3}, "Healthy", "current"},
		"a replica is behind":                  {nil, map[string]int64{"a": 2}, "Progressing", "in progress"},
		"it cannot be used":                    {func(s *situation) { s.trouble = errors.New("bad") }, map[string]int64{"a": 2}, "Degraded", "failed"},
		"rules wait":                           {func(s *situation) { s.held = &v1alpha1.HeldRules{Rules: "a", Nodes: 4} }, map[string]int64{"a": 3}, "Suspended", "in progress"},
		"rules are not counted yet":            {func(s *situation) { s.counted = false }, map[string]int64{"a": 3}, "Progressing", "in progress"},
		"Pods are not known":                   {func(s *situation) { s.unknown = errors.New("forbidden") }, map[string]int64{"a": 3}, "Progressing", "in progress"},
		"the status is of a former generation": {func(s *situation) { s.generation = 2 }, map[string]int64{"a": 2}, "Progressing", "in progress"},
		"an error of a former generation":      {func(s *situation) { s.generation, s.trouble = 2, errors.New("bad") }, nil, "Progressing", "in progress"},
	} {
		t.Run(name, func(t *testing.T) {
			s := good
			if c.change != nil {
				c.change(&s)
			}
			status, err := json.Marshal(statusOf(v1alpha1.NodePolicyStatus{ReadBy: c.readBy}, s, metav1.Now()))
			require.NoError(t, err)
			object := map[string]any{"metadata": map[string]any{"generation": 3.0}, "status": map[string]any{}}
			var decoded map[string]any
			require.NoError(t, json.Unmarshal(status, &decoded))
			object["status"] = decoded
			assert.Equal(t, c.argoCD, inArgoCD(t, argoCD, object))
			assert.Equal(t, c.flux, inFlux(t, failed, current, object))
		})
	}
	t.Run("there is no status", func(t *testing.T) {
		object := map[string]any{"metadata": map[string]any{"generation": 3.0}}
		assert.Equal(t, "Progressing", inArgoCD(t, argoCD, object))
		assert.Equal(t, "in progress", inFlux(t, failed, current, object))
	})
}
