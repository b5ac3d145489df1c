package manifests

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// policyOf returns a document that the chart could have rendered.
func policyOf(kind, name, spec string) string {
	return "---\n# Source: a template\napiVersion: admissionregistration.k8s.io/v1\nkind: " + kind + "AdmissionPolicy\nmetadata:\n  name: " + name + "\nspec:\n  " + spec + "\n"
}

// An API server that reads the folder meanwhile must find whole files, and none whose policies are gone.
func TestTheFolderOfAnAPIServerHasWhatIsRenderedNow(t *testing.T) {
	mutating, validating := policyOf("Mutating", "gate", "failurePolicy: Fail"), policyOf("Validating", "guard", "failurePolicy: Fail")
	governance := policyOf("Validating", "governance", "paramKind: {}")
	for name, c := range map[string]struct {
		input                string
		mutating, validating string // what the files then contain; empty: there is none
		fails                bool
	}{
		"policies of both kinds":               {mutating + validating, "name: gate.static.k8s.io\n", "name: guard.static.k8s.io\n", false},
		"no policy of one kind":                {validating, "", "name: guard.static.k8s.io\n", false},
		"one with a parameter is left out":     {governance + mutating, "name: gate.static.k8s.io\n", "", false},
		"nothing, as of a helm that failed":    {"", "earlier", "earlier", true},
		"only objects that are no policy":      {"---\nkind: ConfigMap\nmetadata:\n  name: a\n", "earlier", "earlier", true},
		"only policies that have a parameter":  {governance, "earlier", "earlier", true},
		"only policies of another API's kinds": {strings.ReplaceAll(mutating, "AdmissionPolicy", "Thing"), "earlier", "earlier", true},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			want := map[string]string{"mutating": c.mutating, "validating": c.validating}
			for kind := range want {
				require.NoError(t, os.Mkdir(filepath.Join(folder, kind), 0o755))
				require.NoError(t, os.WriteFile(filepath.Join(folder, kind, "nodekeep.yaml"), []byte("earlier"), 0o600))
				require.NoError(t, os.WriteFile(filepath.Join(folder, kind, "webhook.yaml"), []byte("of the operator"), 0o600))
			}
			command := exec.CommandContext(t.Context(), "static-admission/render.sh", folder)
			command.Stdin = strings.NewReader(c.input)
			out, err := command.CombinedOutput()
			assert.Equal(t, c.fails, err != nil, "%s", out)
			assert.Equal(t, c.fails, strings.Contains(string(out), "stdin has no admission policy without a parameter"))
			for kind, text := range want {
				path := filepath.Join(folder, kind, "nodekeep.yaml")
				if text == "" {
					assert.NoFileExists(t, path)
					continue
				}
				content, err := os.ReadFile(path)
				require.NoError(t, err)
				assert.Contains(t, string(content), text)
				assert.Equal(t, text == "earlier", string(content) == "earlier")
			}
			left, err := filepath.Glob(filepath.Join(folder, "*", "*"))
			require.NoError(t, err)
			for _, path := range left {
				assert.Contains(t, []string{"nodekeep.yaml", "webhook.yaml"}, filepath.Base(path))
			}
			entries, err := os.ReadDir(folder)
			require.NoError(t, err)
			assert.Len(t, entries, 2, "no temporary file is left")
		})
	}
}
