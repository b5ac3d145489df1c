package policy

import (
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/record"
)

const head = "apiVersion: nodekeep.dev/v1alpha1\nkind: Policy\n"

const noDuration = "must be a duration in h, m and s, such as 720h, or 0 for ever"

// The example of the documentation says in full what holds without a file.
func TestTheExampleIsTheDefault(t *testing.T) {
	data, err := os.ReadFile("testdata/policy.yaml")
	require.NoError(t, err)
	got, err := Load(data, DefaultGate)
	require.NoError(t, err)
	want := Default()
	want.named, want.ignore = []string{"*"}, got.ignore
	assert.Equal(t, want, got)
	_, ignored := got.ignore.match("anything")
	assert.False(t, ignored)
}

func TestLoad(t *testing.T) {
	tests := map[string]struct {
		file string
		want func(p *Policy) // what differs from the default
	}{
		"a file that says nothing":              {head, func(*Policy) {}},
		"an empty labels section":               {head + "labels: {}\n", func(*Policy) {}},
		"a labels section without anything":     {head + "labels:\n", func(*Policy) {}},
		"fields without anything":               {head + "labels: {keep: , ignore: null, defer: ~, ignoreManagers: ~, onConflict: , protected: }\n", func(*Policy) {}},
		"JSON is YAML":                          {`{"apiVersion": "nodekeep.dev/v1alpha1", "kind": "Policy", "labels": {"protected": "never"}}`, func(p *Policy) { p.protected = Never }},
		"a file between document marks":         {"# ours\n---\n" + head + "...\n# the end\n---\n", func(*Policy) {}},
		"a directive before the document":       {"%YAML 1.1\n---\n" + head, func(*Policy) {}},
		"line ends of Windows":                  {"---\r\n" + strings.ReplaceAll(head, "\n", "\r\n"), func(*Policy) {}},
		"the stored value wins":                 {head + "labels: {onConflict: restoreStored}", func(p *Policy) { p.onConflict = RestoreStored }},
		"protected labels are never given back": {head + "labels: {protected: never}", func(p *Policy) { p.protected = Never }},
		"other managers":                        {head + "labels: {ignoreManagers: [robot]}", func(p *Policy) { p.ignoreManagers = []string{"robot"} }},
		"no managers":                           {head + "labels: {ignoreManagers: []}", func(p *Policy) { p.ignoreManagers = nil }},
		"more keys are ignored":                 {head + "labels: {ignore: [a, b/*]}", func(p *Policy) { p.ignore = *setOf([]string{"a", "b/*"}) }},
		"keys are deferred":                     {head + "labels: {defer: [a, b/*]}", func(p *Policy) { p.deferred = *setOf([]string{"a", "b/*"}) }},
		"fewer keys are kept":                   {head + "labels: {keep: [a, b/*]}", func(p *Policy) { p.keep, p.named = *setOf([]string{"a", "b/*"}), []string{"a", "b/*"} }},
		"retention without anything":            {head + "retention:\n", func(*Policy) {}},
		"a shorter retention":                   {head + "retention: 1h30m", func(p *Policy) { p.retention = 90 * time.Minute }},
		"the shortest retention":                {head + "retention: 10m", func(p *Policy) { p.retention = 10 * time.Minute }},
		"a longer retention, quoted":            {head + "retention: '8760h'", func(p *Policy) { p.retention = 8760 * time.Hour }},
		"records are kept for ever":             {head + "retention: 0", func(p *Policy) { p.retention = 0 }},
		"for ever, as a text":                   {head + "retention: '0'", func(p *Policy) { p.retention = 0 }},
		"for ever, with a unit":                 {head + "retention: 0s", func(p *Policy) { p.retention = 0 }},
		"nothing is kept":                       {head + "labels: {keep: []}", func(p *Policy) { p.keep, p.named = patternSet{}, nil }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Load([]byte(tt.file), DefaultGate)
			require.NoError(t, err)
			want := Default()
			tt.want(&want)
			assert.Equal(t, want, got)
		})
	}
}

