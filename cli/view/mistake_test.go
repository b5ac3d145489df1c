package view

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/policy"
)

func TestMistakesOfAPolicyFileNameTheirLines(t *testing.T) {
	const head = "apiVersion: nodekeep.dev/v1alpha1\nkind: Policy\n"
	for name, test := range map[string]struct {
		file string
		want []string
	}{
		"a value that is none of those allowed": {
			file: head + "labels:\n  keep:\n  - '*'\n  onConflict: mine\n",
			want: []string{`p.yaml:6: labels.onConflict: Unsupported value: "mine": supported values: "keepNode", "restoreStored"`},
		},
		"an entry of a list": {
			file: head + "labels:\n  keep:\n  - ok\n  - 'a b'\n  - 5\n",
			want: []string{`p.yaml:6: labels.keep[1]: Invalid value: "a b": `, `p.yaml:7: labels.keep[2]: Invalid value: "5": must be a string`},
		},
		"a field of a rule, and one that it lacks": {
			file: head + "taints:\n  rules:\n  - selector: a\n    taint: x\n  - taint: a=b:NoSchedule\n",
			want: []string{`p.yaml:6: taints.rules[0].taint: Invalid value: "x": `, `p.yaml:7: taints.rules[1].selector: Required value: `},
		},
		"a field that nobody knows, with a dot in it, and one of the file itself": {
			file: head + "labels:\n  ke.ep: []\nlables: {}\n",
			want: []string{`p.yaml:4: unknown field "labels.ke.ep"`, `p.yaml:5: unknown field "lables"`},
		},
		"what is not there at all has no line": {
			file: "kind: Policy\n",
			want: []string{"p.yaml: apiVersion: Required value: must be nodekeep.dev/v1alpha1"},
		},
		"a field that is repeated, beside another mistake": {
			file: head + "retention: 1h\nretention: 5m\n",
			want: []string{`p.yaml:4: key "retention" already set in map`, `p.yaml:4: retention: Invalid value: "5m": `},
		},
		"what is no YAML": {
			file: head + "labels: [\n",
			want: []string{"p.yaml:"},
		},
		"no map at all": {
			file: "- a\n",
			want: []string{"p.yaml: must be a map of fields", "p.yaml: apiVersion: Required", "p.yaml: kind: Required"},
		},
		"two documents": {
			file: head + "---\n" + head,
			want: []string{"p.yaml: has more than one YAML document"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := policy.Load([]byte(test.file), policy.DefaultGate)
			require.Error(t, err)
			var got []string
			for _, mistake := range Mistakes([]byte(test.file), err) {
				got = append(got, mistake.At("p.yaml"))
			}
			require.Len(t, got, len(test.want), "%q", got)
			for i, want := range test.want {
				assert.Contains(t, got[i], want)
			}
		})
	}
	assert.Empty(t, Mistakes(nil, nil))
}

func FuzzMistakes(f *testing.F) {
	f.Add([]byte("labels: {keep: [1]}\ntaints: {rules: [{taint: 5}]}\n"))
	f.Add([]byte("a: &a\n  b: *a\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		_, err := policy.Load(content, policy.DefaultGate)
		for _, mistake := range Mistakes(content, err) {
			assert.NotEmpty(t, mistake.What)
			assert.LessOrEqual(t, mistake.Line, 1+len(content))
		}
	})
}
