package governance

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"text/template"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"nodekeep.dev/nodekeep/manifests"
)

// Names of the admission policies, and of their bindings. A policy exists if a key of its mode has something that a request can break. The
// policy of mode deny also exists if keys are reserved.
const (
	DenyPolicy  = "nodekeep-governance-deny"
	WarnPolicy  = "nodekeep-governance-warn"
	AuditPolicy = "nodekeep-governance-audit"
)

// PolicyNames are those of all admission policies and bindings.
func PolicyNames() []string { return []string{DenyPolicy, WarnPolicy, AuditPolicy} }

// Render writes the admission policies and their bindings, as YAML documents, for an installation in a namespace. It executes the template of
// the chart, so the result is that of `helm template` with the same policy. Rules that no request can break need no policy: then it is empty.
func Render(rules Rules, namespace string) (string, error) {
	settings, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&rules.settings)
	if err != nil {
		return "", fmt.Errorf("encode governance: %w", err)
	}
	parsed, err := template.New("governance.yaml").Funcs(functions()).Parse(manifests.Governance)
	if err != nil {
		return "", fmt.Errorf("read the template of the chart: %w", err)
	}
	var text strings.Builder
	err = parsed.Execute(&text, map[string]any{
		"Values":  map[string]any{"policy": map[string]any{"governance": settings}},
		"Release": map[string]any{"Namespace": namespace},
	})
	if err != nil {
		return "", fmt.Errorf("render admission policies: %w", err)
	}
	return strings.TrimPrefix(strings.TrimSpace(text.String())+"\n", "\n"), nil
}

// Objects are what [Render] writes.
func Objects(rules Rules, namespace string) (objects []map[string]any, err error) {
	text, err := Render(rules, namespace)
	if err != nil {
		return nil, err
	}
	for document := range strings.SplitSeq(text, "---\n") {
		if strings.TrimSpace(document) == "" {
			continue
		}
		var object map[string]any
		if err := yaml.UnmarshalStrict([]byte(document), &object); err != nil {
			return nil, fmt.Errorf("decode a rendered admission policy: %w", err)
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// integer is a number of the template.
func integer(number any) (int64, error) {
	switch n := number.(type) {
	case int:
		return int64(n), nil
	case int64:
		return n, nil
	}
	return 0, fmt.Errorf("%v is no number that is known here", number)
}

func calculate(a, b any, by func(a, b int64) int64) (int64, error) {
	x, err := integer(a)
	if err != nil {
		return 0, err
	}
	y, err := integer(b)
	if err != nil {
		return 0, err
	}
	return by(x, y), nil
}

// functions are those that the template uses, as Helm has them.
func functions() template.FuncMap {
	return template.FuncMap{
		"list":      func(values ...any) []any { return values },
		"append":    func(list []any, value any) []any { return append(list[:len(list):len(list)], value) },
		"hasPrefix": func(prefix, text string) bool { return strings.HasPrefix(text, prefix) },
		"replace":   func(old, with, text string) string { return strings.ReplaceAll(text, old, with) },
		"dict": func(pairs ...any) (map[string]any, error) {
			if len(pairs) > 0 {
				return nil, errors.New("dict: only an empty one is known here")
			}
			return map[string]any{}, nil
		},
		"set": func(into map[string]any, key string, value any) map[string]any {
			into[key] = value
			return into
		},
		"add": func(numbers ...any) (sum int64, err error) {
			for _, number := range numbers {
				one, err := integer(number)
				if err != nil {
					return 0, err
				}
				sum += one
			}
			return sum, nil
		},
		"mul": func(a, b any) (int64, error) { return calculate(a, b, func(a, b int64) int64 { return a * b }) },
		"div": func(a, b any) (int64, error) { return calculate(a, b, func(a, b int64) int64 { return a / b }) },
		"min": func(a, b any) (int64, error) { return calculate(a, b, func(a, b int64) int64 { return min(a, b) }) },
		"default": func(otherwise any, given ...any) any {
			if len(given) == 0 || given[0] == nil || reflect.ValueOf(given[0]).IsZero() {
				return otherwise
			}
			return given[0]
		},
		"toJson": func(value any) (string, error) {
			encoded, err := json.Marshal(value)
			return string(encoded), err
		},
	}
}
