package policy

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"

	"nodekeep.dev/nodekeep/record"
)

func TestTaintsFor(t *testing.T) {
	type values = map[string]string
	const (
		documented = `[{selector: dedicated=ci, taint: "dedicated=special:NoSchedule"}, {selector: dedicated, taint: "dedicated={value}:NoSchedule"}]`
		part       = `[{selector: "tier in (gold, silver)", taint: "tier=is-{value}.{value}:NoExecute"}]`
	)
	tests := map[string]struct {
		rules  string
		labels values
		want   string // as kubectl taint writes them
	}{
		"no labels":              {documented, nil, ""},
		"the first rule decides": {documented, values{"dedicated": "ci"}, "dedicated=special:NoSchedule"},
		"the second rule where the first is silent": {documented, values{"dedicated": "db"}, "dedicated=db:NoSchedule"},
		"an empty value is copied":                  {documented, values{"dedicated": ""}, "dedicated:NoSchedule"},
		"one key with different effects":            {`[{selector: a, taint: "x=1:PreferNoSchedule"}, {selector: a, taint: "x=2:NoSchedule"}, {selector: a, taint: "x=3:NoExecute"}]`, values{"a": ""}, "x=1:PreferNoSchedule,x=2:NoSchedule,x=3:NoExecute"},
		"they are sorted, not in the rules' order":  {`[{selector: a, taint: "z:NoSchedule"}, {selector: a, taint: "b:NoSchedule"}, {selector: a, taint: "a:NoSchedule"}]`, values{"a": ""}, "a:NoSchedule,b:NoSchedule,z:NoSchedule"},
		"a part of a value":                         {part, values{"tier": "gold"}, "tier=is-gold.gold:NoExecute"},
		"a part of a value that is not named":       {part, values{"tier": "bronze"}, ""},
		"a value that a term rules out":             {`[{selector: "dedicated,dedicated!=ci", taint: "dedicated={value}:NoSchedule"}]`, values{"dedicated": "ci"}, ""},
		"the longest value":                         {documented, values{"dedicated": strings.Repeat("v", 63)}, "dedicated=" + strings.Repeat("v", 63) + ":NoSchedule"},
		"a value that is no text is not":            {documented, values{"dedicated": "\xff"}, ""},
		"a tampered label leaves the others alone":  {`[{selector: a, taint: "x={value}:NoSchedule"}, {selector: b, taint: "y={value}:NoSchedule"}]`, values{"a": "!", "b": "1"}, "y=1:NoSchedule"},
		"the next rule where the copy is invalid":   {`[{selector: a, taint: "x={value}:NoSchedule"}, {selector: b, taint: "x=2:NoSchedule"}]`, values{"a": "!", "b": ""}, "x=2:NoSchedule"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			made := policyOf(t, `{rules: `+tt.rules+`}`).TaintsFor(tt.labels)
			assert.Equal(t, tt.want, Shown(made))
			first := policyOf(t, `{register: `+strings.ReplaceAll(tt.rules, "selector:", "nodeSelector:")+`}`)
			assert.Equal(t, made, first.RegistrationTaints(tt.labels), "registration taints are made by the same rules")
			assert.Empty(t, first.TaintsFor(tt.labels))
		})
	}
}

func TestRegistrationTaintsOfAnyNode(t *testing.T) {
	p := policyOf(t, `{register: [{taint: "unverified=true:NoSchedule"}, {taint: "burn-in:NoExecute", nodeSelector: gpu=a100}, {taint: "unverified=false:NoSchedule", nodeSelector: gpu}]}`)
	assert.Equal(t, "unverified=true:NoSchedule", Shown(p.RegistrationTaints(nil)))
	assert.Equal(t, "burn-in:NoExecute,unverified=true:NoSchedule", Shown(p.RegistrationTaints(map[string]string{"gpu": "a100"})))
	assert.Empty(t, Default().RegistrationTaints(map[string]string{"gpu": "a100"}))
	assert.Empty(t, Default().TaintsFor(map[string]string{"gpu": "a100"}))
	assert.Empty(t, Policy{}.TaintsFor(map[string]string{"gpu": "a100"}))
}

