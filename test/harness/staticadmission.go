package harness

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// StaticAdmission copies manifests/static-admission into a folder of the test, and returns the folder with the flag by which an API server reads it.
// Kubernetes 1.36 needs a feature gate, too.
func StaticAdmission(t testing.TB) (folder, flag string) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "static-admission")
	require.NoError(t, os.CopyFS(folder, os.DirFS(filepath.Join(Root(), "manifests", "static-admission"))))
	configuration := filepath.Join(folder, "configuration.yaml")
	content, err := os.ReadFile(configuration)
	require.NoError(t, err)
	local := strings.ReplaceAll(string(content), "/etc/kubernetes/static-admission", folder)
	require.NotEqual(t, string(content), local, "the configuration must name the folder of the documentation")
	require.NoError(t, os.WriteFile(configuration, []byte(local), 0o600))
	return folder, "--admission-control-config-file=" + configuration
}
