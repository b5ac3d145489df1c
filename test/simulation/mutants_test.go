package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mutantVariable has the number of the mutation that a model checker shows. Without it nothing is mutated.
const mutantVariable = "NODEKEEP_MUTANT"

// mutants are mutations that are built into one model checker: linking one for each would take most of the test's time. Each function that is mutated
// has a copy with the mutation, to which it turns where the environment asks for that.
type mutants struct {
	bodies map[string]map[int]string // by path and place: what a function does first
	copies map[string][]string       // by path: the functions with their mutations
}

// add mutates the function of that file around the text, which must be there once.
func (m *mutants) add(t *testing.T, number int, path, from, to string) {
	t.Helper()
	source, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, 1, bytes.Count(source, []byte(from)), "the rule has changed: %q is not there once", from)
	start := bytes.Index(source, []byte(from))
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, source, parser.SkipObjectResolution)
	require.NoError(t, err)
	offset := func(pos token.Pos) int { return files.Position(pos).Offset }
	for _, declaration := range file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok || start < offset(function.Body.Lbrace) || offset(function.End()) < start+len(from) {
			continue
		}
		name := fmt.Sprintf("%sMutant%d", function.Name.Name, number)
		signature := string(source[offset(function.Pos()):offset(function.Name.Pos())]) + name + string(source[offset(function.Name.End()):offset(function.Body.Lbrace)])
		body := string(source[offset(function.Body.Lbrace):start]) + to + string(source[start+len(from):offset(function.End())])
		m.copies[path] = append(m.copies[path], signature+body)
		if m.bodies[path] == nil {
			m.bodies[path] = map[int]string{}
		}
		m.bodies[path][offset(function.Body.Lbrace)+1] += turn(t, function, name, number)
		return
	}
	require.Fail(t, "no function has this text", "%s: %q", path, from)
}

// turn returns the statement by which a function leaves its work to its copy with a mutation.
func turn(t *testing.T, function *ast.FuncDecl, name string, number int) string {
	t.Helper()
	var args []string
	for _, field := range function.Type.Params.List {
		require.NotEmpty(t, field.Names, "%s has parameters without names", function.Name)
		for _, parameter := range field.Names {
			args = append(args, parameter.Name)
		}
	}
	call := name + "(" + strings.Join(args, ", ") + ")"
	if function.Recv != nil {
		call = function.Recv.List[0].Names[0].Name + "." + call
	}
	if function.Type.Results == nil {
		return fmt.Sprintf(" if mutant == %d { %s; return };", number, call)
	}
	return fmt.Sprintf(" if mutant == %d { return %s };", number, call)
}

// build makes the model checker that has all mutations.
func (m *mutants) build(t *testing.T) (binary string) {
	t.Helper()
	dir := t.TempDir()
	replaces := map[string]string{}
	write := func(path, content string) {
		replaces[path] = filepath.Join(dir, strconv.Itoa(len(replaces))+".go")
		require.NoError(t, os.WriteFile(replaces[path], []byte(content), 0o600))
	}
	for path, copies := range m.copies {
		source, err := os.ReadFile(path)
		require.NoError(t, err)
		var text strings.Builder
		for i, char := range source {
			text.WriteString(m.bodies[path][i])
			text.WriteByte(char)
		}
		write(path, text.String()+"\n"+strings.Join(copies, "\n\n")+"\n")
		selection := filepath.Join(filepath.Dir(path), "mutant.go")
		if replaces[selection] != "" {
			continue
		}
		write(selection, "package "+filepath.Base(filepath.Dir(path))+`

import ("os"; "strconv")

var mutant, _ = strconv.Atoi(os.Getenv("`+mutantVariable+`"))
`)
	}
	replace, err := json.Marshal(map[string]any{"Replace": replaces})
	require.NoError(t, err)
	overlay, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "simulation")
	require.NoError(t, os.WriteFile(overlay, replace, 0o600))
	out, err := exec.Command("go", "build", "-ldflags", "-s -w", "-overlay", overlay, "-o", binary, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return binary
}