func TestTheEntryThatDecidesATaintSaysWhetherARebootAddsItAgain(t *testing.T) {
	p := policyOf(t, `{register: [{taint: "checked=a100:NoSchedule", nodeSelector: gpu=a100}, {taint: "checked=gpu:NoSchedule", nodeSelector: gpu, onReboot: true},
  {taint: "network:PreferNoSchedule", onReboot: true}, {taint: "once:NoSchedule", onReboot: false}, {taint: "kind={value}:NoSchedule", nodeSelector: gpu, onReboot: true}]}`)
	for name, tt := range map[string]struct {
		labels map[string]string
		want   string
	}{
		"an entry without a selector":              {nil, "network:PreferNoSchedule"},
		"an entry that selects it, and a copy":     {map[string]string{"gpu": "h100"}, "checked=gpu:NoSchedule,kind=h100:NoSchedule,network:PreferNoSchedule"},
		"an earlier entry without onReboot counts": {map[string]string{"gpu": "a100"}, "kind=a100:NoSchedule,network:PreferNoSchedule"},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want, Shown(p.RebootTaints(tt.labels)))
			assert.Subset(t, p.RegistrationTaints(tt.labels), p.RebootTaints(tt.labels), "a registration adds them, too")
		})
	}
	assert.True(t, p.NotesBoots())
	assert.Empty(t, p.WithEmergency(true).RebootTaints(nil))
	assert.True(t, p.WithEmergency(true).NotesBoots(), "a Node that registers in an emergency is not tainted at its end")
	once := policyOf(t, `{register: [{taint: "once:NoSchedule"}]}`)
	assert.Empty(t, once.RebootTaints(nil))
	assert.False(t, once.NotesBoots())
	assert.False(t, Default().NotesBoots())
	assert.Empty(t, loadPolicy(t, gpuProfile).RebootTaints(map[string]string{"gpu": "yes"}), "verification has reverify for that")
}

func TestRulesMake(t *testing.T) {
	tests := map[string]struct {
		rules string
		taint string
		want  bool
	}{
		"the taint of a rule":                 {`[{selector: a, taint: "x=1:NoSchedule"}]`, "x=1:NoSchedule", true},
		"another value":                       {`[{selector: a, taint: "x=1:NoSchedule"}]`, "x=2:NoSchedule", false},
		"another effect":                      {`[{selector: a, taint: "x=1:NoSchedule"}]`, "x=1:NoExecute", false},
		"any value of a label":                {`[{selector: a, taint: "x={value}:NoSchedule"}]`, "x=anything:NoSchedule", true},
		"a named value":                       {`[{selector: "a in (b, c)", taint: "x={value}:NoSchedule"}]`, "x=c:NoSchedule", true},
		"a value that is not named":           {`[{selector: "a in (b, c)", taint: "x={value}:NoSchedule"}]`, "x=d:NoSchedule", false},
		"a value that both terms name":        {`[{selector: "a in (b, c),a in (c, d)", taint: "x={value}:NoSchedule"}]`, "x=c:NoSchedule", true},
		"a value that one of two terms names": {`[{selector: "a in (b, c),a in (c, d)", taint: "x={value}:NoSchedule"}]`, "x=d:NoSchedule", false},
		"a value where no value is possible":  {`[{selector: "a=b,a=c", taint: "x={value}:NoSchedule"}]`, "x=b:NoSchedule", false},
		"a value that is named and ruled out": {`[{selector: "a in (b, c),a!=c", taint: "x={value}:NoSchedule"}]`, "x=c:NoSchedule", false},
		"any value but one":                   {`[{selector: "a,a!=prod", taint: "x={value}:NoSchedule"}]`, "x=test:NoSchedule", true},
		"the one that is ruled out":           {`[{selector: "a,a!=prod", taint: "x={value}:NoSchedule"}]`, "x=prod:NoSchedule", false},
		"a number that is high enough":        {`[{selector: "a>3", taint: "x={value}:NoSchedule"}]`, "x=4:NoSchedule", true},
		"a number that is low enough":         {`[{selector: "a<3", taint: "x={value}:NoSchedule"}]`, "x=2:NoSchedule", true},
		"a number that is too low":            {`[{selector: "a>3", taint: "x={value}:NoSchedule"}]`, "x=3:NoSchedule", false},
		"a part of a value":                   {`[{selector: "a in (b, c)", taint: "x=is-{value}:NoSchedule"}]`, "x=is-b:NoSchedule", true},
		"the placeholder itself":              {`[{selector: "a in (b, c)", taint: "x=is-{value}:NoSchedule"}]`, "x=is-{value}:NoSchedule", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want, policyOf(t, `{rules: `+tt.rules+`}`).RulesMake(parseTaint(tt.taint)))
		})
	}
	assert.False(t, policyOf(t, `{register: [{taint: "x:NoSchedule"}]}`).RulesMake(parseTaint("x:NoSchedule")), "registration taints are made by no rule")
}

