package governance

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"nodekeep.dev/nodekeep/classify"
)

// Bounds of the section governance. The schema of the NodePolicy has most of them.
const (
	maxKeys     = 100
	maxReserved = 20
	maxValues   = 250 // of a key
	maxOwners   = 20
	maxRequires = 20
	maxPattern  = 256
	maxOwner    = 253
	maxAfter    = 7 * 24 * time.Hour
)

// defaultAfter is in force where the policy has no noncompliant.after. A Node that breaks a rule gets the taint at once.
const defaultAfter = "0"

// Rules is the section governance once it was checked. The zero value governs nothing. It is not to be changed, and safe for concurrent use.
type Rules struct {
	keys     []compiledKey
	index    map[string]int // of keys
	taint    corev1.Taint   // no key: none
	delay    time.Duration
	settings Settings // with defaults
}

type compiledKey struct {
	Key
	values  sets.Set[string] // nil: any
	pattern *regexp.Regexp   // nil: any
}

// Empty reports whether no label is governed.
func (r Rules) Empty() bool { return len(r.keys)+len(r.settings.Reserved) == 0 }

// Settings returns the checked settings, with defaults. They are not to be changed.
func (r Rules) Settings() Settings { return r.settings }

// Noncompliant returns the taint of Nodes that break a rule, and how long they break it before getting it. If there is no such taint, ok
// is false.
func (r Rules) Noncompliant() (taint corev1.Taint, delay time.Duration, ok bool) {
	return r.taint, r.delay, r.taint.Key != ""
}

// Compile checks the section governance. It returns all errors at once; with an error the Rules are the zero value. Which keys belong to
// other components is checked by package policy.
func Compile(settings Settings, path *field.Path) (Rules, field.ErrorList) {
	if len(settings.Keys) > maxKeys {
		return Rules{}, field.ErrorList{field.TooMany(path.Child("keys"), len(settings.Keys), maxKeys)}
	}
	var c compiler
	rules := Rules{index: map[string]int{}, settings: settings}
	rules.settings.Keys = slices.Clone(settings.Keys)
	for i := range rules.settings.Keys {
		fieldPath := path.Child("keys").Index(i)
		key := &rules.settings.Keys[i]
		if key.Mode == "" {
			key.Mode = Audit
		}
		if _, dup := rules.index[key.Key]; dup {
			c.errs = append(c.errs, field.Duplicate(fieldPath.Child("key"), key.Key))
		}
		rules.index[key.Key] = i
		rules.keys = append(rules.keys, c.key(*key, fieldPath))
	}
	c.reserved(settings.Reserved, path.Child("reserved"))
	rules.taint, rules.delay = c.noncompliant(settings.Noncompliant, path.Child("noncompliant"))
	rules.settings.Noncompliant.Delay = cmp.Or(settings.Noncompliant.Delay, defaultAfter)
	if len(c.errs) > 0 {
		return Rules{}, c.errs
	}
	return rules, nil
}

// compiler collects what is wrong.
type compiler struct{ errs field.ErrorList }

func (c *compiler) invalid(path *field.Path, value any, detail string) {
	c.errs = append(c.errs, field.Invalid(path, value, detail))
}

func (c *compiler) tooMany(length, limit int, path *field.Path) {
	if length > limit {
		c.errs = append(c.errs, field.TooMany(path, length, limit))
	}
}

// name checks the key of a label.
func (c *compiler) name(key string, path *field.Path) {
	if key == "" {
		c.errs = append(c.errs, field.Required(path, "must be the key of a label"))
		return
	}
	for _, wrong := range validation.IsQualifiedName(key) {
		c.invalid(path, key, wrong)
	}
}

func (c *compiler) key(key Key, path *field.Path) compiledKey {
	compiled := compiledKey{Key: key}
	c.name(key.Key, path.Child("key"))
	if !slices.Contains([]Mode{Audit, Warn, Deny}, key.Mode) {
		c.errs = append(c.errs, field.NotSupported(path.Child("mode"), key.Mode, []Mode{Audit, Warn, Deny}))
	}
	if len(key.Values) > 0 && key.Pattern != "" {
		c.errs = append(c.errs, field.Forbidden(path.Child("pattern"), "values say already which values the label may have"))
	}
	compiled.values = c.values(key.Values, path.Child("values"))
	compiled.pattern = c.pattern(key.Pattern, path.Child("pattern"))
	c.tooMany(len(key.Requires), maxRequires, path.Child("requires"))
	for i, required := range key.Requires {
		c.name(required, path.Child("requires").Index(i))
		if required == key.Key && required != "" {
			c.invalid(path.Child("requires").Index(i), required, "the label cannot require itself")
		}
	}
	c.tooMany(len(key.Owners), maxOwners, path.Child("owners"))
	for i, owner := range key.Owners {
		c.owner(owner, path.Child("owners").Index(i))
	}
	return compiled
}

