package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// chartValues has a row for each value of the chart, in the columns of helm-docs. The description is the comment above the value. A value that has further
// values below it gets a row of its own only if its comment is not the description of one of these.
func chartValues(file []byte) (string, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(file, &document); err != nil {
		return "", fmt.Errorf("read the values: %w", err)
	}
	if len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode {
		return "", fmt.Errorf("the values are no object")
	}
	rows := []string{"| Key | Type | Default | Description |", "|-----|------|---------|-------------|"}
	below, err := valuesBelow(document.Content[0], "", "")
	return strings.Join(append(rows, below...), "\n") + "\n", err
}

// valuesBelow returns the rows of an object's values. Those without a comment have the one above the object.
func valuesBelow(object *yaml.Node, path, above string) (rows []string, err error) {
	for i := 0; i < len(object.Content); i += 2 {
		key, value := object.Content[i], object.Content[i+1]
		name, description := path+key.Value, comment(key)
		if !explainsBelow(value) {
			if description == "" {
				description = above
			}
			row, err := valueRow(name, description, value)
			if err != nil {
				return nil, err
			}
			rows = append(rows, row)
			continue
		}
		inherited := false
		for n := 0; n < len(value.Content); n += 2 {
			inherited = inherited || comment(value.Content[n]) == "" && !explainsBelow(value.Content[n+1])
		}
		if description != "" && !inherited {
			rows = append(rows, fmt.Sprintf("| %s | object | | %s |", name, description))
		}
		below, err := valuesBelow(value, name+".", description)
		if err != nil {
			return nil, err
		}
		rows = append(rows, below...)
	}
	return rows, nil
}

// explainsBelow reports whether values below this one have comments.
func explainsBelow(value *yaml.Node) bool {
	if value.Kind != yaml.MappingNode {
		return false
	}
	for i := 0; i < len(value.Content); i += 2 {
		if comment(value.Content[i]) != "" || explainsBelow(value.Content[i+1]) {
			return true
		}
	}
	return false
}

// comment returns what stands above a key, as one line that a cell of a table can hold.
func comment(key *yaml.Node) string {
	var words []string
	for line := range strings.Lines(key.HeadComment) {
		words = append(words, strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "#"))...)
	}
	return strings.NewReplacer("|", `\|`, "<", "&lt;", ">", "&gt;", "*", `\*`).Replace(strings.Join(words, " "))
}

// valueRow returns the row of a value that ends the path: a number, a text, or a whole list or object.
func valueRow(name, description string, value *yaml.Node) (string, error) {
	var decoded any
	if err := value.Decode(&decoded); err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	text, err := json.Marshal(decoded)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	typ, known := map[string]string{"!!str": "string", "!!bool": "bool", "!!int": "int", "!!float": "float", "!!seq": "list", "!!map": "object"}[value.ShortTag()]
	if !known {
		return "", fmt.Errorf("%s has no default, so nobody can say of which type it is", name)
	}
	return fmt.Sprintf("| %s | %s | `%s` | %s |", name, typ, strings.ReplaceAll(string(text), "|", `\|`), description), nil
}