func TestAPolicyThatTakesAnothersPlaceStillKnowsItsRules(t *testing.T) {
	rules := func(taint string) Policy { return policyOf(t, `{rules: [{selector: dedicated, taint: "`+taint+`"}]}`) }
	first, second, third := rules("a={value}:NoSchedule"), rules("b={value}:NoSchedule"), Default()
	p := third.WithPredecessor(second.WithPredecessor(first))
	for _, key := range []string{"a", "b"} {
		assert.True(t, p.RulesMake(corev1.Taint{Key: key, Value: "x", Effect: corev1.TaintEffectNoSchedule}), key)
	}
	assert.False(t, p.RulesMake(corev1.Taint{Key: "c", Value: "x", Effect: corev1.TaintEffectNoSchedule}))
	assert.Empty(t, p.TaintsFor(map[string]string{"dedicated": "x"}), "they are known, not in force")
	assert.False(t, second.RulesMake(corev1.Taint{Key: "a", Value: "x", Effect: corev1.TaintEffectNoSchedule}), "the policy before is as it was")
	for range maxFormerRules + 10 {
		p = rules("d={value}:NoSchedule").WithPredecessor(p)
	}
	assert.Len(t, p.former, maxFormerRules)
	assert.Equal(t, sets.New("a", "b"), withFormer(sets.New("a"), sets.New("b", "c"), 2), "former keys are bounded, too")
}

// Selectors of one line are equal, and differ from all others.
func TestCanonical(t *testing.T) {
	groups := [][]string{
		{"", " "},
		{"a", "a,a"},
		{"!a"},
		{"a=b", "a==b", "a in (b)", "a in (b,b)", "a=b,a in (b)"},
		{"a!=b", "a notin (b)"},
		{"a in (b,c)", "a in (c,b,c)"},
		{"a=", "a in ()"},
		{"a in (b,)"},
		{"a=b,a=c"},
		{"a,b=c", "b=c,a"},
		{"a=b,c=d"},
		{"a=d,c=b"},
		{"a>1"},
		{"a<1"},
		{"in"},
		{"notin"},
	}
	item := map[string]int{}
	for n, group := range groups {
		for _, selector := range group {
			text := canonical(parsed(t, selector))
			o, known := item[text]
			assert.True(t, !known || o == n, "%q is like %q", selector, groups[o])
			assert.Equal(t, canonical(parsed(t, group[0])), text)
			item[text] = n
		}
	}
}

