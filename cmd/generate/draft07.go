package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
)

// draft07 returns a schema as JSON Schema has it. Helm reads it before it asks the API server. It knows no expressions, but for those that say that exactly
// one of some fields is given.
func draft07(s schema) schema {
	converted := schema{}
	for name, value := range s {
		switch name {
		case "anyOf": // of an integer or string
		case "x-kubernetes-int-or-string":
			converted["type"] = []string{"integer", "string"}
		case "x-kubernetes-validations":
			if fields := oneOf(value); len(fields) > 0 {
				converted["oneOf"] = fields
			}
		case "nullable": // below
		case "properties":
			fields := schema{}
			for field, inner := range value.(schema) {
				fields[field] = draft07(inner.(schema))
			}
			converted[name] = fields
		case "items", "additionalProperties":
			converted[name] = draft07(value.(schema))
		default:
			converted[name] = value
		}
	}
	if _, isMap := converted["additionalProperties"]; s["type"] == "object" && !isMap {
		converted["additionalProperties"] = false
	}
	if s["nullable"] == true {
		switch typ := converted["type"].(type) {
		case string:
			converted["type"] = []string{typ, "null"}
		case []string:
			converted["type"] = append(typ, "null")
		}
	}
	return converted
}

var counted = regexp.MustCompile(`\(has\(self\.(\w+)\)\?1:0\)`)

// oneOf returns the fields of which exactly one must be given.
func oneOf(validations any) (alternatives []schema) {
	for _, validation := range validations.([]any) {
		for _, field := range counted.FindAllStringSubmatch(validation.(schema)["rule"].(string), -1) {
			alternatives = append(alternatives, schema{"required": []string{field[1]}})
		}
	}
	return alternatives
}

// policyValue is the schema of the value policy, in the schema of all values.
var policyValue = regexp.MustCompile(`(?s)\n    "policy": \{.*?\n    \},`)

// withPolicy returns the schema of the chart's values with another schema for the policy.
func withPolicy(values []byte, policy schema) ([]byte, error) {
	text := bytes.Buffer{}
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("    ", "  ")
	if err := encoder.Encode(policy); err != nil {
		return nil, err
	}
	indices := policyValue.FindIndex(values)
	if indices == nil {
		return nil, errors.New("has no property policy")
	}
	return bytes.Join([][]byte{values[:indices[0]], []byte("\n    \"policy\": "), bytes.TrimSpace(text.Bytes()), []byte(","), values[indices[1]:]}, nil), nil
}
