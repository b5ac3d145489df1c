package main

import (
	"fmt"
	"slices"

	"sigs.k8s.io/yaml"
)

// nullable returns a CustomResourceDefinition whose optional fields may be null, which is as if they were left out. Server-side apply writes null for a
// map from which it removes the last field. Without this, a NodePolicy could not be applied with an empty spec. Helm's values are null where a
// value from before is to be removed. A field with a list of its values stays as it is. The API server takes no null among them.
func nullable(crd []byte) ([]byte, error) {
	var definition schema
	if err := yaml.Unmarshal(crd, &definition); err != nil {
		return nil, fmt.Errorf("read what controller-gen made: %w", err)
	}
	for _, version := range definition["spec"].(schema)["versions"].([]any) {
		allowNull(version.(schema)["schema"].(schema)["openAPIV3Schema"].(schema)["properties"].(schema)["spec"].(schema), true)
	}
	return yaml.Marshal(definition)
}

// allowNull lets an optional field, and all optional ones inside, be null. It returns the schema that it changes.
func allowNull(s schema, optional bool) schema {
	if _, listed := s["enum"]; optional && !listed {
		s["nullable"] = true
	}
	required, _ := s["required"].([]any)
	fields, _ := s["properties"].(schema)
	for name, field := range fields {
		allowNull(field.(schema), !slices.Contains(required, any(name)))
	}
	for _, inner := range []string{"items", "additionalProperties"} {
		if items, ok := s[inner].(schema); ok {
			allowNull(items, false)
		}
	}
	return s
}
