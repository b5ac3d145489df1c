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

	"nodekeep.dev/nodekeep/policy/policytest"
)

const noDuration = "must be a duration in h, m and s, such as 720h, or 0 for ever"

// documentedDefaults returns the policy file of docs/policy.md, which has all fields with their defaults.
func documentedDefaults(t testing.TB) []byte {
	t.Helper()
	page, err := os.ReadFile("../docs/policy.md")
	require.NoError(t, err)
	_, tail, _ := strings.Cut(string(page), "```yaml\n")
	file, _, _ := strings.Cut(tail, "\n```")
	return []byte(file)
}

func TestTheDocumentedFieldsHaveTheDefaults(t *testing.T) {
	got, err := Load(documentedDefaults(t), DefaultGate)
	require.NoError(t, err)
	want := Default()
	assert.Equal(t, want.Content(), got.Content())
	assert.True(t, got.governance.Empty())
	got.labels.ignore, got.taints.ignore, got.deferred, got.operators, got.migrations, got.governance = nil, nil, nil, nil, nil, want.governance // they have empty lists
	got.spec = want.spec
	assert.Equal(t, want, got)
}

func TestLoad(t *testing.T) {
	tests := map[string]struct {
		file string
		want func(p *Policy) // what differs from the default
	}{
		"a file that says nothing":            {policytest.Head, func(*Policy) {}},
		"a labels section without anything":   {policytest.Manifest("labels:\n"), func(*Policy) {}},
		"fields without anything":             {policytest.Manifest("labels: {keep: , ignore: null, defer: ~, ignoreManagers: ~, onConflict: , protected: }\n"), func(*Policy) {}},
		"JSON is YAML":                        {`{"apiVersion": "nodekeep.dev/v1alpha1", "kind": "NodePolicy", "metadata": {"name": "default"}, "spec": {"labels": {"protected": "never"}}}`, func(p *Policy) { p.protected = NeverProtected }},
		"a file between document marks":       {"# ours\n---\n" + policytest.Head + "...\n# the end\n---\n", func(*Policy) {}},
		"a directive before the document":     {"%YAML 1.1\n---\n" + policytest.Head, func(*Policy) {}},
		"line ends of Windows":                {"---\r\n" + strings.ReplaceAll(policytest.Head, "\n", "\r\n"), func(*Policy) {}},
		"the stored value wins":               {policytest.Manifest("labels: {onConflict: restoreStored}"), func(p *Policy) { p.onConflict = RestoreStored }},
		"protected labels are never restored": {policytest.Manifest("labels: {protected: never}"), func(p *Policy) { p.protected = NeverProtected }},
		"no managers":                         {policytest.Manifest("labels: {ignoreManagers: []}"), func(p *Policy) { p.ignoreManagers = []string{} }},
		"more keys are ignored":               {policytest.Manifest("labels: {ignore: [a, b/*]}"), func(p *Policy) { p.labels.ignore = []string{"a", "b/*"} }},
		"keys are deferred":                   {policytest.Manifest("labels: {defer: [a, b/*]}"), func(p *Policy) { p.deferred = []string{"a", "b/*"} }},
		"retention without anything":          {policytest.Manifest("retention:\n"), func(*Policy) {}},
		"a shorter retention":                 {policytest.Manifest("retention: 1h30m"), func(p *Policy) { p.retention = 90 * time.Minute }},
		"the shortest retention":              {policytest.Manifest("retention: 10m"), func(p *Policy) { p.retention = 10 * time.Minute }},
		"records are kept for ever":           {policytest.Manifest("retention: 0"), func(p *Policy) { p.retention = 0 }},
		"fields of taints without anything":   {policytest.Manifest("taints: {keep: , ignore: null, register: , rules: ~}"), func(*Policy) {}},
		"empty lists of taints":               {policytest.Manifest("taints: {ignore: [], register: [], rules: []}"), func(p *Policy) { p.taints.ignore = []string{} }},
		"fewer taints are kept":               {policytest.Manifest("taints: {keep: [a, b/*]}"), func(p *Policy) { p.taints.keep = []string{"a", "b/*"} }},
		"patterns in quotes and block style":  {policytest.Manifest("taints:\n  keep:\n  - \"a*\"\n  ignore:\n  - 'b'"), func(p *Policy) { p.taints.keep, p.taints.ignore = []string{"a*"}, []string{"b"} }},
		"nothing is kept":                     {policytest.Manifest("labels: {keep: []}"), func(p *Policy) { p.labels.keep = []string{} }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Load([]byte(tt.file), DefaultGate)
			require.NoError(t, err)
			want := Default()
			tt.want(&want)
			want.spec = got.spec
			assert.Equal(t, want, got)
		})
	}
}