// What is written alike selects alike.
func FuzzCanonical(f *testing.F) {
	for _, pair := range [][2]string{{"a=b", "a in (b)"}, {"a!=b", "a notin (b)"}, {"a=", "!a"}, {"a>1", "a>01"}, {"a,b", "b,a"}, {"a in (b,)", "a in (,b)"}, {"", ","}} {
		f.Add(pair[0], pair[1], "a", "b")
		f.Add(pair[0], pair[1], "b", "")
		f.Add(pair[0], pair[1], "a", "2")
	}
	f.Fuzz(func(t *testing.T, text, second, key, value string) {
		a, err := labels.Parse(text)
		if err != nil {
			return
		}
		b, err := labels.Parse(second)
		if err != nil || canonical(a) != canonical(b) {
			return
		}
		for _, set := range []labels.Set{nil, {key: value}, {key: ""}} {
			assert.Equal(t, a.Matches(set), b.Matches(set), "%q and %q of %v", text, second, set)
		}
	})
}

// Whatever the rules and the labels, valid or not: the taints are what trying the rules one by one finds, and can be set.
func TestRulesAgreeWithTryingThemOneByOne(t *testing.T) {
	random, seed := seeded(t)
	loaded, made := 0, 0
	for range 600 {
		register, rules := naiveRules(random, "r1", "r2"), naiveRules(random, "t1", "example.com/t2")
		p, err := Load(naiveFile(t, register, rules), DefaultGate)
		if err != nil { // of two equal selectors, say
			continue
		}
		loaded++
		for range 10 {
			values := map[string]string{}
			for _, key := range []string{"a", "b", "c"} {
				if random.IntN(3) > 0 {
					values[key] = []string{"", "x", "y", "z", "w", "two words", "\xff", strings.Repeat("x", 64)}[random.IntN(8)]
				}
			}
			taints := p.TaintsFor(values)
			made += len(taints)
			assert.Equal(t, naiveTaints(rules, values), taints)
			assert.Equal(t, naiveTaints(register, values), p.RegistrationTaints(values))
			canBePutOn(t, taints)
			canBePutOn(t, p.RegistrationTaints(values))
			for _, taint := range taints {
				assert.True(t, p.RulesMake(taint), "%v", taint)
			}
			for _, value := range []string{"", "x", "y", "z", "is-x", "fixed"} {
				taint := corev1.Taint{Key: "t1", Value: value, Effect: corev1.TaintEffectNoSchedule}
				assert.Equal(t, naiveMakes(rules, taint), p.RulesMake(taint), "%v", taint)
			}
			if t.Failed() {
				t.Fatalf("seed %d: labels %q, rules %+v, register %+v", seed, values, rules, register)
			}
		}
	}
	assert.Greater(t, loaded, 150, "too few policies to show anything")
	assert.Greater(t, made, 300, "too few taints to show anything")
}

// canBePutOn checks what the API server asks of the taints of a Node, and the order in which we write them.
func canBePutOn(t *testing.T, taints []corev1.Taint) {
	t.Helper()
	seen := map[string]bool{}
	for i, taint := range taints {
		assert.True(t, record.Valid(record.TaintKey(taint), taint.Value), "%v", taint)
		assert.NotContains(t, taint.Value, "{")
		assert.Nil(t, taint.TimeAdded)
		assert.False(t, seen[record.TaintKey(taint)], "%v is there twice", taint)
		seen[record.TaintKey(taint)] = true
		if i > 0 {
			prev := taints[i-1]
			assert.True(t, prev.Key < taint.Key || prev.Key == taint.Key && prev.Effect < taint.Effect, "%v is before %v", prev, taint)
		}
	}
}

// naiveRule is a rule as a reader would apply it, term by term.
type naiveRule struct {
	terms []metav1.LabelSelectorRequirement
	taint corev1.Taint
}

func naiveSelects(term metav1.LabelSelectorRequirement, values map[string]string) bool {
	value, present := values[term.Key]
	switch named := present && slices.Contains(term.Values, value); term.Operator {
	case metav1.LabelSelectorOpIn:
		return named
	case metav1.LabelSelectorOpNotIn:
		return !named
	case metav1.LabelSelectorOpExists:
		return present
	default:
		return !present
	}
}

