package cli

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/harness"
)

// reader is the kubeconfig of a user who may read Nodes, records and the policy, and change nothing.
func reader(t *testing.T) (kubeconfig string) {
	t.Helper()
	for _, args := range [][]string{
		{"create", "serviceaccount", "reader", "-n", harness.Namespace},
		{"create", "clusterrole", "reader", "--verb=get,list", "--resource=nodes"},
		{"create", "clusterrolebinding", "reader", "--clusterrole=reader", "--serviceaccount=" + harness.Namespace + ":reader"},
		{"create", "role", "reader", "--verb=get,list", "--resource=configmaps", "-n", harness.Namespace},
		{"create", "rolebinding", "reader", "--role=reader", "--serviceaccount=" + harness.Namespace + ":reader", "-n", harness.Namespace},
	} {
		nodekeep.MustKubectl(t, args...)
		t.Cleanup(func() {
			_, _ = nodekeep.Kubectl(context.WithoutCancel(t.Context()), "delete", args[1], "reader", "-n", harness.Namespace)
		})
	}
	config, err := nodekeep.Cluster.ServiceAccount(t.Context(), harness.Namespace, "reader")
	require.NoError(t, err)
	kubeconfig = filepath.Join(t.TempDir(), "reader.kubeconfig")
	require.NoError(t, harness.WriteKubeconfig(kubeconfig, config))
	return kubeconfig
}

func TestAUserWhoMayOnlyReadSeesWhichRightIsMissingAndChangesNothing(t *testing.T) {
	loseEverything(t)
	as := reader(t)
	goneFor(t, "rights-gone", 10*year)
	quarantined(t, "rights-undecided")
	register(t, "rights-live")
	edit(t, "rights-live", map[string]string{"dedicated": "ci"})
	edit(t, "rights-live", map[string]string{"dedicated": "batch"})
	nodekeep.WithoutCapture(t, func() {
		nodekeep.MustKubectl(t, "taint", "node", "rights-live", "nodekeep.dev/restoring:NoSchedule")
		nodekeep.MustKubectl(t, "label", "node", "rights-live", "dedicated=night", "--overwrite")
		for _, c := range []struct {
			want string
			args []string
		}{
			{"you may not patch configmaps in namespace nodekeep-system", []string{"forget", "rights-gone", "dedicated", "--yes"}},
			{"you may not delete configmaps in namespace nodekeep-system", []string{"forget", "rights-gone", "--yes"}},
			{"you may not patch configmaps in namespace nodekeep-system", []string{"remember", "rights-live"}},
			{"you may not patch configmaps in namespace nodekeep-system", []string{"accept", "rights-undecided", "--machine", "old", "--yes"}},
			{"you may not delete configmaps in namespace nodekeep-system", []string{"prune", "--older-than", "720h", "--yes"}},
			{"you may not patch nodes in the whole cluster", []string{"gate", "lift", "rights-live", "--yes"}},
		} {
			a := nodekeep.Command(t, as, "", c.args...)
			assert.Equal(t, 3, a.Code, "%v\n%s", c.args, a.ErrOut)
			assert.Empty(t, a.Out, "%v", c.args)
			assert.Contains(t, a.ErrOut, c.want, "%v", c.args)
			assert.Contains(t, a.ErrOut, "an administrator can grant it", "%v", c.args)
		}
		a := nodekeep.Command(t, as, "", "gate", "list")
		assert.Equal(t, 0, a.Code, a.ErrOut)
		assert.Contains(t, a.Out, "rights-live")
		assert.Contains(t, a.ErrOut, "Whether a capture runs is not known: you may not get leases.coordination.k8s.io")
		assert.Contains(t, a.ErrOut, "What the API server has refused is not known: you may not list events in namespace default")
	})
	assert.Equal(t, map[string]string{"dedicated": "ci", "tenant:NoSchedule": "blue"}, recordOf(t, "rights-gone").Items())
	assert.NotNil(t, recordOf(t, "rights-undecided").Quarantined)
}

func TestACommandThatCannotReachTheClusterChangesNothingAndSaysSo(t *testing.T) {
	for _, args := range [][]string{
		{"forget", "n1", "--yes"}, {"remember", "n1"}, {"accept", "n1", "--machine", "old"},
		{"prune", "--older-than", "720h"}, {"gate", "list"}, {"gate", "lift", "n1", "--yes"},
	} {
		a := run(t, append(args, "--server=https://127.0.0.1:1", "--request-timeout="+time.Second.String())...)
		assert.Equal(t, 3, a.Code, args)
		assert.Empty(t, a.Out, args)
		assert.Contains(t, a.ErrOut, "https://127.0.0.1:1 cannot be reached", args)
	}
}