func (c *compiler) values(values []string, path *field.Path) sets.Set[string] {
	if len(values) == 0 {
		return nil
	}
	c.tooMany(len(values), maxValues, path)
	allowed := sets.New[string]()
	for i, value := range values {
		if allowed.Has(value) {
			c.errs = append(c.errs, field.Duplicate(path.Index(i), value))
		}
		for _, wrong := range validation.IsValidLabelValue(value) {
			c.invalid(path.Index(i), value, wrong)
		}
		allowed.Insert(value)
	}
	return allowed
}

// pattern reads a pattern that the whole value must match.
func (c *compiler) pattern(text string, path *field.Path) *regexp.Regexp {
	if text == "" {
		return nil
	}
	if len(text) > maxPattern {
		c.errs = append(c.errs, field.TooLong(path, text, maxPattern))
		return nil
	}
	if !printable(text) {
		c.invalid(path, text, "must hold printable ASCII characters only; a label value has no others")
		return nil
	}
	if _, err := regexp.Compile(text); err != nil {
		c.invalid(path, text, err.Error())
		return nil
	}
	compiled, err := regexp.Compile(wholly(text))
	if err != nil {
		c.invalid(path, text, err.Error())
		return nil
	}
	return compiled
}

// wholly returns a pattern that matches where the given one matches a whole value. The admission policies write the same.
func wholly(pattern string) string { return "^(?:" + pattern + ")$" }

// printable reports whether a text has printable ASCII characters only.
func printable(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
}

// Prefixes of owners.
const (
	userPrefix           = "user:"
	groupPrefix          = "group:"
	serviceAccountPrefix = "serviceaccount:"
)

// owner checks an owner. The API server knows users by any text, so an owner may be one in any script.
func (c *compiler) owner(owner string, path *field.Path) {
	kind, name, _ := strings.Cut(owner, ":")
	namespace, account, ok := strings.Cut(name, "/")
	switch {
	case len(owner) > maxOwner:
		c.errs = append(c.errs, field.TooLong(path, owner, maxOwner))
	case !utf8.ValidString(owner) || strings.ContainsFunc(owner, func(r rune) bool { return r < ' ' || r == 0x7f || r == utf8.RuneError }):
		c.invalid(path, owner, "must be text without control characters")
	case kind+":" != userPrefix && kind+":" != groupPrefix && kind+":" != serviceAccountPrefix || name == "":
		c.invalid(path, owner, "must be user:NAME, group:NAME or serviceaccount:NAMESPACE/NAME")
	case kind+":" == serviceAccountPrefix && (!ok || len(validation.IsDNS1123Label(namespace))+len(validation.IsDNS1123Subdomain(completed(account))) > 0):
		c.invalid(path, owner, "must be serviceaccount:NAMESPACE/NAME")
	}
}

// completed returns a name that a pattern with a * at its end matches. A name without one stays as it is.
func completed(name string) string {
	if begin, open := strings.CutSuffix(name, "*"); open {
		return begin + "x"
	}
	return name
}

func (c *compiler) reserved(globs []string, path *field.Path) {
	c.tooMany(len(globs), maxReserved, path)
	seen := sets.New[string]()
	for i, glob := range globs {
		switch {
		case glob == "":
			c.errs = append(c.errs, field.Required(path.Index(i), "must be a key or a pattern for keys"))
		case len(glob) > maxPattern:
			c.errs = append(c.errs, field.TooLong(path.Index(i), glob, maxPattern))
		case classify.MatchesNoKey(glob) != "":
			c.invalid(path.Index(i), glob, classify.MatchesNoKey(glob))
		case seen.Has(glob):
			c.errs = append(c.errs, field.Duplicate(path.Index(i), glob))
		}
		seen.Insert(glob)
	}
}

func (c *compiler) noncompliant(settings Noncompliant, path *field.Path) (taint corev1.Taint, delay time.Duration) {
	delay, err := time.ParseDuration(cmp.Or(settings.Delay, defaultAfter))
	if err != nil || delay < 0 || delay > maxAfter {
		c.invalid(path.Child("after"), settings.Delay, "must be a duration in h, m and s, such as 10m, up to 168h")
	}
	if settings.Taint == "" {
		if settings.Delay != "" {
			c.errs = append(c.errs, field.Required(path.Child("taint"), "after says when Nodes get it"))
		}
		return corev1.Taint{}, 0
	}
	name := settings.Taint
	if colon := strings.LastIndex(name, ":"); colon >= 0 {
		name, taint.Effect = name[:colon], corev1.TaintEffect(name[colon+1:])
	}
	taint.Key, taint.Value, _ = strings.Cut(name, "=")
	for _, wrong := range validation.IsQualifiedName(taint.Key) {
		c.invalid(path.Child("taint"), settings.Taint, "key "+wrong)
	}
	for _, wrong := range validation.IsValidLabelValue(taint.Value) {
		c.invalid(path.Child("taint"), settings.Taint, "value "+wrong)
	}
	if !slices.Contains([]corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}, taint.Effect) {
		c.invalid(path.Child("taint"), settings.Taint, "must end in :NoSchedule, :PreferNoSchedule or :NoExecute")
	}
	return taint, delay
}