func TestLoadNamesEveryErrorAtOnce(t *testing.T) {
	tests := map[string]struct {
		file string
		want []string // the lines of the message
	}{
		"an empty file": {"", []string{
			`apiVersion: Unsupported value: "": supported values: "nodekeep.dev/v1alpha1"`,
			`kind: Unsupported value: "": supported values: "NodePolicy"`,
			`metadata.name: Unsupported value: "": supported values: "default"`,
		}},
		"a file of something else": {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {}\n", []string{
			`apiVersion: Unsupported value: "v1": supported values: "nodekeep.dev/v1alpha1"`,
			`kind: Unsupported value: "ConfigMap": supported values: "NodePolicy"`,
			`metadata.name: Unsupported value: "a": supported values: "default"`,
			`unknown field "data"`,
		}},
		"a list": {"- a\n", []string{"must be a map of fields"}},
		"labels that are no map": {"kind: 1\nmetadata: 1\nspec: {labels: [keep]}\n", []string{
			`apiVersion: Unsupported value: "": supported values: "nodekeep.dev/v1alpha1"`,
			`kind: Invalid value: "1": must be a string; put it in quotes`,
			`metadata.name: Unsupported value: "": supported values: "default"`,
			`spec.labels: Invalid value: "[\"keep\"]": must be a map of fields`,
		}},
		"a field in capitals is unknown": {policytest.Manifest("Labels: {}\nlabels: {Keep: [a]}\n"), []string{
			`unknown field "spec.Labels"`,
			`unknown field "spec.labels.Keep"`,
		}},
		"a repeated field hides no other error": {policytest.Manifest("labels:\n  keep: [a]\n  keep: [b]\n  foo: 1\n  protected: x\n"), []string{
			`key "keep" already set in map`,
			`unknown field "spec.labels.foo"`,
			`spec.labels.protected: Unsupported value: "x": supported values: "deferred", "inline", "never"`,
		}},
		"a second document": {policytest.Head + "---\n" + policytest.Manifest("labels: {keep: []}\n"), []string{
			"has more than one YAML document; remove all but one",
		}},
		"a second document on the line of its mark": {policytest.Head + "--- {kind: NodePolicy}\n", []string{
			"has more than one YAML document; remove all but one",
		}},
		"every kind of error in one file": {
			"apiVersion: 1\nkind: [Policy]\nmetadata: {name: default}\nextra: 1\nspec:\n  labels:\n    keep: ['', a b, a/b/c, 3, null, [x], 'größe']\n    ignore: x\n    defer: ['', a b, 3]\n    ignoreManagers: [1, '']\n    onConflict: keepnode\n    protected: {deferred: true}\n    more: 1\n",
			[]string{
				`apiVersion: Invalid value: "1": must be a string; put it in quotes`,
				`kind: Invalid value: "[\"Policy\"]": must be a string`,
				`unknown field "extra"`,
				`spec.labels.keep[3]: Invalid value: "3": must be a string; put it in quotes`,
				`spec.labels.keep[4]: Invalid value: "null": must be a string`,
				`spec.labels.keep[5]: Invalid value: "[\"x\"]": must be a string`,
				`spec.labels.keep[0]: Required value: must be a key or a pattern for keys`,
				`spec.labels.keep[1]: Invalid value: "a b": may hold only letters, digits, '.', '_', '-', '/' and the wildcard '*'`,
				`spec.labels.keep[2]: Invalid value: "a/b/c": has more than one '/': no key can match it`,
				`spec.labels.keep[6]: Invalid value: "größe": may hold only letters, digits, '.', '_', '-', '/' and the wildcard '*'`,
				`spec.labels.ignore: Invalid value: "x": must be a list`,
				`spec.labels.defer[2]: Invalid value: "3": must be a string; put it in quotes`,
				`spec.labels.defer[0]: Required value: must be a key or a pattern for keys`,
				`spec.labels.defer[1]: Invalid value: "a b": may hold only letters, digits, '.', '_', '-', '/' and the wildcard '*'`,
				`spec.labels.ignoreManagers[0]: Invalid value: "1": must be a string; put it in quotes`,
				`spec.labels.ignoreManagers[1]: Required value: must be the name of a field manager; '*' stands for any characters`,
				`spec.labels.onConflict: Unsupported value: "keepnode": supported values: "keepNode", "restoreStored"`,
				`spec.labels.protected: Invalid value: "{\"deferred\":true}": must be a string`,
				`unknown field "spec.labels.more"`,
			},
		},
		"a retention without a unit":        {policytest.Manifest("retention: 720\n"), []string{`spec.retention: Invalid value: "720": ` + noDuration}},
		"a retention that is a truth":       {policytest.Manifest("retention: false\n"), []string{`spec.retention: Invalid value: "false": ` + noDuration}},
		"a retention that is a map":         {policytest.Manifest("retention: {after: 720h}\n"), []string{`spec.retention: Invalid value: "{\"after\":\"720h\"}": ` + noDuration}},
		"a retention that is negative":      {policytest.Manifest("retention: -1h\n"), []string{`spec.retention: Invalid value: "-1h": must not be negative; 0 keeps records for ever`}},
		"a retention that forgets restarts": {policytest.Manifest("retention: 9m59s\n"), []string{`spec.retention: Invalid value: "9m59s": must not be shorter than 10m, or Nodes that only restart would be forgotten; 0 keeps records for ever`}},
		"a retention among other errors": {policytest.Manifest("retention: 1s\nlabels: {protected: x}\n"), []string{
			`spec.retention: Invalid value: "1s": must not be shorter than 10m, or Nodes that only restart would be forgotten; 0 keeps records for ever`,
			`spec.labels.protected: Unsupported value: "x": supported values: "deferred", "inline", "never"`,
		}},
		"no YAML at all": {"a: [", []string{"did not find expected node content"}},
		"no text at all": {"\xff", []string{"yaml: invalid leading UTF-8 octet"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want, wrong(t, tt.file, DefaultGate))
		})
	}
}

