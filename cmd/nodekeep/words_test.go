package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// wordsFile is the one list of words: vale holds the pages to it, the test below holds the source to it.
const wordsFile = "../../docs/style/nodekeep/Words.yml"

// Go files: comments, string literals (help texts, errors, Events, logs, names of subtests) and names of tests. Other files: every line.
func TestTheSourceUsesTheWordsOfTheStyle(t *testing.T) {
	words, anyWord := readWords(t)
	read := 0
	require.NoError(t, filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name := entry.Name(); path != "../.." && (strings.HasPrefix(name, ".") && name != ".ci" && name != ".github" || name == "bin" || name == "style" || name == "crds") { // crds are copies of other projects
				return filepath.SkipDir
			}
			return nil
		}
		lines := plainText
		switch filepath.Ext(path) {
		case ".go":
			lines = goText
		case ".yaml", ".yml", ".tpl", ".txt", ".sh":
		default:
			if entry.Name() != "Makefile" && entry.Name() != "Dockerfile" && entry.Name() != "run" {
				return nil
			}
		}
		read++
		for _, line := range lines(t, path) {
			if !anyWord.MatchString(line.text) { // nearly always, and one pass instead of one for each word
				continue
			}
			for _, word := range words {
				if found := word.pattern.FindString(line.text); found != "" {
					t.Errorf("%s:%d: write %q, not %q: %s", strings.TrimPrefix(path, "../../"), line.number, word.write, found, line.text)
				}
			}
		}
		return nil
	}))
	assert.Greater(t, read, 500, "the source must have been read")
}

type word struct {
	pattern *regexp.Regexp
	write   string
}

// readWords are the words, and a pattern that matches where any of them does.
func readWords(t *testing.T) (all []word, anyWord *regexp.Regexp) {
	t.Helper()
	content, err := os.ReadFile(wordsFile)
	require.NoError(t, err)
	var style struct {
		Swap map[string]string `json:"swap"`
	}
	require.NoError(t, yaml.Unmarshal(content, &style))
	require.Greater(t, len(style.Swap), 20)
	of := func(pattern string) *regexp.Regexp { return regexp.MustCompile(`(?i)\b(?:` + pattern + `)\b`) }
	for pattern, write := range style.Swap {
		all = append(all, word{of(pattern), write})
	}
	return all, of(strings.Join(slices.Collect(maps.Keys(style.Swap)), "|"))
}

type numbered struct {
	number int
	text   string
}

func plainText(t *testing.T, path string) []numbered {
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return numberLines(1, string(content))
}

func goText(t *testing.T, path string) []numbered {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, parser.ParseComments)
	require.NoError(t, err)
	var all []numbered
	add := func(at token.Pos, text string) { all = append(all, numberLines(files.Position(at).Line, text)...) }
	names := map[string]bool{}
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.Ident:
			names[node.Name] = true
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			node.Tag = nil // the names of fields in JSON
		case *ast.FuncDecl:
			if strings.HasPrefix(node.Name.Name, "Test") {
				add(node.Pos(), spaced(node.Name.Name))
			}
		case *ast.BasicLit:
			if node.Kind == token.STRING {
				text, err := strconv.Unquote(node.Value)
				require.NoError(t, err)
				add(node.Pos(), text)
			}
		}
		return true
	})
	for _, group := range file.Comments {
		for _, comment := range group.List {
			text := comment.Text
			if begin := firstWord.FindStringSubmatch(text); begin != nil && names[begin[1]] { // the doc of what has this name
				text = strings.TrimPrefix(text, begin[0])
			}
			add(comment.Pos(), text)
		}
	}
	return all
}

var firstWord = regexp.MustCompile(`^// ([A-Za-z]\w*) `)

// spaced splits the name of a test: TestARecordOfAPIServers into Test A Record Of API Servers.
func spaced(name string) string {
	return afterCapital.ReplaceAllString(afterSmall.ReplaceAllString(name, "$1 $2"), "$1 $2")
}

var (
	afterSmall   = regexp.MustCompile(`([a-z0-9])([A-Z])`)
	afterCapital = regexp.MustCompile(`([A-Z])([A-Z][a-z])`)
)

func TestNamesOfTestsAreSplitIntoWords(t *testing.T) {
	assert.Equal(t, "Test A Record Of A Node Waits For API Servers", spaced("TestARecordOfANodeWaitsForAPIServers"))
}

func numberLines(first int, text string) []numbered {
	var all []numbered
	for line := range strings.Lines(text) {
		all = append(all, numbered{first + len(all), strings.TrimSpace(line)})
	}
	return all
}
