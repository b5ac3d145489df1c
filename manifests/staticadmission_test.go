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

// An API server that reads the folder meanwhile must find whole files. What stdin leaves out by mistake stays in force: --kube-version 1.35 has no gate.
func TestTheFolderOfAnAPIServerHasWhatIsRenderedNow(t *testing.T) {
	mutating, validating := policyOf("Mutating", "gate", "failurePolicy: Fail"), policyOf("Validating", "guard", "failurePolicy: Fail")
	governance := policyOf("Validating", "governance", "paramKind: {}")
	const none = "stdin has no admission policy without a parameter"
	for name, c := range map[string]struct {
		input                string
		removed              string // a file that the operator has removed before
		mutating, validating string // what the files then contain; empty: there is none
		err                  string
	}{
		"policies of both kinds":                 {mutating + validating, "", "name: gate.static.k8s.io\n", "name: guard.static.k8s.io\n", ""},
		"a file that was not there":              {mutating + validating, "mutating", "name: gate.static.k8s.io\n", "name: guard.static.k8s.io\n", ""},
		"no policy for a file that is there":     {validating, "", "earlier", "earlier", "stdin has no policy for FOLDER/mutating/nodekeep.yaml; "},
		"no policy for the second of them":       {mutating, "", "earlier", "earlier", "stdin has no policy for FOLDER/validating/nodekeep.yaml; "},
		"no policy for a file that is not there": {validating, "mutating", "", "name: guard.static.k8s.io\n", ""},
		"one with a parameter is left out":       {governance + mutating, "validating", "name: gate.static.k8s.io\n", "", ""},
		"nothing, as of a helm that failed":      {"", "", "earlier", "earlier", none},
		"only objects that are no policy":        {"---\nkind: ConfigMap\nmetadata:\n  name: a\n", "", "earlier", "earlier", none},
		"only policies that have a parameter":    {governance, "", "earlier", "earlier", none},
		"only policies of another API's kinds":   {strings.ReplaceAll(mutating, "AdmissionPolicy", "Thing"), "", "earlier", "earlier", none},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			want := map[string]string{"mutating": c.mutating, "validating": c.validating}
			for kind := range want {
				require.NoError(t, os.Mkdir(filepath.Join(folder, kind), 0o755))
				if kind != c.removed {
					require.NoError(t, os.WriteFile(filepath.Join(folder, kind, "nodekeep.yaml"), []byte("earlier"), 0o600))
				}
				require.NoError(t, os.WriteFile(filepath.Join(folder, kind, "webhook.yaml"), []byte("of the operator"), 0o600))
			}
			command := exec.CommandContext(t.Context(), "static-admission/render.sh", folder)
			command.Stdin = strings.NewReader(c.input)
			out, err := command.CombinedOutput()
			assert.Equal(t, c.err != "", err != nil, "%s", out)
			assert.Contains(t, strings.ReplaceAll(string(out), folder, "FOLDER"), c.err)
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
