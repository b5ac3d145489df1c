package versions

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/test/harness"
)

// nodekeep is the installation that all tests of this package share. Each test uses Node names of its own.
var nodekeep *harness.Installation

func TestMain(m *testing.M) {
	os.Exit(harness.RunTests(m, harness.Options{}, func(i *harness.Installation) {
		i.TimeoutSeconds = harness.Patient
		nodekeep = i
	}))
}

// promised is README's row for the version of the control plane: the cells after the version.
func promised(t *testing.T) []string {
	t.Helper()
	version, err := nodekeep.Admin.Discovery().ServerVersion()
	require.NoError(t, err)
	minor, err := strconv.Atoi(version.Minor)
	require.NoError(t, err)
	readme, err := os.ReadFile(filepath.Join(harness.Root(), "README.md"))
	require.NoError(t, err)
	for _, row := range regexp.MustCompile(`(?m)^\| 1\.(\d+) to 1\.(\d+) \| (.*) \|$`).FindAllStringSubmatch(string(readme), -1) {
		first, err := strconv.Atoi(row[1])
		require.NoError(t, err)
		last, err := strconv.Atoi(row[2])
		require.NoError(t, err)
		if first <= minor && minor <= last {
			return strings.Split(row[3], " | ")
		}
	}
	t.Fatalf("README's table has no row for Kubernetes %s", version.GitVersion)
	return nil
}

func TestThisKubernetesGetsWhatTheTableOfREADMESays(t *testing.T) {
	row := promised(t)
	require.Len(t, row, 3)
	inCreate, gated, guardInForce := strings.HasPrefix(row[0], "yes"), strings.HasPrefix(row[1], "yes"), strings.HasPrefix(row[2], "yes")

	t.Run("labels and taints in the CREATE", func(t *testing.T) {
		want := map[string]string{"dedicated": "ci"}
		nodekeep.RegisterRecorded(t, "versions-create", want)
		nodekeep.DeleteNode(t, "versions-create")
		assert.Equal(t, inCreate, harness.HasAll(nodekeep.Register(t, "versions-create").Labels, want))
	})
	t.Run("the gate with the webhook down", func(t *testing.T) {
		nodekeep.WithoutCapture(t, func() {
			nodekeep.WithoutWebhook(t, func() {
				nodekeep.WaitGating(t, gated)
				node := harness.Registration("versions-flag")
				node.Spec.Taints = []corev1.Taint{policy.DefaultGate.Taint()}
				assert.True(t, harness.Gated(nodekeep.RegisterNode(t, node)), "the kubelet's flag works everywhere")
			})
		})
		nodekeep.WaitRestored(t, "versions-flag", nil)
	})
	t.Run("annotations that a kubelet forges", func(t *testing.T) {
		forging := func(name string) *corev1.Node {
			node := harness.Registration(name)
			node.Annotations = map[string]string{"nodekeep.dev/forged": "x"}
			return nodekeep.RegisterNode(t, node)
		}
		node := forging("versions-forged")
		assert.NotContains(t, node.Annotations, "nodekeep.dev/forged", "in a CREATE that the webhook answers: everywhere")
		nodekeep.WithoutWebhook(t, func() {
			created := forging("versions-forged-unanswered")
			assert.Equal(t, guardInForce, created.Annotations["nodekeep.dev/forged"] == "", "in a CREATE that it does not answer")
		})
		_, err := nodekeep.Kubelet(t, node.Name).CoreV1().Nodes().Patch(t.Context(), node.Name, types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"nodekeep.dev/later":"x"}}}`), metav1.PatchOptions{})
		assert.ErrorContains(t, err, "nodekeep-guard", "in an update: everywhere")
	})
}