func TestLoadNamesEveryMistakeAtOnce(t *testing.T) {
	tests := map[string]struct {
		file string
		want []string // the lines of the message
	}{
		"an empty file": {"", []string{
			"read policy: apiVersion: Required value: must be nodekeep.dev/v1alpha1",
			"kind: Required value: must be Policy",
		}},
		"a file of something else": {"apiVersion: v1\nkind: ConfigMap\ndata: {}\n", []string{
			`read policy: unknown field "data"`,
			`apiVersion: Unsupported value: "v1": supported values: "nodekeep.dev/v1alpha1"`,
			`kind: Unsupported value: "ConfigMap": supported values: "Policy"`,
		}},
		"a list": {"- a\n", []string{
			"read policy: must be a map of fields",
			"apiVersion: Required value: must be nodekeep.dev/v1alpha1",
			"kind: Required value: must be Policy",
		}},
		"labels that are no map": {"kind: 1\nlabels: [keep]\n", []string{
			`read policy: labels: Invalid value: "[\"keep\"]": must be a map of fields`,
			"apiVersion: Required value: must be nodekeep.dev/v1alpha1",
			`kind: Unsupported value: "1": supported values: "Policy"`,
		}},
		"a field in capitals is unknown": {head + "Labels: {}\nlabels: {Keep: [a]}\n", []string{
			`read policy: unknown field "Labels"`,
			`unknown field "labels.Keep"`,
		}},
		"a repeated field hides no other mistake": {head + "labels:\n  keep: [a]\n  keep: [b]\n  foo: 1\n  protected: x\n", []string{
			"read policy: yaml: unmarshal errors:",
			`  line 5: key "keep" already set in map`,
			`unknown field "labels.foo"`,
			`labels.protected: Unsupported value: "x": supported values: "deferred", "inline", "never"`,
		}},
		"a second document": {head + "---\n" + head + "labels: {keep: []}\n", []string{
			"read policy: has more than one YAML document",
		}},
		"a second document on the line of its mark": {head + "--- {kind: Policy}\n", []string{
			"read policy: has more than one YAML document",
		}},
		"every kind of mistake in one file": {
			"apiVersion: 1\nkind: [Policy]\nextra: 1\nlabels:\n  keep: ['', a b, a/b/c, 3, null, [x], 'größe']\n  ignore: x\n  defer: ['', a b, 3]\n  ignoreManagers: [1, '']\n  onConflict: keepnode\n  protected: {deferred: true}\n  more: 1\n",
			[]string{
				`read policy: unknown field "extra"`,
				`unknown field "labels.more"`,
				`apiVersion: Unsupported value: "1": supported values: "nodekeep.dev/v1alpha1"`,
				`kind: Unsupported value: "[\"Policy\"]": supported values: "Policy"`,
				`labels.keep[0]: Required value: is empty`,
				`labels.keep[3]: Invalid value: "3": must be a string`,
				`labels.keep[4]: Invalid value: "null": must be a string`,
				`labels.keep[5]: Invalid value: "[\"x\"]": must be a string`,
				`labels.keep[1]: Invalid value: "a b": may hold only letters, digits, '.', '_', '-', '/' and the wildcard '*'`,
				`labels.keep[2]: Invalid value: "a/b/c": has more than one '/': no label key can match it`,
				`labels.keep[6]: Invalid value: "größe": may hold only letters, digits, '.', '_', '-', '/' and the wildcard '*'`,
				`labels.ignore: Invalid value: "x": must be a list of strings`,
				`labels.defer[0]: Required value: is empty`,
				`labels.defer[2]: Invalid value: "3": must be a string`,
				`labels.defer[1]: Invalid value: "a b": may hold only letters, digits, '.', '_', '-', '/' and the wildcard '*'`,
				`labels.ignoreManagers[0]: Invalid value: "1": must be a string`,
				`labels.ignoreManagers[1]: Required value: is empty`,
				`labels.onConflict: Unsupported value: "keepnode": supported values: "keepNode", "restoreStored"`,
				`labels.protected: Unsupported value: "{\"deferred\":true}": supported values: "deferred", "inline", "never"`,
			},
		},
		"a value that no version knows": {head + "labels: {protected: instantly}\n", []string{
			`read policy: labels.protected: Unsupported value: "instantly": supported values: "deferred", "inline", "never"`,
		}},
		"a retention without a unit":        {head + "retention: 720\n", []string{`read policy: retention: Invalid value: "720": ` + noDuration}},
		"a retention in days":               {head + "retention: 30d\n", []string{`read policy: retention: Invalid value: "30d": ` + noDuration}},
		"a retention of nothing":            {head + "retention: ''\n", []string{`read policy: retention: Invalid value: "": ` + noDuration}},
		"a retention that is a truth":       {head + "retention: false\n", []string{`read policy: retention: Invalid value: "false": ` + noDuration}},
		"a retention that is a map":         {head + "retention: {after: 720h}\n", []string{`read policy: retention: Invalid value: "{\"after\":\"720h\"}": ` + noDuration}},
		"a retention beyond all time":       {head + "retention: 9999999h\n", []string{`read policy: retention: Invalid value: "9999999h": ` + noDuration}},
		"a retention that is negative":      {head + "retention: -1h\n", []string{`read policy: retention: Invalid value: "-1h": must not be negative; 0 keeps records for ever`}},
		"a retention that forgets restarts": {head + "retention: 9m59s\n", []string{`read policy: retention: Invalid value: "9m59s": must not be shorter than 10m, or Nodes that only restart would be forgotten; 0 keeps records for ever`}},
		"a retention among other mistakes": {head + "retention: 1s\nlabels: {protected: x}\n", []string{
			`read policy: labels.protected: Unsupported value: "x": supported values: "deferred", "inline", "never"`,
			`retention: Invalid value: "1s": must not be shorter than 10m, or Nodes that only restart would be forgotten; 0 keeps records for ever`,
		}},
		"no YAML at all": {"a: [", []string{"read policy: yaml: line 1: did not find expected node content"}},
		"no text at all": {"\xff", []string{"read policy: yaml: invalid leading UTF-8 octet"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p, err := Load([]byte(tt.file), DefaultGate)
			require.Error(t, err)
			assert.Equal(t, strings.Join(tt.want, "\n"), err.Error())
			assert.Equal(t, Policy{}, p, "a policy that comes with an error is of no use")
		})
	}
}

