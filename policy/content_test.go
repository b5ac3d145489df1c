package policy

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"nodekeep.dev/nodekeep/policy/policytest"
)

func TestEachFieldOfAPolicyIsPartOfItsContent(t *testing.T) {
	prev, paths := policytest.Filled[Spec]().Content(), 0
	policytest.EachChange(func(path string, changed Spec) {
		paths++
		assert.NotEqual(t, prev, changed.Content(), path)
	})
	assert.Greater(t, paths, 150)
}

func TestNoTwoLinesOfAPolicyAreEqual(t *testing.T) {
	seen := map[string]bool{}
	for _, line := range policytest.Filled[Spec]().Content() {
		text := line.Field + " " + line.Value
		assert.False(t, seen[text], text)
		seen[text] = true
	}
}

func TestWhatIsContentAndWhatIsNot(t *testing.T) {
	const check = "checks: [{name: c, api: {}}]"
	for name, c := range map[string]struct {
		first, second string
		equal         bool
	}{
		"governance of another key":                     {"governance: {keys: [{key: a, mode: deny}]}", "governance: {keys: [{key: b, mode: deny}]}", false},
		"a default that is written out":                 {"governance: {keys: [{key: a, mode: audit, required: false}], noncompliant: {taint: 't:NoSchedule', after: 0s}}", "governance: {keys: [{key: a}], noncompliant: {taint: 't:NoSchedule'}}", true},
		"the order of governance":                       {"governance: {keys: [{key: a, values: [x, w]}, {key: b}]}", "governance: {keys: [{key: b}, {key: a, values: [w, x]}]}", true},
		"the order of patterns":                         {"labels: {ignore: [a, b]}", "labels: {ignore: [b, a]}", true},
		"a pattern twice":                               {"labels: {ignore: [a, a]}", "labels: {ignore: [a]}", false},
		"two patterns that look like one":               {"labels: {ignoreManagers: ['a\", \"b']}", "labels: {ignoreManagers: [a, b]}", false},
		"an empty list where the default is none":       {"labels: {ignore: [], rules: [], operators: []}", "", true},
		"an empty list where the default has items":     {"labels: {ignoreManagers: []}", "", false},
		"a label without a value":                       {"labels: {rules: [{name: r, set: {a: '', b: x}}]}", "labels: {rules: [{name: r, set: {b: x}}]}", false},
		"the order of rules":                            {"labels: {rules: [{name: r, set: {a: x}}, {name: s, set: {a: w}}]}", "labels: {rules: [{name: s, set: {a: w}}, {name: r, set: {a: x}}]}", false},
		"defaults of a rule":                            {"labels: {rules: [{name: r, mode: enforce, precedence: operator, hold: 0s, set: {a: x}}]}", "labels: {rules: [{name: r, set: {a: x}}]}", true},
		"two rules of one taint, of which one goes":     {"taints: {rules: [{selector: a, taint: 't:NoSchedule'}, {selector: b, taint: 't:NoSchedule'}]}", "taints: {rules: [{selector: a, taint: 't:NoSchedule'}]}", false},
		"two rules of one taint, the other way":         {"taints: {rules: [{selector: a, taint: 't:NoSchedule'}, {selector: b, taint: 't:NoSchedule'}]}", "taints: {rules: [{selector: b, taint: 't:NoSchedule'}, {selector: a, taint: 't:NoSchedule'}]}", false},
		"the phase of a migration":                      {"labels: {migrations: [{from: a, to: b, phase: both}]}", "labels: {migrations: [{from: a, to: b, phase: new}]}", false},
		"the order of profiles":                         {"verify: {profiles: [{name: a, nodeSelector: x, " + check + "}, {name: b, nodeSelector: w, " + check + "}]}", "verify: {profiles: [{name: b, nodeSelector: w, " + check + "}, {name: a, nodeSelector: x, " + check + "}]}", false},
		"a duration in other units, and other defaults": {"verify: {profiles: [{name: a, timeout: 60s, deadline: 840s, mode: enforce, checks: [{name: c, required: true, api: {}}]}]}", "verify: {profiles: [{name: a, timeout: 1m, " + check + "}]}", true},
		"a check of another kind":                       {"verify: {profiles: [{name: a, " + check + "}]}", "verify: {profiles: [{name: a, checks: [{name: c, kubelet: {}}]}]}", false},
		"retention in other units":                      {"retention: 60m", "retention: 1h", true},
		"attributes of an inventory in another order":   {"inventory: [{name: a, configMap: c, attributes: [x, w], interval: 5m}]", "inventory: [{name: a, configMap: c, attributes: [w, x]}]", true},
		"a source of an inventory":                      {"inventory: [{name: a, configMap: c, attributes: [x]}]", "inventory: [{name: a, configMap: d, attributes: [x]}]", false},
		"an accepted hash":                              {"accept: 0123456789ab", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			item, o := loadPolicy(t, c.first).Content(), loadPolicy(t, c.second).Content()
			if c.equal {
				assert.Equal(t, o, item)
			} else {
				assert.NotEqual(t, o, item)
			}
		})
	}
}

