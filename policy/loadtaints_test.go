package policy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"nodekeep.dev/nodekeep/policy/policytest"
)

// The rules of Kubernetes for names and values, as its validation words them.
const (
	nameRule        = `name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`
	placeholderRule = "the value may have one placeholder, {value}, the value of the label that the selector names; it has another one, or a brace too many"
	valueRule       = `a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`

	effectRule   = "must end in one of :NoSchedule, :PreferNoSchedule, :NoExecute"
	taintForm    = "must be a taint, key=value:effect or key:effect"
	selectorForm = "must be a string"
	everyNode    = "must select by a label; without one, the rule would taint every Node"
	oneLabel     = "{value} needs a selector by exactly one label, which every Node that it selects has"
	anyValue     = `would not be valid for every value that label a can have (up to 63 characters, or none): let {value} be the whole value, or select by named values: "a in (a, b)"`
	theGate      = "is the gate, which nodekeep adds and removes by itself"
)

func TestASelectorSelectsWhatItSays(t *testing.T) {
	type labels = map[string]string
	tests := map[string]struct {
		selector string // of the one rule
		selected []labels
		rest     []labels
	}{
		"a value":               {`dedicated=ci`, []labels{{"dedicated": "ci"}, {"dedicated": "ci", "a": "1"}}, []labels{nil, {"dedicated": "db"}, {"dedicated": ""}}},
		"no key":                {`"!dedicated"`, []labels{nil, {"a": "1"}}, []labels{{"dedicated": ""}}},
		"several terms":         {`"dedicated=ci, disktype!=hdd"`, []labels{{"dedicated": "ci"}, {"dedicated": "ci", "disktype": "ssd"}}, []labels{{"dedicated": "ci", "disktype": "hdd"}}},
		"numbers":               {`"gpus>3"`, []labels{{"gpus": "4"}}, []labels{nil, {"gpus": "3"}, {"gpus": "many"}}},
		"an empty value":        {`"dedicated=ci,a="`, []labels{{"dedicated": "ci", "a": ""}}, []labels{{"dedicated": "ci"}, {"dedicated": "db", "a": ""}}},
		"one of several values": {`"dedicated in (ci, db)"`, []labels{{"dedicated": "db"}}, []labels{nil, {"dedicated": "web"}}},
		"a value, and a key":    {`"a=b,dedicated"`, []labels{{"a": "b", "dedicated": "ci"}}, []labels{{"a": "b"}, {"dedicated": "ci"}}},
		"a number and a truth":  {`"gpus=4,spot=true"`, []labels{{"gpus": "4", "spot": "true"}}, []labels{{"gpus": "4"}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			rule := policyOf(t, `{rules: [{selector: `+tt.selector+`, taint: "x:NoExecute"}]}`)
			register := policyOf(t, `{register: [{nodeSelector: `+tt.selector+`, taint: "x:NoExecute"}]}`)
			for _, labels := range tt.selected {
				assert.Equal(t, "x:NoExecute", Shown(rule.TaintsFor(labels)), "%v", labels)
				assert.Equal(t, "x:NoExecute", Shown(register.RegistrationTaints(labels)), "%v", labels)
			}
			for _, labels := range tt.rest {
				assert.Empty(t, rule.TaintsFor(labels), "%v", labels)
				assert.Empty(t, register.RegistrationTaints(labels), "%v", labels)
			}
		})
	}
}

func TestParseTaint(t *testing.T) {
	tests := map[string]struct {
		text               string
		key, value, effect string
	}{
		"key, value and effect":                {"a=b:NoSchedule", "a", "b", "NoSchedule"},
		"key and effect":                       {"a:NoSchedule", "a", "", "NoSchedule"},
		"an empty value":                       {"a=:NoSchedule", "a", "", "NoSchedule"},
		"a domain":                             {"example.com/a=b:NoExecute", "example.com/a", "b", "NoExecute"},
		"no effect":                            {"a=b", "a", "b", ""},
		"an effect without a name":             {"a=b:", "a", "b", ""},
		"the last colon is before the effect":  {"a:b=c:NoSchedule", "a:b", "c", "NoSchedule"},
		"the first sign is after the key":      {"a=b=c:NoSchedule", "a", "b=c", "NoSchedule"},
		"an equals sign behind the last colon": {"a:b=c", "a", "", "b=c"},
		"nothing":                              {"", "", "", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, corev1.Taint{Key: tt.key, Value: tt.value, Effect: corev1.TaintEffect(tt.effect)}, parseTaint(tt.text))
		})
	}
}

