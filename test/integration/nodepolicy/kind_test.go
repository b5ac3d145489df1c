package nodepolicy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"nodekeep.dev/nodekeep/policy/policytest"
	"nodekeep.dev/nodekeep/test/harness"
)

func TestTheOnlyPolicyIsNamedDefault(t *testing.T) {
	file := written(t, strings.Replace(policytest.Manifest("cordon: keep"), "name: default", "name: another", 1))
	out, err := nodekeep.Kubectl(t.Context(), "apply", "--server-side", "-f", file)
	require.Error(t, err, out)
	assert.Contains(t, out, "there is one NodePolicy, and its name is default")
	assert.Equal(t, "nodepolicy.nodekeep.dev/default", strings.TrimSpace(nodekeep.MustKubectl(t, "get", "nodepolicies", "-o", "name")))
}

// node is what the test looks at of one.
type node struct {
	Items      *node           `json:"items"`
	Properties map[string]node `json:"properties"`
}

// specSchema returns that of spec.
func specSchema(t *testing.T) node {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(harness.Manifests(), "crd.yaml"))
	require.NoError(t, err)
	var kind struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema node `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	require.NoError(t, yaml.Unmarshal(content, &kind))
	require.Len(t, kind.Spec.Versions, 1)
	return kind.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
}

func TestKubectlExplainsEveryRuleInWords(t *testing.T) {
	explained := 0
	var explain func(path string, item node)
	explain = func(path string, item node) {
		if item.Items != nil {
			item = *item.Items
		}
		if len(item.Properties) == 0 {
			return
		}
		out := nodekeep.MustKubectl(t, "explain", path)
		for name, field := range item.Properties {
			assert.Regexp(t, `(?m)^  `+name+`\t.*\n(  enum: .*\n)?    [A-Z]`, out, "%s.%s must be described", path, name)
			explained++
			explain(path+"."+name, field)
		}
	}
	explain("nodepolicy.spec", specSchema(t))
	assert.Greater(t, explained, 100)
}

// written returns a file with this content.
func written(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policy.yaml")
	require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	return file
}