func TestTheContentNamesWhereAPolicySaysSomething(t *testing.T) {
	p := loadPolicy(t, "governance: {keys: [{key: tier, values: [gold, silver], mode: deny}]}\nlabels: {rules: [{name: r, set: {a: ''}}, {name: s, set: {b: x}}]}\nretention: 0")
	var logged []string
	for _, line := range p.Content() {
		if line.Entries != nil && !line.Default || line.Order != nil || line.Field == "retention" {
			logged = append(logged, line.Field+" "+line.Value)
		}
	}
	assert.Equal(t, []string{
		"labels.rules r, s", `labels.rules[r].set[a] ""`, "labels.rules[s].set[b] x",
		`governance.keys[tier].values "gold"`, `governance.keys[tier].values "silver"`, "governance.keys[tier].mode deny", "retention 0s",
	}, logged)
}

// A default of the content is what the compiled policy has where the field is left out.
func TestTheDefaultsOfTheContentAreThoseOfThePolicy(t *testing.T) {
	const (
		minimum = `
labels: {rules: [{name: r, when: {devices: {driver: d}, any: [{devices: {driver: d}}]}, set: {a: x}}]}
governance: {keys: [{key: a}], noncompliant: {taint: 't:NoSchedule'}}
inventory: [{name: i, configMap: c, attributes: [x]}]
verify: {profiles: [{name: p, nodeSelector: x, wait: {conditions: {Ready: "True"}}, checks: [{name: d, dns: {names: [a.example]}}, {name: h, http: {url: "https://a.example"}}]}, {name: q, mode: report, checks: [{name: c, api: {}}]}]}`
		full = `
labels: {rules: [{name: r, hold: 0s, precedence: operator, mode: enforce, when: {devices: {driver: d, min: 1}, any: [{devices: {driver: d, min: 1}}]}, set: {a: x}}]}
governance: {keys: [{key: a, mode: audit}], noncompliant: {taint: 't:NoSchedule', after: 0s}}
inventory: [{name: i, configMap: c, attributes: [x], interval: 5m, staleAfter: 24h}]
verify:
  label: nodekeep.dev/verified
  limits: {stopAbove: 20%, deletionsPerHour: 3}
  profiles:
  - name: p
    nodeSelector: x
    mode: enforce
    taint: nodekeep.dev/unverified:NoSchedule
    timeout: 30s
    startTimeout: 2m
    attempts: {max: 5, backoff: 10s, maxBackoff: 5m}
    deadline: 14m
    onTimeout: keep
    reverify: never
    onFailure: keep
    wait: {conditions: {Ready: "True"}}
    checks: [{name: d, required: true, dns: {names: [a.example], servers: any}}, {name: h, http: {url: "https://a.example", status: 200}}]
  - {name: q, mode: report, every: 1h, checks: [{name: c, api: {}}]}`
	)
	item, o := loadPolicy(t, minimum), loadPolicy(t, full)
	assert.Equal(t, item.Content(), o.Content())
	for i, profile := range item.Verify().All() {
		replacement := o.Verify().All()[i]
		assert.Equal(t, profile.Hash, replacement.Hash)
		assert.Equal(t, fmt.Sprint(profile.Taint, profile.Interval, profile.Timeout, profile.StartTimeout, profile.MaxAttempts, profile.Backoff, profile.MaxBackoff, profile.Deadline, profile.OnTimeout, profile.Reverify, profile.OnFailure),
			fmt.Sprint(replacement.Taint, replacement.Interval, replacement.Timeout, replacement.StartTimeout, replacement.MaxAttempts, replacement.Backoff, replacement.MaxBackoff, replacement.Deadline, replacement.OnTimeout, replacement.Reverify, replacement.OnFailure))
	}
	assert.Equal(t, []any{item.Verify().Label, item.Verify().Start, item.Verify().Limits, item.Inventory()}, []any{o.Verify().Label, o.Verify().Start, o.Verify().Limits, o.Inventory()})
	assert.Equal(t, item.labelRules, o.labelRules)
	taint, delay, ok := item.Governance().Noncompliant()
	taintOther, afterOther, okOther := o.Governance().Noncompliant()
	assert.Equal(t, []any{taint, delay, ok, item.Governance().Settings().Keys}, []any{taintOther, afterOther, okOther, o.Governance().Settings().Keys})

	var content map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(full), &content))
	spelled := pathsOf(content, "")
	for path := range contentDefaults() {
		assert.Contains(t, spelled, path, "say here what it is")
	}
}

func pathsOf(value any, path string) (paths []string) {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			paths = append(paths, pathsOf(inner, strings.TrimPrefix(path+"."+key, "."))...)
		}
	case []any:
		for _, inner := range value {
			paths = append(paths, pathsOf(inner, path)...)
		}
	default:
		paths = []string{path}
	}
	return paths
}

func TestEachListWithoutAnOrderIsOne(t *testing.T) {
	lists := listPaths(reflect.TypeFor[Spec](), "")
	for _, path := range unordered() {
		assert.Contains(t, lists, path)
	}
}

// listPaths returns the fields of a type that are lists.
func listPaths(typ reflect.Type, path string) (paths []string) {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	switch typ.Kind() {
	case reflect.Slice:
		return slices.Concat([]string{path}, listPaths(typ.Elem(), path))
	case reflect.Struct:
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			paths = append(paths, listPaths(typ.Field(i).Type, strings.Trim(path+"."+name, "."))...)
		}
	}
	return paths
}
