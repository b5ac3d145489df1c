package chart

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/harness"
)

// `make lint` fails where the static files are not what the chart renders, and says what to do.
func TestDriftOfTheStaticFilesIsFound(t *testing.T) {
	tool, err := harness.Helm()
	require.NoError(t, err)
	for name, c := range map[string]struct {
		change map[string]string // file: what is added to it
		drift  bool
	}{
		"nothing changed":            {nil, false},
		"a value changed":            {map[string]string{"chart/values.yaml": "\nlog: {level: debug, format: text}\n"}, true},
		"a template was added":       {map[string]string{"chart/templates/more.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: more}}\n"}, true},
		"a file was edited manually": {map[string]string{"nodekeep.yaml": "# a comment\n"}, true},
		"the kind was edited":        {map[string]string{"crd.yaml": "# a comment\n"}, true},
		"the schema was edited":      {map[string]string{"chart/crd.yaml": "# a comment\n"}, true},
		"the namespace was edited":   {map[string]string{"namespace.yaml": "# a comment\n"}, true},
		"doctor's file was edited":   {map[string]string{"complete.yaml": "# a comment\n"}, true},
		"the other file was as well": {map[string]string{"nodekeep-cert-manager.yaml": "# a comment\n"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			manifests := filepath.Join(t.TempDir(), "manifests")
			require.NoError(t, os.CopyFS(manifests, os.DirFS(filepath.Dir(harness.Chart()))))
			for file, extra := range c.change {
				path := filepath.Join(manifests, file)
				content, err := os.ReadFile(path)
				if !os.IsNotExist(err) {
					require.NoError(t, err)
				}
				changed := string(content) + extra
				if file == "chart/values.yaml" {
					head, tail, _ := strings.Cut(string(content), "\nlog:")
					_, tail, _ = strings.Cut(tail, "\nmetrics:")
					changed = head + extra + "\nmetrics:" + tail
				}
				require.NoError(t, os.WriteFile(path, []byte(changed), 0o600))
			}
			out, err := exec.CommandContext(t.Context(), filepath.Join(manifests, "render.sh"), tool, "--check").CombinedOutput()
			if !c.drift {
				require.NoError(t, err, "%s", out)
				return
			}
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit, "%s", out)
			assert.Contains(t, string(out), "run make manifests")
		})
	}
}