func TestLoadNamesEveryErrorInTaints(t *testing.T) {
	const first = "spec.taints.register[0].taint: "
	invalid := func(text, detail string) string { return `Invalid value: "` + text + `": ` + detail }
	tests := map[string]struct {
		taints string
		want   []string // the lines of the message
	}{
		"a section that is a list": {`[a]`, []string{`spec.taints: Invalid value: "[\"a\"]": must be a map of fields`}},
		"patterns that are wrong": {`{keep: x, ignore: [1, '', "a:NoSchedule", a/b/c, null]}`, []string{
			`spec.taints.keep: Invalid value: "x": must be a list`,
			`spec.taints.ignore[0]: Invalid value: "1": must be a string; put it in quotes`,
			`spec.taints.ignore[4]: Invalid value: "null": must be a string`,
			`spec.taints.ignore[1]: Required value: must be a key or a pattern for keys`,
			`spec.taints.ignore[2]: Invalid value: "a:NoSchedule": may hold only letters, digits, '.', '_', '-', '/' and the wildcard '*'`,
			`spec.taints.ignore[3]: Invalid value: "a/b/c": has more than one '/': no key can match it`,
		}},
		"lists that are none": {`{register: {taint: "a:NoSchedule"}, rules: x}`, []string{
			`spec.taints.register: Invalid value: "{\"taint\":\"a:NoSchedule\"}": must be a list`,
			`spec.taints.rules: Invalid value: "x": must be a list`,
		}},
		"entries that are no maps": {`{register: ["a:NoSchedule"], rules: [5]}`, []string{
			`spec.taints.register[0]: Invalid value: "a:NoSchedule": must be a map of fields`,
			`spec.taints.rules[0]: Invalid value: "5": must be a map of fields`,
		}},
		"fields that nobody knows": {
			`{register: [{taint: "a:NoSchedule", selector: a, x: 1}], rules: [{selector: a, taint: "b:NoSchedule"}, {selector: a, taint: "c:NoSchedule", nodeSelector: {}}], more: 1}`,
			[]string{
				`unknown field "spec.taints.more"`,
				`unknown field "spec.taints.register[0].selector"`,
				`unknown field "spec.taints.register[0].x"`,
				`unknown field "spec.taints.rules[1].nodeSelector"`,
			},
		},

		"no taint in entries of either list": {`{register: [{}, null, {taint: }], rules: [{selector: a}]}`, []string{
			`spec.taints.register[1]: Invalid value: "null": must be a map of fields`,
			"spec.taints.register[0].taint: Required value: " + taintForm,
			"spec.taints.register[2].taint: Required value: " + taintForm,
			"spec.taints.rules[0].taint: Required value: " + taintForm,
		}},
		"a taint that is a number":                  {`{register: [{taint: 5}]}`, []string{first + invalid("5", "must be a string; put it in quotes")}},
		"an empty taint":                            {`{register: [{taint: ""}]}`, []string{first + "Required value: " + taintForm}},
		"an effect that there is not":               {`{register: [{taint: "a=b:Sometimes"}]}`, []string{first + invalid("a=b:Sometimes", effectRule)}},
		"no effect":                                 {`{register: [{taint: a=b}]}`, []string{first + invalid("a=b", effectRule)}},
		"an effect that copies a label":             {`{rules: [{selector: a, taint: "a:{value}"}]}`, []string{"spec.taints.rules[0].taint: " + invalid("a:{value}", effectRule)}},
		"no key":                                    {`{register: [{taint: "=b:NoSchedule"}]}`, []string{first + invalid("=b:NoSchedule", "key name part must be non-empty"), first + invalid("=b:NoSchedule", "key "+nameRule)}},
		"a key with a space":                        {`{register: [{taint: "a b:NoSchedule"}]}`, []string{first + invalid("a b:NoSchedule", "key "+nameRule)}},
		"a key that copies a label":                 {`{rules: [{selector: a, taint: "{value}=a:NoSchedule"}]}`, []string{"spec.taints.rules[0].taint: " + invalid("{value}=a:NoSchedule", "key "+nameRule)}},
		"a value with a space":                      {`{register: [{taint: "a=b c:NoSchedule"}]}`, []string{first + invalid("a=b c:NoSchedule", "value "+valueRule)}},
		"a placeholder that is not ours":            {`{rules: [{selector: a, taint: "a={Value}:NoSchedule"}]}`, []string{"spec.taints.rules[0].taint: " + invalid("a={Value}:NoSchedule", placeholderRule)}},
		"everything about one taint":                {`{register: [{taint: "a b=c d:Now"}]}`, []string{first + invalid("a b=c d:Now", "key "+nameRule), first + invalid("a b=c d:Now", effectRule), first + invalid("a b=c d:Now", "value "+valueRule)}},
		"register and rules each have their faults": {`{register: [{taint: a}], rules: [{selector: a, taint: b}]}`, []string{first + invalid("a", effectRule), "spec.taints.rules[0].taint: " + invalid("b", effectRule)}},
	}
	mistakesAre(t, DefaultGate, tests)
}