// wrong returns what is wrong with a policy file, in the order of its lines.
func wrong(t *testing.T, file string, gate Gate) (key []string) {
	t.Helper()
	p, err := Load([]byte(file), gate)
	var all FileErrors
	require.ErrorAs(t, err, &all)
	assert.Equal(t, Policy{}, p, "a policy that comes with an error is of no use")
	for _, fileErr := range all {
		key = append(key, fileErr.Message)
	}
	return key
}

func TestErrorsNameTheirLines(t *testing.T) {
	for name, test := range map[string]struct {
		file string
		want []string
	}{
		"a value that is none of those allowed": {
			file: policytest.Manifest("labels:\n  keep:\n  - '*'\n  onConflict: mine\n"),
			want: []string{`p.yaml:8: spec.labels.onConflict: Unsupported value: "mine": supported values: "keepNode", "restoreStored"`},
		},
		"an entry of a list": {
			file: policytest.Manifest("labels:\n  keep:\n  - ok\n  - 'a b'\n  - 5\n"),
			want: []string{`p.yaml:8: spec.labels.keep[1]: Invalid value: "a b": `, `p.yaml:9: spec.labels.keep[2]: Invalid value: "5": must be a string`},
		},
		"a field of a rule, and one that it lacks": {
			file: policytest.Manifest("taints:\n  rules:\n  - selector: a\n    taint: x\n  - taint: a=b:NoSchedule\n"),
			want: []string{`p.yaml:8: spec.taints.rules[0].taint: Invalid value: "x": `, `p.yaml:9: spec.taints.rules[1].selector: Required value: `},
		},
		"a field that nobody knows, with a dot in it, and one of the file itself": {
			file: policytest.Manifest("labels:\n  ke.ep: []\nlables: {}\n"),
			want: []string{`p.yaml:6: unknown field "spec.labels.ke.ep"`, `p.yaml:7: unknown field "spec.lables"`},
		},
		"what is not there at all has no line": {
			file: "kind: NodePolicy\nmetadata: {name: default}\n",
			want: []string{`p.yaml: apiVersion: Unsupported value: "": supported values: "nodekeep.dev/v1alpha1"`},
		},
		"a field that is repeated, next to another error": {
			file: policytest.Manifest("retention: 1h\nretention: 5m\n"),
			want: []string{`p.yaml:6: key "retention" already set in map`, `p.yaml:6: spec.retention: Invalid value: "5m": `},
		},
		"a value in what an alias stands for": {
			file: policytest.Manifest("labels:\n  keep: &bad\n  - a b\n  ignore: *bad\n"),
			want: []string{"p.yaml:7: spec.labels.keep[0]", "p.yaml:7: spec.labels.ignore[0]"},
		},
		"a value that a merge brings": {
			file: policytest.Manifest("taints:\n  register:\n  - &one {taint: 'a:NoSchedule'}\n  - {<<: *one, nodeSelector: 5}\n"),
			want: []string{"p.yaml:8: spec.taints.register[1].nodeSelector: "},
		},
		"a key that YAML reads as another one": {
			file: policytest.Manifest("labels:\n  rules:\n  - name: a\n    set:\n      N: '4'\n      'Y': '1'\n      on: b\n      010: c\n"),
			want: []string{`p.yaml:9: the key N means false in YAML: put it in quotes`, `p.yaml:11: the key on means true in YAML`, `p.yaml:12: the key 010 means 8 in YAML`},
		},
		"a key of a map": {
			file: policytest.Manifest("verify:\n  profiles:\n  - name: a\n    checks:\n    - name: c\n      container:\n        image: i@sha256:0000000000000000000000000000000000000000000000000000000000000000\n        env:\n          GOOD: '1'\n          1=: '2'\n"),
			want: []string{"p.yaml:14: spec.verify.profiles[0].checks[0].container.env[1=]: Invalid value: "},
		},
		"a value of a wrong type that says what to check": {
			file: policytest.Manifest("verify:\n  profiles:\n  - name: a\n    checks:\n    - name: c\n      tcp: {address: 'a:1'}\n"),
			want: []string{"p.yaml:10: spec.verify.profiles[0].checks[0].tcp: Invalid value: "},
		},
		"what is no YAML": {
			file: policytest.Manifest("labels: [\n"),
			want: []string{"p.yaml:"},
		},
		"no map at all": {
			file: "- a\n",
			want: []string{"p.yaml: must be a map of fields"},
		},
		"two documents": {
			file: policytest.Head + "---\n" + policytest.Head,
			want: []string{"p.yaml: has more than one YAML document"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load([]byte(test.file), DefaultGate)
			var all FileErrors
			require.ErrorAs(t, err, &all)
			require.Len(t, all, len(test.want), "%q", all)
			for i, want := range test.want {
				assert.Contains(t, all[i].Location("p.yaml"), want)
				assert.Contains(t, err.Error(), all[i].Message)
			}
		})
	}
}

