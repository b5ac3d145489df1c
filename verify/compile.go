package verify

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Bounds of the section verify.
const (
	MaxProfiles   = 50
	MaxChecks     = 20
	MaxContainers = 3 // container checks of a profile: each is a container of the worker Pod
	maxTimeout    = 10 * time.Minute
	maxList       = 20 // entries of a list in a profile
	maxAttempts   = 100
	maxEndpoints  = 10
)

// CompiledProfile is a profile that was checked. Its fields stand before those of the embedded Profile, which has the defaults filled in.
type CompiledProfile struct {
	Profile
	Taint        corev1.Taint  // none with mode report
	Interval     time.Duration // 0 but with mode report
	Selector     labels.Selector
	Timeout      time.Duration
	StartTimeout time.Duration
	MaxAttempts  int
	Backoff      time.Duration
	MaxBackoff   time.Duration
	Deadline     time.Duration
	Allocatable  corev1.ResourceList
	// Hash names what is asked: the checks and their timeout. A change of the pace is no change of it.
	Hash string
}

// Start bounds how many worker Pods are created a second, and how many exist at one time.
type Start struct{ PerSecond, InFlight int }

// Profiles is the section verify once it was checked. The zero value selects no Node. It is not to be changed.
type Profiles struct {
	Label  string
	Start  Start
	Limits CompiledLimits
	// Suspended is true during an emergency: no profile closes a Node, or keeps one closed. Profiles with mode report go on.
	Suspended bool
	all       []CompiledProfile

	generation int64 // of the policy; 0: it is not known
}

// WithGeneration returns the profiles as those of this generation of the policy. A Node that passes says so.
func (p Profiles) WithGeneration(generation int64) Profiles {
	p.generation = generation
	return p
}

// All returns the profiles in their order.
func (p Profiles) All() []CompiledProfile { return slices.Clone(p.all) }

// Empty reports whether no Node is verified.
func (p Profiles) Empty() bool { return len(p.all) == 0 }

// Match returns the first profile that selects a Node with these labels; ok is false where none does. During an emergency, a profile that closes Nodes selects
// none, and leaves none to the profiles after it.
func (p Profiles) Match(nodeLabels map[string]string) (profile CompiledProfile, ok bool) {
	for i := range p.all {
		if p.all[i].Selector.Matches(labels.Set(nodeLabels)) {
			if p.Suspended && !p.all[i].ReportsOnly() {
				break
			}
			return p.all[i], true
		}
	}
	return CompiledProfile{}, false
}

// Taints returns those of all profiles, each key, value and effect once.
func (p Profiles) Taints() (taints []corev1.Taint) {
	for _, profile := range p.all {
		if !profile.ReportsOnly() && !slices.Contains(taints, profile.Taint) {
			taints = append(taints, profile.Taint)
		}
	}
	return taints
}

// IsTaint reports whether a taint is that of a profile. The key alone decides: whatever the value and effect, the Node is to be verified.
func (p Profiles) IsTaint(taint corev1.Taint) bool {
	for i := range p.all { // a profile is large, and this is asked of every taint of every Node
		if p.all[i].Taint.Key == taint.Key {
			return true
		}
	}
	return false
}

// Compile checks the section verify. It returns all errors at once; with an error the Profiles are the zero value. Which keys belong to other
// components is checked by package policy.
func Compile(settings Settings, path *field.Path) (Profiles, field.ErrorList) {
	if len(settings.Profiles) > MaxProfiles {
		return Profiles{}, field.ErrorList{field.TooMany(path.Child("profiles"), len(settings.Profiles), MaxProfiles)}
	}
	var c compiler
	compiled := Profiles{
		Label: cmp.Or(settings.Label, Label),
		Start: Start{PerSecond: 10, InFlight: 200}, Limits: c.limits(settings.Limits, path.Child("limits")),
	}
	c.invalid(path.Child("label"), compiled.Label, validation.IsQualifiedName(compiled.Label)...)
	names := sets.New[string]()
	all := "" // the profile that selects every Node
	for i, profile := range settings.Profiles {
		fieldPath := path.Child("profiles").Index(i)
		c.name(profile.Name, names, fieldPath.Child("name"))
		if all != "" {
			c.invalid(fieldPath, profile.Name, "can never select a Node: profile "+all+" before it selects every Node")
		}
		result := c.profile(profile, fieldPath)
		if result.Selector.Empty() && !c.wrongSelector && all == "" {
			all = profile.Name
		}
		if keys, _ := result.Selector.Requirements(); slices.ContainsFunc(keys, func(r labels.Requirement) bool { return r.Key() == compiled.Label }) {
			c.invalid(fieldPath.Child("nodeSelector"), profile.NodeSelector, "selects by "+compiled.Label+", which verification itself sets")
		}
		compiled.all = append(compiled.all, result)
	}
	if len(c.errs) > 0 {
		return Profiles{}, c.errs
	}
	return compiled, nil
}

