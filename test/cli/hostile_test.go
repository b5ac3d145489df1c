package cli

import (
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"nodekeep.dev/nodekeep/record"
	"nodekeep.dev/nodekeep/test/harness"
)

// A kubelet says what it likes of its machine. What operators read must neither move the cursor nor forge lines; what programs read stays
// as it is.
func TestWhatAKubeletSaysOfItsMachineDoesNothingToATerminal(t *testing.T) {
	const name, system, machine = "hostile-1", "\x1b[2J\x1b]0;owned\x07all is well\r\u009b31m\u202e", "a\nStatus: Restored"
	node := harness.Registration(name)
	node.Status.NodeInfo.SystemUUID, node.Status.NodeInfo.MachineID = system, machine
	node.Status.NodeInfo.KernelVersion, node.Status.NodeInfo.KubeletVersion = system, machine
	node.Annotations = map[string]string{"talos.dev/owned-labels": `["dedicated", "\u001b[2J"]`}
	rules := policyFile(t, `machine: {follow: true}
labels: {rules: [{name: modern, when: {kernel: ">=6", kubelet: "v1*"}, set: {modern: "yes"}}]}`)
	registerNode(t, node)
	edit(t, name, map[string]string{"dedicated": "ci"})

	for _, args := range [][]string{
		{"show", name}, {"explain", name}, {"show", name, "--diff"}, {"release", name, "--from", "gate", "--yes"}, {"show", name, "--history"}, {"list"}, {"list", "--waiting", "gate"}, {"doctor"}, {"show", name, "--as", system},
		{"explain", name, "--policy", rules}, {"show", name, "--diff", "--policy", rules}, {"check", rules, "--against-cluster"},
	} {
		a := run(t, args...)
		for _, r := range a.Out + a.ErrOut {
			require.True(t, unicode.IsPrint(r) || r == '\n', "%v prints %U", args, r)
		}
		assert.NotContains(t, a.Out, "\nStatus: Restored")
	}
	shown := run(t, "show", name).RequireDone(t).Out
	assert.Contains(t, shown, `systemUUID \x1b[2J\x1b]0;owned\x07all is well\x0d\x9b31m\u202e`)

	var answer struct {
		Record struct{ Machine record.Machine }
	}
	answerJSON(t, &answer, "show", name)
	assert.Equal(t, record.Machine{SystemUUID: system, MachineID: machine}, answer.Record.Machine)
}
