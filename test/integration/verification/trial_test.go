package verification

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/test/harness"
	"nodekeep.dev/nodekeep/verify"
)

func TestChecksThatAPolicyChangesAreTriedOnAnOpenNodeAndShownUntilTheyPass(t *testing.T) {
	warm(t)
	k := registerWith(t, "tried", map[string]string{selected: "tried"}, honest)
	node := waitOpen(t, k.name, 1)
	const line = "profile tried: not yet proved: "
	says := func(text string) {
		t.Helper()
		wanted := regexp.MustCompile(line + text)
		harness.Eventually(t, func() bool {
			list := nodekeep.Command(t, "", "", "list", "--waiting", "verification")
			if text == "" {
				return !strings.Contains(list.Out+list.ErrOut, line)
			}
			return wanted.MatchString(list.Out + list.ErrOut)
		}, settles, 500*time.Millisecond, "list --waiting verification must say %q", text)
	}
	says("")

	k.reportWith(failing)
	nodekeep.SetPolicy(t, strings.ReplaceAll(verifying, "timeout: 29s", "timeout: 28s"))
	const failed = `check dns failed in a trial on Node tried \S+ ago \(Timeout\)`
	says(failed)
	nodekeep.WaitEvent(t, k.name, "ProfileNotProved")
	assert.Regexp(t, line+failed, nodekeep.Command(t, "", "", "doctor").Out)
	updated := nodekeep.Node(t, k.name)
	assert.Equal(t, []any{node.Spec.Taints, node.Annotations[verify.Annotation], "true"}, []any{updated.Spec.Taints, updated.Annotations[verify.Annotation], updated.Labels[verify.Label]}, "nothing of the Node changes")

	k.reportWith(honest)
	says("")
	harness.Eventually(t, func() bool { return len(workers(t, k.name)) == 0 }, settles, 50*time.Millisecond, "its trial Pods are deleted")
	kept := verify.TrialName("tried")
	assert.Contains(t, nodekeep.MustKubectl(t, "-n", verify.Namespace, "get", "configmap", kept, "-o", "yaml"), `"result":"passed"`)
	out, err := nodekeep.Kubectl(background(), "-n", verify.Namespace, "annotate", "configmap", kept, "a=b")
	require.Error(t, err)
	assert.Contains(t, out, "only nodekeep-verify can write reports")
}