func TestLoadNamesEveryErrorInSelectors(t *testing.T) {
	const pos, rule = "spec.taints.register[0].nodeSelector: ", "spec.taints.rules[0].taint: "
	register := func(selector string) string {
		return `{register: [{taint: "x:NoSchedule", nodeSelector: ` + selector + `}]}`
	}
	rules := func(selector, taint string) string {
		return `{rules: [{selector: ` + selector + `, taint: "` + taint + `"}]}`
	}
	invalid := func(text, detail string) string { return `Invalid value: "` + text + `": ` + detail }
	tests := map[string]struct {
		taints string
		want   []string
	}{
		"a text without a value":       {register(`"a=!"`), []string{pos + invalid("a=!", "unable to parse requirement: found '!', expected: identifier")}},
		"a number":                     {register(`5`), []string{pos + invalid("5", selectorForm+"; put it in quotes")}},
		"a map, as other objects have": {register(`{matchLabels: {a: b}}`), []string{pos + invalid(`{\"matchLabels\":{\"a\":\"b\"}}`, selectorForm)}},

		"a rule without a selector":                           {`{rules: [{taint: "x:NoSchedule"}]}`, []string{"spec.taints.rules[0].selector: Required value: " + everyNode}},
		"a rule with a blank text":                            {rules(`"  "`, "x:NoSchedule"), []string{"spec.taints.rules[0].selector: Required value: " + everyNode}},
		"a bad selector hides no bad taint":                   {rules(`a b`, "x:Now"), []string{`spec.taints.rules[0].selector: Invalid value: "a b": unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt`, rule + invalid("x:Now", effectRule)}},
		"a copy that depends on a bad selector is not judged": {rules(`a b`, "x=y-{value}:NoSchedule"), []string{`spec.taints.rules[0].selector: Invalid value: "a b": unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt`}},

		"{value} without a selector":                   {`{rules: [{taint: "x={value}:NoSchedule"}]}`, []string{"spec.taints.rules[0].selector: Required value: " + everyNode, rule + invalid("x={value}:NoSchedule", oneLabel)}},
		"{value} in a registration of any Node":        {`{register: [{taint: "x={value}:NoSchedule"}]}`, []string{"spec.taints.register[0].taint: " + invalid("x={value}:NoSchedule", oneLabel)}},
		"{value} of two labels":                        {rules(`"a,b"`, "x={value}:NoSchedule"), []string{rule + invalid("x={value}:NoSchedule", oneLabel)}},
		"{value} of one label and the lack of another": {rules(`"a,!b"`, "x={value}:NoSchedule"), []string{rule + invalid("x={value}:NoSchedule", oneLabel)}},
		"{value} of a label that need not be there":    {rules(`"a!=b"`, "x={value}:NoSchedule"), []string{rule + invalid("x={value}:NoSchedule", oneLabel)}},
		"a part of a value that can be any":            {rules(`a`, "x=y-{value}:NoSchedule"), []string{rule + invalid("x=y-{value}:NoSchedule", anyValue)}},
		"a part of a value but for some":               {rules(`"a,a!=b"`, "x=y-{value}:NoSchedule"), []string{rule + invalid("x=y-{value}:NoSchedule", anyValue)}},
		"a part that a named value makes invalid":      {rules(`"a=b"`, "x=-{value}:NoSchedule"), []string{rule + invalid("x=-{value}:NoSchedule", `for a=b its value would be "-b": `+valueRule)}},
		"a part that no value makes invalid":           {rules(`"a in (b,,c)"`, "x=y-{value}:NoSchedule"), []string{rule + invalid("x=y-{value}:NoSchedule", `for a= its value would be "y-": `+valueRule)}},
		"a part that two named values make too long": {rules(`"a in (`+strings.Repeat("b", 63)+`, c, `+strings.Repeat("d", 62)+`)"`, "x=y{value}z:NoSchedule"), []string{
			rule + invalid("x=y{value}z:NoSchedule", "for a="+strings.Repeat("b", 63)+` its value would be "y`+strings.Repeat("b", 63)+`z": must be no more than 63 bytes`),
			rule + invalid("x=y{value}z:NoSchedule", "for a="+strings.Repeat("d", 62)+` its value would be "y`+strings.Repeat("d", 62)+`z": must be no more than 63 bytes`),
		}},
		"every kind of error in one section": {
			`{keep: [a b], ignore: x, register: [{taint: a, nodeSelector: 5, x: 1}], rules: [{taint: "x={value}:Now"}, {selector: "a=!", taint: 7}], more: 1}`,
			[]string{
				`unknown field "spec.taints.more"`,
				`unknown field "spec.taints.register[0].x"`,
				`spec.taints.ignore: Invalid value: "x": must be a list`,
				pos + invalid("5", selectorForm+"; put it in quotes"),
				"spec.taints.rules[1].taint: " + invalid("7", "must be a string; put it in quotes"),
				`spec.taints.keep[0]: Invalid value: "a b": may hold only letters, digits, '.', '_', '-', '/' and the wildcard '*'`,
				"spec.taints.register[0].taint: " + invalid("a", effectRule),
				"spec.taints.rules[0].selector: Required value: " + everyNode,
				rule + invalid("x={value}:Now", effectRule),
				rule + invalid("x={value}:Now", oneLabel),
				`spec.taints.rules[1].selector: Invalid value: "a=!": unable to parse requirement: found '!', expected: identifier`,
			},
		},
	}
	mistakesAre(t, DefaultGate, tests)
}

