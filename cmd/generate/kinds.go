package main

import (
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"nodekeep.dev/nodekeep/verify"
)

// kinds has a row for each kind of check.
func kinds() string {
	rows := []string{"| Check | It passes when | What else to know |", "|---|---|---|"}
	for _, kind := range verify.Kinds() {
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |", kind.Name, kind.Passes, kind.Notes))
	}
	return strings.Join(rows, "\n") + "\n"
}

// oneKind returns a CustomResourceDefinition whose checks must have exactly one kind.
func oneKind(crd []byte) ([]byte, error) {
	var definition schema
	if err := yaml.Unmarshal(crd, &definition); err != nil {
		return nil, fmt.Errorf("read what controller-gen made: %w", err)
	}
	names, given := []string{}, []string{}
	for _, kind := range verify.Kinds() {
		names, given = append(names, kind.Name), append(given, "(has(self."+kind.Name+")?1:0)")
	}
	for _, version := range definition["spec"].(schema)["versions"].([]any) {
		check := version.(schema)
		for _, name := range []string{"schema", "openAPIV3Schema", "properties", "spec", "properties", "verify", "properties", "profiles", "items", "properties", "checks", "items"} {
			check, _ = check[name].(schema)
		}
		if check == nil {
			return nil, errors.New("controller-gen made no schema of a check")
		}
		rules, _ := check["x-kubernetes-validations"].([]any) // of markers at the type
		check["x-kubernetes-validations"] = append(rules, schema{
			"rule":    strings.Join(given, "+") + " == 1",
			"message": fmt.Sprintf("exactly one of the fields in %s must be set", names),
		})
	}
	return yaml.Marshal(definition)
}