// What YAML 1.1 does not take for a string is refused, never guessed at; an unquoted key is what it says or an error.
func TestValuesThatAreNoStringsAreRefused(t *testing.T) {
	for _, value := range []string{"on", "Yes", "n", "true", "0x1F", "010", "1_000", "1e3", "12:30", "~", "null", "2006-01-02", "!!float 5", "!!binary aGk="} {
		p, err := Load([]byte(policytest.Manifest("labels: {keep: ["+value+"]}")), DefaultGate)
		if err != nil {
			assert.ErrorContains(t, err, "line 5: spec.labels.keep[0]: Invalid value: ", value)
		} else {
			assert.Contains(t, []string{"n", "2006-01-02", "hi"}, p.labels.keep[0], value)
		}
	}
}

func TestAliasesThatWouldExplodeAreRefused(t *testing.T) {
	bomb := "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 'b'; i < 'k'; i++ {
		bomb += string(i) + ": &" + string(i) + " [" + strings.Repeat("*"+string(i-1)+", ", 10) + "]\n"
	}
	_, err := Load([]byte(policytest.Manifest(bomb)), DefaultGate)
	assert.ErrorContains(t, err, "excessive aliasing")
}

// A ConfigMap holds a mebibyte. The time must not grow with the square of the errors in it.
func TestALargeFileOfErrorsIsReadInTime(t *testing.T) {
	start := time.Now()
	_, err := Load([]byte(policytest.Manifest("labels: {keep: ["+strings.Repeat("5, ", 10_000)+"]}\ntaints: {rules: ["+strings.Repeat("{}, ", 10_000)+"]}\n")), DefaultGate)
	var all FileErrors
	require.ErrorAs(t, err, &all)
	assert.Equal(t, "spec.taints.rules[9999].taint", all[30_000-1].Field)
	assert.Less(t, time.Since(start), 5*time.Minute) // 6 s with the race detector, and nothing else on the machine
}