func TestLoadRefusesTaintsThatCannotBeHad(t *testing.T) {
	earlier := func(i, taint, text string) string {
		return "spec.taints.rules[" + i + `].taint: Invalid value: "` + taint + `": an earlier entry with an equal selector says ` + text + "; a Node can have one taint of a key and effect"
	}
	const (
		conflict = `spec.taints.register: Invalid value: "x:NoSchedule": taints.rules make a taint of this key and effect too: it could not be removed for good`
		owned    = `: a rule cannot make it: it belongs to `
	)
	tests := map[string]struct {
		taints string
		want   []string
	}{
		"equal selectors, however they are written": {
			`{rules: [{selector: a=b, taint: "x=1:NoSchedule"}, {selector: a in (b), taint: "x=2:NoSchedule"}, {selector: a==b, taint: "x=3:NoSchedule"},
			{selector: "a=b,a=b", taint: "x:NoSchedule"}, {selector: "a in (b, b)", taint: "x=4:NoSchedule"}]}`,
			[]string{
				earlier("1", "x=2:NoSchedule", "x=1:NoSchedule"),
				earlier("2", "x=3:NoSchedule", "x=1:NoSchedule"),
				earlier("3", "x:NoSchedule", "x=1:NoSchedule"),
				earlier("4", "x=4:NoSchedule", "x=1:NoSchedule"),
			},
		},
		"equal selectors of several terms": {
			`{rules: [{selector: "a!=b,c", taint: "x=1:NoSchedule"}, {selector: "c, a notin (b)", taint: "x:NoSchedule"}]}`,
			[]string{earlier("1", "x:NoSchedule", "x=1:NoSchedule")},
		},
		"a copy and a value of equal selectors": {
			`{rules: [{selector: a, taint: "x={value}:NoSchedule"}, {selector: " a ", taint: "x=1:NoSchedule"}]}`,
			[]string{earlier("1", "x=1:NoSchedule", "x={value}:NoSchedule")},
		},
		"two registrations of every Node": {
			`{register: [{taint: "x=1:NoSchedule"}, {taint: "x=2:NoSchedule", nodeSelector: ""}]}`,
			[]string{`spec.taints.register[1].taint: Invalid value: "x=2:NoSchedule": an earlier entry with an equal selector says x=1:NoSchedule; a Node can have one taint of a key and effect`},
		},
		"a rule that makes the gate":               {`{rules: [{selector: a, taint: "nodekeep.dev/restoring:NoSchedule"}]}`, []string{`spec.taints.rules[0].taint: Invalid value: "nodekeep.dev/restoring:NoSchedule": ` + theGate}},
		"with a value and another effect too":      {`{rules: [{selector: a, taint: "nodekeep.dev/restoring={value}:PreferNoSchedule"}]}`, []string{`spec.taints.rules[0].taint: Invalid value: "nodekeep.dev/restoring={value}:PreferNoSchedule": ` + theGate}},
		"a registration of the gate":               {`{register: [{taint: "nodekeep.dev/restoring=x:NoExecute"}]}`, []string{`spec.taints.register[0].taint: Invalid value: "nodekeep.dev/restoring=x:NoExecute": ` + theGate}},
		"a rule that makes another taint of ours":  {`{rules: [{selector: a, taint: "nodekeep.dev/x:NoSchedule"}]}`, []string{`spec.taints.rules[0].taint: Invalid value: "nodekeep.dev/x:NoSchedule"` + owned + "nodekeep itself"}},
		"a rule that makes what Kubernetes makes":  {`{rules: [{selector: a, taint: "node.kubernetes.io/unreachable:NoExecute"}]}`, []string{`spec.taints.rules[0].taint: Invalid value: "node.kubernetes.io/unreachable:NoExecute"` + owned + "the node lifecycle controller"}},
		"also where keep names it":                 {`{keep: [karpenter.sh/x], rules: [{selector: a, taint: "karpenter.sh/x:NoExecute"}]}`, []string{`spec.taints.rules[0].taint: Invalid value: "karpenter.sh/x:NoExecute"` + owned + "Karpenter"}},
		"an owned taint that is wrong in addition": {`{rules: [{selector: a, taint: "karpenter.sh/x:Now"}]}`, []string{`spec.taints.rules[0].taint: Invalid value: "karpenter.sh/x:Now"` + owned + "Karpenter", `spec.taints.rules[0].taint: Invalid value: "karpenter.sh/x:Now": ` + effectRule}},
		"again after a reboot, and evicting":       {`{register: [{taint: "a=1:NoExecute", onReboot: true}, {taint: "b:NoExecute"}, {taint: "c:NoSchedule", onReboot: true}]}`, []string{`spec.taints.register[0].onReboot: Forbidden: onReboot needs a taint with the effect NoSchedule or PreferNoSchedule: the taint is added after the Node has reported its new boot, and NoExecute would evict its Pods`}},
		"added once and made by a rule":            {`{register: [{taint: "x=1:NoSchedule"}], rules: [{selector: a, taint: "x=1:NoSchedule"}]}`, []string{conflict}},
		"with different values and selectors too":  {`{register: [{taint: "x=1:NoSchedule", nodeSelector: b}], rules: [{selector: a, taint: "x={value}:NoSchedule"}]}`, []string{conflict}},
	}
	mistakesAre(t, DefaultGate, tests)
}

