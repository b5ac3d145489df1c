package nodepolicy

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/policy"
	"nodekeep.dev/nodekeep/policy/policytest"
	"nodekeep.dev/nodekeep/test/harness"
)

// allWrong returns the manifests of [wrong], and those of the shared files.
func allWrong(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for name, c := range wrong {
		all[name] = policytest.Manifest(c.sections)
	}
	files, err := filepath.Glob(filepath.Join(harness.Root(), "..", "shared", "policies", "bad", "*.yaml"))
	require.NoError(t, err)
	for _, file := range files {
		all[filepath.Base(file)] = sharedPolicy(t, file)
	}
	return all
}

// takesAnything gives the kind a schema that refuses nothing until the test ends, as a user may who edits it.
func takesAnything(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		out, err := nodekeep.Kubectl(context.WithoutCancel(t.Context()), "apply", "--server-side", "--force-conflicts", "-f", filepath.Join(harness.Manifests(), "crd.yaml"))
		require.NoError(t, err, out)
		nodekeep.WaitForTheSchema(t)
	})
	nodekeep.MustKubectl(t, "patch", "customresourcedefinition", "nodepolicies.nodekeep.dev", "--type=json", "-p",
		`[{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema", "value": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}]`)
}

func TestNoWrongPolicyThatIsStoredByForceChangesANodeOrStopsARestart(t *testing.T) {
	withSections(t, accepted)
	goodIs(t, 1)
	const lives, returns = "forced-lives", "forced-returns"
	for _, name := range []string{lives, returns} {
		node := nodekeep.Register(t, name)
		nodekeep.Label(t, name, map[string]string{"lane": "a", "kept": "yes", ignored: "yes"})
		comesToCarry(t, name, unchecked, "lane=a:NoSchedule")
		nodekeep.WaitRecordedAtLeast(t, node, map[string]string{"lane": "a", "kept": "yes"})
	}
	isAccepted(t, "ignored.example.com/*")
	head := nodekeep.Node(t, lives).ResourceVersion
	takesAnything(t)
	nodekeep.WithoutBoth(t, func() {}) // a watch from before does not show what the new schema lets pass

	all := allWrong(t)
	for name, manifest := range all {
		_, err := policy.Load([]byte(manifest), policy.DefaultGate)
		require.Error(t, err, name)
	}
	nodekeep.WithoutPolicyHook(t, func() {
		for n, name := range slices.Sorted(maps.Keys(all)) {
			nodekeep.SetPolicy(t, all[name])
			goodIs(t, 0)
			if n%20 == 0 {
				nodekeep.WithoutBoth(t, func() {})
				goodIs(t, 0)
				hasWhatItHad(t, returns)
			}
			require.Equal(t, head, nodekeep.Node(t, lives).ResourceVersion, "%s changes a live Node", name)
		}
	})
	for _, process := range []string{"nodekeep-webhook", "nodekeep-capture", "nodekeep-verify"} {
		log, err := os.ReadFile(nodekeep.Cluster.LogPath(process))
		require.NoError(t, err)
		assert.NotContains(t, string(log), "panicked", "%s: %s", process, nodekeep.Cluster.LogPath(process))
	}
}
