package view

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
)

// Mistake is one that was found in a policy file.
type Mistake struct {
	Line  int    `json:"line,omitempty"`  // in the file, from 1; 0 where there is none to point at
	Field string `json:"field,omitempty"` // its path
	What  string `json:"what"`
}

// At is the mistake as compilers write theirs, which editors can follow.
func (m Mistake) At(file string) string {
	if m.Line > 0 {
		file += ":" + strconv.Itoa(m.Line)
	}
	return file + ": " + m.What
}

// Mistakes takes apart what [nodekeep.dev/nodekeep/policy.Load] says of a file, in the order of its lines.
func Mistakes(content []byte, err error) (all []Mistake) {
	if err == nil {
		return nil
	}
	lines := linesOf(content)
	for _, one := range parts(err) {
		all = append(all, mistakes(one, lines)...)
	}
	slices.SortStableFunc(all, func(a, b Mistake) int { return cmp.Compare(a.Line, b.Line) })
	return all
}

// parts are the errors that were joined.
func parts(err error) []error {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return joined.Unwrap()
	}
	if inner := errors.Unwrap(err); inner != nil {
		return []error{inner}
	}
	return []error{err}
}

// parserLine is how the YAML parser names a line.
var parserLine = regexp.MustCompile(`^(?:error converting YAML to JSON: )?(?:yaml: )?line (\d+): `)

func mistakes(err error, lines lines) []Mistake {
	var invalid *field.Error
	var strict kjson.FieldError
	switch {
	case errors.As(err, &invalid):
		return []Mistake{{Line: lines.of(invalid.Field), Field: invalid.Field, What: err.Error()}}
	case errors.As(err, &strict):
		return []Mistake{{Line: lines.of(strict.FieldPath()), Field: strict.FieldPath(), What: err.Error()}}
	}
	var found []Mistake
	for text := range strings.SplitSeq(err.Error(), "\n") { // the parser has a line of text for each
		text = strings.TrimSpace(text)
		if strings.HasSuffix(text, "unmarshal errors:") {
			continue
		}
		mistake := Mistake{What: text}
		if at := parserLine.FindStringSubmatch(text); at != nil {
			mistake.Line, _ = strconv.Atoi(at[1])
			mistake.What = strings.TrimPrefix(text, at[0])
		}
		found = append(found, mistake)
	}
	return found
}

// lines finds the line of a field. The zero value finds none.
type lines struct{ root *yaml.Node }

func linesOf(content []byte) lines {
	var document yaml.Node
	if yaml.Unmarshal(content, &document) != nil || len(document.Content) != 1 {
		return lines{}
	}
	return lines{root: document.Content[0]}
}

// of is the line of the field with that path, or of what stands around it; 0 where that is the whole file.
func (l lines) of(path string) (line int) {
	for node := l.root; node != nil && path != ""; {
		node, path = child(node, path)
		if node != nil {
			line = node.Line
		}
	}
	return line
}

// child finds what the path begins with and what is left of it. The value of a field begins where its name stands.
func child(node *yaml.Node, path string) (*yaml.Node, string) {
	path = strings.TrimPrefix(path, ".")
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	switch node.Kind {
	case yaml.SequenceNode:
		var index int
		if _, err := fmt.Sscanf(path, "[%d]", &index); err == nil && index >= 0 && index < len(node.Content) {
			return node.Content[index], path[strings.Index(path, "]")+1:]
		}
	case yaml.MappingNode:
		for i := len(node.Content) - 2; i >= 0; i -= 2 { // of a repeated name the last value counts
			name, value := node.Content[i], *node.Content[i+1]
			rest, begins := strings.CutPrefix(path, name.Value)
			if begins && (rest == "" || rest[0] == '.' || rest[0] == '[') {
				value.Line = name.Line
				return &value, rest
			}
		}
	}
	return nil, ""
}