func FuzzLoad(f *testing.F) {
	for _, file := range []string{
		"", "[]", "null", "a: [", "\xff", "---\n---\n", "? [a]\n: b\n", "a: &a [*a]\n", "labels: {keep: !!binary aGk=}\n", "1: 2\n",
		string(documentedDefaults(f)), policytest.Head, policytest.Manifest("labels: {keep: ['/*', '*./*', '**'], ignore: [x]}\n"), policytest.Manifest("labels: []\n"), policytest.Manifest("labels: {keep: [a], keep: [b]}\n"),
		"labels: {keep: [1]}\ntaints: {rules: [{taint: 5}]}\n", "a: &a\n  b: *a\n",
		policytest.Manifest("taints: []\n"), policytest.Manifest("retention: 0\n"), policytest.Manifest("retention: [1h]\n"), policytest.Manifest("taints: {keep: ['*/*'], ignore: [x], register: x, rules: {}}\n"),
		policytest.Manifest("taints: {register: [{taint: a=b:NoSchedule, nodeSelector: 'a>1,b!=c'}, {taint: 'x={value}:NoExecute', nodeSelector: a=b}]}\n"),
		policytest.Manifest("taints: {rules: [{selector: a, taint: 'x={value}:NoSchedule'}, {selector: 'a in (b,c)', taint: 'x=is-{value}:NoSchedule'}, {selector: '!a', taint: 'y:NoExecute'}]}\n"),
		policytest.Manifest("taints: {rules: [{selector: 'a notin (b),a', taint: '{value}={value}:{value}'}]}\n"),
	} {
		f.Add([]byte(file))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Load(data, DefaultGate)
		if err != nil {
			assert.Equal(t, Policy{}, p)
			require.ErrorContains(t, err, "read policy: ")
			var all FileErrors
			require.ErrorAs(t, err, &all)
			for _, fileErr := range all {
				assert.NotEmpty(t, fileErr.Message)
				assert.LessOrEqual(t, fileErr.Line, 1+len(data))
			}
			return
		}
		items := kept(p, Metadata{Items: map[string]string{"a": "1", "example.com/b": "2"}})
		missing := p.Restorable(KeptItems{}, KeptItems{Items: items}, CreateByKubelet)
		assert.Len(t, items, len(missing.Add)+len(missing.Deferred), "what is kept is restored, at once or later")
		makesGoodTaints(t, p)
		assert.True(t, p.Retention() == 0 || p.Retention() >= shortestRetention, "%s", p.Retention())
	})
}

// makesGoodTaints checks what comes of labels that a policy looks at, with values that it names and with any others.
func makesGoodTaints(t *testing.T, p Policy) {
	random := rand.New(rand.NewPCG(uint64(len(p.rules)), uint64(len(p.register))))
	looked := map[string][]string{"a": nil}
	for _, rule := range slices.Concat(p.register, p.rules) {
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
		made, first := p.TaintsFor(labels), p.RegistrationTaints(labels)
		canBePutOn(t, made)
		canBePutOn(t, first)
		assert.Equal(t, made, WithoutKeys(made, first), "a registration taint is made by no rule")
		for _, taint := range made {
			assert.True(t, p.RulesMake(taint), "%v", taint)
			assert.False(t, p.Gate().Matches(taint))
		}
		for _, taint := range first {
			keeps, _ := p.Keeps(record.TaintKey(taint))
			assert.False(t, keeps, "%v is not remembered", taint)
			assert.True(t, p.AddsAtRegistration(record.TaintKey(taint)))
		}
	}
}
