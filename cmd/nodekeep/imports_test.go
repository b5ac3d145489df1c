package main

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const designFile = "../../docs/design.md"

// The table decides each import: one that it does not list is refused, and so is a package without a row.
func TestThePackagesImportWhatTheTableOfTheDesignLists(t *testing.T) {
	page, err := os.ReadFile(designFile)
	require.NoError(t, err)
	rows := readImportRows(t, string(page))
	packages, imports := readImports(t, os.DirFS("../.."))
	require.Greater(t, len(imports), 100, "the source must have been read")
	for _, fault := range importFaults(rows, packages, imports) {
		t.Errorf("docs/design.md, section 2: %s", fault)
	}
}

func TestAnImportThatTheTableDoesNotListIsRefused(t *testing.T) {
	const table = `
## 2. Packages

| Package | Imports | Only its tests import |
|---|---|---|
| ` + "`store` | `record`" + ` | |
| ` + "`verify` | `quantity` | `record`" + ` |
| ` + "`quantity`" + ` | | |
| ` + "`record`" + ` | | |
| ` + "`test/model`" + ` | | |
| ` + "`test/...`" + ` | any | |
`
	tree := func() fstest.MapFS {
		return fstest.MapFS{
			"store/store.go":             source("nodekeep.dev/nodekeep/record", "context"),
			"store/store_test.go":        source("nodekeep.dev/nodekeep/store", "nodekeep.dev/nodekeep/test/harness", "nodekeep.dev/nodekeep/policy/policytest"),
			"verify/plan.go":             source("nodekeep.dev/nodekeep/quantity"),
			"verify/plan_test.go":        source("nodekeep.dev/nodekeep/record"),
			"quantity/quantity.go":       source("k8s.io/apimachinery"),
			"record/record.go":           source(),
			"record/testdata/written.go": source("nodekeep.dev/nodekeep/verify"),
			"test/model/model.go":        source(),
			"test/harness/harness.go":    source("nodekeep.dev/nodekeep/store"),
		}
	}
	tests := map[string]struct {
		change func(fstest.MapFS)
		table  func(string) string
		faults []string
	}{
		"a tree as the table says": {},
		"a package that imports what no row lists": {
			change: func(tree fstest.MapFS) { tree["store/get.go"] = source("nodekeep.dev/nodekeep/verify") },
			faults: []string{"store/get.go imports `verify`, which the row of `store` does not list"},
		},
		"an import in a file that other platforms or tags build": {
			change: func(tree fstest.MapFS) {
				tree["store/get_windows.go"] = source("nodekeep.dev/nodekeep/verify")
			},
			faults: []string{"store/get_windows.go imports `verify`, which the row of `store` does not list"},
		},
		"a sub-package of one that is listed": {
			change: func(tree fstest.MapFS) { tree["store/get.go"] = source("nodekeep.dev/nodekeep/record/history") },
			faults: []string{"store/get.go imports `record/history`, which the row of `store` does not list"},
		},
		"an import that only tests may have": {
			change: func(tree fstest.MapFS) { tree["verify/check.go"] = source("nodekeep.dev/nodekeep/record") },
			faults: []string{
				"verify/check.go imports `record`, which the row of `verify` does not list",
				"the row of `verify` lists `record` for its tests alone, and none of them needs that",
			},
		},
		"a test that imports what no row lists": {
			change: func(tree fstest.MapFS) { tree["record/record_test.go"] = source("nodekeep.dev/nodekeep/verify") },
			faults: []string{"record/record_test.go imports `verify`, which the row of `record` does not list"},
		},
		"a test that imports what only another one may": {
			change: func(tree fstest.MapFS) {
				tree["verify/model_test.go"] = source("nodekeep.dev/nodekeep/record")
			},
			table: func(table string) string {
				return strings.Replace(table, "| `quantity` | `record` |", "| `quantity` | `record` in `plan*_test.go` |", 1)
			},
			faults: []string{"verify/model_test.go imports `record`, which the row of `verify` does not list"},
		},
		"tests that import what they alone may": {
			table: func(table string) string {
				return strings.Replace(table, "| `quantity` | `record` |", "| `quantity` | `record` in `plan*_test.go` |", 1)
			},
		},
		"what is for tests, in the product": {
			change: func(tree fstest.MapFS) {
				tree["record/fill.go"] = source("nodekeep.dev/nodekeep/test/harness", "nodekeep.dev/nodekeep/policy/policytest")
			},
			faults: []string{
				"record/fill.go imports `policy/policytest`, which the row of `record` does not list",
				"record/fill.go imports `test/harness`, which the row of `record` does not list",
			},
		},
		"a package below test that has a row of its own": {
			change: func(tree fstest.MapFS) { tree["test/model/store.go"] = source("nodekeep.dev/nodekeep/store") },
			faults: []string{"test/model/store.go imports `store`, which the row of `test/model` does not list"},
		},
		"a new package": {
			change: func(tree fstest.MapFS) { tree["plan/plan.go"] = source() },
			faults: []string{"`plan` has no row"},
		},
		"a row of a package that does not exist": {
			change: func(tree fstest.MapFS) { delete(tree, "test/model/model.go") },
			faults: []string{"the row of `test/model` is about no package"},
		},
		"an import that no file has": {
			change: func(tree fstest.MapFS) { tree["store/store.go"] = source() },
			faults: []string{"the row of `store` lists `record`, which none of its files imports"},
		},
		"an import of a row above": {
			change: func(tree fstest.MapFS) { tree["quantity/store.go"] = source("nodekeep.dev/nodekeep/store") },
			table: func(table string) string {
				return strings.Replace(table, "| `quantity` | |", "| `quantity` | `store` |", 1)
			},
			faults: []string{"the row of `quantity` is below the one of `store`, which it imports"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tree, page := tree(), table
			if tt.change != nil {
				tt.change(tree)
			}
			if tt.table != nil {
				page = tt.table(page)
			}
			packages, imports := readImports(t, tree)
			assert.ElementsMatch(t, tt.faults, importFaults(readImportRows(t, page), packages, imports))
		})
	}
}

