package chart

import (
	"bytes"
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
		"an API server's policy was": {map[string]string{"static-admission/mutating/nodekeep.yaml": "# a comment\n"}, true},
		"and one that validates":     {map[string]string{"static-admission/validating/nodekeep.yaml": "# a comment\n"}, true},
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

// The file of a policy is the policy of the API but for its name. One with a parameter would keep an API server from starting.
func TestThePoliciesForFilesAreThoseOfTheChartWithoutParameters(t *testing.T) {
	out, err := harness.Template(t.Context(), "elsewhere", "--kube-version", "1.37", "--api-versions", "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy",
		"--set", "verify.enabled=true,gate.key=example.com/gate", "--set-json", `policy.verify={"profiles": [{"name": "all", "checks": [{"name": "api", "api": {}}]}]}`)
	require.NoError(t, err)
	folder := t.TempDir()
	command := exec.CommandContext(t.Context(), filepath.Join(harness.Root(), "manifests", "static-admission", "render.sh"), folder)
	command.Stdin = bytes.NewReader(out)
	said, err := command.CombinedOutput()
	require.NoError(t, err, "%s", said)
	want := map[string][]any{}
	for _, object := range parse(t, out) {
		kind, name := object.GetKind(), object.GetName()
		if !strings.Contains(kind, "AdmissionPolicy") {
			continue
		}
		spec := object.Object["spec"].(map[string]any)
		if spec["paramKind"] != nil || spec["paramRef"] != nil {
			assert.Contains(t, string(said), "left out, because it has a parameter: "+kind+" "+name+"\n")
			continue
		}
		object.SetName(name + ".static.k8s.io")
		if bound, ok := spec["policyName"].(string); ok {
			spec["policyName"] = bound + ".static.k8s.io"
		}
		file := "validating"
		if strings.HasPrefix(kind, "Mutating") {
			file = "mutating"
		}
		want[file] = append(want[file], object.Object)
	}
	for file, objects := range want {
		content, err := os.ReadFile(filepath.Join(folder, file, "nodekeep.yaml"))
		require.NoError(t, err)
		var got []any
		for _, object := range parse(t, content) {
			got = append(got, object.Object)
		}
		assert.Equal(t, objects, got, file)
	}
	assert.Len(t, want["mutating"], 4, "gate and strip, each with its binding")
	assert.Len(t, want["validating"], 10, "guard, self-test, records, and two of verification")
	assert.Contains(t, string(said), "nodekeep-governance-deny")
}