func TestLoadKnowsTheGateThatIsConfigured(t *testing.T) {
	mistakesAre(t, "example.com/wait", map[string]struct {
		taints string
		want   []string
	}{
		"a rule that makes another gate":   {`{rules: [{selector: a, taint: "example.com/wait:NoSchedule"}]}`, []string{`spec.taints.rules[0].taint: Invalid value: "example.com/wait:NoSchedule": ` + theGate}},
		"a registration of another gate":   {`{register: [{taint: "example.com/wait:NoExecute"}]}`, []string{`spec.taints.register[0].taint: Invalid value: "example.com/wait:NoExecute": ` + theGate}},
		"the default gate is ours even so": {`{rules: [{selector: a, taint: "nodekeep.dev/restoring:NoSchedule"}]}`, []string{`spec.taints.rules[0].taint: Invalid value: "nodekeep.dev/restoring:NoSchedule": a rule cannot make it: it belongs to nodekeep itself`}},
	})
	// The gate of ours that is an owned taint is reported once, as what it is.
	mistakesAre(t, "karpenter.sh/wait", map[string]struct {
		taints string
		want   []string
	}{
		"a gate among the taints of others": {`{rules: [{selector: a, taint: "karpenter.sh/wait:NoSchedule"}]}`, []string{`spec.taints.rules[0].taint: Invalid value: "karpenter.sh/wait:NoSchedule": ` + theGate}},
	})
	_, err := Load([]byte(policytest.Manifest(`taints: {rules: [{selector: a, taint: "example.com/wait:NoSchedule"}]}`)), DefaultGate)
	assert.NoError(t, err, "it is a taint like any other where it is not the gate")
}

