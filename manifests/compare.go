package manifests

import (
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
)

// Difference is a field that the cluster has otherwise than nodekeep ships it; nil: not set.
type Difference struct {
	Path           string // as manifests have it
	Pointer        string // as a JSON patch has it
	Shipped, Found any
}

// Comparison defines how an object of a cluster is compared with the shipped one.
type Comparison struct {
	Ignored  sets.Set[string]  // names of fields that an installation may choose
	Partial  bool              // fields that are not shipped may have any value; otherwise they must have the API server's default
	Optional string            // name of an element of a list that may be missing
	Replace  *strings.Replacer // of what the installation calls otherwise than the manifests
}

// Differences compares an object of the cluster with the shipped one.
func (c Comparison) Differences(shipped, found map[string]any) []Difference {
	w := &comparison{Comparison: c}
	w.compareMap("", "", shipped, found)
	return w.all
}

// comparison collects the differences of one object.
type comparison struct {
	Comparison
	all []Difference
}

// decidesNothing reports whether a field has no effect on what an object does. It identifies or explains the object, or nodekeep itself sets it. A
// namespaceSelector cannot leave out a Node, which has no namespace.
func decidesNothing(path, field string) bool {
	switch field {
	case "apiVersion", "kind", "metadata", "status":
		return path == ""
	case "message", "namespaceSelector", "caBundle":
		return true
	}
	return false
}

func (c *comparison) compare(path, pointer string, shipped, found any) {
	if text, ok := shipped.(string); ok && c.Replace != nil {
		shipped = c.Replace.Replace(text)
	}
	field := path[strings.LastIndex(path, ".")+1:]
	switch want := shipped.(type) {
	case map[string]any:
		if got, ok := found.(map[string]any); ok {
			if address, err := url.Parse(textOf(got["url"])); field == "clientConfig" && err == nil && address.Host != "" { // as outside of a cluster
				address.Path = textOf(part(want["service"])["path"])
				want, got = map[string]any{"url": address.String()}, map[string]any{"url": got["url"]}
			}
			c.compareMap(path, pointer, want, got)
			return
		}
	case []any:
		if got, ok := found.([]any); ok {
			c.compareList(field, path, pointer, want, got)
			return
		}
	}
	c.compareWhole(path, pointer, shipped, found)
}

func (c *comparison) compareWhole(path, pointer string, shipped, found any) {
	if !reflect.DeepEqual(shipped, found) {
		c.all = append(c.all, Difference{path, pointer, shipped, found})
	}
}

func (c *comparison) compareMap(path, pointer string, shipped, found map[string]any) {
	for _, field := range sets.List(sets.KeySet(shipped).Union(sets.KeySet(found))) {
		want, ships := shipped[field]
		got := found[field]
		if c.Ignored.Has(field) || decidesNothing(path, field) || !ships && (c.Partial || isDefault(field, got)) {
			continue
		}
		c.compare(strings.TrimPrefix(path+"."+field, "."), pointer+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(field), want, got)
	}
}

// isDefault reports whether the API server gives the field that value where nothing is said.
func isDefault(field string, value any) bool {
	switch field {
	case "matchPolicy":
		return value == "Equivalent"
	case "reinvocationPolicy":
		return value == "Never"
	case "objectSelector":
		return reflect.DeepEqual(value, map[string]any{})
	}
	list, ok := value.([]any)
	return value == nil || ok && len(list) == 0
}

func (c *comparison) compareList(field, path, pointer string, shipped, found []any) {
	switch field {
	case "webhooks", "containers", "env", "volumes", "volumeMounts", "subjects", "ports":
		c.compareNamed(path, pointer, shipped, found)
	case "args":
		c.compareArgs(path, pointer, shipped, found)
	case "validationActions":
		if slices.ContainsFunc(shipped, func(action any) bool { return !slices.Contains(found, action) }) {
			c.compareWhole(path, pointer, shipped, found)
		}
	default:
		if len(shipped) != len(found) || !holdsObjects(shipped) {
			c.compareWhole(path, pointer, shipped, found)
			return
		}
		for i := range shipped {
			c.compare(fmt.Sprintf("%s[%d]", path, i), fmt.Sprintf("%s/%d", pointer, i), shipped[i], found[i])
		}
	}
}

// compareNamed compares the elements that have a name. The cluster may have more of them.
func (c *comparison) compareNamed(path, pointer string, shipped, found []any) {
	for _, want := range shipped {
		name := textOf(part(want)["name"])
		i := slices.IndexFunc(found, func(item any) bool {
			return textOf(part(item)["name"]) == name
		})
		switch {
		case i >= 0:
			c.compare(path+"["+name+"]", fmt.Sprintf("%s/%d", pointer, i), want, found[i])
		case name != c.Optional:
			c.all = append(c.all, Difference{path + "[" + name + "]", pointer + "/-", want, nil})
		}
	}
}

// compareArgs compares the flags that both processes and the other objects must agree on.
func (c *comparison) compareArgs(path, pointer string, shipped, found []any) {
	for _, arg := range shipped {
		name, _, _ := strings.Cut(arg.(string), "=")
		if name != "--namespace" && name != "--gate-key" {
			continue
		}
		var got any
		for _, item := range found {
			if text, ok := item.(string); ok && strings.HasPrefix(text, name+"=") {
				got = text // the last one counts
			}
		}
		c.compare(path+"["+name+"]", pointer, arg, got)
	}
}

// part returns a value that is an object, and nil where it is none.
func part(value any) map[string]any {
	object, _ := value.(map[string]any)
	return object
}

// textOf returns a value that is a text, and empty where it is none.
func textOf(value any) string {
	text, _ := value.(string)
	return text
}

func holdsObjects(list []any) bool {
	return slices.ContainsFunc(list, func(item any) bool { return part(item) != nil })
}

// String reports what the cluster has and what nodekeep ships.
func (d Difference) String() string {
	found, shipped := shown(d.Found, d.Shipped), shown(d.Shipped, d.Found)
	switch {
	case d.Found == nil:
		return fmt.Sprintf("%s is not set, and nodekeep ships %s", d.Path, shipped)
	case d.Shipped == nil:
		return fmt.Sprintf("%s is %s, and nodekeep does not set it", d.Path, found)
	}
	return fmt.Sprintf("%s is %s, and nodekeep ships %s", d.Path, found, shipped)
}

// mostShown is how much of a value is shown.
const mostShown = 120

// shown returns a value in one line. A long value is cut to the part in which it begins to differ from the other.
func shown(value, wanted any) string {
	text, wantedText := written(value), written(wanted)
	if len(text) <= mostShown {
		return text
	}
	common := 0
	for common < min(len(text), len(wantedText)) && text[common] == wantedText[common] {
		common++
	}
	begin := max(0, min(common-mostShown/3, len(text)-mostShown))
	part := strings.ToValidUTF8(text[begin:min(len(text), begin+mostShown)], "")
	if begin > 0 {
		part = "..." + part
	}
	return part + "..."
}

func written(value any) string {
	if text, ok := value.(string); ok && text != "" {
		return text
	}
	content, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(content)
}
