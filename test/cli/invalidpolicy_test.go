package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodekeep.dev/nodekeep/policy/policytest"
	"nodekeep.dev/nodekeep/store"
	"nodekeep.dev/nodekeep/test/harness"
)

// lastGood is a policy that shows in what commands do: by the default no Node would be verified, and the label would be kept.
const lastGood = "labels: {ignore: [example.com/ignored]}\nverify: {profiles: [{name: rest, nodeSelector: verified=yes, taint: 'example.com/new:NoSchedule', checks: [{name: api, api: {}}]}]}"

// refusedByNow has two errors, which commands do not list.
const refusedByNow = "retention: 5s\nlabels: {keep: [a b]}"

func TestAnInvalidPolicyDisablesNoCommandOfAnIncident(t *testing.T) {
	defer withPolicy(t, policytest.Manifest(lastGood))() // no controller of verification runs
	require.Eventually(t, func() bool {
		state, err := nodekeep.Admin.CoreV1().ConfigMaps(harness.Namespace).Get(t.Context(), store.AcceptedConfigMap, metav1.GetOptions{})
		return err == nil && strings.Contains(state.Data[store.AcceptedPolicy], "example.com/ignored")
	}, settles, 50*time.Millisecond, "capture must keep the policy")
	for name, c := range map[string]struct {
		lose func()
		says string
	}{
		"cannot be used": {func() { nodekeep.ForcePolicy(t, policytest.Manifest(refusedByNow)) }, "NodePolicy default cannot be used: "},
		"is deleted":     {func() { nodekeep.DeletePolicy(t) }, "there is no NodePolicy default"},
	} {
		t.Run(name, func(t *testing.T) {
			nodekeep.SetPolicy(t, policytest.Manifest(lastGood))
			prefix := "incident-" + strings.Fields(name)[0]
			absent, spoiled, open, held := prefix+"-away", prefix+"-spoiled", prefix+"-open", prefix+"-held"
			withHistory(t, open)
			edit(t, open, map[string]string{"verified": "yes"})
			nodekeep.MustKubectl(t, "label", "node", open, "example.com/ignored=1")
			registerWith(t, held, map[string]string{"verified": "yes"})
			becomesReady(t, held)
			becomesReady(t, open)
			gatedNode(t, spoiled)
			register(t, absent)
			edit(t, absent, map[string]string{"dedicated": "ci"})
			remove(t, absent)
			goneFor(t, prefix+"-old", 3*year)
			c.lose()

			const fallback = "what was accepted last stays in force (key policy.json of ConfigMap nodekeep-accepted).\n"
			for _, row := range []struct {
				command string
				code    int
				out     string // and it goes by the last good policy, where the command needs one
				silent  bool   // it needs no policy
			}{
				{"list", 0, open, false},
				{"show " + open, 0, "dedicated", false},
				{"show --diff " + open, 0, "", false},
				{"explain " + open, 0, "labels.ignore has example.com/ignored", false},
				{"show --history " + open, 0, "carol", true},
				{"report compliance", 0, "", false},
				{"list --waiting gate", 0, spoiled, false},
				{"list --waiting verification", 0, held, false},
				{"show --verification " + held, 0, "rest", false},
				{"recheck --all --dry-run", 0, open, false},
				{"report migrations", 0, "", false},
				{"release " + spoiled + " --from gate --yes", 0, "gate lifted", false},
				{"recheck " + open + " --yes", 0, "taint example.com/new:NoSchedule added", false},
				{"release " + held + " --yes", 0, "released without verification", false},
				{"rollback " + open + " --to 2 --yes", 0, open + ": ", false},
				{"forget " + absent + " --yes", 0, "node/" + absent + " forgotten", true},
				{"forget --older-than=22000h --yes", 0, "", true},
				{"uninstall --dry-run", 0, "", true},
			} {
				a := run(t, strings.Fields(row.command)...)
				assert.Equal(t, row.code, a.Code, "%s\n%s%s", row.command, a.Out, a.ErrOut)
				assert.Contains(t, a.Out+a.ErrOut, row.out, row.command)
				if row.silent {
					continue
				}
				assert.Equal(t, 1, strings.Count(a.ErrOut, c.says), "%s\n%s", row.command, a.ErrOut)
				_, tail, _ := strings.Cut(a.ErrOut, c.says)
				sentence, _, _ := strings.Cut(tail, "\n")
				assert.True(t, strings.HasSuffix(sentence+"\n", fallback), "%s: one line\n%s", row.command, a.ErrOut)
			}
			assert.Nil(t, recordOf(t, prefix+"-old"), "pruned")
			assert.Equal(t, "a", labelsOf(t, open)["team"], "rolled back")
			if name == "cannot be used" {
				for _, err := range []string{"spec.retention", "spec.labels.keep[0]"} {
					assert.Contains(t, run(t, "doctor").Out, err, "doctor names all errors")
				}
				file := filepath.Join(t.TempDir(), "policy.yaml")
				require.NoError(t, os.WriteFile(file, []byte(nodekeep.MustKubectl(t, "get", "nodepolicy", "default", "-o", "yaml")), 0o600))
				a := run(t, "check", file)
				assert.Equal(t, 2, a.Code)
				assert.Contains(t, a.Out, "spec.retention")
				assert.Contains(t, a.Out, "spec.labels.keep[0]")
			}
		})
	}
}
