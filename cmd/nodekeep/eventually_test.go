package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A condition of testify runs in a goroutine of its own. If it ends the test there, the goroutine ends and the test goes on waiting: for minutes, and
// its message is about something else.
func TestNoConditionEndsItsTestFromAnotherGoroutine(t *testing.T) {
	read, faults := endingConditions(t, os.DirFS("../.."))
	assert.Greater(t, read, 30, "the tests must have been read")
	for _, fault := range faults {
		t.Errorf("%s: this condition uses the test itself; ask with harness.Eventually, or return false", fault)
	}
}

func TestAConditionThatUsesItsTestIsFound(t *testing.T) {
	fn := func(condition string) fstest.MapFS {
		return fstest.MapFS{"a/a_test.go": {Data: []byte("package a\nfunc f(t T) {\n" + condition + "\n}\n")}}
	}
	for name, c := range map[string]struct {
		condition string
		fault     bool
	}{
		"require":          {`require.Eventually(t, func() bool { require.NoError(t, err); return true }, a, b)`, true},
		"a helper":         {`assert.Eventually(t, func() bool { return n.Node(t, name) == nil }, a, b)`, true},
		"it ends the test": {`require.Never(t, func() bool { t.Fatal("x"); return true }, a, b)`, true},
		"another name":     {`require.Eventually(b.t, func() bool { return get(b.t) }, a, c)`, true},
		"a function with a name": {`older := func() bool { require.NoError(t, err); return true }
require.Eventually(t, older, a, b)`, true},
		"its context, its log":    {`require.Eventually(t, func() bool { t.Log(1); return get(t.Context()) }, a, b)`, false},
		"in the same goroutine":   {`harness.Eventually(t, func() bool { return n.Node(t, name) == nil }, a, b)`, false},
		"a collector":             {`require.EventuallyWithT(t, func(t *assert.CollectT) { require.NoError(t, err) }, a, b)`, false},
		"the test in a collector": {`require.EventuallyWithT(t, func(c *assert.CollectT) { require.NoError(t, err) }, a, b)`, true},
	} {
		t.Run(name, func(t *testing.T) {
			read, faults := endingConditions(t, fn(c.condition))
			assert.Equal(t, !strings.HasPrefix(c.condition, "harness"), read == 1)
			assert.Equal(t, c.fault, len(faults) == 1, faults)
		})
	}
}

// endingConditions returns the conditions of testify that can end their test.
func endingConditions(t *testing.T, tree fs.FS) (read int, faults []string) {
	t.Helper()
	require.NoError(t, fs.WalkDir(tree, ".", func(file string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && (name == "testdata" || name != "." && strings.HasPrefix(name, ".")):
			return fs.SkipDir
		case entry.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		content, err := fs.ReadFile(tree, file)
		require.NoError(t, err)
		files := token.NewFileSet()
		parsed, err := parser.ParseFile(files, file, content, 0)
		require.NoError(t, err)
		ast.Inspect(parsed, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok || !waitsForCondition(call) {
				return true
			}
			read++
			if condition := conditionOf(call.Args[1], parsed); condition != nil && endsTest(condition, expression(call.Args[0])) {
				faults = append(faults, fmt.Sprintf("%s:%d", file, files.Position(call.Pos()).Line))
			}
			return true
		})
		return nil
	}))
	return read, faults
}

// conditionOf returns the function that stands there, or the one that the file gives that name; nil: it is neither.
func conditionOf(argument ast.Expr, file *ast.File) (condition *ast.FuncLit) {
	if literal, ok := argument.(*ast.FuncLit); ok {
		return literal
	}
	name := expression(argument)
	ast.Inspect(file, func(node ast.Node) bool {
		assigned, ok := node.(*ast.AssignStmt)
		if ok && len(assigned.Lhs) == 1 && len(assigned.Rhs) == 1 && name != "" && expression(assigned.Lhs[0]) == name {
			if literal, ok := assigned.Rhs[0].(*ast.FuncLit); ok {
				condition = literal
			}
		}
		return true
	})
	return condition
}

// waitsForCondition reports whether a call has testify ask a condition.
func waitsForCondition(call *ast.CallExpr) bool {
	called, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) < 2 {
		return false
	}
	name := expression(called.X)
	return (name == "require" || name == "assert") && (strings.HasPrefix(called.Sel.Name, "Eventually") || strings.HasPrefix(called.Sel.Name, "Never"))
}

// endsTest reports whether a condition uses the test but for its context and its log. A parameter of the same name is another one.
func endsTest(condition *ast.FuncLit, test string) (ends bool) {
	for _, field := range condition.Type.Params.List {
		if slices.ContainsFunc(field.Names, func(name *ast.Ident) bool { return name.Name == test }) {
			return false
		}
	}
	ast.Inspect(condition.Body, func(node ast.Node) bool {
		selector, ok := node.(*ast.SelectorExpr)
		if ok && expression(selector.X) == test {
			ends = ends || !slices.Contains([]string{"Context", "Helper", "Log", "Logf", "Name"}, selector.Sel.Name)
			return false
		}
		used, ok := node.(ast.Expr)
		ends = ends || ok && expression(used) == test
		return true
	})
	return ends
}

// expression returns a name, or a field of one, as it is written; empty: another expression.
func expression(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		if name := expression(e.X); name != "" {
			return name + "." + e.Sel.Name
		}
	}
	return ""
}