// compiler collects what is wrong.
type compiler struct {
	errs          field.ErrorList
	wrongSelector bool // of the profile at hand
}

// invalid says what is wrong with a value; nothing may be.
func (c *compiler) invalid(path *field.Path, value any, details ...string) {
	for _, detail := range details {
		c.errs = append(c.errs, field.Invalid(path, value, detail))
	}
}

// invalidPart is invalid for a part of a value, which the messages name.
func (c *compiler) invalidPart(path *field.Path, value any, part string, details []string) {
	for _, detail := range details {
		c.invalid(path, value, part+" "+detail)
	}
}

func (c *compiler) required(path *field.Path, detail string) {
	c.errs = append(c.errs, field.Required(path, detail))
}

// name checks a name of a profile or check.
func (c *compiler) name(name string, seen sets.Set[string], path *field.Path) {
	c.unique(name, seen, path, "Events, metrics and nodekeep show it", validation.IsDNS1123Label)
}

// unique checks a name that is required, and that no entry before has.
func (c *compiler) unique(name string, seen sets.Set[string], path *field.Path, reason string, valid func(string) []string) {
	switch {
	case name == "":
		c.required(path, reason)
	case seen.Has(name):
		c.errs = append(c.errs, field.Duplicate(path, name))
	default:
		c.invalid(path, name, valid(name)...)
	}
	seen.Insert(name)
}

// number checks a number, or is its default where there is none.
func (c *compiler) number(value *int, otherwise, minimum, maximum int, path *field.Path) int {
	if value == nil {
		return otherwise
	}
	if *value < minimum || *value > maximum {
		c.invalid(path, *value, fmt.Sprintf("must be from %d to %d", minimum, maximum))
	}
	return *value
}

// tooMany checks the length of a list.
func (c *compiler) tooMany(length int, path *field.Path) bool {
	if length > maxList {
		c.errs = append(c.errs, field.TooMany(path, length, maxList))
	}
	return length > maxList
}

// oneOf checks a value, and returns it.
func oneOf[T ~string](c *compiler, path *field.Path, value T, allowed ...T) T {
	if !slices.Contains(allowed, value) {
		c.errs = append(c.errs, field.NotSupported(path, value, allowed))
	}
	return value
}

// duration reads a duration and writes its default into the text.
func (c *compiler) duration(text *string, otherwise string, minimum, maximum time.Duration, path *field.Path) time.Duration {
	*text = cmp.Or(*text, otherwise)
	duration, err := time.ParseDuration(*text)
	switch {
	case err != nil:
		c.invalid(path, *text, "must be a duration in h, m and s, such as "+otherwise)
	case duration < minimum || duration > maximum:
		c.invalid(path, *text, fmt.Sprintf("must be from %s to %s", WrittenDuration(minimum), WrittenDuration(maximum)))
	}
	return duration
}

