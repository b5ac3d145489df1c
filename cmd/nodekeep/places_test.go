package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	changesSection = "To change one thing"
	testsSection   = "Where a new test belongs"
)

// A contributor goes by these tables. What was moved, or has another name now, is not where they say.
func TestContributingNamesFilesThatExistAndWhatIsInThem(t *testing.T) {
	page, err := os.ReadFile("../../CONTRIBUTING.md")
	require.NoError(t, err)
	read, faults := placeFaults(t, string(page), os.DirFS("../.."))
	assert.Greater(t, read, 120, "the tables must have been read")
	for _, fault := range faults {
		t.Errorf("CONTRIBUTING.md: %s", fault)
	}
}

// A folder that the image is built without, or that no newcomer is shown, is forgotten easily.
func TestEachFolderIsInTheTreeOfContributingAndInTheImage(t *testing.T) {
	page, err := os.ReadFile("../../CONTRIBUTING.md")
	require.NoError(t, err)
	_, text, found := strings.Cut(string(page), "\n## The tree\n")
	require.True(t, found)
	text, _, _ = strings.Cut(text, "\n## ")
	listed := map[string]bool{}
	for _, folder := range regexp.MustCompile(`(?m)^([a-z/0-9]+)/ `).FindAllStringSubmatch(text, -1) {
		assert.DirExists(t, "../../"+folder[1], "CONTRIBUTING.md, the tree")
		first, _, _ := strings.Cut(folder[1], "/")
		listed[first] = true
	}
	ignored, err := os.ReadFile("../../.dockerignore")
	require.NoError(t, err)
	entries, err := os.ReadDir("../..")
	require.NoError(t, err)
	for _, entry := range entries {
		name := entry.Name()
		if !entry.IsDir() || strings.HasPrefix(name, ".") {
			continue
		}
		assert.True(t, listed[name], "the tree of CONTRIBUTING.md has no %s/", name)
		if name != "docs" && name != "test" {
			assert.Contains(t, strings.Split(string(ignored), "\n"), "!"+name, ".dockerignore")
		}
	}
	assert.Greater(t, len(listed), 20, "the tree must have been read")
}

