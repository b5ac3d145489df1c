package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/sets"
)

// copyOf copies what controller-gen reads of the repository: the packages of the types with all that they import, without tests.
func copyOf(t *testing.T, root string) (to string) {
	t.Helper()
	to = t.TempDir()
	for _, from := range []string{"go.mod", "go.sum", "api", "policy", "classify", "governance", "verify", "inventory", "quantity", "record", "manifests"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, from), func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() || strings.HasSuffix(path, "_test.go") {
				return err
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			relative, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			copied := filepath.Join(to, relative)
			if err := os.MkdirAll(filepath.Dir(copied), 0o755); err != nil {
				return err
			}
			return os.WriteFile(copied, content, 0o600)
		}))
	}
	return to
}

func TestOneFieldOfAPolicyIsWrittenOnceAndGeneratedElsewhere(t *testing.T) {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	read := func(name string) ([]byte, error) { return os.ReadFile(filepath.Join(root, name)) }
	changed := copyOf(t, root)
	spec := filepath.Join(changed, "policy", "spec.go")
	content, err := os.ReadFile(spec)
	require.NoError(t, err)
	const last = "\tAccept string `json:\"accept\"`\n"
	require.Contains(t, string(content), last)
	field := last + "\t// What a test adds.\n\t// +kubebuilder:validation:MaxLength=7\n\tAdded string `json:\"added\"`\n"
	require.NoError(t, os.WriteFile(spec, []byte(strings.Replace(string(content), last, field, 1)), 0o600))

	t.Chdir(changed)
	crd, err := controllerGen()
	require.NoError(t, err)
	files, err := generated(crd, read)
	require.NoError(t, err)
	require.Len(t, files, 4)
	delete(files, pageFile) // these have no fields
	delete(files, chartFile)
	for name, now := range files {
		head, err := read(name)
		require.NoError(t, err)
		prev := sets.New(strings.Split(string(head), "\n")...)
		var added []string
		for line := range strings.SplitSeq(string(now), "\n") {
			if !prev.Has(line) {
				added = append(added, line)
			}
		}
		assert.Contains(t, strings.Join(added, "\n"), "added", "%s has the field", name)
		assert.Contains(t, string(now), "What a test adds.", "%s explains it", name)
		assert.LessOrEqual(t, len(added), 8, "%s: nothing else differs: %q", name, added)
	}
	assert.Contains(t, string(files[crdFile]), "maxLength: 7", "the API server knows its bound")
	assert.Contains(t, string(files[valuesFile]), `"maxLength": 7`, "and so does Helm")
}