// WrittenDuration returns a duration without the units that are 0 at its end.
func WrittenDuration(duration time.Duration) string {
	text := duration.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func (c *compiler) profile(profile Profile, path *field.Path) CompiledProfile {
	compiled := CompiledProfile{Profile: profile}
	selector, err := labels.Parse(profile.NodeSelector)
	if c.wrongSelector = err != nil; err != nil {
		c.invalid(path.Child("nodeSelector"), profile.NodeSelector, err.Error())
		selector = labels.Nothing()
	}
	compiled.Selector = selector
	compiled.Mode = oneOf(c, path.Child("mode"), cmp.Or(profile.Mode, ModeEnforce), ModeEnforce, ModeReport)
	if compiled.ReportsOnly() {
		compiled.Interval = c.reports(&compiled.Profile, path)
	} else {
		c.enforces(profile, path)
		compiled.Profile.Taint = cmp.Or(profile.Taint, Taint+":"+string(corev1.TaintEffectNoSchedule))
		compiled.Taint = c.taint(compiled.Profile.Taint, path.Child("taint"))
	}
	compiled.Wait, compiled.Allocatable = c.wait(profile.Wait, path.Child("wait"))
	compiled.Timeout = c.duration(&compiled.Profile.Timeout, "30s", time.Second, maxTimeout, path.Child("timeout"))
	compiled.StartTimeout = c.duration(&compiled.Profile.StartTimeout, "2m", 10*time.Second, time.Hour, path.Child("startTimeout"))
	attempts := path.Child("attempts")
	compiled.MaxAttempts = c.number(profile.Attempts.Max, 5, 1, maxAttempts, attempts.Child("max"))
	compiled.Backoff = c.duration(&compiled.Attempts.Backoff, "10s", time.Second, time.Hour, attempts.Child("backoff"))
	compiled.MaxBackoff = c.duration(&compiled.Attempts.MaxBackoff, orLonger("5m", compiled.Backoff), time.Second, 24*time.Hour, attempts.Child("maxBackoff"))
	if compiled.MaxBackoff < compiled.Backoff {
		c.invalid(attempts.Child("maxBackoff"), compiled.Attempts.MaxBackoff, "must not be shorter than backoff, "+compiled.Attempts.Backoff)
	}
	compiled.Deadline = c.duration(&compiled.Profile.Deadline, "14m", time.Minute, 7*24*time.Hour, path.Child("deadline"))
	compiled.OnTimeout = oneOf(c, path.Child("onTimeout"), cmp.Or(profile.OnTimeout, Keep), Keep, Release)
	compiled.Reverify = oneOf(c, path.Child("reverify"), cmp.Or(profile.Reverify, NeverReverify), NeverReverify, OnReboot)
	if compiled.Reverify == OnReboot && compiled.Taint.Effect == corev1.TaintEffectNoExecute {
		c.errs = append(c.errs, field.Forbidden(path.Child("reverify"), "onReboot needs a taint with the effect NoSchedule: the taint is added whenever a Node is not Ready, and NoExecute would evict its Pods"))
	}
	compiled.OnFailure = oneOf(c, path.Child("onFailure"), cmp.Or(profile.OnFailure, KeepNode), append([]RemovalKind{KeepNode}, RemovalKinds()...)...)
	compiled.Checks = c.checks(profile.Checks, compiled.Timeout, path.Child("checks"))
	if profile.OnlyWaits() && !profile.ReportsOnly() {
		c.onlyWaits(compiled.Profile, path)
	}
	compiled.Hash = hash(6, "%s", Task{Timeout: compiled.Profile.Timeout, Checks: compiled.Checks})
	return compiled
}

// orLonger returns a default that is never shorter than another duration.
func orLonger(text string, fallback time.Duration) string {
	if duration, err := time.ParseDuration(text); err == nil && duration < fallback {
		return WrittenDuration(fallback)
	}
	return text
}

// taint reads KEY:EFFECT or KEY=VALUE:EFFECT.
func (c *compiler) taint(text string, path *field.Path) corev1.Taint {
	name, effect, _ := cutLast(text, ":")
	key, value, _ := strings.Cut(name, "=")
	taint := corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)}
	c.invalidPart(path, text, "key", validation.IsQualifiedName(key))
	c.invalidPart(path, text, "value", validation.IsValidLabelValue(value))
	if taint.Effect != corev1.TaintEffectNoSchedule && taint.Effect != corev1.TaintEffectNoExecute {
		c.invalid(path, text, "must end in :NoSchedule or :NoExecute, or it would not keep workloads away")
	}
	return taint
}

func cutLast(text, mark string) (head, tail string, found bool) {
	if i := strings.LastIndex(text, mark); i >= 0 {
		return text[:i], text[i+len(mark):], true
	}
	return text, "", false
}
