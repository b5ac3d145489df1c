package policy

import (
	"encoding/json"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
)

// absent reports whether the file leaves a field out; null is as good as nothing.
func absent(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// section reads the fields of a map into the struct that knows them; a field that it does not know is a mistake.
// path is nil for the file itself.
func section(raw json.RawMessage, path *field.Path, into any) (mistakes []error) {
	if absent(raw) {
		return nil
	}
	mistakes, err := kjson.UnmarshalStrict(raw, into)
	switch {
	case err != nil && path == nil:
		return []error{errors.New("must be a map of fields")}
	case err != nil:
		return []error{field.TypeInvalid(path, asWritten(raw), "must be a map of fields")}
	case path == nil:
		return mistakes
	}
	for _, mistake := range mistakes {
		var at kjson.FieldError
		if errors.As(mistake, &at) {
			at.SetFieldPath(path.Child(at.FieldPath()).String())
		}
	}
	return mistakes
}

// mustBe checks a field that has one right value.
func mustBe(raw json.RawMessage, path *field.Path, want string, mistakes *field.ErrorList) {
	var got string
	switch {
	case absent(raw):
		*mistakes = append(*mistakes, field.Required(path, "must be "+want))
	case json.Unmarshal(raw, &got) != nil || got != want:
		*mistakes = append(*mistakes, field.NotSupported(path, asWritten(raw), []string{want}))
	}
}

// oneOf reads a field that has a few right values; where it is absent the default holds.
func oneOf[T ~string](raw json.RawMessage, path *field.Path, byDefault T, allowed []T, mistakes *field.ErrorList) T {
	if absent(raw) {
		return byDefault
	}
	var got T
	if err := json.Unmarshal(raw, &got); err != nil || !slices.Contains(allowed, got) {
		*mistakes = append(*mistakes, field.NotSupported(path, T(asWritten(raw)), allowed))
		return byDefault
	}
	return got
}

// list reads a list of strings; set is false where the file does not have it.
func list(raw json.RawMessage, path *field.Path, mistakes *field.ErrorList) (values []string, set bool) {
	if absent(raw) {
		return nil, false
	}
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		*mistakes = append(*mistakes, field.TypeInvalid(path, asWritten(raw), "must be a list of strings"))
		return nil, false
	}
	for i, item := range items {
		var value string
		if absent(item) || json.Unmarshal(item, &value) != nil {
			*mistakes = append(*mistakes, field.TypeInvalid(path.Index(i), asWritten(item), "must be a string"))
		} else if value == "" {
			*mistakes = append(*mistakes, field.Required(path.Index(i), "is empty"))
		}
		values = append(values, value)
	}
	return values, true
}

// keyPatterns reads a list of key patterns.
func keyPatterns(raw json.RawMessage, path *field.Path, mistakes *field.ErrorList) (patterns []string, set bool) {
	patterns, set = list(raw, path, mistakes)
	for i, pattern := range patterns {
		if err := checkPattern(pattern); pattern != "" && err != nil { // list has reported the empty ones
			*mistakes = append(*mistakes, field.Invalid(path.Index(i), pattern, err.Error()))
		}
	}
	return patterns, set
}

// asWritten is a field as the file has it, without the quotes of a string.
func asWritten(raw json.RawMessage) string {
	var s string
	if !absent(raw) && json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}
