package local

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The end-to-end suite against a cluster of one node with a real kubelet.
func TestTheEndToEndSuitePassesOnARealKubelet(t *testing.T) {
	c := forTest(t)
	c.add(t, "node-1")
	suite := exec.CommandContext(t.Context(), filepath.Join(built(t), suiteFile), "-test.v", "-test.timeout=10m")
	suite.Env = append(os.Environ(),
		"KUBECONFIG="+c.kubeconfig,
		"NODEKEEP_E2E_IMAGE="+image,
		"NODEKEEP_E2E_PULL_POLICY=Never",
	)
	out, err := suite.CombinedOutput()
	if err != nil || testing.Verbose() {
		t.Logf("%s", out)
	}
	require.NoError(t, err)
}
