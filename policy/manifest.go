package policy

import (
	"encoding/json"
	"math"
	"reflect"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"nodekeep.dev/nodekeep/verify"
)

// manifest is a NodePolicy as a file has it, or the API server. Who reads it does not look at its metadata, but for the name, nor at its status.
type manifest struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Metadata   json.RawMessage `json:"metadata"`
	Spec       Spec            `json:"spec"`
	Status     json.RawMessage `json:"status"`
}

// name is metadata.name; empty if there is none.
func (m manifest) name() string {
	var metadata struct {
		Name string `json:"name"`
	}
	_ = json.Unmarshal(m.Metadata, &metadata) // metadata of a wrong form have no name
	return metadata.Name
}

// readManifest decodes a manifest. The result mistyped has the values of a wrong type. The result strict has unknown fields, repeated fields
// and a second document; all other content is still decoded. The result err is for a file that cannot be decoded.
func readManifest(data []byte) (m manifest, mistyped field.ErrorList, strict []error, err error) {
	var content any
	if repeated := yaml.UnmarshalStrict(data, &content); repeated != nil {
		content = nil
		if err := yaml.Unmarshal(data, &content); err != nil {
			return manifest{}, nil, nil, err
		}
		strict = append(strict, repeated)
	}
	strict = append(strict, misreadKeys(data)...)
	if severalDocuments(data) {
		strict = append(strict, errSeveralDocuments)
	}
	root, isMap := content.(map[string]any)
	if !isMap && content != nil {
		return manifest{}, nil, nil, errNoMap
	}
	fits(root, reflect.TypeFor[manifest](), nil, &mistyped)
	fitting, err := json.Marshal(root)
	if err != nil {
		return manifest{}, nil, nil, err
	}
	m.Spec = defaultSpec()
	unknown, err := kjson.UnmarshalStrict(fitting, &m)
	return m, mistyped, append(strict, unknown...), err
}

// fits reports whether a decoded value is of a type. In a map or list it removes each null and each value that does not fit, and
// names the latter. The JSON decoder would name the first of them only.
func fits(value any, want reflect.Type, path *field.Path, mistyped *field.ErrorList) bool {
	if want.Kind() == reflect.Pointer {
		want = want.Elem()
	}
	ok, form := true, ""
	switch {
	case want == reflect.TypeFor[json.RawMessage]():
	case want == reflect.TypeFor[verify.Quantity]():
		ok, form = textOrNumber(value), "a quantity, such as 1 or 64Gi"
	case want == reflect.TypeFor[Retention]():
		ok, form = textOrNumber(value), "a duration in h, m and s, such as 720h, or 0 for ever"
	case want == reflect.TypeFor[intstr.IntOrString]():
		switch value := value.(type) {
		case string, int64:
		case float64: // as YAML reads every number
			ok, form = value == float64(int32(value)), "a whole number of Nodes"
		default:
			ok, form = false, "a number of Nodes, or a percentage such as 20%"
		}
	case want.Kind() == reflect.Struct:
		var fields map[string]any
		fields, ok = value.(map[string]any)
		form = "a map of fields"
		for _, known := range reflect.VisibleFields(want) {
			name, _, _ := strings.Cut(known.Tag.Get("json"), ",")
			if inner, set := fields[name]; set && (inner == nil || !fits(inner, known.Type, path.Child(name), mistyped)) {
				delete(fields, name)
			}
		}
	case want.Kind() == reflect.Slice:
		var list []any
		list, ok = value.([]any)
		form = "a list"
		for i, inner := range list {
			if !fits(inner, want.Elem(), path.Index(i), mistyped) {
				list[i] = nil
			}
		}
	case want.Kind() == reflect.Map:
		var entries map[string]any
		entries, ok = value.(map[string]any)
		form = "a map"
		for key, inner := range entries {
			if !fits(inner, want.Elem(), path.Key(key), mistyped) {
				delete(entries, key)
			}
		}
	case want.Kind() == reflect.Int:
		number, found := value.(float64)
		_, ok = value.(int64)
		ok = ok || found && number == math.Trunc(number)
		form = "a whole number"
	case want.Kind() == reflect.Bool:
		_, ok = value.(bool)
		form = "true or false"
	default:
		_, ok = value.(string)
		form = "a string"
		switch value.(type) {
		case bool, int64, float64:
			form += "; put it in quotes"
		}
	}
	if !ok {
		text, err := json.Marshal(value)
		if err != nil {
			text = []byte(err.Error())
		}
		*mistyped = append(*mistyped, field.TypeInvalid(path, unquoted(text), "must be "+form))
	}
	return ok
}

func textOrNumber(value any) bool {
	switch value.(type) {
	case string, int64, float64:
		return true
	}
	return false
}

// documentMark is the line that begins or ends a document; no line inside one looks like that. A line that content matches is neither empty
// nor a comment nor a directive.
var (
	documentMark = regexp.MustCompile(`(?m)^(---|\.\.\.)(\s|$)`)
	content      = regexp.MustCompile(`(?m)^\s*[^\s#%]`)
)

// severalDocuments reports whether there is more than one document. The parser reads the first and ignores the others.
func severalDocuments(data []byte) bool {
	documents := 0
	for _, part := range documentMark.Split(string(data), -1) {
		if content.MatchString(part) {
			documents++
		}
	}
	return documents > 1
}