func TestLoadAcceptsTaintsThatMerelyLookAlike(t *testing.T) {
	tests := map[string]string{
		"one key, two effects":                            `{rules: [{selector: a=b, taint: "x=1:NoSchedule"}, {selector: a=b, taint: "x=2:NoExecute"}]}`,
		"one key and effect, two selectors":               `{rules: [{selector: a=b, taint: "x=1:NoSchedule"}, {selector: a, taint: "x=2:NoSchedule"}]}`,
		"one key and effect, equal selectors and values":  `{rules: [{selector: a=b, taint: "x=1:NoSchedule"}, {selector: a in (b), taint: "x=1:NoSchedule"}]}`,
		"an equal selector with the terms of another one": `{rules: [{selector: "a,b", taint: "x=1:NoSchedule"}, {selector: "a,c", taint: "x=2:NoSchedule"}]}`,
		"added once and made by a rule, in two effects":   `{register: [{taint: "x=1:NoSchedule"}], rules: [{selector: a, taint: "x=1:NoExecute"}]}`,
		"added once though it belongs to others":          `{register: [{taint: "readiness.k8s.io/network:NoSchedule"}]}`,
		"a part of a value among named ones":              `{rules: [{selector: "a in (b, c)", taint: "x=y-{value}-{value}:NoSchedule"}]}`,
		"a part of a value that is named":                 `{rules: [{selector: a=b, taint: "x=y-{value}:NoSchedule"}]}`,
		"a whole value of a label with two terms":         `{rules: [{selector: "a,a!=b", taint: "x={value}:NoSchedule"}]}`,
		"a part of a value that two terms leave":          `{rules: [{selector: "a in (b,),a in (b,c)", taint: "x=y-{value}:NoSchedule"}]}`,
		"a copy in a registration":                        `{register: [{taint: "x={value}:NoSchedule", nodeSelector: a}]}`,
		"a value as long as it may be":                    `{rules: [{selector: a, taint: "x=` + strings.Repeat("v", 63) + `:NoSchedule"}]}`,
		"a role":                                          `{rules: [{selector: node-role.kubernetes.io/gpu, taint: "node-role.kubernetes.io/gpu:NoSchedule"}]}`,
	}
	for name, taints := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Load([]byte(policytest.Manifest("taints: "+taints)), DefaultGate)
			assert.NoError(t, err)
		})
	}
}

// mistakesAre checks the whole message for each taints section.
func mistakesAre(t *testing.T, gate Gate, tests map[string]struct {
	taints string
	want   []string
}) {
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want, wrong(t, policytest.Manifest("taints: "+tt.taints+"\n"), gate))
		})
	}
}