func TestPoliciesShareNothing(t *testing.T) {
	first := Default()
	first.keep.add("mine", "mine")
	first.owned.add("mine", "mine")
	_, kept := Default().keep.exact["mine"]
	assert.False(t, kept)
	_, owned := Default().owned.exact["mine"]
	assert.False(t, owned)
}

func FuzzLoad(f *testing.F) {
	example, err := os.ReadFile("testdata/policy.yaml")
	require.NoError(f, err)
	for _, file := range []string{
		"", "[]", "null", "a: [", "\xff", "---\n---\n", "? [a]\n: b\n", "a: &a [*a]\n", "labels: {keep: !!binary aGk=}\n", "1: 2\n",
		string(example), head, head + "labels: {keep: ['/*', '*./*', '**'], ignore: [x]}\n", head + "labels: []\n", head + "labels: {keep: [a], keep: [b]}\n",
		documented, head + "taints: []\n", head + "retention: 0\n", head + "retention: [1h]\n", head + "taints: {keep: ['*/*'], ignore: [x], register: x, rules: {}}\n",
		head + "taints: {register: [{taint: a=b:NoSchedule, nodeSelector: 'a>1,b!=c'}, {taint: 'x={value}:NoExecute', nodeSelector: {matchLabels: {a: b}}}]}\n",
		head + "taints: {rules: [{selector: a, taint: 'x={value}:NoSchedule'}, {selector: 'a in (b,c)', taint: 'x=is-{value}:NoSchedule'}, {selector: '!a', taint: 'y:NoExecute'}]}\n",
		head + "taints: {rules: [{selector: {matchExpressions: [{key: a, operator: NotIn, values: [b]}, {key: a, operator: Exists}]}, taint: '{value}={value}:{value}'}]}\n",
	} {
		f.Add([]byte(file))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Load(data, DefaultGate)
		if err != nil {
			assert.Equal(t, Policy{}, p)
			assert.ErrorContains(t, err, "read policy: ")
			return
		}
		kept := p.Keep(Metadata{Items: map[string]string{"a": "1", "example.com/b": "2"}})
		missing := p.Missing(Kept{}, kept, CreateByKubelet)
		assert.Equal(t, kept.Items, missing.Add, "what is kept is given back")
		makesGoodTaints(t, p)
		assert.True(t, p.Retention() == 0 || p.Retention() >= shortestRetention, "%s", p.Retention())
	})
}

// makesGoodTaints checks what comes of labels that a policy looks at, with values that it names and with any others.
func makesGoodTaints(t *testing.T, p Policy) {
	random := rand.New(rand.NewPCG(uint64(len(p.taints.rules)), uint64(len(p.taints.register))))
	looked := map[string][]string{"a": nil}
	for _, rule := range slices.Concat(p.taints.register, p.taints.rules) {
		keys, _ := keysOf(rule.selector)
		for _, key := range keys {
			values, _ := rule.valuesOf(key)
			looked[key] = append(looked[key], values...)
		}
	}
	for range 20 {
		labels := map[string]string{}
		for _, key := range slices.Sorted(maps.Keys(looked)) {
			if values := slices.Concat(looked[key], []string{"", "b", "2", "two words", "\xff", strings.Repeat("v", 64)}); random.IntN(4) > 0 {
				labels[key] = values[random.IntN(len(values))]
			}
		}
		made, once := p.TaintsFor(labels), p.RegistrationTaints(labels)
		canBePutOn(t, made)
		canBePutOn(t, once)
		assert.Equal(t, made, FreeOf(made, once), "what is put on once is made by no rule")
		for _, taint := range made {
			assert.True(t, p.RulesMake(taint), "%v", taint)
			assert.False(t, p.Gate().Is(taint))
		}
		for _, taint := range once {
			keeps, _ := p.Keeps(record.TaintKey(taint))
			assert.False(t, keeps, "%v is not remembered", taint)
			assert.True(t, p.Registers(record.TaintKey(taint)))
		}
	}
}
