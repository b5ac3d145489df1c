package cli

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"nodekeep.dev/nodekeep/policy/policytest"
	"nodekeep.dev/nodekeep/verify"
)

var rolled = policytest.Manifest(`verify:
  profiles:
  - name: rolled
    nodeSelector: rolled=yes
    checks: [{name: api, api: {}}]
`)

func TestAnOperatorSeesWhichNodesWouldBeTakenIntoVerificationAndCanStopIt(t *testing.T) {
	defer withPolicy(t, rolled)()                                             // no controller runs
	for _, name := range []string{"roll-a", "roll-b", "roll-c", "roll-new"} { // no profile selects them yet
		registerWith(t, name, nil)
		if name != "roll-new" {
			becomesReady(t, name)
		}
	}
	nodekeep.MustKubectl(t, "label", "node", "roll-a", "roll-b", "roll-c", "roll-new", "rolled=yes")

	a := run(t, "recheck", "--all", "--dry-run")
	assert.Zero(t, a.Code)
	requireGolden(t, "recheck-all", a.ErrOut+a.Out)
	a = answering(t, "\n", "recheck", "-l", "rolled", "--max", "2")
	assert.Equal(t, 3, a.Code)
	requireGolden(t, "recheck-many", a.ErrOut)
	for _, name := range []string{"roll-a", "roll-b", "roll-c"} {
		assert.Empty(t, taintsOf(t, name))
	}

	ends(t, 2, "NODE, --selector and --all exclude each other", "recheck", "roll-a", "--all")
	ends(t, 2, "NODE, --selector and --all exclude each other", "recheck", "-l", "a=b", "--all")
	ends(t, 2, "--max needs --selector or --all", "recheck", "roll-a", "--max", "1")
	ends(t, 2, `--max "0%": must be a number of Nodes, or a percentage from 1% to 100%`, "recheck", "--all", "--max", "0%")
	ends(t, 2, `--max "101%": must be`, "recheck", "--all", "--max", "101%")
	ends(t, 2, `--max "many": must be`, "recheck", "--all", "--max", "many")
	ends(t, 2, "takes the name of one Node", "recheck")

	bindRole(t, forOperators, "rolf")
	untilAllowed(t, "rolf", "recheck --all --dry-run")
	command := exec.Command(nodekeep.Binary(), "recheck", "--all", "--yes", "--as=rolf")
	command.Env = nodekeep.Environment("")
	a = interrupted(t, command, func(out string) bool { return strings.Contains(out, "roll-a") })
	assert.Equal(t, 130, a.Code)
	assert.Equal(t, "node/roll-a: taint added; the controller verifies the Node\n", a.Out)
	assert.Contains(t, a.ErrOut, "interrupted: 0 Nodes verified; 1 closed, which open by themselves once they pass (nodekeep list --waiting verification); 2 remain; run it again to go on\n")
	assert.Equal(t, []string{verify.Taint + ":NoSchedule"}, taintsOf(t, "roll-a"))
	for _, name := range []string{"roll-b", "roll-c"} {
		assert.Empty(t, taintsOf(t, name), "one at a time")
	}
}

func TestAnOperatorSeesWhichNodesWaitToBeCheckedAgain(t *testing.T) {
	defer withPolicy(t, rolled)() // no controller runs
	registerWith(t, "recheck-a", nil)
	becomesReady(t, "recheck-a")
	nodekeep.MustKubectl(t, "label", "node", "recheck-a", "rolled=yes")
	nodekeep.MustKubectl(t, "annotate", "node", "recheck-a", verify.RequestAnnotation+"=now")
	out := tableOfWaiting(t, "-l", "rolled=yes")
	assert.Regexp(t, `recheck-a +open .*the annotation nodekeep.dev/check-request asks for a check; one in ten Nodes of its profile is checked again at a time`, out)
}
