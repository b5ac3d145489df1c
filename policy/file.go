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

	"nodekeep.dev/nodekeep/classify"
	"nodekeep.dev/nodekeep/governance"
	"nodekeep.dev/nodekeep/inventory"
	"nodekeep.dev/nodekeep/verify"
)

// What the policy file must say of itself.
const (
	apiVersion = "nodekeep.dev/v1alpha1"
	kind       = "Policy"
)

// file is a policy file of version v1alpha1. Fields that can be written in two ways stay raw.
type file struct {
	APIVersion  string          `json:"apiVersion"`
	Kind        string          `json:"kind"`
	Labels      fileLabels      `json:"labels"`
	Taints      fileTaints      `json:"taints"`
	Annotations fileAnnotations `json:"annotations"`
	Cordon      OnCordon        `json:"cordon"`
	Machine     fileMachine     `json:"machine"`
	Verify      verify.Settings `json:"verify"`
	Retention   json.RawMessage `json:"retention"` // a string, or the number 0

	Governance governance.Settings `json:"governance"`
	Inventory  []inventory.Entry   `json:"inventory"`
}

type fileLabels struct {
	Keep           []string   `json:"keep"`
	Ignore         []string   `json:"ignore"`
	Defer          []string   `json:"defer"`
	IgnoreManagers []string   `json:"ignoreManagers"`
	OnConflict     OnConflict `json:"onConflict"`
	Protected      Protected  `json:"protected"`

	Rules      []classify.Rule `json:"rules"`
	Migrations []Migration     `json:"migrations"`
}

type fileTaints struct {
	Keep     []string           `json:"keep"`
	Ignore   []string           `json:"ignore"`
	Register []fileRegistration `json:"register"`
	Rules    []fileRule         `json:"rules"`
}

type fileRegistration struct {
	Taint        string `json:"taint"`
	NodeSelector string `json:"nodeSelector"` // as kubectl -l takes it
}

type fileRule struct {
	Selector string `json:"selector"` // the same
	Taint    string `json:"taint"`
}

type fileAnnotations struct {
	Keep []string `json:"keep"`
}

type fileMachine struct {
	OnMismatch OnMismatch `json:"onMismatch"`
	Follow     bool       `json:"follow"`
}

// defaultFile has what holds where a file says nothing.
func defaultFile() file {
	return file{
		Labels: fileLabels{
			Keep:           []string{"*"},
			IgnoreManagers: []string{"kubelet", "k3s*", "rke2*", "kubelite", "*cloud-controller-manager", "nfd-master"},
			OnConflict:     KeepNode,
			Protected:      Deferred,
		},
		Taints:    fileTaints{Keep: []string{"*"}},
		Cordon:    IgnoreCordon,
		Machine:   fileMachine{OnMismatch: RestoreAnyway},
		Retention: json.RawMessage(`"720h"`),
	}
}

// readFile decodes a policy file. The result mistyped has the values of a wrong type. The result strict has unknown fields, repeated fields
// and a second document; all other content is still decoded. The result err is for a file that cannot be decoded.
func readFile(data []byte) (f file, mistyped field.ErrorList, strict []error, err error) {
	var content any
	if repeated := yaml.UnmarshalStrict(data, &content); repeated != nil {
		content = nil
		if err := yaml.Unmarshal(data, &content); err != nil {
			return file{}, nil, nil, err
		}
		strict = append(strict, repeated)
	}
	if severalDocuments(data) {
		strict = append(strict, errSeveralDocuments)
	}
	root, isMap := content.(map[string]any)
	if !isMap && content != nil {
		return file{}, nil, nil, errNoMap
	}
	fits(root, reflect.TypeFor[file](), nil, &mistyped)
	fitting, err := json.Marshal(root)
	if err != nil {
		return file{}, nil, nil, err
	}
	f = defaultFile()
	unknown, err := kjson.UnmarshalStrict(fitting, &f)
	return f, mistyped, append(strict, unknown...), err
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
		switch value.(type) {
		case string, int64, float64:
		default:
			ok, form = false, "a quantity, such as 1 or 64Gi"
		}
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
		number, is := value.(float64)
		_, ok = value.(int64)
		ok = ok || is && number == math.Trunc(number)
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