func TestAPlaceThatDoesNotExistIsFound(t *testing.T) {
	tree := fstest.MapFS{
		"Makefile": {Data: []byte("LONG = Minutes|Hours\n\n.PHONY: docs\ndocs: ## the docs\n\tgo run .\n")},
		"verify/cause.go": {Data: []byte(`package verify

// Removed is only spoken of.
type Cause string

const CauseDue Cause = "Due"

type Explained struct{ Means string }

type asker interface{ ask() }

func record() {}

func Causes() []Explained { return find(CauseDue) }

func (c Cause) Explain() { local := used; _ = local }
`)},
		"verify/cause_test.go":      {Data: []byte("package verify\n\nfunc TestEachCause(t *testing.T) {}\n")},
		"verify/testdata/usual.txt": {Data: []byte("usual")},
		"record/record.go":          {Data: []byte("package record\n")},
		"manifests/alerts.yaml":     {Data: []byte("- alert: NodekeepDown\n")},
	}
	tests := map[string]struct {
		cell   string
		faults []string
	}{
		"a file and what it declares":            {cell: "`verify/cause.go`: `Cause`, `CauseDue`, `Explained`, its `Means`, `Causes`, `Explain`, `ask`"},
		"a folder and what its files declare":    {cell: "`verify` (`TestEachCause`, `Causes`)"},
		"another kind of file":                   {cell: "`manifests/alerts.yaml`: `NodekeepDown`; `Makefile`: `LONG`"},
		"a file of any name":                     {cell: "`verify/testdata/NAME.txt`"},
		"targets of the Makefile, with settings": {cell: "`make docs`, `LONG=1 make docs`"},
		"a test that is run":                     {cell: "`go test ./verify -count=1 -run EachCause -update`, `go doc ./verify`"},
		"a file that does not exist": {
			cell:   "`verify/causes.go`: `Causes`",
			faults: []string{"there is no `verify/causes.go`", "`Causes` stands behind no file"},
		},
		"a file of any name, of which there is none": {
			cell:   "`verify/testdata/NAME.json`",
			faults: []string{"there is no `verify/testdata/NAME.json`"},
		},
		"a name that another file declares": {
			cell:   "`verify/cause_test.go`: `Causes`",
			faults: []string{"`verify/cause_test.go` has no `Causes`"},
		},
		"a name that is used there, or in a comment, and not declared": {
			cell:   "`verify/cause.go`: `find`, `Removed`, `local`, `used`",
			faults: []string{"`verify/cause.go` has no `find`", "`verify/cause.go` has no `Removed`", "`verify/cause.go` has no `local`", "`verify/cause.go` has no `used`"},
		},
		"a name that is also a folder": {cell: "`verify/cause.go`: `record`"},
		"a package behind a file":      {cell: "`verify/cause.go`: `Causes`; a test in package `manifests`"},
		"a name that is only a folder": {
			cell:   "`verify/cause.go`: `manifests`",
			faults: []string{"`verify/cause.go` has no `manifests`"},
		},
		"a part of a name": {
			cell:   "`manifests/alerts.yaml`: `Nodekeep`; `verify/cause.go`: `Due`",
			faults: []string{"`manifests/alerts.yaml` has no `Nodekeep`", "`verify/cause.go` has no `Due`"},
		},
		"a target that the Makefile does not have": {
			cell:   "`make docs manifests`",
			faults: []string{"the Makefile has no target manifests"},
		},
		"a test that no file has": {
			cell:   "`go test ./verify -run NoCause`",
			faults: []string{"no test of ./verify matches NoCause"},
		},
		"a package that does not exist": {
			cell:   "`go doc ./report`",
			faults: []string{"there is no `./report`"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			page := "# Contributing\n\n`nowhere/at/all`\n\n## " + changesSection + "\n\n| To | Change |\n|---|---|\n| change `nothing` | " + tt.cell +
				" |\n\n`nowhere` in prose\n\n## " + testsSection + "\n\n| What | Folder |\n|---|---|\n| all | `verify` |\n"
			_, faults := placeFaults(t, page, tree)
			assert.Equal(t, tt.faults, faults)
		})
	}
}

var (
	inCode    = regexp.MustCompile("`([^`]+)`")
	asCommand = regexp.MustCompile(`^(?:[A-Z_]+=\S+ )*(make|go) `)
	asFile    = regexp.MustCompile(`/|\.[a-z]+$`)
)

// placeFaults judges the rows of the two tables. Each cell but the first names commands, files, and behind each file what is in it.
func placeFaults(t *testing.T, page string, tree fs.FS) (read int, faults []string) {
	t.Helper()
	p := places{t: t, tree: tree}
	for _, section := range []string{changesSection, testsSection} {
		_, text, found := strings.Cut(page, "\n## "+section+"\n")
		require.True(t, found, section)
		text, _, _ = strings.Cut(text, "\n## ")
		rows := 0
		for line := range strings.Lines(text) {
			cells := strings.Split(strings.TrimSpace(line), "|")
			if len(cells) < 4 || cells[0] != "" {
				continue
			}
			rows++
			for _, cell := range cells[2:] {
				stamp := ""
				for _, code := range inCode.FindAllStringSubmatchIndex(cell, -1) {
					p.read++
					stamp = p.judge(cell[code[2]:code[3]], stamp, strings.HasSuffix(cell[:code[0]], "package "))
				}
			}
		}
		require.Greater(t, rows, 2, section)
	}
	return p.read, p.faults
}

// places are what a page names in a tree of files.
type places struct {
	t      *testing.T
	tree   fs.FS
	read   int
	faults []string
}

func (p *places) faultf(format string, args ...any) {
	p.faults = append(p.faults, fmt.Sprintf(format, args...))
}

