package policy

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"nodekeep.dev/nodekeep/verify"
)

// Line is one thing that a policy says.
type Line struct {
	Field string // its path, such as verify.profiles[gpu].mode. Each item of a list without an order has a line of this path
	Value string
	// Entries are the entries of lists that the line is part of, such as verify.profiles[gpu], the outermost first.
	Entries []string
	// Default reports that the policy need not say it.
	Default bool
	// Order are the entries of a list whose order counts; the Value has them, too.
	Order []string
}

// Content returns all that a policy says. Two policies say the same if they have the same lines. Whether a default is written out makes no difference, nor
// does the order of what has none.
func (p Policy) Content() []Line { return ptr.Deref(p.spec, Spec{}).Content() }

// Content returns that of a policy with this spec.
func (f Spec) Content() []Line {
	var c contentWriter
	c.fields(reflect.ValueOf(f), position{})
	return c.lines
}

// contentDefaults returns the values of fields that are left out, by path. Fields without one have the zero value.
func contentDefaults() map[string]string {
	return map[string]string{
		"labels.rules.hold":                   "0s",
		"labels.rules.precedence":             "operator",
		"labels.rules.mode":                   "enforce",
		"labels.rules.when.devices.min":       "1",
		"labels.rules.when.any.devices.min":   "1",
		"verify.label":                        "nodekeep.dev/verified",
		"verify.limits.stopAbove":             "20%",
		"verify.limits.deletionsPerHour":      "3",
		"verify.profiles.mode":                "enforce",
		"verify.profiles.every":               "1h",
		"verify.profiles.taint":               "nodekeep.dev/unverified:NoSchedule",
		"verify.profiles.timeout":             "30s",
		"verify.profiles.startTimeout":        "2m",
		"verify.profiles.attempts.max":        "5",
		"verify.profiles.attempts.backoff":    "10s",
		"verify.profiles.attempts.maxBackoff": "5m",
		"verify.profiles.deadline":            "14m",
		"verify.profiles.onTimeout":           "keep",
		"verify.profiles.reverify":            "never",
		"verify.profiles.onFailure":           "keep",
		"verify.profiles.checks.required":     "true",
		"verify.profiles.checks.dns.servers":  "any",
		"verify.profiles.checks.http.status":  "200",
		"governance.keys.mode":                "audit",
		"governance.noncompliant.after":       "0s",
		"inventory.interval":                  "5m",
		"inventory.staleAfter":                "24h",
	}
}

// unordered returns the paths of lists whose order has no meaning. That of rules and profiles has: the first decides. Of rules for labels and migrations it
// is part of [Policy.RulesHash], and of checks it is part of their hash.
func unordered() []string {
	return []string{
		"labels.keep", "labels.ignore", "labels.defer", "labels.ignoreManagers", "labels.operators", "taints.keep", "taints.ignore", "annotations",
		"verify.profiles.wait.daemonSets",
		"governance.keys", "governance.keys.values", "governance.keys.requires", "governance.keys.owners", "governance.reserved",
		"inventory", "inventory.attributes",
	}
}

// durations returns the names of fields that hold one: 60s says the same as 1m.
func durations() []string {
	return []string{"retention", "hold", "every", "timeout", "startTimeout", "backoff", "maxBackoff", "deadline", "after", "interval", "staleAfter"}
}

// identities returns the names of fields that name an entry of a list, the best first.
func identities() []string { return []string{"name", "key", "from", "type", "taint"} }

// position is a place in a policy.
type position struct {
	path    string // with the entries of lists
	plain   string // without them
	entries []string
}

func (a position) child(name string) position {
	if a.path == "" {
		return position{name, name, a.entries}
	}
	return position{a.path + "." + name, a.plain + "." + name, a.entries}
}

// element returns an entry of a list.
func (a position) element(name string) position {
	path := a.path + "[" + name + "]"
	return position{path, a.plain, append(slices.Clone(a.entries), path)}
}

// contentWriter collects lines.
type contentWriter struct{ lines []Line }

func (c *contentWriter) add(a position, value string, byDefault bool) {
	c.lines = append(c.lines, Line{Field: a.path, Value: value, Entries: a.entries, Default: byDefault})
}

// fields adds those of a struct, but for the one that names it.
func (c *contentWriter) fields(value reflect.Value, a position, excluded ...string) {
	for i := range value.NumField() {
		field := value.Type().Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous:
			c.fields(value.Field(i), a)
		case !slices.Contains(excluded, name):
			c.value(value.Field(i), a.child(name), name)
		}
	}
}

