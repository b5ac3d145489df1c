package chart

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"nodekeep.dev/nodekeep/governance"
	"nodekeep.dev/nodekeep/policy"

	"nodekeep.dev/nodekeep/policy/policytest"
)

// The chart and `nodekeep governance render` execute the same template, one with Helm's functions and one with those of package governance.
func TestTheChartAndTheCommandRenderTheSameAdmissionPolicies(t *testing.T) {
	for name, section := range map[string]string{
		"one key":        `{keys: [{key: tier, values: [gold, silver], mode: deny}]}`,
		"the default":    `{keys: [{key: tier, values: ["", "1", "true"]}]}`,
		"all modes":      `{keys: [{key: a, pattern: 'r[0-9]{1,3}', immutable: true, mode: deny}, {key: b, requires: [a, c], mode: warn}, {key: c, owners: ["user:x"], mode: audit}], reserved: ["*.example.com/*", a-b]}`,
		"only required":  `{keys: [{key: a, required: true, mode: deny}]}`,
		"hostile texts":  `{keys: [{key: a, pattern: '\d+"''<&>\\{{ .Values }}', mode: deny}, {key: b, owners: ["user:\"'\\\u2028\U0001F600é<&>{{.}}", "group:a:b/c", "serviceaccount:ns/a.b", "user:serviceaccount:x/y"], mode: warn}]}`,
		"falsy settings": `{keys: [{key: a, values: [], immutable: false, mode: deny, requires: []}, {key: b, description: d, values: [x]}], reserved: []}`,
		"only reserved":  `{reserved: ["x.example.com/*"]}`,
		"nothing":        `{}`,
	} {
		t.Run(name, func(t *testing.T) {
			loaded, err := policy.Load([]byte(policytest.Manifest("governance: "+section+"\n")), policy.DefaultGate)
			require.NoError(t, err)
			text, err := governance.Render(loaded.Governance(), namespace)
			require.NoError(t, err)
			values := filepath.Join(t.TempDir(), "values.yaml")
			require.NoError(t, os.WriteFile(values, []byte("policy: {governance: "+section+"}\n"), 0o600))
			var chart []any
			for _, object := range render(t, "-f", values) {
				if object.GetLabels()["app.kubernetes.io/component"] == "governance" {
					chart = append(chart, object.Object)
				}
			}
			var command []any
			for _, object := range parse(t, []byte(text)) {
				command = append(command, object.Object)
			}
			want, err := yaml.Marshal(command)
			require.NoError(t, err)
			got, err := yaml.Marshal(chart)
			require.NoError(t, err)
			assert.ElementsMatch(t, command, chart, "%s\n%s", want, got)
		})
	}
}
