package policy

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
	kyaml "sigs.k8s.io/yaml"
)

var (
	errSeveralDocuments = errors.New("has more than one YAML document; remove all but one")
	errNoMap            = errors.New("must be a map of fields")
)

// FileError is an error in a policy file.
type FileError struct {
	Line    int    `json:"line,omitempty"`  // from 1; 0 where there is none to point at
	Field   string `json:"field,omitempty"` // its path
	Message string `json:"what"`
}

// Location returns the error as compilers write theirs, which editors can follow.
func (e FileError) Location(file string) string {
	if e.Line > 0 {
		file += ":" + strconv.Itoa(e.Line)
	}
	return file + ": " + e.Message
}

// FileErrors are all errors in a policy file, in the order of its lines.
type FileErrors []FileError

func (e FileErrors) Error() string {
	texts := make([]string, len(e))
	for i, fileErr := range e {
		texts[i] = fileErr.Message
		if fileErr.Line > 0 {
			texts[i] = "line " + strconv.Itoa(fileErr.Line) + ": " + fileErr.Message
		}
	}
	return "read policy: " + strings.Join(texts, "\n")
}

// IsNewer reports whether a policy has unknown fields, and no other error: those that a newer version may know.
func IsNewer(err error) bool {
	var errs FileErrors
	return errors.As(err, &errs) && !slices.ContainsFunc(errs, func(fileErr FileError) bool { return !strings.HasPrefix(fileErr.Message, unknownField) })
}

// unknownField is how the decoder begins what it says of one.
const unknownField = "unknown field "

// parserLine is how the YAML parsers name a line.
var parserLine = regexp.MustCompile(`line (\d+): (.*)`)

// located finds the lines of errors.
func located(data []byte, errs ...error) (all FileErrors) {
	var document yaml.Node
	_ = yaml.Unmarshal(data, &document) // of what cannot be read, the parser has named the line
	for _, err := range errs {
		var invalid *field.Error
		var strict kjson.FieldError
		path := ""
		switch {
		case errors.As(err, &invalid):
			path = invalid.Field
		case errors.As(err, &strict):
			path = strict.FieldPath()
		default:
			if found := parserLine.FindAllStringSubmatch(err.Error(), -1); len(found) > 0 {
				for _, match := range found {
					line, _ := strconv.Atoi(match[1])
					all = append(all, FileError{Line: line, Message: match[2]})
				}
				continue
			}
		}
		message := strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")
		all = append(all, FileError{Line: lineOf(&document, path), Field: path, Message: message})
	}
	slices.SortStableFunc(all, func(a, b FileError) int { return cmp.Compare(a.Line, b.Line) })
	return all
}

// lineOf returns the line of the field with that path, or of the field around it. It is 0 if that is the whole file.
func lineOf(document *yaml.Node, path string) (line int) {
	if len(document.Content) != 1 {
		return 0
	}
	for node := document.Content[0]; node != nil && path != ""; {
		if node, path = child(node, path); node != nil {
			line = node.Line
		}
	}
	return line
}

// child finds the field that the path begins with, and the rest of the path. A field begins where its name stands.
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
			if !begins { // a key of a map
				rest, begins = strings.CutPrefix(path, "["+name.Value+"]")
			}
			if begins && (rest == "" || rest[0] == '.' || rest[0] == '[') {
				value.Line = name.Line
				return &value, rest
			}
		}
	}
	return nil, ""
}

// misreadKeys returns an error for each key of a map that YAML 1.1 reads as another text than is written: an unquoted N is false, and 010 is 8. As the name of a
// label or variable, it would be another one.
func misreadKeys(data []byte) (errs []error) {
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		return nil // other errors say why
	}
	meanings := map[string]string{}
	for nodes := []*yaml.Node{&document}; len(nodes) > 0; {
		node := nodes[0]
		nodes = append(nodes[1:], node.Content...)
		for i := 0; node.Kind == yaml.MappingNode && i < len(node.Content); i += 2 {
			key := node.Content[i]
			if key.Kind != yaml.ScalarNode || key.Style != 0 {
				continue
			}
			if _, known := meanings[key.Value]; !known {
				meanings[key.Value] = meaningOf(key.Value)
			}
			if text := meanings[key.Value]; text != key.Value {
				errs = append(errs, fmt.Errorf("line %d: the key %s means %s in YAML: put it in quotes", key.Line, key.Value, text))
			}
		}
	}
	return errs
}

// meaningOf returns how YAML 1.1 reads a key that is not quoted.
func meaningOf(key string) string {
	var read map[string]any
	if err := kyaml.Unmarshal([]byte(key+": 0"), &read); err != nil || len(read) != 1 { // a merge, <<, has no key
		return key
	}
	return slices.Collect(maps.Keys(read))[0]
}
