package classify

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/selection"

	"nodekeep.dev/nodekeep/quantity"
)

// architectures returns those that a kubelet can report: GOARCH, where Go builds for Linux or Windows.
func architectures() []string {
	return []string{"amd64", "arm64", "arm", "386", "ppc64le", "ppc64", "s390x", "riscv64", "loong64", "mips", "mipsle", "mips64", "mips64le"}
}

// systems returns the operating systems that a kubelet can report: GOOS, where Kubernetes has a kubelet.
func systems() []string { return []string{"linux", "windows"} }

// inGo returns what Go names an architecture that has another name elsewhere.
func inGo(arch string) string {
	return map[string]string{
		"x86_64": "amd64", "x86-64": "amd64", "x64": "amd64", "aarch64": "arm64", "armv8": "arm64", "armv7": "arm", "armv7l": "arm", "armhf": "arm",
		"i386": "386", "i686": "386", "x86": "386", "ppc64el": "ppc64le",
	}[strings.ToLower(arch)]
}

// DeadRuleWarnings returns warnings about rules that can never act, or alternatives of them that are never true. They follow from the rules alone. They are
// no errors, since a later version of Kubernetes may know more.
func (r Rules) DeadRuleWarnings() (warnings []string) {
	decided := map[string]string{} // by which rule, on every Node
	for i := range r.all {
		rule := &r.all[i]
		if rule.sources != nil { // no rule of the policy
			continue
		}
		dead := rule.condition.contradictions()
		for _, warning := range dead {
			warnings = append(warnings, "rule "+rule.name+" "+warning)
		}
		by := map[string][]string{}
		for _, key := range rule.keys {
			if earlier, ok := decided[key]; ok {
				by[earlier] = append(by[earlier], key)
			} else if !rule.audit && rule.condition.isTautology() && rule.alwaysSets(key) {
				decided[key] = rule.name
			}
		}
		for _, earlier := range r.order(by) {
			warnings = append(warnings, fmt.Sprintf("rule %s never decides %s: rule %s before it is for every Node, and the first rule that is true decides. Move it before %s",
				rule.name, strings.Join(by[earlier], ", "), earlier, earlier))
		}
	}
	return warnings
}

// order returns the names of rules, in the order of the rules.
func (r Rules) order(successors map[string][]string) (names []string) {
	for i := range r.all {
		if _, ok := successors[r.all[i].name]; ok {
			names = append(names, r.all[i].name)
		}
	}
	return names
}

// alwaysSets reports whether the rule decides a key on each Node on which it is true. A value that a Node may lack leaves it to later rules.
func (r *compiled) alwaysSets(key string) bool {
	return r.absent[key] || !slices.ContainsFunc(r.set[key].facts, factName.mayLack)
}

// isTautology reports whether the condition is true of every Node.
func (c *condition) isTautology() bool {
	all := len(c.names) == 0 || slices.Contains(c.names, "*")
	return all && c.nameRegex == nil && len(c.labels)+len(c.capacity)+len(c.features)+len(c.inventory) == 0 &&
		c.providerID == "" && c.kernel == nil && c.kubelet == nil && c.devices == nil &&
		(len(c.alternatives) == 0 || slices.ContainsFunc(c.alternatives, func(alternative condition) bool { return alternative.isTautology() }))
}

// contradictions returns why the condition, or an alternative of it, is true of no Node.
func (c *condition) contradictions() (all []string) {
	for _, warning := range c.unreported() {
		all = append(all, "asks for "+warning+": it never acts")
	}
	dead := 0
	for i := range c.alternatives {
		whys := c.alternatives[i].unreported()
		for _, warning := range whys {
			all = append(all, fmt.Sprintf("asks in any[%d] for %s: this alternative is never true", i, warning))
		}
		if len(whys) > 0 {
			dead++
		}
	}
	if dead > 0 && dead == len(c.alternatives) {
		all = append(all, "has no other alternative: it never acts")
	}
	return all
}

// unreported returns what the condition itself asks for and no kubelet reports.
func (c *condition) unreported() (all []string) {
	for _, row := range []struct {
		key   string
		inGo  func(string) string
		known []string
	}{{corev1.LabelArchStable, inGo, architectures()}, {corev1.LabelOSStable, func(string) string { return "" }, systems()}} {
		for _, values := range c.selected(row.key) {
			if slices.ContainsFunc(values, func(value string) bool { return slices.Contains(row.known, value) }) {
				continue
			}
			text := fmt.Sprintf("%s=%s, which no kubelet reports", row.key, strings.Join(values, ","))
			if meant := cmp.Or(row.inGo(values[0]), quantity.Nearest(values[0], row.known)); meant != "" {
				text += fmt.Sprintf(" (did you mean %s?)", meant)
			}
			all = append(all, text)
		}
	}
	return all
}

// selected returns the values of which a label must have one, for each requirement of the condition.
func (c *condition) selected(key string) (values [][]string) {
	for i := range c.labels {
		switch c.labels[i].Operator() {
		case selection.In, selection.Equals, selection.DoubleEquals:
			if c.labels[i].Key() == key {
				values = append(values, slices.Sorted(maps.Keys(c.labels[i].Values())))
			}
		}
	}
	return values
}
