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

// built returns what `kubectl kustomize` makes of a folder, by kind and name.
func built(t *testing.T, folder string) map[string]any {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), harness.Binary("kubectl"), "kustomize", folder).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return byName(t, out)
}

func byName(t *testing.T, documents []byte) map[string]any {
	t.Helper()
	all := map[string]any{}
	for _, object := range parse(t, documents) {
		name := object.GetKind() + " " + object.GetNamespace() + "/" + object.GetName()
		assert.NotContains(t, all, name)
		all[name] = object.Object
	}
	return all
}

// shippedObjects returns the objects of the files that an installation without Helm applies.
func shippedObjects(t *testing.T) map[string]any {
	t.Helper()
	var files []string
	for _, name := range []string{"namespace.yaml", "crd.yaml", "nodekeep.yaml"} {
		content, err := os.ReadFile(filepath.Join(harness.Root(), "manifests", name))
		require.NoError(t, err)
		files = append(files, string(content))
	}
	return byName(t, []byte(strings.Join(files, "\n---\n")))
}

func TestTheKustomizationHasTheObjectsOfTheStaticFiles(t *testing.T) {
	want := shippedObjects(t)
	assert.Greater(t, len(want), 40, "the files must have been read")
	assert.Equal(t, want, built(t, filepath.Join(harness.Root(), "manifests")))
}

// The folder is copied, because a kustomization takes no absolute path.
func TestAKustomizationOfAnOperatorChangesTheImageAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(filepath.Join(dir, "base"), os.DirFS(filepath.Join(harness.Root(), "manifests"))))
	overlay := filepath.Join(dir, "overlay")
	require.NoError(t, os.Mkdir(overlay, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(overlay, "kustomization.yaml"),
		[]byte("resources: [../base]\nimages: [{name: nodekeep, newName: registry.example.com/nodekeep, newTag: v1}]\n"), 0o600))
	got, images := built(t, overlay), 0
	for name, object := range shippedObjects(t) {
		if !strings.HasPrefix(name, "Deployment ") {
			assert.Equal(t, object, got[name], name)
		}
	}
	for name, object := range got {
		if strings.HasPrefix(name, "Deployment ") {
			images++
			container := object.(map[string]any)["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)["containers"].([]any)[0]
			assert.Equal(t, "registry.example.com/nodekeep:v1", container.(map[string]any)["image"], name)
		}
	}
	assert.Equal(t, 2, images)
}