// judge judges one piece of code behind a place, and returns the place of what follows. A word that also names a folder is what that place has, unless
// the page calls it a package.
func (p *places) judge(code, stamp string, asPackage bool) (next string) {
	switch command := asCommand.FindStringSubmatch(code); {
	case command != nil && command[1] == "make":
		p.judgeMake(code)
	case command != nil:
		p.judgeGo(code)
	case p.exists(code) && (stamp == "" || asPackage || !p.isFolder(code)):
		return code
	case asFile.MatchString(code):
		p.faultf("there is no `%s`", code)
		return ""
	case stamp == "":
		p.faultf("`%s` stands behind no file", code)
	case !p.contains(stamp, code):
		p.faultf("`%s` has no `%s`", stamp, code)
	}
	return stamp
}

// exists reports whether there is such a file or folder. NAME in it stands for any name.
func (p *places) exists(file string) bool {
	found, err := fs.Glob(p.tree, strings.ReplaceAll(path.Clean(file), "NAME", "*"))
	require.NoError(p.t, err)
	return len(found) > 0
}

// isFolder reports whether this word is a folder of the tree.
func (p *places) isFolder(word string) bool {
	info, err := fs.Stat(p.tree, word)
	return !strings.Contains(word, "/") && err == nil && info.IsDir()
}

func (p *places) content(file string) string {
	content, err := fs.ReadFile(p.tree, file)
	require.NoError(p.t, err)
	return string(content)
}

func (p *places) judgeMake(command string) {
	_, targets, _ := strings.Cut(command, "make ")
	for _, target := range strings.Fields(targets) {
		if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(target) + `:`).MatchString(p.content("Makefile")) {
			p.faultf("the Makefile has no target %s", target)
		}
	}
}

func (p *places) judgeGo(command string) {
	words, folder := strings.Fields(command), ""
	for i, word := range words {
		switch {
		case strings.HasPrefix(word, "./"):
			if folder = word; !p.exists(folder) {
				p.faultf("there is no `%s`", folder)
				return
			}
		case word == "-run" && i+1 < len(words):
			if !p.anyFile(folder, func(file string) bool {
				return regexp.MustCompile(`(?m)^func Test\w*(?:` + words[i+1] + `)`).MatchString(p.content(file))
			}) {
				p.faultf("no test of %s matches %s", folder, words[i+1])
			}
		}
	}
}

// anyFile reports whether it is true of one of the Go files of a folder.
func (p *places) anyFile(folder string, current func(file string) bool) bool {
	files, err := fs.Glob(p.tree, path.Join(folder, "*.go"))
	require.NoError(p.t, err)
	for _, file := range files {
		if current(file) {
			return true
		}
	}
	return false
}

// contains reports whether a name is in a file, or in one of the Go files of a folder. A Go file has what it declares, other files have their words.
func (p *places) contains(stamp, name string) bool {
	switch path.Ext(stamp) {
	case ".go":
		return p.declares(stamp, name)
	case "":
		if info, err := fs.Stat(p.tree, stamp); err == nil && info.IsDir() {
			return p.anyFile(stamp, func(file string) bool { return p.declares(file, name) })
		}
	}
	return regexp.MustCompile(`(^|\W)` + regexp.QuoteMeta(name) + `($|\W)`).MatchString(p.content(stamp))
}

// declares reports whether a Go file declares a function, a method, a type, a field, a constant or a variable of this name.
func (p *places) declares(file, name string) (declared bool) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, p.content(file), parser.SkipObjectResolution)
	require.NoError(p.t, err)
	note := func(names ...*ast.Ident) {
		for _, ident := range names {
			declared = declared || ident.Name == name
		}
	}
	for _, declaration := range parsed.Decls {
		if function, ok := declaration.(*ast.FuncDecl); ok {
			note(function.Name)
			continue
		}
		ast.Inspect(declaration, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.TypeSpec:
				note(node.Name)
			case *ast.ValueSpec:
				note(node.Names...)
			case *ast.Field:
				note(node.Names...)
			case *ast.FuncLit:
				return false
			}
			return true
		})
	}
	return declared
}
