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

// Texts for users: string literals of Go files that are no tests (help texts, errors, Events, logs), and every line of the manifests.
func TestTextsForUsersUseTheWordsOfTheStyle(t *testing.T) {
	words, anyWord := readWords(t)
	read := 0
	require.NoError(t, filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name := entry.Name(); path != "../.." && (strings.HasPrefix(name, ".") || name == "test" || name == "testdata" || name == "docs" || name == "crds") { // crds are copies of other projects
				return filepath.SkipDir
			}
			return nil
		}
		lines := plainText
		switch filepath.Ext(path) {
		case ".go":
			if strings.HasSuffix(path, "_test.go") {
				return nil
			}
			lines = literals
		case ".yaml", ".tpl", ".txt":
		default:
			return nil
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
	assert.Greater(t, read, 400, "the source must have been read")
}

type word struct {
	pattern *regexp.Regexp
	write   string
}

// readWords returns the words, and a pattern that matches where any of them does.
func readWords(t *testing.T) (all []word, anyWord *regexp.Regexp) {
	t.Helper()
	content, err := os.ReadFile(wordsFile)
	require.NoError(t, err)
	var style struct {
		Swap map[string]string `json:"swap"`
	}
	require.NoError(t, yaml.Unmarshal(content, &style))
	require.Greater(t, len(style.Swap), 20)
	fn := func(pattern string) *regexp.Regexp { return regexp.MustCompile(`(?i)\b(?:` + pattern + `)\b`) }
	for pattern, write := range style.Swap {
		all = append(all, word{fn(pattern), write})
	}
	return all, fn(strings.Join(slices.Collect(maps.Keys(style.Swap)), "|"))
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

func literals(t *testing.T, path string) []numbered {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, 0)
	require.NoError(t, err)
	var all []numbered
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			node.Tag = nil // the names of fields in JSON
		case *ast.BasicLit:
			if node.Kind == token.STRING {
				text, err := strconv.Unquote(node.Value)
				require.NoError(t, err)
				all = append(all, numberLines(files.Position(node.Pos()).Line, text)...)
			}
		}
		return true
	})
	return all
}

func numberLines(first int, text string) []numbered {
	var all []numbered
	for line := range strings.Lines(text) {
		all = append(all, numbered{first + len(all), strings.TrimSpace(line)})
	}
	return all
}