// value adds what a field says, whatever its type.
func (c *contentWriter) value(v reflect.Value, a position, name string) {
	given := true
	if v.Kind() == reflect.Pointer {
		if given = !v.IsNil(); given {
			v = v.Elem()
		}
	}
	switch {
	case !given && scalar(v.Type().Elem()):
		c.scalar("", a)
	case !given:
	case scalar(v.Type()):
		c.scalar(c.text(v, name), a)
	case v.Kind() == reflect.Struct && v.NumField() == 0:
		c.add(a, "{}", false)
	case v.Kind() == reflect.Struct:
		c.fields(v, a)
	case v.Kind() == reflect.Map:
		for _, key := range slices.SortedFunc(maps.Keys(keysOfMap(v)), strings.Compare) {
			c.add(position{a.path + "[" + quoted(key) + "]", a.plain, a.entries}, quoted(v.MapIndex(keysOfMap(v)[key]).String()), false)
		}
	default:
		c.list(v, a)
	}
}

func keysOfMap(value reflect.Value) map[string]reflect.Value {
	keys := make(map[string]reflect.Value, value.Len())
	for _, key := range value.MapKeys() {
		keys[key.String()] = key
	}
	return keys
}

// scalar reports whether a type has single values.
func scalar(typ reflect.Type) bool {
	return typ == reflect.TypeFor[intstr.IntOrString]() || slices.Contains([]reflect.Kind{reflect.String, reflect.Bool, reflect.Int}, typ.Kind())
}

func (c *contentWriter) scalar(text string, a position) {
	if text == "" {
		text = contentDefaults()[a.plain]
	}
	if text != "" {
		c.add(a, quoted(text), text == contentDefaults()[a.plain] || text == "false" || text == "0")
	}
}

// text returns a single value as a policy has it.
func (c *contentWriter) text(value reflect.Value, name string) string {
	if share, ok := value.Interface().(intstr.IntOrString); ok {
		return share.String()
	}
	text := fmt.Sprint(value.Interface())
	if slices.Contains(durations(), name) {
		if duration, err := time.ParseDuration(text); err == nil {
			text = verify.WrittenDuration(duration)
		}
	}
	return text
}

// list adds the items of a list, and their order where it has a meaning.
func (c *contentWriter) list(value reflect.Value, a position) {
	names := make([]string, value.Len())
	times := map[string]int{}
	for i := range names {
		names[i] = nameOf(value.Index(i), i)
		if times[names[i]]++; times[names[i]] > 1 {
			names[i] += fmt.Sprintf(" (%d)", times[names[i]])
		}
	}
	places := make([]int, len(names))
	for i := range places {
		places[i] = i
	}
	ordered := !slices.Contains(unordered(), a.plain)
	if !ordered {
		slices.SortFunc(places, func(i, j int) int { return strings.Compare(names[i], names[j]) })
	}
	texts := value.Type().Elem().Kind() == reflect.String
	if ordered && len(names) > 0 && (texts || len(names) > 1) {
		order := Line{Field: a.path, Value: strings.Join(names, ", "), Entries: a.entries}
		if !texts {
			order.Order = names
		}
		c.lines = append(c.lines, order)
	}
	for _, i := range places {
		switch {
		case !texts:
			in := a.element(names[i])
			c.add(in, "{}", true)
			c.fields(value.Index(i), in, identityOf(value.Type().Elem()))
		case !ordered:
			c.add(a, names[i], false)
		}
	}
}

// identityOf returns the field that names an entry of this type; empty: it has a number.
func identityOf(typ reflect.Type) string {
	for _, name := range identities() {
		for i := range typ.NumField() {
			if tag, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ","); tag == name {
				return name
			}
		}
	}
	return ""
}

// nameOf names an item of a list.
func nameOf(value reflect.Value, i int) string {
	if value.Kind() == reflect.String {
		return strconv.Quote(value.String())
	}
	identity := identityOf(value.Type())
	for n := range value.NumField() {
		if tag, _, _ := strings.Cut(value.Type().Field(n).Tag.Get("json"), ","); tag == identity && identity != "" {
			return quoted(value.Field(n).String())
		}
	}
	return strconv.Itoa(i + 1)
}

// unquotable is what needs no quotes: it cannot be taken for anything but itself.
var unquotable = regexp.MustCompile(`^[A-Za-z0-9_./:=*{}%<>+-]+$`)

// quoted returns a text in quotes, where it needs them.
func quoted(text string) string {
	if unquotable.MatchString(text) && text != "-" && text != "{}" {
		return text
	}
	return strconv.Quote(text)
}
