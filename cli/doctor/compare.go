package doctor

import (
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"

	"nodekeep.dev/nodekeep/policy"
)

// difference is a field that the cluster has otherwise than nodekeep ships it; nil: not set.
type difference struct {
	path           string // as people write it
	pointer        string // as a JSON patch has it
	shipped, found any
}

// comparison collects the differences of one object.
type comparison struct {
	ignored sets.Set[string] // names of fields that decide nothing, or that an installation may choose
	partial bool             // fields that are not shipped may have any value
	gate    policy.Gate
	all     []difference
}

// differences compares an object with the shipped one. Fields that nodekeep does not ship must have the API server's default.
func differences(object Object, gate policy.Gate) []difference {
	c := &comparison{gate: gate, ignored: sets.New("apiVersion", "kind", "metadata", "status", "message", "namespaceSelector", "caBundle")}
	switch object.Shipped.GetKind() {
	case "Deployment":
		c.partial = true
		c.ignored.Delete("metadata") // of the pod template
		c.ignored.Insert("replicas", "strategy", "affinity", "nodeSelector", "priorityClassName", "tolerations", "topologySpreadConstraints", "hostNetwork",
			"terminationGracePeriodSeconds", "image", "imagePullPolicy", "resources", "ports", "startupProbe", "readinessProbe", "livenessProbe")
		c.compareMap("spec", "/spec", part(object.Shipped.Object, "spec"), part(object.Found.Value.Object, "spec"))
		return c.all
	case "Service", "ServiceAccount":
		c.partial = true
	case "ConfigMap":
		c.ignored.Insert("data") // the policy of this installation
	case "Role", "ClusterRole":
		c.ignored.Insert("rules") // compared by what they grant
	}
	c.compareMap("", "", object.Shipped.Object, object.Found.Value.Object)
	return c.all
}

func part(object map[string]any, field string) map[string]any {
	value, _, _ := unstructured.NestedMap(object, field)
	return value
}

func (c *comparison) compare(path, pointer string, shipped, found any) {
	if text, ok := shipped.(string); ok {
		shipped = strings.ReplaceAll(text, string(policy.DefaultGate), string(c.gate))
	}
	field := path[strings.LastIndex(path, ".")+1:]
	switch want := shipped.(type) {
	case map[string]any:
		if got, ok := found.(map[string]any); ok {
			if at, err := url.Parse(text(got, "url")); field == "clientConfig" && err == nil && at.Host != "" { // as outside of a cluster
				at.Path = text(want, "service", "path")
				want, got = map[string]any{"url": at.String()}, map[string]any{"url": got["url"]}
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
	if !reflect.DeepEqual(shipped, found) {
		c.all = append(c.all, difference{path, pointer, shipped, found})
	}
}

func (c *comparison) compareMap(path, pointer string, shipped, found map[string]any) {
	for _, field := range sets.List(sets.KeySet(shipped).Union(sets.KeySet(found))) {
		want, ships := shipped[field]
		got := found[field]
		if c.ignored.Has(field) || !ships && (c.partial || isDefault(field, got)) {
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
	case "webhooks", "containers", "volumes", "volumeMounts", "subjects", "ports":
		c.compareNamed(path, pointer, shipped, found)
	case "args":
		c.compareArgs(path, pointer, shipped, found)
	case "validationActions":
		for _, action := range shipped {
			if !slices.Contains(found, action) {
				c.all = append(c.all, difference{path, pointer, shipped, found})
			}
		}
	default:
		if len(shipped) != len(found) || len(mapsIn(map[string]any{field: shipped}, field)) == 0 {
			if !reflect.DeepEqual(shipped, found) {
				c.all = append(c.all, difference{path, pointer, shipped, found})
			}
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
		name := text(want.(map[string]any), "name")
		at := slices.IndexFunc(found, func(one any) bool {
			element, ok := one.(map[string]any)
			return ok && text(element, "name") == name
		})
		switch {
		case at >= 0:
			c.compare(path+"["+name+"]", fmt.Sprintf("%s/%d", pointer, at), want, found[at])
		case name != protectedHook: // an option: see judgeRestoreWebhook
			c.all = append(c.all, difference{path + "[" + name + "]", pointer + "/-", want, nil})
		}
	}
}

// compareArgs compares the flags that both processes and the other objects must agree on.
func (c *comparison) compareArgs(path, pointer string, shipped, found []any) {
	for _, arg := range shipped {
		name, _, _ := strings.Cut(arg.(string), "=")
		if name != "--namespace" && name != "--policy" && name != "--gate-key" {
			continue
		}
		var got any
		for _, one := range found {
			if one, ok := one.(string); ok && strings.HasPrefix(one, name+"=") {
				got = one // the last one counts
			}
		}
		c.compare(path+"["+name+"]", pointer, arg, got)
	}
}

func (d difference) String() string {
	found, shipped := shown(d.found, d.shipped), shown(d.shipped, d.found)
	switch {
	case d.found == nil:
		return fmt.Sprintf("%s is not set, and nodekeep ships %s", d.path, shipped)
	case d.shipped == nil:
		return fmt.Sprintf("%s is %s, and nodekeep does not set it", d.path, found)
	}
	return fmt.Sprintf("%s is %s, and nodekeep ships %s", d.path, found, shipped)
}

// mostShown is how much of a value is shown.
const mostShown = 120

// shown is a value in one line: of a long one, the part in which it begins to differ from the other.
func shown(value, other any) string {
	text, than := written(value), written(other)
	if len(text) <= mostShown {
		return text
	}
	same := 0
	for same < min(len(text), len(than)) && text[same] == than[same] {
		same++
	}
	begin := max(0, min(same-mostShown/3, len(text)-mostShown))
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

// mostPatched is how long a value may be in a command that people read before they run it.
const mostPatched = 100

// remedy changes the one field, where that is a short command; pods are changed where they were installed from.
func (d difference) remedy(object Object) Remedy {
	value, err := json.Marshal(d.shipped)
	switch {
	case err != nil || len(value) > mostPatched || strings.Contains(string(value), "'") || object.Shipped.GetKind() == "Deployment":
		return reapply()
	case strings.HasPrefix(d.path, "roleRef"): // no API server changes it
		remedy := reapply()
		remedy.Commands = append([]string{fmt.Sprintf("kubectl%s delete %s", object.in(), object.Name())}, remedy.Commands...)
		return remedy
	case d.shipped == nil:
		return Remedy{Text: "Remove it:", Commands: []string{object.patch(fmt.Sprintf(`{"op":"remove","path":"%s"}`, d.pointer))}}
	}
	operation := "replace"
	if d.found == nil {
		operation = "add"
	}
	return Remedy{Text: "Set the shipped value:", Commands: []string{object.patch(fmt.Sprintf(`{"op":"%s","path":"%s","value":%s}`, operation, d.pointer, value))}}
}

// patch is the command that changes one field.
func (o Object) patch(operation string) string {
	return fmt.Sprintf(`kubectl%s patch %s --type=json -p='[%s]'`, o.in(), o.Name(), operation)
}

// in is kubectl's flag for the namespace of the object.
func (o Object) in() string {
	if namespace := o.Shipped.GetNamespace(); namespace != "" {
		return " -n " + namespace
	}
	return ""
}