func (n naiveRule) selects(values map[string]string) bool {
	return !slices.ContainsFunc(n.terms, func(term metav1.LabelSelectorRequirement) bool { return !naiveSelects(term, values) })
}

// naiveTaints looks for the rule of each key and effect by itself.
func naiveTaints(rules []naiveRule, values map[string]string) []corev1.Taint {
	var made []corev1.Taint
	for _, key := range []string{"example.com/t2", "r1", "r2", "t1"} {
		for _, effect := range []corev1.TaintEffect{corev1.TaintEffectNoExecute, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule} {
			for _, rule := range rules {
				taint := rule.taint
				if taint.Key != key || taint.Effect != effect || !rule.selects(values) {
					continue
				}
				taint.Value = strings.ReplaceAll(taint.Value, "{value}", values[rule.terms[0].Key])
				if len(taint.Value) > 63 || strings.Contains(taint.Value, " ") || strings.Contains(taint.Value, "\xff") {
					continue
				}
				made = append(made, taint)
				break
			}
		}
	}
	return made
}

// naiveMakes tries every value that a label may have here.
func naiveMakes(rules []naiveRule, taint corev1.Taint) bool {
	return slices.ContainsFunc(rules, func(rule naiveRule) bool {
		if rule.taint.Key != taint.Key || rule.taint.Effect != taint.Effect {
			return false
		}
		if !strings.Contains(rule.taint.Value, "{value}") {
			return rule.taint.Value == taint.Value
		}
		return slices.ContainsFunc([]string{"", "x", "y", "z", "is-x", "fixed"}, func(value string) bool {
			return rule.selects(map[string]string{rule.terms[0].Key: value}) && strings.ReplaceAll(rule.taint.Value, "{value}", value) == taint.Value
		})
	})
}

func naiveRules(random *rand.Rand, keys ...string) []naiveRule {
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	rules := make([]naiveRule, random.IntN(5))
	for i := range rules {
		rule := &rules[i]
		rule.taint.Key, rule.taint.Value = pick(keys...), pick("", "fixed", "{value}", "{value}", "is-{value}")
		rule.taint.Effect = corev1.TaintEffect(pick("NoSchedule", "NoSchedule", "PreferNoSchedule", "NoExecute"))
		for range 1 + random.IntN(2) {
			operator := metav1.LabelSelectorOperator(pick("In", "In", "NotIn", "Exists", "Exists", "DoesNotExist"))
			term := metav1.LabelSelectorRequirement{Key: pick("a", "b", "c"), Operator: operator}
			if strings.Contains(rule.taint.Value, "{value}") && len(rule.terms) > 0 {
				term.Key = rule.terms[0].Key
			}
			if term.Operator == "In" || term.Operator == "NotIn" {
				for range 1 + random.IntN(3) {
					term.Values = append(term.Values, pick("", "x", "x", "y", "z"))
				}
			}
			rule.terms = append(rule.terms, term)
		}
	}
	return rules
}

// naiveFile writes a policy file as JSON, which is YAML.
func naiveFile(t *testing.T, register, rules []naiveRule) []byte {
	entries := func(selectorField string, rules []naiveRule) (entries []map[string]any) {
		for _, rule := range rules {
			selector := metav1.FormatLabelSelector(&metav1.LabelSelector{MatchExpressions: rule.terms})
			entries = append(entries, map[string]any{"taint": rule.taint.Key + "=" + rule.taint.Value + ":" + string(rule.taint.Effect), selectorField: selector})
		}
		return entries
	}
	data, err := json.Marshal(map[string]any{
		"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name},
		"spec": map[string]any{"taints": map[string]any{"register": entries("nodeSelector", register), "rules": entries("selector", rules)}},
	})
	require.NoError(t, err)
	return data
}

func parsed(t *testing.T, selector string) labels.Selector {
	t.Helper()
	read, err := labels.Parse(selector)
	require.NoError(t, err)
	return read
}