// source returns a Go file that imports these paths.
func source(paths ...string) *fstest.MapFile {
	text := "package source\n"
	for _, path := range paths {
		text += fmt.Sprintf("import _ %q\n", path)
	}
	return &fstest.MapFile{Data: []byte(text)}
}

// packageImport is an import of a package of nodekeep by another one: their folders.
type packageImport struct {
	by, imported string
	test         bool // by a file of tests
}

// readImports returns the folders with Go files, and what these files import of nodekeep, each with the files that do. It reads the files of
// all platforms and tags, which `go list` does not.
func readImports(t *testing.T, tree fs.FS) (packages map[string]bool, imports map[packageImport][]string) {
	t.Helper()
	packages, imports = map[string]bool{}, map[packageImport][]string{}
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
		parsed, err := parser.ParseFile(token.NewFileSet(), file, content, parser.ImportsOnly)
		require.NoError(t, err)
		packages[path.Dir(file)] = true
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			if name, ok := strings.CutPrefix(imported, "nodekeep.dev/nodekeep/"); ok && name != path.Dir(file) {
				key := packageImport{by: path.Dir(file), imported: name, test: strings.HasSuffix(file, "_test.go")}
				imports[key] = append(imports[key], file)
			}
		}
		return nil
	}))
	return packages, imports
}

// importRow is a row of the table: what a package may import of nodekeep, and what only its tests may.
type importRow struct {
	by             string // a package, or all that have no row of their own below a folder: "test/..."
	imports, tests []string
	files          map[string]string // of an import of tests: which of their files may, as a pattern; none: all
	all            bool
}

