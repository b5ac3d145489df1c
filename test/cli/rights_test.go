package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/test/harness"
)

// readerMay grants a user to read Nodes, records and the policy, and to change nothing.
func readerMay(t *testing.T, user string) {
	t.Helper()
	granted(t, "create", "clusterrole", user, "--verb=get,list", "--resource=nodes,nodepolicies.nodekeep.dev")
	granted(t, "create", "clusterrolebinding", user, "--clusterrole="+user, "--user="+user)
	granted(t, "create", "role", user, "--verb=get,list", "--resource=configmaps", "-n", harness.Namespace)
	granted(t, "create", "rolebinding", user, "--role="+user, "--user="+user, "-n", harness.Namespace)
	untilAllowed(t, user, "list")
}

func TestAUserWhoMayOnlyReadSeesWhichRightIsMissingAndChangesNothing(t *testing.T) {
	loseEverything(t)
	readerMay(t, "rachel")
	goneFor(t, "rights-gone", 10*year)
	quarantined(t, "rights-undecided")
	register(t, "rights-live")
	edit(t, "rights-live", map[string]string{"dedicated": "ci"})
	edit(t, "rights-live", map[string]string{"dedicated": "batch"})
	nodekeep.WithoutCapture(t, func() {
		nodekeep.MustKubectl(t, "taint", "node", "rights-live", "nodekeep.dev/restoring:NoSchedule")
		nodekeep.MustKubectl(t, "label", "node", "rights-live", "dedicated=night", "--overwrite")
		const notPatch, notDelete = "you may not patch configmaps in namespace nodekeep-system", "you may not delete configmaps in namespace nodekeep-system"
		for line, want := range map[string]string{
			"forget rights-gone dedicated --yes":                 notPatch,
			"forget rights-gone --yes":                           notDelete,
			"accept record rights-undecided --machine old --yes": notPatch,
			"forget --older-than 720h --yes":                     notDelete,
			"release rights-live --yes":                          "you may not patch nodes in the whole cluster",
		} {
			a := ends(t, 3, want, append(strings.Fields(line), "--as=rachel")...)
			assert.Empty(t, a.Out, line)
			assert.Contains(t, a.ErrOut, "an administrator can grant it", line)
		}
		a := run(t, "list", "--waiting", "gate", "--as=rachel")
		assert.Equal(t, 0, a.Code, a.ErrOut)
		assert.Contains(t, a.Out, "rights-live")
		assert.Contains(t, a.ErrOut, "Whether a capture runs is not known: you may not get leases.coordination.k8s.io")
		assert.Contains(t, a.ErrOut, "What the API server has refused is not known: you may not list events in namespace default")
	})
	assert.Equal(t, map[string]string{"dedicated": "ci", "tenant:NoSchedule": "blue"}, recordOf(t, "rights-gone").Items())
	assert.NotNil(t, recordOf(t, "rights-undecided").Quarantined)
}
