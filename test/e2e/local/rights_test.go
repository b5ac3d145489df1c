package local

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// runsPodsWithoutRights looks at the processes of nodekeep as the kernel knows them: it is what came of the chart's security contexts, by
// way of the kubelet and the container runtime.
func runsPodsWithoutRights(t *testing.T) {
	running := programs(t)
	assert.Len(t, running, 5, "three replicas of the webhook and two of capture")
	for process, args := range running {
		status, err := os.ReadFile(filepath.Join(process, "status"))
		require.NoError(t, err)
		for field, want := range map[string]string{
			"Uid": "65532 65532 65532 65532", "Gid": "65532 65532 65532 65532", "Groups": "65532",
			"NoNewPrivs": "1", "CapPrm": "0000000000000000", "CapEff": "0000000000000000", "CapBnd": "0000000000000000", "CapAmb": "0000000000000000",
		} {
			line := regexp.MustCompile(`(?m)^` + field + `:\s*(.*)$`).FindSubmatch(status)
			require.NotNil(t, line, field)
			assert.Equal(t, want, strings.Join(strings.Fields(string(line[1])), " "), "%s of %s", field, args)
		}
		mounts, err := os.ReadFile(filepath.Join(process, "mountinfo"))
		require.NoError(t, err)
		assert.Regexp(t, `(?m)^\d+ \d+ \S+ / / ro,`, string(mounts), "the root is read-only")
		assert.Regexp(t, `(?m) /var/run/secrets/kubernetes.io/serviceaccount ro,| /run/secrets/kubernetes.io/serviceaccount ro,`, string(mounts))
	}
}