// lists reports whether the row lets a file of tests import a package.
func (r importRow) lists(name, file string) bool {
	if pattern, found := r.files[name]; found {
		if fits, err := path.Match(pattern, path.Base(file)); err != nil || !fits {
			return false
		}
	}
	return slices.Contains(r.tests, name)
}

// matches reports whether the row is about the package, if that has no row of its own.
func (r importRow) matches(name string) bool {
	folder, pattern := strings.CutSuffix(r.by, "...")
	return r.by == name || pattern && strings.HasPrefix(name, folder)
}

// A cell is a list of packages and nothing else: what a reader sees there is what the test holds. Of an import of tests it can say in which files.
var (
	cellOfPackages = regexp.MustCompile("^(`[a-z0-9/.]+`(, `[a-z0-9/.]+`)*)?$")
	inFiles        = regexp.MustCompile("`([a-z0-9/.]+)` in `([a-z0-9_*]+_test\\.go)`")
)

func readImportRows(t *testing.T, page string) []importRow {
	t.Helper()
	_, table, found := strings.Cut(page, "\n| Package | Imports | Only its tests import |\n|---|---|---|\n")
	require.True(t, found, "the table of the packages")
	table, _, _ = strings.Cut(table, "\n\n")
	list := func(cell string) []string {
		require.Regexp(t, cellOfPackages, cell)
		return strings.FieldsFunc(cell, func(r rune) bool { return strings.ContainsRune("`, ", r) })
	}
	var rows []importRow
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		require.Len(t, cells, 5, line)
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		names := list(cells[1])
		require.Len(t, names, 1, line)
		row := importRow{by: names[0], all: cells[2] == "any", tests: list(inFiles.ReplaceAllString(cells[3], "`$1`")), files: map[string]string{}}
		for _, found := range inFiles.FindAllStringSubmatch(cells[3], -1) {
			row.files[found[1]] = found[2]
		}
		if !row.all {
			row.imports = list(cells[2])
		}
		rows = append(rows, row)
	}
	return rows
}

// importFaults returns the differences between the table and the source.
func importFaults(rows []importRow, packages map[string]bool, imports map[packageImport][]string) []string {
	var faults []string
	faultf := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	rowOf := func(name string) int {
		if current := slices.IndexFunc(rows, func(row importRow) bool { return row.by == name }); current >= 0 {
			return current
		}
		return slices.IndexFunc(rows, func(row importRow) bool { return row.matches(name) })
	}
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		if rowOf(name) < 0 {
			faultf("`%s` has no row", name)
		}
	}
	for imported, files := range imports {
		n := rowOf(imported.by)
		if n < 0 || rows[n].all || slices.Contains(rows[n].imports, imported.imported) {
			continue
		}
		forTests := imported.imported == "policy/policytest" || strings.HasPrefix(imported.imported, "test/")
		if unlisted := slices.IndexFunc(files, func(file string) bool { return !imported.test || !forTests && !rows[n].lists(imported.imported, file) }); unlisted >= 0 {
			faultf("%s imports `%s`, which the row of `%s` does not list", files[unlisted], imported.imported, rows[n].by)
		}
	}
	for n, row := range rows {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(packages)), row.matches) {
			faultf("the row of `%s` is about no package", row.by)
		}
		for _, name := range row.imports {
			if len(imports[packageImport{by: row.by, imported: name}]) == 0 {
				faultf("the row of `%s` lists `%s`, which none of its files imports", row.by, name)
			}
			if below := rowOf(name); below >= 0 && below < n {
				faultf("the row of `%s` is below the one of `%s`, which it imports", row.by, name)
			}
		}
		for _, name := range row.tests {
			if len(imports[packageImport{by: row.by, imported: name, test: true}]) == 0 || len(imports[packageImport{by: row.by, imported: name}]) > 0 {
				faultf("the row of `%s` lists `%s` for its tests alone, and none of them needs that", row.by, name)
			}
		}
	}
	return faults
}
