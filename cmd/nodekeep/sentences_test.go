package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// mostWords of a sentence, as in docs/style/nodekeep/Sentences.yml for the pages.
const mostWords = 20

// Tests are left out: their names are sentences by themselves.
func TestNoSentenceOfACommentHasMoreThanTwentyWords(t *testing.T) {
	read := 0
	require.NoError(t, filepath.WalkDir("../..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.ParseComments)
		require.NoError(t, err)
		for _, group := range file.Comments {
			for _, sentence := range sentences(group.Text()) {
				read++
				if count := len(strings.Fields(sentence)); count > mostWords {
					t.Errorf("%s: split this sentence of %d words: %s", strings.TrimPrefix(files.Position(group.Pos()).String(), "../../"), count, sentence)
				}
			}
		}
		return nil
	}))
	assert.Greater(t, read, 5000, "the source must have been read")
}

var (
	sentenceEnd = regexp.MustCompile(`[.!?:;]["')]*\s+[A-Z` + "`" + `\[("]`)
	listItem    = regexp.MustCompile(`^\s*(-|\d+\.)\s`)
)

// marker is a line for controller-gen.
var marker = regexp.MustCompile(`(?m)^\+(kubebuilder:|groupName=).*$`)

// sentences of a comment. Indented lines are code, but for list items and the lines that continue one.
func sentences(text string) (all []string) {
	var paragraph []string
	inList := false
	flush := func() {
		rest := strings.Join(paragraph, " ")
		for {
			end := sentenceEnd.FindStringIndex(rest)
			if end == nil {
				break
			}
			all, rest = append(all, rest[:end[0]+1]), rest[end[1]-1:]
		}
		if rest != "" {
			all = append(all, rest)
		}
		paragraph = nil
	}
	for line := range strings.Lines(marker.ReplaceAllString(text, "")) {
		indented := strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t")
		switch {
		case strings.TrimSpace(line) == "":
			flush()
			inList = false
			continue
		case listItem.MatchString(line):
			flush()
			inList = true
			line = listItem.ReplaceAllString(line, "")
		case indented && !inList:
			flush()
			continue
		case !indented:
			inList = false
		}
		paragraph = append(paragraph, strings.TrimSpace(line))
	}
	flush()
	return all
}

func TestACommentIsSplitIntoSentences(t *testing.T) {
	assert.Equal(t, []string{"What it is."}, sentences("What it is.\n+kubebuilder:validation:Enum=a;b\n"))
	assert.Equal(t, []string{"One thing.", "Another: it is here;", "And a third.", "An item that goes on in the next line.", "Its end."},
		sentences("One thing.\nAnother: it is here; And a third.\n\n\tcode that is no. Sentence\n\n  - An item that goes on\n    in the next line. Its end.\n"))
}
